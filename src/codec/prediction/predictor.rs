//! The predictors, by the number that a payload starts with.
//!
//! ```text
//! number  predictor  inputs (references)              scalars
//! 0       base       base                             –
//! 1       signed     base, exp_avg                    –
//! 2       narrow     wider sibling (f32)              –
//! 3       widen      narrower words                   their type (1 byte): 0 bf16, 1 f16
//! 4       second     base's exp_avg_sq and exp_avg,   order (1), β₁ and 1/(1−β₁) (f64 each),
//!                    exp_avg                          β₂ and 1−β₂ (f32 each)
//! 5       weights    base, exp_avg, exp_avg_sq        order (1), decay, step, bias, eps (f32 each)
//! 6       convert    words of the other 16-bit type   –
//! 7       average    base, weights                    order (1), keep, gain (f32 each)
//! ```

use super::{Quantise, word_len};
use crate::{
    codec::{ChunkSpec, Method},
    dtype::{Dtype, Fields},
    predict::{
        adam::{self, SECOND_ORDERS, Second, SecondInputs, WEIGHT_ORDERS, WeightInputs, Weights},
        average,
        cast::{self, Narrow},
        gradient::{FOLD_ORDERS, Fold},
    },
    simd::{Level, for_every_level, prefetch},
};

/// Words that are looked at at a time: so many stay in the nearest cache.
pub(super) const PIECE: usize = 1024;
/// Bytes that are fetched ahead.
const AHEAD: usize = 16 << 10;

/// How words are predicted.
#[derive(Clone, Debug, PartialEq)]
pub enum Predictor {
    /// As the base's words.
    Base,
    /// As the base's words, with the sign of the first moment, against which weights move, in
    /// the context.
    Signed,
    /// As the rounding of wider words.
    Narrow,
    /// As narrower words, widened.
    Widen(Narrow),
    /// As the rounding of words of the other narrow type.
    Convert,
    /// By the optimizer's update of the second moment.
    Second(Second),
    /// By the optimizer's update of the weights.
    Weights(Weights),
    /// As the average of the base's words and of weights.
    Average(Fold),
    /// A first moment whose size the second one tells: not a prediction but contexts.
    Moment,
    /// A first moment as the gradient that made it of the base's, and the base's second moment,
    /// which tells how large it is: not a prediction either.
    Gradient(Fold),
    /// Quantised words as what the floats they were made of give.
    Quantise(Quantise),
}

impl Predictor {
    /// Whether a method uses this predictor.
    pub(super) fn serves(&self, method: Method) -> bool {
        match method {
            Method::Auto | Method::Max | Method::Fast => true,
            Method::Xor | Method::Diff => *self == Predictor::Base,
            _ => false,
        }
    }

    /// Whether it is arithmetic in floating point, which depends on rounding and denormal modes.
    pub(super) fn computes(&self) -> bool {
        match self {
            Predictor::Second(_)
            | Predictor::Weights(_)
            | Predictor::Average(_)
            | Predictor::Gradient(_)
            | Predictor::Quantise(_) => true,
            Predictor::Base
            | Predictor::Signed
            | Predictor::Narrow
            | Predictor::Widen(_)
            | Predictor::Convert
            | Predictor::Moment => false,
        }
    }

