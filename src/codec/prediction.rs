//! Chunks of which something is known: the base's words, or sibling tensors'.
//!
//! ```text
//! DELTA payload    predictor (1 byte), its scalars, mode (1 byte), what the mode says
//!                  mode 0  nothing: the words are the prediction
//!                  mode 1  sparse: the words that differ        (`sparse`)
//!                  mode 2  dense: a residual for every word     (`residual`)
//!                  mode 3  masked: which words differ, and their residuals (`mask`)
//! XOR payload      a GROUP payload of the words XOR the base's
//! MOMENT payload   see `moment`
//! GRADIENT payload see `gradient`
//! DERIVED payload  see `quantise`
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
mod mode;
mod moment;
mod predictor;
mod quantise;
mod residual;
mod sparse;
mod words;

pub use decode::decode;
use delta::{From, encode_changed, encode_residual, few_changes};
use mode::Mode;
pub use mode::describe;
use predictor::PIECE;
pub use predictor::Predictor;
pub use quantise::{Agreement, Quantise, Recipe, Trial};

use super::{
    Chunk, ChunkSpec, Delta, Form, Input, Made, Method, Scratch, integer, swap_words, transforms,
};
use crate::{
    Result,
    dtype::Fields,
    hash::{self, Stream},
    predict::float_state,
    simd::Level,
};

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

/// Words of a chunk, lowest byte first.
#[derive(Clone, Copy)]
struct Words<'a> {
    spec: &'a ChunkSpec,
    bytes: &'a [u8],
}

impl Words<'_> {
    /// Bytes of one.
    fn len(&self) -> usize {
        word_len(self.spec)
    }

    /// How many there are.
    fn count(&self) -> usize {
        self.bytes.len() / self.len()
    }
}

/// Words of `word` bytes, and which of them are not as predicted.
#[derive(Clone, Copy)]
struct Changes<'a> {
    word: usize,
    words: &'a [u8],
    predicted: &'a [u8],
    /// A bit a word.
    masks: &'a [u64],
    /// How many bits are set.
    count: u64,
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
    quantised: quantise::Quantised,
}

