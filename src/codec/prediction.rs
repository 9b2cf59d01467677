//! Chunks of which something is known: the base's words, or sibling tensors'.
//!
//! ```text
//! DELTA payload    predictor (1 byte), its scalars, mode (1 byte), what the mode says
//!                  mode 0  nothing: the words are the prediction
//!                  mode 1  sparse: the words that differ        (`sparse`)
//!                  mode 2  dense: a residual for every word     (`residual`)
//!                  mode 12 masked: which words differ, and their residuals (`mask`)
//! XOR payload      a GROUP payload of the words XOR the base's
//! MOMENT payload   see `moment`
//! GRADIENT payload see `gradient`
//! ```
//!
//! What a chunk is predicted from are its references, in the order in which the predictor names
//! them. Residuals are differences of order-preserving integers (`transform::delta`). Whether a
//! predictor pays is estimated from a sample at fixed places; a chunk that comes out no smaller
//! than it is alone is coded alone.

mod bits;
mod classes;
mod cluster;
mod decode;
mod delta;
mod estimate;
mod gradient;
mod lanes;
mod mask;
mod moment;
mod predictor;
mod residual;
mod sparse;
mod words;

pub use decode::decode;
use delta::{From, encode_changed, encode_residual, few_changes};
use predictor::PIECE;
pub use predictor::Predictor;

use super::{ChunkSpec, Delta, Method, Scratch, form, integer, swap_words, transforms};
use crate::{
    Result,
    dtype::Fields,
    hash::{Stream, digest_of},
    simd::Level,
};

const EQUAL: u8 = 0;
const SPARSE: u8 = 1;
const DENSE: u8 = 2;
const MASKED: u8 = 12;
/// Below one changed word in this many, nothing but the base is considered.
const ALMOST_EQUAL: u64 = 64;

/// A way to predict a chunk: a predictor, and which of the known byte strings it takes.
#[derive(Clone, Debug, PartialEq)]
pub struct Offer {
    /// How.
    pub predictor: Predictor,
    /// Indices into the known byte strings, as many as the predictor needs.
    pub inputs: Vec<u8>,
}

/// How a chunk came to be coded.
#[derive(Clone, Debug, PartialEq)]
pub struct Coded {
    /// Form of the payload.
    pub form: u8,
    /// Indices of the known byte strings that decoding needs, in order.
    pub inputs: Vec<u8>,
}

/// Buffers for predicted chunks.
#[derive(Default)]
pub struct KnownScratch {
    words: Vec<u8>,
    inputs: Vec<Vec<u8>>,
    predicted: Vec<u8>,
    contexts: Vec<u8>,
    masks: Vec<u64>,
    residual: residual::Buffers,
    masked: mask::Masked,
    estimate: estimate::Buffers,
    gradients: gradient::Gradients,
}

