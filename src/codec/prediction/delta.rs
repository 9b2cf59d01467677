//! Modes of deltas: how words are stored beside their predictions, by how many differ.

use super::{
    DENSE, EQUAL, KnownScratch, MASKED, PIECE, Predictor, SPARSE, mask, residual, sparse, word_len,
};
use crate::{
    codec::{ChunkSpec, Method, transforms::Device},
    hash::Stream,
    simd::{Level, prefetch},
    transform::change,
};

/// Below one changed word in this many, changes may be listed.
const SPARSE_ONE_IN: u64 = 40;
/// Below one changed word in this many, no residual is stored for the others.
const MASKED_ONE_IN: u64 = 3;
/// Fewer changes than this are listed in any case.
const LEAST_MASKED: u64 = 256;

/// What words are predicted from, and how.
pub struct From<'a> {
    pub spec: &'a ChunkSpec,
    pub method: Method,
    pub predictor: &'a Predictor,
    pub inputs: &'a [&'a [u8]],
}

/// Appends mode and residuals.
pub fn encode_residual(
    level: Level,
    from: &From<'_>,
    words: &[u8],
    buffers: &mut KnownScratch,
    device: &mut Device,
    out: &mut Vec<u8>,
) {
    let &From { spec, predictor, inputs, .. } = from;
    let word = word_len(spec);
    let KnownScratch { predicted: buffer, contexts, masks, .. } = buffers;
    let mut own = std::mem::take(buffer);
    let predicted = predictor.predict(level, spec, inputs, words.len(), &mut own, contexts);
    let few = few_changes(level, word, words, predicted, MASKED_ONE_IN, masks, None);
    if let Some(changed) = few {
        encode_changed(level, from, words, predicted, changed, buffers, out);
        buffers.predicted = own;
        return;
    }
    let KnownScratch { contexts, residual, .. } = buffers;
    let n = words.len() / word;
    contexts.resize(n, 0);
    residual.resize(n, word);
    for at in (0..n).step_by(PIECE) {
        predictor.contexts_from(level, spec, inputs, predicted, at, contexts);
        if device.is_none() {
            let to = n.min(at + PIECE);
            let range = at * word..to * word;
            residual.form(level, word, &words[range.clone()], &predicted[range], at..to);
        }
    }
    if device.is_some() {
        residual.form_on(device, level, word, words, predicted);
    }
    out.push(DENSE);
    residual::encode(level, word, contexts, residual, out);
    buffers.predicted = own;
}

/// Appends mode and residuals of words few of which, those in the masks, are not as predicted.
pub fn encode_changed(
    level: Level,
    from: &From<'_>,
    words: &[u8],
    predicted: &[u8],
    changed: u64,
    buffers: &mut KnownScratch,
    out: &mut Vec<u8>,
) {
    let word = word_len(from.spec);
    let KnownScratch { contexts, masks, residual, masked, .. } = buffers;
    if changed == 0 {
        return out.push(EQUAL);
    }
    let few = changed * SPARSE_ONE_IN < (words.len() / word) as u64;
    let these = mask::Changed { words, predicted, masks, n: changed as usize };
    let start = out.len();
    // Lists know nothing of contexts, but see where changes stand side by side.
    let fast = from.method == Method::Fast;
    let listed = few && (fast || changed < LEAST_MASKED);
    if listed || these.clustered(word) {
        out.push(SPARSE);
        sparse::encode(level, word, words, predicted, masks, changed, residual, out);
    }
    if listed {
        return;
    }
    let len = out.len() - start;
    out.push(MASKED);
    from.predictor.contexts(level, from.spec, from.inputs, predicted, contexts);
    mask::encode(level, word, these, contexts, residual, masked, out);
    if len > 0 {
        let shorter = out.len() - start - len < len;
        let dropped = if shorter { start..start + len } else { start + len..out.len() };
        out.drain(dropped);
    }
}

/// Sets the masks of the words that differ from those predicted, and counts them; `None` where
/// it is one in `one_in` words or more, which ends the search. Adds both to the hashes, but for
/// their last blocks.
pub fn few_changes(
    level: Level,
    word: usize,
    words: &[u8],
    predicted: &[u8],
    one_in: u64,
    masks: &mut Vec<u64>,
    mut hashes: Option<&mut [Stream; 2]>,
) -> Option<u64> {
    const PIECE: usize = 2 << 10;
    const AHEAD: usize = 16 << 10;
    let n = words.len() / word;
    masks.resize(n.div_ceil(64), 0);
    let mut changed = 0;
    let len = PIECE * word;
    let pieces = words.chunks(len).zip(predicted.chunks(len)).zip(masks.chunks_mut(PIECE / 64));
    for (i, ((piece, predicted_piece), masks)) in pieces.enumerate() {
        prefetch(words, i * len + AHEAD, len);
        prefetch(predicted, i * len + AHEAD, len);
        if let Some(hashes) = &mut hashes {
            let last = (i + 1) * len >= words.len();
            hashes[0].add_piece(piece, last);
            hashes[1].add_piece(predicted_piece, last);
        }
        changed += change::masks(level, word, piece, predicted_piece, masks);
        let most = i == 0 && 2 * changed as usize > piece.len() / word;
        if changed * one_in >= n as u64 || most {
            return None;
        }
    }
    Some(changed)
}
