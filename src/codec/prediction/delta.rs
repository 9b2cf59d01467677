//! Modes of deltas: how words are stored beside their predictions, by how many differ.

use super::{Changes, KnownScratch, Mode, PIECE, Predictor, Words, mask, residual, sparse};
use crate::{
    codec::{Method, transforms::Device},
    hash::Stream,
    simd::{Level, prefetch},
    transform::change,
};

/// Below one changed word in this many, changes may be listed.
pub(super) const SPARSE_ONE_IN: u64 = 40;
/// Below one changed word in this many, no residual is stored for the others.
const MASKED_ONE_IN: u64 = 3;
/// Fewer changes than this are listed in any case.
const LEAST_MASKED: u64 = 256;

/// Words, what they are predicted from, and how.
pub(super) struct From<'a> {
    pub words: Words<'a>,
    pub method: Method,
    pub predictor: &'a Predictor,
    pub inputs: &'a [&'a [u8]],
}

/// Appends mode and residuals.
pub(super) fn encode_residual(
    level: Level,
    from: &From<'_>,
    buffers: &mut KnownScratch,
    device: &mut Device,
    out: &mut Vec<u8>,
) {
    let &From { words, predictor, inputs, .. } = from;
    let (spec, word, n) = (words.spec, words.len(), words.count());
    let mut own = std::mem::take(&mut buffers.predicted);
    let mut masks = std::mem::take(&mut buffers.masks);
    let (len, contexts) = (words.bytes.len(), &mut buffers.contexts);
    let predicted = predictor.predict(level, spec, inputs, len, &mut own, contexts);
    let few = few_changes(level, words, predicted, MASKED_ONE_IN, &mut masks, None);
    if let Some(changes) = few {
        encode_changed(level, from, &changes, buffers, out);
    } else {
        let KnownScratch { contexts, residual, .. } = &mut *buffers;
        contexts.resize(n, 0);
        residual.resize(n, word);
        for at in (0..n).step_by(PIECE) {
            predictor.contexts_from(level, spec, inputs, predicted, at, contexts);
            if device.is_none() {
                let to = n.min(at + PIECE);
                let range = at * word..to * word;
                let words = &words.bytes[range.clone()];
                residual.form(level, word, words, &predicted[range], at..to);
            }
        }
        if device.is_some() {
            residual.form_on(device, level, word, words.bytes, predicted);
        }
        out.push(Mode::Dense as u8);
        residual::encode(level, word, contexts, residual, out);
    }
    (buffers.predicted, buffers.masks) = (own, masks);
}

/// Appends mode and residuals of words few of which are not as predicted.
pub(super) fn encode_changed(
    level: Level,
    from: &From<'_>,
    changes: &Changes<'_>,
    buffers: &mut KnownScratch,
    out: &mut Vec<u8>,
) {
    let KnownScratch { contexts, residual, masked, .. } = buffers;
    if changes.count == 0 {
        return out.push(Mode::Equal as u8);
    }
    let few = changes.count * SPARSE_ONE_IN < from.words.count() as u64;
    let start = out.len();
    // Lists know nothing of contexts, but see where changes stand side by side.
    let fast = from.method == Method::Fast;
    let listed = few && (fast || changes.count < LEAST_MASKED);
    if listed || mask::clustered(changes) {
        out.push(Mode::Sparse as u8);
        sparse::encode(level, changes, residual, out);
    }
    if listed {
        return;
    }
    let len = out.len() - start;
    out.push(Mode::Masked as u8);
    from.predictor.contexts(level, from.words.spec, from.inputs, changes.predicted, contexts);
    mask::encode(level, changes, contexts, residual, masked, out);
    if len > 0 {
        let shorter = out.len() - start - len < len;
        let dropped = if shorter { start..start + len } else { start + len..out.len() };
        out.drain(dropped);
    }
}

/// Finds the words that differ from those predicted; `None` where it is one in `one_in` words or
/// more, which ends the search. Adds both to the hashes, but for their last blocks.
pub(super) fn few_changes<'a>(
    level: Level,
    words: Words<'a>,
    predicted: &'a [u8],
    one_in: u64,
    masks: &'a mut Vec<u64>,
    mut hashes: Option<&mut [Stream; 2]>,
) -> Option<Changes<'a>> {
    const PIECE: usize = 2 << 10;
    const AHEAD: usize = 16 << 10;
    let (word, n, words) = (words.len(), words.count(), words.bytes);
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
    Some(Changes { word, words, predicted, masks, count: changed })
}
