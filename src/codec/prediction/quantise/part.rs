//! Parts of a payload: words, and what they were predicted to be.

use crate::{
    bits::read_varint,
    codec::{
        ChunkSpec,
        prediction::{
            KnownScratch, Mode, Words,
            delta::{SPARSE_ONE_IN, few_changes},
            predictor::sizes,
            residual, sparse,
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

/// Words of one byte.
const CODES: ChunkSpec = ChunkSpec { dtype: Dtype::U8, big_endian: false, row_words: 0 };

/// Appends words, and what they were predicted to be, as a mode and what it says.
pub(super) fn put_part(
    level: Level,
    word: usize,
    sizes: Sizes<'_>,
    (words, predicted): (&[u8], &[u8]),
    buffers: &mut KnownScratch,
    part: &mut Vec<u8>,
) {
    let KnownScratch { contexts, masks, residual, .. } = buffers;
    let spec = if word == 2 { &HALF } else { &CODES };
    let all = Words { spec, bytes: words };
    if let Some(changes) = few_changes(level, all, predicted, SPARSE_ONE_IN, masks, None) {
        if changes.count == 0 {
            return part.push(Mode::Equal as u8);
        }
        part.push(Mode::Sparse as u8);
        return sparse::encode(level, &changes, residual, part);
    }
    sizes.find(level, predicted, word, contexts);
    let n = contexts.len();
    residual.resize(n, word);
    residual.form(level, word, words, predicted, 0..n);
    part.push(Mode::Dense as u8);
    residual::encode(level, word, contexts, residual, part);
}

/// Inverse of [`put_part`], behind the length.
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
    let mode = Mode::from_code(mode)?;
    if mode == Mode::Dense {
        sizes.find(level, predicted, word, contexts);
        return residual::decode(level, word, body, predicted, contexts, residual, words);
    }
    words.copy_from_slice(predicted);
    match mode {
        Mode::Equal => body.is_empty().then_some(()),
        Mode::Sparse => sparse::decode(level, word, body, residual, words),
        _ => None,
    }
}
