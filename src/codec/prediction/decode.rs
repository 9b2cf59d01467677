//! Payload → chunk of which something is known.

use super::{
    KnownScratch, Mode, Predictor, gradient, little_endian, mask, moment, quantise, residual,
    sparse, word_len,
};
use crate::{
    Error, Result,
    codec::{ChunkSpec, Form, Payload, Scratch, damaged, integer, swap_words},
    dtype::Dtype,
    predict::float_state,
    simd::Level,
};

/// As [`crate::codec::decode`], for a payload that was coded against something known. Returns the
/// digest of what it decoded, where decoding came by it.
///
/// # Errors
/// As for [`crate::codec::decode`].
pub fn decode(
    level: Level,
    payload: &Payload<'_>,
    scratch: &mut Scratch,
    out: &mut [u8],
) -> Result<Option<u64>> {
    refuse_inexact(payload, float_state::CAN_SET)?;
    let mut buffers = scratch.known.take().unwrap_or_default();
    let mut digest = None;
    let done = decode_known(level, payload, &mut buffers, scratch, &mut digest, out);
    scratch.known = Some(buffers);
    done.ok_or_else(damaged)?;
    let word = word_len(&payload.spec);
    if payload.spec.big_endian && word > 1 {
        swap_words(out, word);
        digest = None;
    }
    Ok(digest)
}

/// Refuses what depends on the state of floating point where that cannot be set.
pub(super) fn refuse_inexact(payload: &Payload<'_>, can_set: bool) -> Result<()> {
    let computes = match payload.form {
        Form::Gradient | Form::Derived => true,
        Form::Delta => Predictor::read(&mut &payload.bytes[..]).is_some_and(|p| p.computes()),
        _ => false,
    };
    match computes && !can_set {
        true => Err(Error::Unsupported(format!(
            "it is predicted by floating-point arithmetic, whose rounding lmc-gpu cannot set on {}: \
             restore it on x86-64 or aarch64",
            std::env::consts::ARCH
        ).into())),
        false => Ok(()),
    }
}

fn decode_known(
    level: Level,
    payload: &Payload<'_>,
    buffers: &mut KnownScratch,
    scratch: &mut Scratch,
    digest: &mut Option<u64>,
    out: &mut [u8],
) -> Option<()> {
    let Payload { spec, form, bytes: mut payload, known } = *payload;
    let spec = &spec;
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
        Form::Xor => {
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
        Form::Moment => {
            let [v] = inputs[..] else { return None };
            if !Predictor::Moment.fits_inputs(spec, out.len(), &inputs) {
                return None;
            }
            let (residual, planes) = (&mut buffers.residual, &mut scratch.planes);
            let found = moment::decode(level, payload, v, residual, planes, out);
            found.map(|found| *digest = Some(found))
        }
        Form::Gradient => {
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
        Form::Derived => {
            let [source] = inputs[..] else { return None };
            let coder = &mut scratch.planes.coder;
            quantise::decode(level, spec, payload, source, buffers, coder, out)
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
    let mode = Mode::from_code(mode)?;
    let KnownScratch { predicted, contexts, residual, masked, .. } = buffers;
    let predicted = predictor.predict(level, spec, inputs, out.len(), predicted, contexts);
    if mode == Mode::Dense {
        predictor.contexts(level, spec, inputs, predicted, contexts);
        return residual::decode(level, word, payload, predicted, contexts, residual, out);
    }
    out.copy_from_slice(predicted);
    if mode == Mode::Masked {
        predictor.contexts(level, spec, inputs, predicted, contexts);
        return mask::decode(level, word, payload, contexts, residual, masked, out);
    }
    match mode {
        Mode::Equal => payload.is_empty().then_some(()),
        _ => sparse::decode(level, word, payload, residual, out),
    }
}
