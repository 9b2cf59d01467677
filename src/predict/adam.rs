//! Predictions from the arithmetic of the optimizer: Adam and AdamW, one step apart.
//!
//! The first moment tells the gradient, the gradient the second moment, and both the weights:
//!
//! ```text
//! g  = (m₁ − β₁·m₀) · 1/(1−β₁)                 f64, rounded to f32
//! v₁ = β₂·v₀ + (1−β₂)·g²                       f32, see `Second::order`
//! w₁ = w₀·decay + step·m₁ / (√v₁/bias + eps)   f32, see `Weights::order`
//! decay = 1 − lr·wd     step = −lr/(1−β₁ᵗ)     bias = √(1−β₂ᵗ)
//! ```
//!
//! What an optimizer's kernel rounds, and in which order, decides whether a residual of bits or of
//! nothing is left, so there are several orders. The scalars are stored as the numbers the kernel
//! used: powers and logarithms differ from one libm to the next, additions do not. "Fused" means
//! that the last product is not rounded: it is exact in 64 bits, and so is the only sum to round.
//!
//! A prediction that is a NaN is replaced by the base's word.

mod search;

pub use search::{Hints, Sample, find_second, find_weights};

use super::float_state;
use crate::simd::{Level, for_every_level};

/// Scalars of the second moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Second {
    /// 0: `fused((1−β₂)·g · g + β₂·v₀)`, 1: the same with the product rounded,
    /// 2: `fused(g·g · (1−β₂) + β₂·v₀)`, 3: `fused(β₂·v₀ + ((1−β₂)·g)·g)`, the sum's first product.
    pub order: u8,
    /// β₁.
    pub beta1: f64,
    /// 1/(1−β₁).
    pub inverse: f64,
    /// β₂.
    pub beta2: f32,
    /// 1−β₂.
    pub gain: f32,
}

/// Scalars of the weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weights {
    /// 0: `(step·m)/denominator`, 1: `step·(m/denominator)`, each added after rounding;
    /// 2: `fused(step·(m/denominator) + …)`.
    pub order: u8,
    /// What weights are multiplied by before the update.
    pub decay: f32,
    /// What the update is multiplied by; negative.
    pub step: f32,
    /// What the root of the second moment is divided by.
    pub bias: f32,
    /// What is added to the denominator.
    pub eps: f32,
}

/// Number of orders of [`Second`].
pub const SECOND_ORDERS: u8 = 4;
/// Number of orders of [`Weights`].
pub const WEIGHT_ORDERS: u8 = 3;

impl Second {
    /// The scalars for decay rates β₁ and β₂.
    pub fn new(order: u8, beta1: f64, beta2: f64) -> Self {
        let inverse = 1.0 / (1.0 - beta1);
        Second { order, beta1, inverse, beta2: beta2 as f32, gain: (1.0 - beta2) as f32 }
    }
}

/// Known words that a second moment is predicted from, all `f32` and of the same length.
#[derive(Clone, Copy, Debug)]
pub struct SecondInputs<'a> {
    /// The base's second moment.
    pub v0: &'a [u8],
    /// The base's first moment.
    pub m0: &'a [u8],
    /// The new first moment.
    pub m1: &'a [u8],
}

/// Predicts the second moment, and for each word a context: how many bits of the prediction the
/// rounding of `m₁` leaves open, which is what its residual is made of.
///
/// # Panics
/// Where lengths differ.
pub fn second(level: Level, s: &Second, known: SecondInputs, out: &mut [u8], contexts: &mut [u8]) {
    let SecondInputs { v0, m0, m1 } = known;
    let n = out.len() / 4;
    assert!(out.len() == 4 * n && v0.len() == 4 * n && m0.len() == 4 * n && m1.len() == 4 * n);
    assert!(contexts.len() == n);
    float_state::with_default(|| match s.order {
        0 => second_0(level, *s, known, out, contexts),
        1 => second_1(level, *s, known, out, contexts),
        2 => second_2(level, *s, known, out, contexts),
        _ => second_3(level, *s, known, out, contexts),
    });
}

