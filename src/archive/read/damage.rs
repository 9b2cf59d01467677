//! What could not be restored, told in the terms of files and tensors.

use super::{receiver::Receiver, target::scatter};
use crate::{
    Error,
    archive::access::{Archive, open::ChunkInfo},
    container::{Limits, Manifest, Name, Piece},
    format::{self, Parsed},
    source::Source,
};
use std::{collections::BTreeMap, fs::File, path::Path};

/// A stretch of a file that could not be restored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Damage {
    /// Number of the chunk.
    pub chunk: usize,
    /// Path of the file in the archive.
    pub file: Name,
    /// First byte within the file.
    pub offset: u64,
    /// Number of bytes; they read as zero in what was restored.
    pub len: u64,
    /// Tensors with bytes in this stretch; empty where they cannot be told.
    pub tensors: Vec<String>,
    /// What is wrong.
    pub reason: String,
}

/// Whether going on past damage restores anything of the archive at `path`: what files it holds
/// can be read, by its index or from its start. Of what is no archive, or was made by a newer
/// version, or has lost the list of its files, there is nothing to be had.
pub fn is_salvageable(path: &Path, limits: Limits) -> bool {
    let from_start = || {
        let mut file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        Receiver::new(&mut file, limits, true)?.manifest()
    };
    Archive::at(path, limits).is_ok() || from_start().is_ok()
}

/// The stretches of files that a chunk of these pieces would have restored, one a file. `parse`
/// gives what can be known of an entry of the manifest.
pub(in crate::archive) fn damage(
    chunk: usize,
    pieces: &[Piece],
    manifest: &Manifest,
    ends: &[u64],
    reason: &str,
    parse: impl Fn(usize) -> Option<Parsed>,
) -> Vec<Damage> {
    let mut parts: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    // The visitor never fails.
    let _ = scatter(pieces, ends, |entry, offset, at| {
        parts.entry(entry).or_default().push((offset, offset + at.len() as u64));
        Ok(())
    });
    let damage_in = |(entry, parts): (usize, Vec<(u64, u64)>)| {
        let offset = parts.first().map_or(0, |p| p.0);
        Damage {
            chunk,
            file: manifest.entries[entry].path.clone(),
            offset,
            len: parts.last().map_or(0, |p| p.1) - offset,
            tensors: parse(entry).map_or_else(Vec::new, |p| tensors_in(&p, &parts)),
            reason: reason.into(),
        }
    };
    parts.into_iter().map(damage_in).collect()
}

/// Names of the tensors with bytes in any of `parts`, which are sorted.
fn tensors_in(parsed: &Parsed, parts: &[(u64, u64)]) -> Vec<String> {
    let touched = |from: u64, to: u64| {
        let first = parts.partition_point(|p| p.1 <= from);
        parts.get(first).is_some_and(|p| p.0 < to)
    };
    let tensors = parsed.tensors.iter();
    tensors
        .filter(|t| touched(t.offset, t.offset + t.extent().unwrap_or(0)))
        .map(|t| t.name.clone())
        .collect()
}

/// What a file's own header says about it, where it can be read.
pub(in crate::archive) fn parse(
    manifest: &Manifest,
    entry: usize,
    source: &dyn Source,
) -> Option<Parsed> {
    if manifest.entries[entry].flat.is_some() {
        return None;
    }
    format::parse(source).ok()
}

/// Adds file, tensor and chunk to an error.
pub(in crate::archive) fn locate(e: Error, chunk: usize, damage: &[Damage]) -> Error {
    let Some(first) = damage.first() else { return e.in_chunk(chunk) };
    match first.tensors.first() {
        Some(tensor) => e.in_chunk(chunk).in_tensor(tensor).in_file(&first.file),
        None => e.in_chunk(chunk).in_file(&first.file),
    }
}

impl Archive<'_> {
    /// Adds file, tensor and chunk to an error.
    pub(in crate::archive) fn locate(&self, chunk: usize, e: Error) -> Error {
        locate(e, chunk, &self.damage(chunk, ""))
    }

    /// The stretches of files that a chunk would have restored.
    pub(in crate::archive) fn damage(&self, chunk: usize, reason: &str) -> Vec<Damage> {
        let ChunkInfo { meta, .. } = &self.chunks[chunk];
        let manifest = &self.manifest;
        damage(chunk, &meta.pieces, manifest, &self.ends, reason, |entry| {
            parse(manifest, entry, &self.bytes_of(entry))
        })
    }
}