    /// Bytes of a word of each input, for words of `word` bytes.
    fn input_words(&self, word: usize) -> &'static [usize] {
        match (self, word) {
            (Predictor::Base, 1) => &[1],
            (Predictor::Base, 2) => &[2],
            (Predictor::Base, 4) => &[4],
            (Predictor::Base, _) => &[8],
            (Predictor::Signed, _) => &[2, 4],
            (Predictor::Gradient(_) | Predictor::Average(_), _) => &[4, 4],
            (Predictor::Narrow | Predictor::Moment, _) => &[4],
            (Predictor::Widen(_) | Predictor::Convert, _) => &[2],
            // Knows itself.
            (Predictor::Quantise(_), _) => &[],
            (Predictor::Second(_) | Predictor::Weights(_), _) => &[4, 4, 4],
        }
    }

    /// Whether words of this type can be predicted so.
    fn fits_words(&self, spec: &ChunkSpec) -> bool {
        match self {
            Predictor::Base => true,
            Predictor::Signed | Predictor::Narrow | Predictor::Convert => {
                matches!(spec.dtype, Dtype::BF16 | Dtype::F16)
            }
            _ => spec.dtype == Dtype::F32,
        }
    }

    /// Whether a chunk of `len` bytes can be predicted from these of the known byte strings.
    pub(super) fn fits(
        &self,
        spec: &ChunkSpec,
        len: usize,
        known: &[&[u8]],
        inputs: &[u8],
    ) -> bool {
        let of = |i: &u8| known.get(usize::from(*i)).copied();
        let inputs: Option<Vec<&[u8]>> = inputs.iter().map(of).collect();
        inputs.is_some_and(|inputs| self.fits_inputs(spec, len, &inputs))
    }

    /// Whether a chunk of `len` bytes can be predicted from these inputs.
    pub(super) fn fits_inputs(&self, spec: &ChunkSpec, len: usize, inputs: &[&[u8]]) -> bool {
        if let Predictor::Quantise(how) = self {
            return matches!(inputs, [known] if how.fits(spec, len, known.len()));
        }
        let word = word_len(spec);
        let n = len / word;
        let words = self.input_words(word);
        len == n * word
            && n > 0
            && self.fits_words(spec)
            && inputs.len() == words.len()
            && inputs.iter().zip(words).all(|(input, word)| input.len() == n * word)
    }

    /// Predicts `len` bytes from inputs that fit. The prediction is in `buffer` or an input.
    pub(super) fn predict<'a>(
        &self,
        level: Level,
        spec: &ChunkSpec,
        inputs: &[&'a [u8]],
        len: usize,
        buffer: &'a mut Vec<u8>,
        contexts: &mut Vec<u8>,
    ) -> &'a [u8] {
        if let (
            Predictor::Base | Predictor::Signed | Predictor::Moment | Predictor::Gradient(_),
            [base, ..],
        ) = (self, inputs)
        {
            return base;
        }
        buffer.resize(len, 0);
        contexts.resize(len / word_len(spec), 0);
        match (self, inputs) {
            (Predictor::Narrow, [wide]) => {
                let to = if spec.dtype == Dtype::F16 { Narrow::F16 } else { Narrow::Bf16 };
                cast::round(level, to, wide, buffer);
            }
            (Predictor::Widen(from), [narrow]) => cast::widen(level, *from, narrow, buffer),
            (Predictor::Convert, [other]) => {
                let from = if spec.dtype == Dtype::F16 { Narrow::Bf16 } else { Narrow::F16 };
                cast::convert_narrow(level, from, other, buffer);
            }
            (Predictor::Average(s), [a0, w1]) => average::average(level, s, a0, w1, buffer),
            (Predictor::Second(s), &[v0, m0, m1]) => {
                adam::second(level, s, SecondInputs { v0, m0, m1 }, buffer, contexts);
            }
            (Predictor::Weights(s), &[w0, m1, v1]) => {
                adam::weights(level, s, WeightInputs { w0, m1, v1 }, buffer, contexts);
            }
            _ => buffer.fill(0),
        }
        buffer
    }

    /// Sets the context of every word, after [`Predictor::predict`] made `predicted`. The words
    /// may have to come from memory: they are fetched ahead.
    pub(super) fn contexts(
        &self,
        level: Level,
        spec: &ChunkSpec,
        inputs: &[&[u8]],
        predicted: &[u8],
        contexts: &mut Vec<u8>,
    ) {
        let n = predicted.len() / word_len(spec);
        contexts.resize(n, 0);
        for from in (0..n).step_by(PIECE) {
            self.contexts_from(level, spec, inputs, predicted, from, contexts);
        }
    }

    /// [`Predictor::contexts`] of the next [`PIECE`] words from `from` on, or as many as there are.
    pub(super) fn contexts_from(
        &self,
        level: Level,
        spec: &ChunkSpec,
        inputs: &[&[u8]],
        predicted: &[u8],
        from: usize,
        contexts: &mut [u8],
    ) {
        let to = contexts.len().min(from + PIECE);
        let contexts = &mut contexts[from..to];
        let word = word_len(spec);
        prefetch(predicted, from * word + AHEAD, PIECE * word);
        let predicted = &predicted[from * word..to * word];
        match (self, inputs) {
            // The prediction came with contexts.
            (Predictor::Second(_) | Predictor::Weights(_), _) => {}
            (Predictor::Moment, [v]) => exponents(level, &v[4 * from..4 * to], contexts),
            (Predictor::Signed, [_, moment]) => {
                sizes(level, *spec, predicted, contexts);
                signs(level, &moment[4 * from..4 * to], contexts);
            }
            _ => sizes(level, *spec, predicted, contexts),
        }
    }

    /// Appends number and scalars.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        match self {
            Predictor::Base => out.push(0),
            Predictor::Signed => out.push(1),
            Predictor::Narrow => out.push(2),
            Predictor::Widen(from) => out.extend_from_slice(&[3, u8::from(*from == Narrow::F16)]),
            Predictor::Second(s) => {
                out.extend_from_slice(&[4, s.order]);
                out.extend_from_slice(&s.beta1.to_le_bytes());
                out.extend_from_slice(&s.inverse.to_le_bytes());
                out.extend_from_slice(&s.beta2.to_le_bytes());
                out.extend_from_slice(&s.gain.to_le_bytes());
            }
            Predictor::Weights(s) => {
                out.extend_from_slice(&[5, s.order]);
                for x in [s.decay, s.step, s.bias, s.eps] {
                    out.extend_from_slice(&x.to_le_bytes());
                }
            }
            Predictor::Average(s) => {
                out.extend_from_slice(&[7, s.order]);
                out.extend_from_slice(&s.keep.to_le_bytes());
                out.extend_from_slice(&s.gain.to_le_bytes());
            }
            // Have forms of their own.
            Predictor::Moment | Predictor::Gradient(_) | Predictor::Quantise(_) => {}
            Predictor::Convert => out.push(6),
        }
    }

    /// Reads what [`Predictor::write`] wrote.
    pub(super) fn read(payload: &mut &[u8]) -> Option<Predictor> {
        let [number] = take(payload)?;
        Some(match number {
            0 => Predictor::Base,
            1 => Predictor::Signed,
            2 => Predictor::Narrow,
            3 => match take(payload)? {
                [0] => Predictor::Widen(Narrow::Bf16),
                [1] => Predictor::Widen(Narrow::F16),
                _ => return None,
            },
            4 => {
                let [order] = take(payload)?;
                let s = Second {
                    order,
                    beta1: f64::from_le_bytes(take(payload)?),
                    inverse: f64::from_le_bytes(take(payload)?),
                    beta2: f32::from_le_bytes(take(payload)?),
                    gain: f32::from_le_bytes(take(payload)?),
                };
                (order < SECOND_ORDERS).then_some(Predictor::Second(s))?
            }
            5 => {
                let [order] = take(payload)?;
                let s = Weights {
                    order,
                    decay: f32::from_le_bytes(take(payload)?),
                    step: f32::from_le_bytes(take(payload)?),
                    bias: f32::from_le_bytes(take(payload)?),
                    eps: f32::from_le_bytes(take(payload)?),
                };
                (order < WEIGHT_ORDERS).then_some(Predictor::Weights(s))?
            }
            6 => Predictor::Convert,
            7 => {
                let [order] = take(payload)?;
                let keep = f32::from_le_bytes(take(payload)?);
                let gain = f32::from_le_bytes(take(payload)?);
                let s = Fold { order, keep, gain, clip: 1.0 };
                (order < FOLD_ORDERS).then_some(Predictor::Average(s))?
            }
            _ => return None,
        })
    }
}

