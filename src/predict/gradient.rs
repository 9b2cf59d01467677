//! The gradient inside a moment: `m₁` from its base `m₀` and a number with few significant bits.
//!
//! Trainers sum a few gradients of 16 bits (G), scale the sum by a factor that all parameters share,
//! that of gradient clipping, and fold it into an average of 32 bits:
//!
//! ```text
//! g = clip·G                       rounded to f32
//! m₁ ≈ keep·m₀ + gain·g            rounded in one of several orders, see `Fold::order`
//! ```
//!
//! So for most words of `m₁` there is a G of some ten significant bits whose update gives exactly
//! these 32, and storing G stores `m₁`. [`apply`] makes the update; [`solve`] looks for the G with
//! the fewest significant bits, by trying: whatever it returns was applied and gave `m₁`.
//!
//! Numbers that stand for G are `f64`, which hold every product of G's arithmetic exactly: 0, one
//! with at most 24 significant bits, an infinity for "as the base's word", or a NaN where there is
//! no G.

mod search;

pub use search::{Stretch, find};

use super::float_state;
use crate::simd::{Level, for_every_level};

/// How a gradient is folded into a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fold {
    /// Which operations are rounded; "fused" products are not. With `d = g − m₀`:
    ///
    /// ```text
    /// 0  fused(gain·d + m₀)       1  gain·d + m₀           torch's lerp, up to a gain of a half
    /// 2  fused(g − keep·d)        3  g − keep·d            torch's lerp, above
    /// 4  fused(gain·g + keep·m₀)  5  keep·m₀ + gain·g      a product each
    /// 6  fused(keep·m₀ + gain·g)                           the first one is the fused one
    /// ```
    pub order: u8,
    /// What the base's moment is multiplied by.
    pub keep: f32,
    /// What the gradient is multiplied by.
    pub gain: f32,
    /// What G is multiplied by.
    pub clip: f32,
}

/// Number of orders of [`Fold`].
pub const FOLD_ORDERS: u8 = 7;
/// Most significant bits of a G.
pub const MOST_BITS: u32 = 24;
/// Mantissa bits of an `f64` that are zero where there are at most [`MOST_BITS`] significant ones.
const BELOW: u64 = (1 << (53 - MOST_BITS)) - 1;
/// Mantissa bits of an `f64`.
pub const MANTISSA: u64 = (1 << 52) - 1;
/// 2⁵² as bits: or-ed with a smaller integer, the bits of the sum.
const MAGIC: u64 = 0x433 << 52;

impl Fold {
    /// The scalars for a decay rate, in one of the orders.
    pub fn new(order: u8, beta: f64, clip: f32) -> Fold {
        let gain = (1.0 - beta) as f32;
        let keep = if order < 4 { 1.0 - gain } else { beta as f32 };
        Fold { order, keep, gain, clip }
    }

    /// The scalars of a sum to which the gradient is added as it is, in order 5 or 6.
    pub fn sum(order: u8, beta: f64, clip: f32) -> Fold {
        Fold { order, keep: beta as f32, gain: 1.0, clip }
    }
}

type Update = fn(Fold, f32, f32) -> f32;

#[inline(always)]
fn fused(a: f32, b: f32, c: f32) -> f32 {
    (f64::from(a) * f64::from(b) + f64::from(c)) as f32
}

/// Calls a loop with the update of this order, by name, so that it is inlined.
macro_rules! with_update {
    ($s:expr, $f:ident($($arg:expr),*)) => {
        match $s.order {
            0 => $f($($arg,)* |s: Fold, m: f32, g: f32| fused(s.gain, g - m, m)),
            1 => $f($($arg,)* |s: Fold, m: f32, g: f32| s.gain * (g - m) + m),
            2 => $f($($arg,)* |s: Fold, m: f32, g: f32| fused(-s.keep, g - m, g)),
            3 => $f($($arg,)* |s: Fold, m: f32, g: f32| g - s.keep * (g - m)),
            4 => $f($($arg,)* |s: Fold, m: f32, g: f32| fused(s.gain, g, s.keep * m)),
            5 => $f($($arg,)* |s: Fold, m: f32, g: f32| s.keep * m + s.gain * g),
            _ => $f($($arg,)* |s: Fold, m: f32, g: f32| fused(s.keep, m, s.gain * g)),
        }
    };
}