/// Appends the payload of a chunk, coded alone or against what is known of it.
///
/// # Errors
/// As for [`super::encode`].
pub fn encode(
    level: Level,
    method: Method,
    chunk: &Chunk<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<(Made, Vec<Input>)> {
    let Chunk { spec, bytes, known, offers } = chunk;
    let alone = |scratch: &mut Scratch, out: &mut Vec<u8>| {
        super::encode_alone(level, method, spec, bytes, scratch, out)
    };
    let can = |o: &&Offer| float_state::CAN_SET || !o.predictor.computes();
    let fits = |o: &&Offer| o.predictor.fits(spec, bytes.len(), known, &o.inputs);
    let offers: Vec<&Offer> =
        offers.iter().filter(|o| o.predictor.serves(method)).filter(can).filter(fits).collect();
    if offers.is_empty() || super::is_constant(bytes, word_len(spec)) {
        return Ok((alone(scratch, out)?, Vec::new()));
    }
    let mut buffers = scratch.known.take().unwrap_or_default();
    buffers.residual.coder.ahead = std::mem::take(&mut scratch.planes.coder.ahead);
    let start = out.len();
    let done = encode_offered(level, method, chunk, &offers, &mut buffers, scratch, out);
    scratch.known = Some(buffers);
    let Some(coded) = done? else { return Ok((alone(scratch, out)?, Vec::new())) };
    if coded.sure {
        return Ok((coded.made, coded.inputs));
    }
    let len = out.len() - start;
    let solo = alone(scratch, out)?;
    let digest = solo.digest.or(coded.made.digest);
    if out.len() - start - len <= len {
        out.drain(start..start + len);
        return Ok((Made { digest, ..solo }, Vec::new()));
    }
    out.truncate(start + len);
    Ok((Made { digest, ..coded.made }, coded.inputs))
}

/// A chunk coded against what is known of it.
struct Predicted {
    made: Made,
    inputs: Vec<Input>,
    /// Whether it is certainly smaller than alone.
    sure: bool,
}

impl Offer {
    /// The byte strings that it takes.
    fn taken(&self) -> Vec<Input> {
        self.inputs.iter().map(|&index| Input { index, digest: None }).collect()
    }
}

/// Bytes of the words that residuals are formed of.
fn word_len(spec: &ChunkSpec) -> usize {
    match spec.dtype.fields() {
        Fields::Opaque | Fields::Quantised { .. } => 1,
        Fields::Float { bits, .. } | Fields::Integer { bits } => usize::from(bits / 8),
    }
}

/// Codes a chunk by the best offer; `None` where none is worth it.
fn encode_offered(
    level: Level,
    method: Method,
    chunk: &Chunk<'_>,
    offers: &[&Offer],
    buffers: &mut KnownScratch,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<Option<Predicted>> {
    let Chunk { spec, bytes, known, .. } = chunk;
    let word = word_len(spec);
    let KnownScratch { words: swapped, inputs: swapped_inputs, .. } = buffers;
    let (mut swapped, mut swapped_inputs) =
        (std::mem::take(swapped), std::mem::take(swapped_inputs));
    let swap = spec.big_endian && word > 1;
    let words = Words { spec, bytes: little_endian(swap, word, bytes, &mut swapped) };
    swapped_inputs.resize_with(known.len(), Vec::new);
    // Known byte strings have the endianness of the chunk, but may have another word length.
    let known: Vec<&[u8]> = known
        .iter()
        .zip(&mut swapped_inputs)
        .map(|(k, buffer)| little_endian(swap, k.len() * word / bytes.len().max(1), k, buffer))
        .collect();
    if method == Method::Xor {
        let base = known[usize::from(offers[0].inputs[0])];
        let form = encode_xor(level, words, base, buffers, scratch, out)?;
        let inputs = offers[0].taken();
        return Ok(Some(Predicted { made: form.into(), inputs, sure: false }));
    }
    let like_base = |o: &&&Offer| matches!(o.predictor, Predictor::Base | Predictor::Signed);
    if let Some(offer) = offers.iter().find(like_base) {
        let base = known[usize::from(offer.inputs[0])];
        let mut masks = std::mem::take(&mut buffers.masks);
        let mut hashes = [Stream::new(level), Stream::new(level)];
        let some = Some(&mut hashes);
        if let Some(changes) = few_changes(level, words, base, ALMOST_EQUAL, &mut masks, some) {
            let (mut digest, mut inputs) = (None, offer.taken());
            if !swap {
                let [of_words, of_base] = hashes;
                digest = Some(of_words.finish_of(words.bytes));
                inputs[0].digest = Some(of_base.finish_of(base));
            }
            let start = out.len();
            offer.predictor.write(out);
            let taken: Vec<&[u8]> = offer.inputs.iter().map(|&i| known[usize::from(i)]).collect();
            let from = From { words, method, predictor: &offer.predictor, inputs: &taken };
            encode_changed(level, &from, &changes, buffers, out);
            buffers.masks = masks;
            let sure = 8 * (out.len() - start) < bytes.len();
            let made = Made { form: Form::Delta, digest };
            return Ok(Some(Predicted { made, inputs, sure }));
        }
        buffers.masks = masks;
    }
    // From here on all words are near.
    let digest = Some(hash::digest(level, bytes));
    if let Some((given, inputs)) = quantise::Given::among(offers, &known) {
        let start = out.len();
        let coder = &mut scratch.planes.coder;
        if quantise::encode(level, method, words, &given, buffers, coder, out).is_some() {
            let made = Made { form: Form::Derived, digest };
            // What is left of words that follow from others is next to nothing.
            let sure = 4 * (out.len() - start) < bytes.len();
            return Ok(Some(Predicted { made, inputs, sure }));
        }
    }
    let (estimate, planes) = (&mut buffers.estimate, &mut scratch.planes);
    let chosen = estimate::best(level, method, words, &known, offers, estimate, planes);
    let Some((offer, promised, solo)) = chosen else { return Ok(None) };
    let inputs: Vec<&[u8]> = offer.inputs.iter().map(|&i| known[usize::from(i)]).collect();
    let start = out.len();
    let form = match &offer.predictor {
        Predictor::Moment => {
            let residual = &mut buffers.residual;
            let done = moment::encode(level, words.bytes, inputs[0], residual, planes, out);
            if done.is_none() {
                out.truncate(start);
                return Ok(None);
            }
            Form::Moment
        }
        Predictor::Gradient(s) => {
            let KnownScratch { residual, gradients, .. } = &mut *buffers;
            let known = [inputs[0], inputs[1]];
            gradient::encode(level, s, words.bytes, known, residual, gradients, out);
            Form::Gradient
        }
        predictor => {
            predictor.write(out);
            let device = &mut planes.device;
            let from = From { words, method, predictor, inputs: &inputs };
            encode_residual(level, &from, buffers, device, out);
            Form::Delta
        }
    };
    let bits = 8 * (out.len() - start) as u64;
    let sure = bits.max(promised) < solo / 10 * 9;
    buffers.words = swapped;
    buffers.inputs = swapped_inputs;
    Ok(Some(Predicted { made: Made { form, digest }, inputs: offer.taken(), sure }))
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
    words: Words<'_>,
    base: &[u8],
    buffers: &mut KnownScratch,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) -> Result<Form> {
    let word = words.len();
    buffers.predicted.resize(words.bytes.len(), 0);
    let device = &mut scratch.planes.device;
    let delta = &mut buffers.predicted;
    transforms::delta(device, level, (Delta::Xor, word), words.bytes, base, delta);
    integer::encode(level, Method::Rans, word, &buffers.predicted, &mut scratch.planes, out)?;
    Ok(Form::Xor)
}

#[cfg(test)]
mod tests;
