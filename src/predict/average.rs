//! Averaged copies of weights: predicted from the copy before the step, and the weights after it.
//!
//! ```text
//! a₁ = keep·a₀ + gain·w₁            rounded in one of the orders of `gradient::Fold`
//! ```
//!
//! That is what a first moment is made by, with the new weights where the gradient is. `torch.lerp`,
//! a product each, and `a − gain·(a − w)` are all among those orders. The decay rate is often one of
//! a few; where it changes from step to step it follows from the words, by least squares, and exact
//! hits tell the last bits.
//!
//! Sums run in order, in `f64`: every machine finds the same scalars.

use super::{
    float_state,
    gradient::{self, FOLD_ORDERS, Fold},
    trial::{BIT, cost},
};
use crate::simd::Level;

/// Words of the same places in the copy before and after, and in the weights after, all `f32`.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs, reason = "a is the copy, w the weights; 0 is the base, 1 is new")]
pub struct Stretch<'a> {
    pub a0: &'a [u8],
    pub a1: &'a [u8],
    pub w1: &'a [u8],
}

/// Words that scalars are tried on.
const TRIED: usize = 2048;
/// Words at a time.
const PIECE: usize = 512;
/// Scalars that leave more are not used, and with those that leave less the search ends.
const MOST: u64 = 6 * BIT;
const FEW: u64 = BIT / 4;
/// Decay rates that are common.
const DECAYS: [f64; 8] = [0.9999, 0.999, 0.995, 0.99, 0.9995, 0.99995, 0.9, 0.95];

/// Predicts a copy. Where a result is a NaN, or a weight is positive infinity, the word before the
/// step stands.
///
/// # Panics
/// Where lengths differ.
pub fn average(level: Level, s: &Fold, a0: &[u8], w1: &[u8], out: &mut [u8]) {
    assert!(a0.len() == w1.len() && a0.len() == out.len());
    let mut wide = [0.0; PIECE];
    let pieces = a0.chunks(4 * PIECE).zip(w1.chunks(4 * PIECE));
    for (out, (a0, w1)) in out.chunks_mut(4 * PIECE).zip(pieces) {
        let wide = &mut wide[..w1.len() / 4];
        for (x, w) in wide.iter_mut().zip(w1.as_chunks::<4>().0) {
            *x = f64::from(f32::from_le_bytes(*w));
        }
        gradient::apply(level, s, a0, wide, out);
    }
}

/// The scalars that predict a stretch of the copy best, if they leave few bits. `tried` are scalars
/// that did for other tensors.
pub fn find(level: Level, stretch: Stretch, tried: &[Fold]) -> Option<Fold> {
    float_state::with_default(|| {
        let mut search = Search { level, stretch, predicted: Vec::new(), best: None };
        if stretch.a0 == stretch.a1 {
            // Nothing was averaged.
            return None;
        }
        tried.iter().for_each(|s| search.attempt(*s));
        if search.least() > FEW {
            DECAYS.iter().for_each(|&decay| search.orders(decay));
        }
        if search.least() > FEW
            && let Some(gain) = fit(&stretch)
        {
            search.around(gain);
        }
        search.best.filter(|(cost, _)| *cost < MOST).map(|(_, s)| s)
    })
}

struct Search<'a> {
    level: Level,
    stretch: Stretch<'a>,
    predicted: Vec<u8>,
    best: Option<(u64, Fold)>,
}

