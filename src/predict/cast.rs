//! Narrow copies of wide tensors: rounding to the nearest, ties to even, and back.
//!
//! Mixed-precision training keeps a 32-bit master of every weight and a 16-bit copy that is its
//! rounding, bit for bit. Integer arithmetic throughout.

use crate::simd::{Level, for_every_level};

/// The narrow type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Narrow {
    /// `bf16`.
    Bf16,
    /// `f16`.
    F16,
}

/// Rounds 32-bit floats to a narrow type.
///
/// # Panics
/// Where `narrow` is not half as long as `wide`, or `wide` is not whole words.
pub fn round(level: Level, to: Narrow, wide: &[u8], narrow: &mut [u8]) {
    check(narrow, wide);
    match to {
        Narrow::Bf16 => to_bf16(level, wide, narrow),
        Narrow::F16 => to_f16(level, wide, narrow),
    }
}

for_every_level! {
fn to_bf16(wide: &[u8], narrow: &mut [u8]) {
    convert(wide, narrow, bf16_of_f32);
}
}

for_every_level! {
fn to_f16(wide: &[u8], narrow: &mut [u8]) {
    convert(wide, narrow, f16_of_f32);
}
}

/// Widens words of a narrow type to 32-bit floats.
///
/// # Panics
/// As [`round`].
pub fn widen(level: Level, from: Narrow, narrow: &[u8], wide: &mut [u8]) {
    check(narrow, wide);
    match from {
        Narrow::Bf16 => from_bf16(level, narrow, wide),
        Narrow::F16 => from_f16(level, narrow, wide),
    }
}

for_every_level! {
fn from_bf16(narrow: &[u8], wide: &mut [u8]) {
    let pairs = wide.as_chunks_mut().0.iter_mut().zip(narrow.as_chunks().0);
    pairs.for_each(|(w, n)| *w = f32_of_bf16(*n));
}
}

for_every_level! {
fn from_f16(narrow: &[u8], wide: &mut [u8]) {
    let pairs = wide.as_chunks_mut().0.iter_mut().zip(narrow.as_chunks().0);
    pairs.for_each(|(w, n)| *w = f32_of_f16(*n));
}
}

/// Converts words of one narrow type to the other, rounded to the nearest, ties to even.
///
/// # Panics
/// Where lengths differ or are not whole words.
pub fn convert_narrow(level: Level, from: Narrow, words: &[u8], out: &mut [u8]) {
    assert!(words.len() == out.len() && out.len().is_multiple_of(2));
    match from {
        Narrow::Bf16 => bf16_to_f16(level, words, out),
        Narrow::F16 => f16_to_bf16(level, words, out),
    }
}

for_every_level! {
fn bf16_to_f16(words: &[u8], out: &mut [u8]) {
    let pairs = out.as_chunks_mut().0.iter_mut().zip(words.as_chunks().0);
    pairs.for_each(|(o, w)| *o = f16_of_f32(u32::from_le_bytes(f32_of_bf16(*w))).to_le_bytes());
}
}

for_every_level! {
fn f16_to_bf16(words: &[u8], out: &mut [u8]) {
    let pairs = out.as_chunks_mut().0.iter_mut().zip(words.as_chunks().0);
    pairs.for_each(|(o, w)| *o = bf16_of_f32(u32::from_le_bytes(f32_of_f16(*w))).to_le_bytes());
}
}

/// Bits of the nearest `f16`, ties to even.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    f16_of_f32(x.to_bits())
}

/// Bits of the nearest `bf16`, ties to even.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    bf16_of_f32(x.to_bits())
}

/// The number that an `f16` is.
#[inline(always)]
pub fn f16_to_f32(x: [u8; 2]) -> f32 {
    f32::from_le_bytes(f32_of_f16(x))
}

fn check(narrow: &[u8], wide: &[u8]) {
    assert!(2 * narrow.len() == wide.len() && wide.len().is_multiple_of(4));
}

#[inline(always)]
fn convert(wide: &[u8], narrow: &mut [u8], one: impl Fn(u32) -> u16) {
    for (n, w) in narrow.as_chunks_mut().0.iter_mut().zip(wide.as_chunks().0) {
        *n = one(u32::from_le_bytes(*w)).to_le_bytes();
    }
}