pub(super) fn take<const N: usize>(payload: &mut &[u8]) -> Option<[u8; N]> {
    let (bytes, rest) = payload.split_first_chunk()?;
    *payload = rest;
    Some(*bytes)
}

for_every_level! {
/// How large words are: their exponents (with two mantissa bits where it has five bits), or the
/// lengths of integers.
pub(super) fn sizes(spec: ChunkSpec, words: &[u8], out: &mut [u8]) {
    match (spec.dtype.fields(), word_len(&spec)) {
        (Fields::Float { .. }, 1) => each(out, words, |[b]: [u8; 1]| b & 0x7f),
        (Fields::Float { exponent: 8, .. }, 2) => {
            each(out, words, |w: [u8; 2]| (u16::from_le_bytes(w) >> 7) as u8);
        }
        (Fields::Float { .. }, 2) => {
            each(out, words, |w: [u8; 2]| (u16::from_le_bytes(w) >> 8) as u8 & 0x7f);
        }
        (Fields::Float { .. }, 4) => {
            each(out, words, |w: [u8; 4]| (u32::from_le_bytes(w) >> 23) as u8);
        }
        (Fields::Float { .. }, _) => {
            each(out, words, |w: [u8; 8]| (u64::from_le_bytes(w) >> 52) as u8);
        }
        (_, 1) => out.copy_from_slice(words),
        (_, 2) => each(out, words, |w: [u8; 2]| u16::from_le_bytes(w).leading_zeros() as u8),
        (_, 4) => each(out, words, |w: [u8; 4]| u32::from_le_bytes(w).leading_zeros() as u8),
        _ => each(out, words, |w: [u8; 8]| u64::from_le_bytes(w).leading_zeros() as u8),
    }
}
}

for_every_level! {
/// Exponents of `f32`.
pub(super) fn exponents(words: &[u8], out: &mut [u8]) {
    each(out, words, |w: [u8; 4]| (u32::from_le_bytes(w) >> 23) as u8);
}
}

for_every_level! {
/// Puts the signs of moments into the top bits of contexts.
fn signs(moments: &[u8], contexts: &mut [u8]) {
    for (context, m) in contexts.iter_mut().zip(moments.as_chunks::<4>().0) {
        *context = *context & 0x7f | m[3] & 0x80;
    }
}
}

#[inline(always)]
fn each<const N: usize>(out: &mut [u8], words: &[u8], f: impl Fn([u8; N]) -> u8) {
    for (out, word) in out.iter_mut().zip(words.as_chunks::<N>().0) {
        *out = f(*word);
    }
}
