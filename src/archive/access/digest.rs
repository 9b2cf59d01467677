//! Digests of files, from the digests of their chunks: nothing is read twice.

use crate::{
    container::{ChunkMeta, hash128},
    hash,
    simd::Level,
};
use std::collections::BTreeMap;

/// Collects the digests of stretches, in any order, and makes the digest of every file of them.
///
/// A stretch is a part of a file that one chunk restores without a gap. Its digest is that of its
/// bytes, so a chunk of one piece in one file hands on its own.
#[derive(Default)]
pub struct Digests {
    stretches: BTreeMap<u64, u64>,
}

/// The stretches of a chunk: first byte in the address space, and digest.
pub fn stretches(level: Level, meta: &ChunkMeta, bytes: &[u8], ends: &[u64]) -> Vec<(u64, u64)> {
    let crosses = |from: u64, to: u64| ends[ends.partition_point(|&e| e <= from)] < to;
    if let [piece] = meta.pieces[..]
        && !crosses(piece.offset, piece.offset + piece.len)
    {
        return vec![(piece.offset, meta.digest)];
    }
    let mut found = Vec::new();
    let mut at = 0;
    for piece in &meta.pieces {
        let (mut from, to) = (piece.offset, piece.offset + piece.len);
        while from < to {
            let end = to.min(ends[ends.partition_point(|&e| e <= from)]);
            let len = (end - from) as usize;
            found.push((from, hash::digest(level, &bytes[at..at + len])));
            at += len;
            from = end;
        }
    }
    found
}

impl Digests {
    /// Adds the stretches of one chunk.
    pub fn add(&mut self, stretches: Vec<(u64, u64)>) {
        self.stretches.extend(stretches);
    }

    /// The digest of the file that occupies `start..end`: 128-bit xxh3 over the digests of its
    /// stretches in order.
    pub fn file(&self, start: u64, end: u64) -> u128 {
        let mut bytes = Vec::new();
        for (_, digest) in self.stretches.range(start..end) {
            bytes.extend_from_slice(&digest.to_le_bytes());
        }
        hash128(&bytes)
    }
}

/// The end of every file in the address space, in order, from their lengths.
pub fn file_ends(lens: impl Iterator<Item = u64>) -> Vec<u64> {
    lens.scan(0u64, |end, len| {
        *end += len;
        Some(*end)
    })
    .collect()
}