impl Search<'_> {
    fn least(&self) -> u64 {
        self.best.map_or(u64::MAX, |(cost, _)| cost)
    }

    fn attempt(&mut self, s: Fold) {
        let Stretch { a0, a1, w1 } = self.stretch;
        let n = a0.len().min(4 * TRIED);
        self.predicted.resize(n, 0);
        average(self.level, &s, &a0[..n], &w1[..n], &mut self.predicted);
        let cost = cost(&a1[..n], &self.predicted);
        if cost < self.least() {
            self.best = Some((cost, s));
        }
    }

    fn orders(&mut self, decay: f64) {
        (0..FOLD_ORDERS).for_each(|order| self.attempt(Fold::new(order, decay, 1.0)));
    }

    /// Tries every order near a gain.
    fn around(&mut self, gain: f64) {
        let middle = Fold::new(0, 1.0 - gain, 1.0);
        for ulps in -16..=16 {
            let bits = (gain as f32).to_bits().wrapping_add_signed(ulps);
            self.attempt(Fold { gain: f32::from_bits(bits), ..middle });
        }
        let gain = self.best.map_or(middle.gain, |(_, s)| s.gain);
        for order in 0..FOLD_ORDERS {
            let s = Fold { gain, ..Fold::new(order, 1.0 - f64::from(gain), 1.0) };
            for ulps in [0, -1, 1] {
                let keep = f32::from_bits(s.keep.to_bits().wrapping_add_signed(ulps));
                for ulps in [0, -1, 1] {
                    let gain = f32::from_bits(gain.to_bits().wrapping_add_signed(ulps));
                    self.attempt(Fold { keep, gain, ..s });
                }
            }
        }
    }
}

/// The gain by least squares, each word weighed by how sharp it is.
fn fit(stretch: &Stretch) -> Option<f64> {
    let floats = |b: &'_ [u8]| -> Vec<f64> {
        b.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b).into()).collect()
    };
    let [a0, a1, w1] = [stretch.a0, stretch.a1, stretch.w1].map(floats);
    let (mut sum, mut squares) = (0.0, 0.0);
    for ((a0, a1), w1) in a0.iter().zip(&a1).zip(&w1) {
        let (by, full) = (a1 - a0, w1 - a0);
        let weight = 1.0 / (a0 * a0 + a1 * a1);
        if weight.is_finite() && (by * full).is_finite() {
            sum += weight * by * full;
            squares += weight * full * full;
        }
    }
    let gain: f64 = sum / squares;
    (gain > 0.0 && gain < 1.0).then_some(gain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(seed: u32, n: u32, size: f32) -> Vec<u8> {
        let random = |i: u32| {
            let x = (i.wrapping_mul(0x9E37_79B1) ^ seed).wrapping_mul(0x85EB_CA6B);
            let x = (x ^ x >> 13).wrapping_mul(0xC2B2_AE35);
            ((x ^ x >> 16) as f32 / 4294967296.0 - 0.5) * size
        };
        (0..n).flat_map(|i| random(i).to_le_bytes()).collect()
    }

    #[test]
    fn decays_are_found_to_the_last_bit_whether_they_are_common_or_not() {
        let base = words(1, 16384, 0.1);
        let moved = words(2, 16384, 0.02);
        let near = base.as_chunks::<4>().0.iter().zip(moved.as_chunks::<4>().0);
        let sum = |(a, b): (&[u8; 4], &[u8; 4])| f32::from_le_bytes(*a) + f32::from_le_bytes(*b);
        let w1: Vec<u8> = near.flat_map(|pair| sum(pair).to_le_bytes()).collect();
        for order in 0..FOLD_ORDERS {
            for decay in [0.9999, 0.999, 0.995, 0.98123, 0.7, 0.3, 0.999_321] {
                let s = Fold::new(order, decay, 1.0);
                let mut a1 = vec![0; base.len()];
                average(Level::SCALAR, &s, &base, &w1, &mut a1);
                let stretch = Stretch { a0: &base, a1: &a1, w1: &w1 };
                let found = find(Level::best(), stretch, &[]).unwrap();
                let mut again = vec![0; base.len()];
                average(Level::best(), &found, &base, &w1, &mut again);
                let wrong = a1.as_chunks::<4>().0.iter().zip(again.as_chunks::<4>().0);
                let wrong = wrong.filter(|(a, b)| a != b).count();
                assert!(wrong < 160, "{s:?} {found:?}: {wrong}");
            }
        }
    }

    #[test]
    fn what_is_no_average_is_not_found() {
        let [a0, a1, w1] = [1, 2, 3].map(|seed| words(seed, 4096, 0.1));
        assert_eq!(find(Level::best(), Stretch { a0: &a0, a1: &a1, w1: &w1 }, &[]), None);
        for word in [f32::NAN, f32::INFINITY, 0.0] {
            let same = word.to_le_bytes().repeat(1000);
            let stretch = Stretch { a0: &same, a1: &a1[..4000], w1: &same };
            assert_eq!(find(Level::best(), stretch, &[]), None);
        }
    }
}