for_every_level! {
fn second_0(s: Second, known: SecondInputs<'_>, out: &mut [u8], contexts: &mut [u8]) {
    second_each(s, known, out, contexts, |g, v| {
        (f64::from(s.gain * g) * f64::from(g) + f64::from(v * s.beta2)) as f32
    });
}
}

for_every_level! {
fn second_1(s: Second, known: SecondInputs<'_>, out: &mut [u8], contexts: &mut [u8]) {
    second_each(s, known, out, contexts, |g, v| (s.gain * g) * g + v * s.beta2);
}
}

for_every_level! {
fn second_2(s: Second, known: SecondInputs<'_>, out: &mut [u8], contexts: &mut [u8]) {
    second_each(s, known, out, contexts, |g, v| {
        (f64::from(g * g) * f64::from(s.gain) + f64::from(v * s.beta2)) as f32
    });
}
}

for_every_level! {
fn second_3(s: Second, known: SecondInputs<'_>, out: &mut [u8], contexts: &mut [u8]) {
    second_each(s, known, out, contexts, |g, v| {
        (f64::from(v) * f64::from(s.beta2) + f64::from((s.gain * g) * g)) as f32
    });
}
}

#[inline(always)]
fn second_each(
    s: Second,
    known: SecondInputs,
    out: &mut [u8],
    contexts: &mut [u8],
    sum: impl Fn(f32, f32) -> f32,
) {
    let outs = out.as_chunks_mut::<4>().0.iter_mut().zip(contexts);
    let olds = known.v0.as_chunks::<4>().0.iter().zip(known.m0.as_chunks::<4>().0);
    let all = outs.zip(olds).zip(known.m1.as_chunks::<4>().0);
    for (((out, context), (v0, m0)), m1) in all {
        let (v0, m0, m1) =
            (f32::from_le_bytes(*v0), f32::from_le_bytes(*m0), f32::from_le_bytes(*m1));
        let g = ((f64::from(m1) - s.beta1 * f64::from(m0)) * s.inverse) as f32;
        let v = sum(g, v0);
        let exponent = |x: f32| (x.to_bits() >> 23 & 0xff) as i32;
        let open = exponent(g) + exponent(m1) - exponent(v);
        *context = open.clamp(0, 255) as u8;
        *out = instead_of_nan(v, v0).to_le_bytes();
    }
}

/// Known words that weights are predicted from, all `f32` and of the same length.
#[derive(Clone, Copy, Debug)]
pub struct WeightInputs<'a> {
    /// The base's weights.
    pub w0: &'a [u8],
    /// The new first moment.
    pub m1: &'a [u8],
    /// The new second moment.
    pub v1: &'a [u8],
}

/// Predicts weights; the context of a word is its exponent.
///
/// # Panics
/// Where lengths differ.
pub fn weights(
    level: Level,
    s: &Weights,
    known: WeightInputs,
    out: &mut [u8],
    contexts: &mut [u8],
) {
    let WeightInputs { w0, m1, v1 } = known;
    let n = out.len() / 4;
    assert!(out.len() == 4 * n && w0.len() == 4 * n && m1.len() == 4 * n && v1.len() == 4 * n);
    assert!(contexts.len() == n);
    float_state::with_default(|| match s.order {
        0 => weights_0(level, *s, known, out, contexts),
        1 => weights_1(level, *s, known, out, contexts),
        _ => weights_2(level, *s, known, out, contexts),
    });
}

for_every_level! {
fn weights_0(s: Weights, known: WeightInputs<'_>, out: &mut [u8], contexts: &mut [u8]) {
    weights_each(s, known, out, contexts, |w, m, d| w + (s.step * m) / d);
}
}

