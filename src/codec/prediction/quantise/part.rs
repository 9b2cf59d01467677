//! Parts of a payload: words, and what they were predicted to be.

use crate::{
    bits::{read_varint, write_varint},
    codec::{
        ChunkSpec,
        prediction::{
            DENSE, EQUAL, KnownScratch, SPARSE, SPARSE_ONE_IN, encode_changed, few_changes,
            predictor::sizes, residual, sparse,
        },
    },
    dtype::Dtype,
    simd::Level,
};

/// 16-bit fields are floats.
pub(super) const HALF: ChunkSpec = ChunkSpec { dtype: Dtype::F16, big_endian: false, row_words: 0 };

/// Where contexts come from.
pub(super) enum Sizes<'a> {
    /// From what was predicted.
    Of(&'a ChunkSpec),
    /// From what it was predicted from.
    Found(&'a dyn Fn(&mut [u8])),
}

impl Sizes<'_> {
    fn find(&self, level: Level, predicted: &[u8], word: usize, contexts: &mut Vec<u8>) {
        contexts.resize(predicted.len() / word, 0);
        match self {
            Sizes::Of(spec) => sizes(level, **spec, predicted, contexts),
            Sizes::Found(find) => find(contexts),
        }
    }
}

/// Appends words, predicted to be others.
#[allow(clippy::too_many_arguments, reason = "one caller")]
pub(super) fn put_part(
    level: Level,
    word: usize,
    sizes: Sizes<'_>,
    words: &[u8],
    predicted: &[u8],
    buffers: &mut KnownScratch,
    part: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let KnownScratch { contexts, masks, residual, .. } = buffers;
    part.clear();
    match few_changes(level, word, words, predicted, SPARSE_ONE_IN, masks, None) {
        Some(n) => encode_changed(level, word, words, predicted, n, masks, residual, part),
        None => {
            sizes.find(level, predicted, word, contexts);
            let n = contexts.len();
            residual.resize(n, word);
            residual.form(level, word, words, predicted, 0..n);
            part.push(DENSE);
            residual::encode(level, word, contexts, residual, part);
        }
    }
    write_varint(out, part.len() as u64);
    out.extend_from_slice(part);
}

/// Inverse of [`put_part`].
pub(super) fn take_part(
    level: Level,
    word: usize,
    sizes: Sizes<'_>,
    payload: &mut &[u8],
    predicted: &[u8],
    buffers: &mut KnownScratch,
    words: &mut [u8],
) -> Option<()> {
    let len = usize::try_from(read_varint(payload)?).ok()?;
    let (part, rest) = payload.split_at_checked(len)?;
    *payload = rest;
    let (&mode, body) = part.split_first()?;
    let KnownScratch { contexts, residual, .. } = buffers;
    if mode == DENSE {
        sizes.find(level, predicted, word, contexts);
        return residual::decode(level, word, body, predicted, contexts, residual, words);
    }
    words.copy_from_slice(predicted);
    match mode {
        EQUAL => body.is_empty().then_some(()),
        SPARSE => sparse::decode(level, word, body, residual, words),
        _ => None,
    }
}
