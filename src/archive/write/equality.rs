//! Whether two spans have the same bytes.
//!
//! That is found out before anything is coded, and may no longer hold when it is: then the bytes
//! that were read for a copy have another digest than its original was written with.

use super::plan::ChunkPlan;
use crate::{
    Result, archive::access::input::Input, container::Piece, format::Span, hash::hash64_at,
    simd::Level,
};
use std::collections::HashMap;

/// Bytes of a stretch that is compared first.
const PROBE: u64 = 2048;

/// A hash of a span's bytes at three fixed places.
pub fn probe(level: Level, input: &Input<'_>, span: &Span) -> Result<u64> {
    let len = PROBE.min(span.len);
    let at = |offset| Piece { offset, len };
    let middle = span.offset + (span.len - len) / 2;
    let pieces = [at(span.offset), at(middle), at(span.offset + span.len - len)];
    let mut bytes = vec![0; 3 * len as usize];
    input.read(&pieces, &mut bytes)?;
    Ok(hash64_at(level, &bytes))
}

/// Whether all bytes of two spans of one length are the same.
pub fn equal(input: &Input<'_>, a: &Span, b: &Span) -> Result<bool> {
    const STEP: u64 = 1 << 20;
    let (mut x, mut y) = (vec![0; STEP as usize], vec![0; STEP as usize]);
    let mut at = 0;
    while at < a.len {
        let len = STEP.min(a.len - at);
        let (x, y) = (&mut x[..len as usize], &mut y[..len as usize]);
        input.read(&[Piece { offset: a.offset + at, len }], x)?;
        input.read(&[Piece { offset: b.offset + at, len }], y)?;
        if x != y {
            return Ok(false);
        }
        at += len;
    }
    Ok(true)
}

/// The chunks that copies name: length and digest with which each was written, by its first byte.
pub struct Originals {
    written: HashMap<u64, Option<(u64, u64)>>,
}

impl Originals {
    /// Those of the chunks of a plan, before any was written.
    pub fn of(chunks: &[ChunkPlan]) -> Self {
        Originals { written: chunks.iter().filter_map(|c| c.copy_of).map(|o| (o, None)).collect() }
    }

    /// Notes a chunk that is written, if copies name it.
    pub fn add(&mut self, chunk: &ChunkPlan, digest: u64) {
        let offset = chunk.pieces.first().map_or(0, |p| p.offset);
        if chunk.copy_of.is_none()
            && let Some(written) = self.written.get_mut(&offset)
        {
            *written = Some((chunk.len(), digest));
        }
    }

    /// Whether a chunk of this digest may be written as it is planned: it is no copy, or its
    /// original was written and is the same.
    pub fn hold(&self, chunk: &ChunkPlan, digest: u64) -> bool {
        chunk.copy_of.is_none_or(|original| {
            self.written.get(&original) == Some(&Some((chunk.len(), digest)))
        })
    }
}