#[inline(always)]
fn bf16_of_f32(x: u32) -> u16 {
    let rounded = x.wrapping_add(0x7fff + (x >> 16 & 1));
    // Rounding a NaN could carry into an infinity: the top mantissa bit keeps it one.
    let nan = x & 0x7fff_ffff > 0x7f80_0000;
    (if nan { x | 0x0040_0000 } else { rounded } >> 16) as u16
}

#[inline(always)]
fn f32_of_bf16(x: [u8; 2]) -> [u8; 4] {
    [0, 0, x[0], x[1]]
}

#[inline(always)]
fn f16_of_f32(x: u32) -> u16 {
    let sign = x >> 16 & 0x8000;
    let a = x & 0x7fff_ffff;
    let normal = (a.wrapping_sub(0x3800_0000)).wrapping_add(0xfff + (a >> 13 & 1)) >> 13;
    // Below 2^-14 the unit is 2^-24 whatever the exponent.
    let shift = (126u32.wrapping_sub(a >> 23)).clamp(1, 31);
    let m = a & 0x007f_ffff | 0x0080_0000;
    let kept = m >> shift;
    let rest = m & ((1 << shift) - 1);
    let half = 1 << (shift - 1);
    let subnormal = kept + u32::from(rest > half || (rest == half && kept & 1 == 1));
    let magnitude = if a > 0x7f80_0000 {
        0x7e00 | a >> 13 & 0x3ff
    } else if a >= 0x477f_f000 {
        0x7c00
    } else if a >= 0x3880_0000 {
        normal
    } else {
        subnormal
    };
    (sign | magnitude) as u16
}

#[inline(always)]
fn f32_of_f16(x: [u8; 2]) -> [u8; 4] {
    let x = u32::from(u16::from_le_bytes(x));
    let (sign, e, m) = (x >> 15 << 31, x >> 10 & 0x1f, x & 0x3ff);
    let magnitude = match e {
        // Shifted until the leading one stands in the exponent's place.
        0 if m == 0 => 0,
        0 => {
            let up = m.leading_zeros() - 21;
            ((113 - up) << 23) | (m << up & 0x3ff) << 13
        }
        0x1f => 0x7f80_0000 | m << 13,
        _ => (e + 112) << 23 | m << 13,
    };
    (sign | magnitude).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interesting() -> Vec<u8> {
        let mut words: Vec<u32> = Vec::new();
        for e in 0..=255u32 {
            for m in
                [0, 1, 0xfff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0x2000, 0x3000, 0x7f_ffff]
            {
                words.push(e << 23 | m);
                words.push(1 << 31 | e << 23 | m | 0x18000);
            }
        }
        words.extend((0..100_000u32).map(|i| i.wrapping_mul(0x9E37_79B1)));
        words.iter().flat_map(|w| w.to_le_bytes()).collect()
    }

    #[test]
    fn rounding_equals_the_usual_one_for_every_level() {
        let wide = interesting();
        for level in Level::available() {
            for to in [Narrow::Bf16, Narrow::F16] {
                let mut narrow = vec![0; wide.len() / 2];
                round(level, to, &wide, &mut narrow);
                for (n, w) in narrow.as_chunks::<2>().0.iter().zip(wide.as_chunks::<4>().0) {
                    let x = f32::from_le_bytes(*w);
                    let want = match to {
                        Narrow::Bf16 => half::bf16::from_f32(x).to_bits(),
                        Narrow::F16 => half::f16::from_f32(x).to_bits(),
                    };
                    assert_eq!(u16::from_le_bytes(*n), want, "{level:?} {to:?} {:x}", x.to_bits());
                }
            }
        }
    }

    #[test]
    fn widening_every_word_is_exact_and_rounds_back() {
        let narrow: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for from in [Narrow::Bf16, Narrow::F16] {
            let mut wide = vec![0; 2 * narrow.len()];
            widen(Level::best(), from, &narrow, &mut wide);
            for (n, w) in narrow.as_chunks::<2>().0.iter().zip(wide.as_chunks::<4>().0) {
                let (n, x) = (u16::from_le_bytes(*n), f32::from_le_bytes(*w));
                let want = match from {
                    Narrow::Bf16 => half::bf16::from_bits(n).to_f32(),
                    Narrow::F16 => half::f16::from_bits(n).to_f32(),
                };
                assert!(x == want || x.is_nan() && want.is_nan(), "{from:?} {n:x}");
            }
        }
    }
}