for_every_level! {
fn weights_1(s: Weights, known: WeightInputs<'_>, out: &mut [u8], contexts: &mut [u8]) {
    weights_each(s, known, out, contexts, |w, m, d| w + s.step * (m / d));
}
}

for_every_level! {
fn weights_2(s: Weights, known: WeightInputs<'_>, out: &mut [u8], contexts: &mut [u8]) {
    weights_each(s, known, out, contexts, |w, m, d| {
        (f64::from(w) + f64::from(s.step) * f64::from(m / d)) as f32
    });
}
}

#[inline(always)]
fn weights_each(
    s: Weights,
    known: WeightInputs,
    out: &mut [u8],
    contexts: &mut [u8],
    update: impl Fn(f32, f32, f32) -> f32,
) {
    let outs = out.as_chunks_mut::<4>().0.iter_mut().zip(contexts);
    let moments = known.m1.as_chunks::<4>().0.iter().zip(known.v1.as_chunks::<4>().0);
    for (((out, context), w0), (m1, v1)) in outs.zip(known.w0.as_chunks::<4>().0).zip(moments) {
        let (w0, m1, v1) =
            (f32::from_le_bytes(*w0), f32::from_le_bytes(*m1), f32::from_le_bytes(*v1));
        let w = update(w0 * s.decay, m1, v1.sqrt() / s.bias + s.eps);
        let w = instead_of_nan(w, w0);
        *context = (w.to_bits() >> 23) as u8;
        *out = w.to_le_bytes();
    }
}

#[inline(always)]
fn instead_of_nan(x: f32, known: f32) -> f32 {
    if x.is_nan() { known } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(seed: u32, n: usize) -> Vec<u8> {
        let bits = |i: u32| match (i ^ seed) % 13 {
            0 => 0,
            1 => 0x7f80_0000,
            2 => 0xffc1_2345,
            3 => i % 100,
            4 => 0x8000_0000,
            _ => i.wrapping_mul(0x9E37_79B1).wrapping_add(seed) % 0x4080_0000,
        };
        (0..n as u32).flat_map(|i| bits(i.wrapping_mul(seed | 1)).to_le_bytes()).collect()
    }

    #[test]
    fn every_level_predicts_the_same_whatever_the_words_and_scalars() {
        for n in (0..70).chain([1000]) {
            let [a, b, c] = [1, 77, 1234].map(|seed| words(seed, n));
            let (mut want, mut got) = (vec![0; 4 * n], vec![1; 4 * n]);
            let (mut contexts, mut got_contexts) = (vec![0; n], vec![1; n]);
            for order in 0..SECOND_ORDERS {
                let s = Second::new(order, 0.9, 0.95);
                let known = SecondInputs { v0: &a, m0: &b, m1: &c };
                second(Level::SCALAR, &s, known, &mut want, &mut contexts);
                for level in Level::available() {
                    second(level, &s, known, &mut got, &mut got_contexts);
                    assert!(got == want && got_contexts == contexts, "{level:?} {n} {order}");
                }
            }
            for order in 0..WEIGHT_ORDERS {
                for eps in [1e-8, f32::NAN, f32::INFINITY, 0.0] {
                    let s = Weights { order, decay: 0.999, step: -1e-3, bias: 0.9, eps };
                    let known = WeightInputs { w0: &a, m1: &b, v1: &c };
                    weights(Level::SCALAR, &s, known, &mut want, &mut contexts);
                    for level in Level::available() {
                        weights(level, &s, known, &mut got, &mut got_contexts);
                        assert!(got == want && got_contexts == contexts, "{level:?} {n} {order}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_nan_is_replaced_by_the_base() {
        let (one, nan) = (1f32.to_le_bytes(), f32::NAN.to_le_bytes());
        let (mut out, mut context) = ([0; 4], [0]);
        let known = SecondInputs { v0: &one, m0: &nan, m1: &one };
        second(Level::best(), &Second::new(0, 0.9, 0.95), known, &mut out, &mut context);
        assert_eq!(out, one);
    }
}