/// As [`super::encode`], with byte strings that the decoder will know too.
///
/// # Errors
/// As for [`super::encode`].
#[allow(clippy::too_many_arguments, reason = "as encode, and what is known")]
pub fn encode(
    level: Level,
    method: Method,
    spec: &ChunkSpec,
    bytes: &[u8],
    known: &[&[u8]],
    offers: &[Offer],
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<Coded> {
    (scratch.planes.digest, scratch.known_digest) = (None, None);
    let alone = |scratch: &mut Scratch, out: &mut Vec<u8>| {
        let form = super::encode(level, method, spec, bytes, scratch, out)?;
        Ok(Coded { form, inputs: Vec::new() })
    };
    let word = word_len(spec);
    let fits = |o: &&Offer| o.predictor.fits(spec, bytes.len(), known, &o.inputs);
    let offers: Vec<&Offer> =
        offers.iter().filter(|o| o.predictor.serves(method)).filter(fits).collect();
    if offers.is_empty() || super::is_constant(bytes, word) {
        return alone(scratch, out);
    }
    let mut buffers = scratch.known.take().unwrap_or_default();
    buffers.residual.coder.ahead = std::mem::take(&mut scratch.planes.coder.ahead);
    let start = out.len();
    let done =
        encode_offered(level, method, spec, bytes, known, &offers, &mut buffers, scratch, out);
    scratch.known = Some(buffers);
    let (coded, sure) = match done? {
        Some(done) => done,
        None => return alone(scratch, out),
    };
    if sure {
        return Ok(coded);
    }
    let len = out.len() - start;
    let solo = alone(scratch, out)?;
    if out.len() - start - len <= len {
        out.drain(start..start + len);
        return Ok(solo);
    }
    out.truncate(start + len);
    Ok(coded)
}

/// Bytes of the words that residuals are formed of.
fn word_len(spec: &ChunkSpec) -> usize {
    match spec.dtype.fields() {
        Fields::Opaque | Fields::Quantised { .. } => 1,
        Fields::Float { bits, .. } | Fields::Integer { bits } => usize::from(bits / 8),
    }
}

/// Codes a chunk by the best offer, and says whether it is certainly smaller than alone.
#[allow(clippy::too_many_arguments, reason = "one caller")]
fn encode_offered(
    level: Level,
    method: Method,
    spec: &ChunkSpec,
    bytes: &[u8],
    known: &[&[u8]],
    offers: &[&Offer],
    buffers: &mut KnownScratch,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<Option<(Coded, bool)>> {
    let word = word_len(spec);
    let KnownScratch { words: swapped, inputs: swapped_inputs, .. } = buffers;
    let (mut swapped, mut swapped_inputs) =
        (std::mem::take(swapped), std::mem::take(swapped_inputs));
    let swap = spec.big_endian && word > 1;
    let words = little_endian(swap, word, bytes, &mut swapped);
    swapped_inputs.resize_with(known.len(), Vec::new);
    // Known byte strings have the endianness of the chunk, but may have another word length.
    let known: Vec<&[u8]> = known
        .iter()
        .zip(&mut swapped_inputs)
        .map(|(k, buffer)| little_endian(swap, k.len() * word / bytes.len().max(1), k, buffer))
        .collect();
    if method == Method::Xor {
        let coded = encode_xor(
            level,
            word,
            words,
            known[usize::from(offers[0].inputs[0])],
            buffers,
            scratch,
            out,
        )?;
        return Ok(Some((Coded { form: coded, inputs: offers[0].inputs.clone() }, false)));
    }
    let like_base = |o: &&&Offer| matches!(o.predictor, Predictor::Base | Predictor::Signed);
    if let Some(offer) = offers.iter().find(like_base) {
        let base = known[usize::from(offer.inputs[0])];
        let KnownScratch { masks, .. } = &mut *buffers;
        let mut hashes = [Stream::new(level), Stream::new(level)];
        let some = Some(&mut hashes);
        if let Some(changed) = few_changes(level, word, words, base, ALMOST_EQUAL, masks, some) {
            if !swap {
                let [of_words, of_base] = hashes;
                scratch.planes.digest = Some(of_words.finish_of(words));
                scratch.known_digest = Some((offer.inputs[0], of_base.finish_of(base)));
            }
            let start = out.len();
            offer.predictor.write(out);
            let inputs: Vec<&[u8]> = offer.inputs.iter().map(|&i| known[usize::from(i)]).collect();
            let from = From { spec, method, predictor: &offer.predictor, inputs: &inputs };
            encode_changed(level, &from, words, base, changed, buffers, out);
            let sure = 8 * (out.len() - start) < words.len();
            return Ok(Some((Coded { form: form::DELTA, inputs: offer.inputs.clone() }, sure)));
        }
    }
    // From here on all words are near.
    scratch.planes.digest = Some(digest_of(bytes));
    let chosen = estimate::best(
        level,
        method,
        spec,
        words,
        &known,
        offers,
        &mut buffers.estimate,
        &mut scratch.planes,
    );
    let Some((offer, promised, solo)) = chosen else { return Ok(None) };
    let inputs: Vec<&[u8]> = offer.inputs.iter().map(|&i| known[usize::from(i)]).collect();
    let start = out.len();
    let form = match &offer.predictor {
        Predictor::Moment => {
            let done = moment::encode(
                level,
                spec,
                words,
                inputs[0],
                &mut buffers.residual,
                &mut scratch.planes,
                out,
            );
            if done.is_none() {
                out.truncate(start);
                return Ok(None);
            }
            form::MOMENT
        }
        Predictor::Gradient(s) => {
            let KnownScratch { residual, gradients, .. } = &mut *buffers;
            gradient::encode(level, s, words, [inputs[0], inputs[1]], residual, gradients, out);
            form::GRADIENT
        }
        predictor => {
            predictor.write(out);
            let device = &mut scratch.planes.device;
            let from = From { spec, method, predictor, inputs: &inputs };
            encode_residual(level, &from, words, buffers, device, out);
            form::DELTA
        }
    };
    let bits = 8 * (out.len() - start) as u64;
    let sure = bits.max(promised) < solo / 10 * 9;
    buffers.words = swapped;
    buffers.inputs = swapped_inputs;
    Ok(Some((Coded { form, inputs: offer.inputs.clone() }, sure)))
}

fn little_endian<'a>(
    swap: bool,
    word: usize,
    bytes: &'a [u8],
    buffer: &'a mut Vec<u8>,
) -> &'a [u8] {
    if !swap || word < 2 {
        return bytes;
    }
    buffer.clear();
    buffer.extend_from_slice(bytes);
    swap_words(buffer, word);
    buffer
}

fn encode_xor(
    level: Level,
    word: usize,
    words: &[u8],
    base: &[u8],
    buffers: &mut KnownScratch,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<u8> {
    buffers.predicted.resize(words.len(), 0);
    let device = &mut scratch.planes.device;
    transforms::delta(device, level, (Delta::Xor, word), words, base, &mut buffers.predicted);
    integer::encode(level, Method::Rans, word, &buffers.predicted, &mut scratch.planes, out)?;
    Ok(form::XOR)
}

/// The predictor, for people, from the first bytes of a payload.
pub fn describe(payload: &[u8]) -> &'static str {
    match payload {
        [0 | 1, EQUAL, ..] => "unchanged",
        [0 | 1, SPARSE, ..] => "diff, sparse",
        [0 | 1, MASKED, ..] => "diff, masked",
        [0 | 1, ..] => "diff",
        [2, ..] => "cast",
        [3, ..] => "widen",
        [4 | 5, ..] => "adam",
        [12, ..] => "average",
        _ => "unknown",
    }
}

#[cfg(test)]
mod tests;