/// Sets `m1` to the moments that these G make of `m0`; where there is no G, or a NaN comes out, to
/// `m0`.
///
/// # Panics
/// Where lengths differ.
pub fn apply(level: Level, s: &Fold, m0: &[u8], gradients: &[f64], m1: &mut [u8]) {
    assert!(m0.len() == 4 * gradients.len() && m1.len() == m0.len());
    float_state::with_default(|| apply_all(level, *s, m0, gradients, m1));
}

for_every_level! {
fn apply_all(s: Fold, m0: &[u8], gradients: &[f64], m1: &mut [u8]) {
    with_update!(s, apply_each(s, m0, gradients, m1));
}
}

#[inline(always)]
fn apply_each(
    s: Fold,
    m0: &[u8],
    gradients: &[f64],
    m1: &mut [u8],
    update: impl Fn(Fold, f32, f32) -> f32,
) {
    let clip = f64::from(s.clip);
    let pairs = m0.as_chunks::<4>().0.iter().zip(gradients);
    for (out, (m0, &gradient)) in m1.as_chunks_mut::<4>().0.iter_mut().zip(pairs) {
        let made = update(s, f32::from_le_bytes(*m0), (clip * gradient) as f32);
        // The bits of a NaN depend on the machine.
        let same = (gradient == f64::INFINITY) | made.is_nan();
        *out = (if same { u32::from_le_bytes(*m0) } else { made.to_bits() }).to_le_bytes();
    }
}

/// Finds for each word of `m1` the shortest G that makes it of `m0`'s.
///
/// # Panics
/// Where lengths differ.
pub fn solve(level: Level, s: &Fold, m0: &[u8], m1: &[u8], gradients: &mut [f64]) {
    assert!(m0.len() == 4 * gradients.len() && m1.len() == m0.len());
    float_state::with_default(|| {
        solve_all(level, *s, m0, m1, gradients);
        with_update!(s, solve_rest(*s, m0, m1, gradients));
    });
}

for_every_level! {
fn solve_all(s: Fold, m0: &[u8], m1: &[u8], gradients: &mut [f64]) {
    with_update!(s, solve_each(s, m0, m1, gradients));
}
}

/// What is the same for all words while solving.
#[derive(Clone, Copy)]
struct Inverse {
    keep: f64,
    clip: f64,
    /// From an error of `m₁` to one of G.
    scale: f64,
    /// Bounds of what is rounded on the way, times `|m₀|` and `|G|`.
    of_base: f64,
    of_gradient: f64,
}

impl Inverse {
    fn new(s: Fold) -> Inverse {
        let (keep, gain, clip) = (f64::from(s.keep), f64::from(s.gain), f64::from(s.clip));
        let keep = if s.order < 2 { 1.0 - gain } else { keep };
        let gain = if matches!(s.order, 2 | 3) { 1.0 - keep } else { gain };
        let (of_base, of_g) = match s.order {
            0 => (gain, gain),
            1 => (2.0 * gain, 2.0 * gain),
            2 => (keep, keep),
            3 => (2.0 * keep, 2.0 * keep),
            4 => (keep, 0.0),
            5 => (keep, gain),
            _ => (0.0, gain),
        };
        let of_g = of_g + if s.clip == 1.0 { 0.0 } else { gain };
        let ulp = 1.0 / f64::from(1 << 24);
        Inverse {
            keep,
            clip,
            scale: 1.0 / (gain * clip),
            of_base: of_base * ulp,
            of_gradient: (of_g * clip).abs() * ulp,
        }
    }

    /// The G that fits best if nothing is rounded, and how far others can be from it.
    #[inline(always)]
    fn interval(self, m0: f32, m1: f32) -> (f64, f64) {
        let exponent = f32::from_bits(m1.to_bits() & 0x7f80_0000).max(f32::MIN_POSITIVE);
        let half_ulp = f64::from(exponent) * (1.0 / f64::from(1 << 24));
        let (m0, m1) = (f64::from(m0), f64::from(m1));
        let center = (m1 - self.keep * m0) * self.scale;
        let rounded = self.of_base * m0.abs() + self.of_gradient * center.abs();
        (center, (half_ulp + rounded) * self.scale.abs())
    }
}

