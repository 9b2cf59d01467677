//! Spans cut into chunks.

use super::{
    chunk::ChunkPlan,
    derivation::{Derived, bytes_of, elements_in_chunk},
};
use crate::{container::Piece, format::Span};

/// Cuts a span into chunks of whole rows and nearly equal size, of at most `most` words; where it
/// has the bytes of another span, as that one.
pub(super) fn cut(span: &Span, source: Option<&Span>, most: u64) -> Vec<ChunkPlan> {
    let word = span.dtype.word_len() as u64;
    let row = source.unwrap_or(span).row_words.max(1);
    let unit = if row <= most { row } else { 1 };
    let units = (span.len / word).div_ceil(unit);
    let per_chunk = units.div_ceil(units.div_ceil(most / unit)) * unit * word;
    cut_every(span, source, per_chunk)
}

/// Cuts a span where everything is cut that follows, as these do, from one source.
pub(super) fn cut_alike(span: &Span, derived: &[Derived]) -> Vec<ChunkPlan> {
    cut_every(span, None, bytes_of(span, elements_in_chunk(span, derived)))
}

/// Cuts a span into chunks of `per_chunk` bytes.
pub(super) fn cut_every(span: &Span, source: Option<&Span>, per_chunk: u64) -> Vec<ChunkPlan> {
    let mut chunks = Vec::new();
    let mut at = 0;
    while at < span.len {
        let len = per_chunk.min(span.len - at);
        let pieces = vec![Piece { offset: span.offset + at, len }];
        let copy_of = source.map(|s| s.offset + at);
        chunks.push(ChunkPlan { copy_of, ..ChunkPlan::new(pieces, span) });
        at += len;
    }
    chunks
}
