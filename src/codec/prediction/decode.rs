//! Payload → chunk of which something is known.

use super::{
    DENSE, EQUAL, KnownScratch, MASKED, Predictor, SPARSE, gradient, little_endian, mask, moment,
    residual, sparse, word_len,
};
use crate::{
    Error, Result,
    codec::{ChunkSpec, Scratch, form, integer, swap_words},
    dtype::Dtype,
    simd::Level,
};

/// As [`crate::codec::decode`], for a chunk whose references are `known`, in order.
///
/// # Errors
/// As for [`crate::codec::decode`].
pub fn decode(
    level: Level,
    spec: &ChunkSpec,
    form: u8,
    payload: &[u8],
    known: &[&[u8]],
    scratch: &mut Scratch,
    out: &mut [u8],
) -> Result<()> {
    if !matches!(form, form::DELTA | form::XOR | form::MOMENT | form::GRADIENT) {
        if !known.is_empty() {
            return Err(damaged());
        }
        return crate::codec::decode(level, spec, form, payload, scratch, out);
    }
    scratch.planes.digest = None;
    let mut buffers = scratch.known.take().unwrap_or_default();
    let done = decode_known(level, spec, form, payload, known, &mut buffers, scratch, out);
    scratch.known = Some(buffers);
    done.ok_or_else(damaged)?;
    let word = word_len(spec);
    if spec.big_endian && word > 1 {
        swap_words(out, word);
        scratch.planes.digest = None;
    }
    Ok(())
}

fn damaged() -> Error {
    Error::Corrupt("the coded data is damaged".into())
}

#[allow(clippy::too_many_arguments, reason = "one caller")]
fn decode_known(
    level: Level,
    spec: &ChunkSpec,
    form: u8,
    mut payload: &[u8],
    known: &[&[u8]],
    buffers: &mut KnownScratch,
    scratch: &mut Scratch,
    out: &mut [u8],
) -> Option<()> {
    let word = word_len(spec);
    let swap = spec.big_endian && word > 1;
    let mut swapped = std::mem::take(&mut buffers.inputs);
    swapped.resize_with(known.len(), Vec::new);
    let inputs: Vec<&[u8]> = known
        .iter()
        .zip(&mut swapped)
        .map(|(k, buffer)| little_endian(swap, k.len() * word / out.len().max(1), k, buffer))
        .collect();
    let done = match form {
        form::XOR => {
            let [base] = inputs[..] else { return None };
            if base.len() != out.len() {
                return None;
            }
            integer::decode(level, word, payload, &mut scratch.planes, out)?;
            for (o, b) in out.iter_mut().zip(base) {
                *o ^= b;
            }
            Some(())
        }
        form::MOMENT => {
            let [v] = inputs[..] else { return None };
            if !Predictor::Moment.fits_inputs(spec, out.len(), &inputs) {
                return None;
            }
            moment::decode(level, spec, payload, v, &mut buffers.residual, &mut scratch.planes, out)
        }
        form::GRADIENT => {
            let [m0, v0] = inputs[..] else { return None };
            let n = out.len();
            if spec.dtype != Dtype::F32
                || !n.is_multiple_of(4)
                || n == 0
                || m0.len() != n
                || v0.len() != n
            {
                return None;
            }
            let KnownScratch { residual, gradients, .. } = &mut *buffers;
            gradient::decode(level, payload, [m0, v0], residual, gradients, out)
        }
        _ => {
            let predictor = Predictor::read(&mut payload)?;
            if !predictor.fits_inputs(spec, out.len(), &inputs) {
                return None;
            }
            decode_residual(level, spec, payload, &predictor, &inputs, buffers, out)
        }
    };
    buffers.inputs = swapped;
    done
}

fn decode_residual(
    level: Level,
    spec: &ChunkSpec,
    payload: &[u8],
    predictor: &Predictor,
    inputs: &[&[u8]],
    buffers: &mut KnownScratch,
    out: &mut [u8],
) -> Option<()> {
    let word = word_len(spec);
    let (&mode, payload) = payload.split_first()?;
    let KnownScratch { predicted, contexts, residual, masked, .. } = buffers;
    let predicted = predictor.predict(level, spec, inputs, out.len(), predicted, contexts);
    if mode == DENSE {
        predictor.contexts(level, spec, inputs, predicted, contexts);
        return residual::decode(level, word, payload, predicted, contexts, residual, out);
    }
    out.copy_from_slice(predicted);
    if mode == MASKED {
        predictor.contexts(level, spec, inputs, predicted, contexts);
        return mask::decode(level, word, payload, contexts, residual, masked, out);
    }
    match mode {
        EQUAL => payload.is_empty().then_some(()),
        SPARSE => sparse::decode(level, word, payload, residual, out),
        _ => None,
    }
}