/// The number with the fewest significant bits that is not further than `radius` from `center`, up
/// to a thirty-second of the radius: with both ends as integers, the bits that they have in common
/// and one more.
#[inline(always)]
fn shortest(center: f64, radius: f64) -> f64 {
    const ONE: u64 = 1 << 52;
    let magic = f64::from_bits(MAGIC);
    let exponent = radius.to_bits() & !MANTISSA;
    // The radius is 16 to 32 units.
    let unit = f64::from_bits(exponent.wrapping_sub(4 * ONE));
    let per_unit = f64::from_bits((2046 * ONE + 4 * ONE).wrapping_sub(exponent));
    let size = center.abs();
    let low = ((size - radius) * per_unit).max(1.0);
    let high = (size + radius) * per_unit;
    let integer = |x: f64| (x + magic).to_bits() & MANTISSA;
    let float = |x: u64| f64::from_bits(x | MAGIC) - magic;
    let high = integer(high);
    let differ = float((integer(low).wrapping_sub(1) ^ high) & MANTISSA);
    let highest = integer(f64::from_bits(differ.to_bits() & !MANTISSA));
    (float(high & highest.wrapping_neg() & MANTISSA) * unit).copysign(center)
}

#[inline(always)]
fn solve_each(
    s: Fold,
    m0: &[u8],
    m1: &[u8],
    gradients: &mut [f64],
    update: impl Fn(Fold, f32, f32) -> f32,
) {
    let inverse = Inverse::new(s);
    let pairs = m0.as_chunks::<4>().0.iter().zip(m1.as_chunks::<4>().0);
    for (gradient, (m0, m1)) in gradients.iter_mut().zip(pairs) {
        let (m0, m1) = (f32::from_le_bytes(*m0), f32::from_le_bytes(*m1));
        let want = m1.to_bits();
        let (center, radius) = inverse.interval(m0, m1);
        let short = shortest(center, radius);
        // The bits of a NaN depend on the machine.
        let number = !m1.is_nan();
        let hit = (update(s, m0, (inverse.clip * short) as f32).to_bits() == want)
            & number
            & (short.to_bits() & BELOW == 0)
            & short.is_finite();
        let none = (update(s, m0, (inverse.clip * 0.0) as f32).to_bits() == want) & number;
        let found = if hit { short } else { f64::NAN };
        let found = if m0.to_bits() == want { f64::INFINITY } else { found };
        *gradient = if none { 0.0 } else { found };
    }
}

/// Looks further where the shortest number did not do: near the ends, rounding decides.
fn solve_rest(s: Fold, m0: &[u8], m1: &[u8], gradients: &mut [f64], update: Update) {
    let inverse = Inverse::new(s);
    let pairs = m0.as_chunks::<4>().0.iter().zip(m1.as_chunks::<4>().0);
    for (gradient, (m0, m1)) in gradients.iter_mut().zip(pairs) {
        let (m0, m1) = (f32::from_le_bytes(*m0), f32::from_le_bytes(*m1));
        if !gradient.is_nan() || !m0.is_finite() || !m1.is_finite() {
            continue;
        }
        let (center, radius) = inverse.interval(m0, m1);
        if center == 0.0 || !center.is_finite() {
            continue;
        }
        let makes = |x: f64| {
            x.to_bits() & BELOW == 0
                && update(s, m0, (inverse.clip * x) as f32).to_bits() == m1.to_bits()
        };
        let tried = shortest(center, radius);
        for bits in significant_bits(tried)..=MOST_BITS {
            let rounded = nearest(center, bits);
            if makes(rounded) {
                *gradient = rounded;
                break;
            }
        }
        if gradient.is_nan() {
            let last = nearest(center, MOST_BITS);
            let step = BELOW + 1;
            let near = [-1i64, 1, -2, 2]
                .map(|i| f64::from_bits(last.to_bits().wrapping_add_signed(i * step as i64)));
            if let Some(x) = near.into_iter().find(|&x| makes(x)) {
                *gradient = x;
            }
        }
    }
}

/// Bits from the leading one to the last one of a normal number.
fn significant_bits(x: f64) -> u32 {
    53 - (x.to_bits() & MANTISSA | 1 << 52).trailing_zeros()
}

/// A number rounded to so many significant bits, at most 24.
fn nearest(x: f64, bits: u32) -> f64 {
    let below = 53 - bits;
    let rounded = x.to_bits().wrapping_add(1 << (below - 1)) >> below << below;
    f64::from_bits(rounded)
}

#[cfg(test)]
mod tests;
