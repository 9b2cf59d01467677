//! Words of eight bits, floats or integers, times a scale that is kept in a tensor of its own.
//!
//! ```text
//! a = the largest magnitude of a block      L = 448 (e4m3), 57344 (e5m2), 127 (integers)
//! formula 0    s = a / L             code(x / s)
//! formula 1    r = L / a             code(x · r)
//! formula 2    r = 1 / (a / L)       code(x · r)
//! formula 3    s = a · (1 / L)       code(x / s)
//! ```
//!
//! A trainer that computes in the source's own type rounds scales to it, or quotients and products
//! too. `code` is the nearest value, ties to even, of those up to ±L (integers: from −128).

use super::{Source, float, magnitude, nearest};
use crate::{
    predict::{cast, float_state},
    simd::{Level, for_every_level},
};

/// What words are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Floats with 4 exponent bits and no infinities.
    E4m3,
    /// Floats with 5 exponent bits.
    E5m2,
    /// Integers.
    I8,
}

/// Number of formulas.
pub const FORMULAS: u8 = 4;
/// Rounds scales to the source's type.
pub const ROUND_SCALE: u8 = 1;
/// Rounds quotients and products to the source's type.
pub const ROUND_RESULT: u8 = 2;

/// What shares a scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// So many rows and columns, the last of each what is left; all columns where it is 0.
    Block {
        /// Rows.
        rows: u32,
        /// Columns.
        columns: u32,
    },
    /// Everything: this is the number to divide by, or to multiply with.
    All(f32),
}

/// How words were made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scaled {
    /// Which formula.
    pub formula: u8,
    /// What is rounded to the source's type.
    pub rounds: u8,
    /// What shares a scale.
    pub share: Share,
}

impl Kind {
    fn most(self) -> f32 {
        match self {
            Kind::E4m3 => 448.0,
            Kind::E5m2 => 57344.0,
            Kind::I8 => 127.0,
        }
    }
}

impl Scaled {
    /// Whether words are multiplied.
    fn multiplies(&self) -> bool {
        matches!(self.formula, 1 | 2)
    }

    /// The number to divide by or to multiply with, of a block's largest magnitude. Where all are
    /// 0 it is 1, so that words are 0 too.
    pub fn factor(&self, kind: Kind, source: Source, largest: f32) -> f32 {
        if largest == 0.0 {
            return 1.0;
        }
        float_state::with_default(|| {
            let narrow = |x| if self.rounds & ROUND_SCALE != 0 { rounded(source, x) } else { x };
            let most = kind.most();
            match self.formula {
                0 => narrow(largest / most),
                1 => narrow(most / largest),
                2 => narrow(1.0 / narrow(largest / most)),
                _ => narrow(largest * (1.0 / most)),
            }
        })
    }

    /// Computes the words of rows of `row` values.
    pub fn words(
        &self,
        level: Level,
        kind: Kind,
        source: Source,
        row: usize,
        wide: &[u8],
        out: &mut [u8],
    ) {
        let result = if self.rounds & ROUND_RESULT != 0 { source } else { Source::F32 };
        let how = (kind, self.multiplies(), result);
        let (rows, columns) = match self.share {
            Share::All(factor) => {
                return float_state::with_default(|| words(level, how, factor, wide, out));
            }
            Share::Block { rows, columns } => (rows as usize, columns as usize),
        };
        let row = row.clamp(1, out.len().max(1));
        let columns = if columns == 0 { row } else { columns.min(row) };
        let rows = rows.clamp(1, out.len().div_ceil(row).max(1));
        let bands = wide.chunks(4 * rows * row).zip(out.chunks_mut(rows * row));
        for (wide, out) in bands {
            for from in (0..row).step_by(columns) {
                let to = row.min(from + columns);
                let cut = wide.chunks(4 * row);
                let part = |w: &mut dyn FnMut(&[u8])| {
                    cut.clone().filter_map(|r| r.get(4 * from..r.len().min(4 * to))).for_each(w);
                };
                let mut most = 0;
                part(&mut |w| most = most.max(largest(level, w)));
                let factor = self.factor(kind, source, f32::from_bits(most));
                let parts = wide.chunks(4 * row).zip(out.chunks_mut(row));
                float_state::with_default(|| {
                    for (wide, out) in parts {
                        let end = to.min(out.len());
                        if from < end {
                            let wide = &wide[4 * from..4 * end];
                            words(level, how, factor, wide, &mut out[from..end]);
                        }
                    }
                });
            }
        }
    }
}

for_every_level! {
/// The largest magnitude, as bits.
pub fn largest(wide: &[u8]) -> u32 {
    wide.as_chunks::<4>().0.iter().fold(0, |a, x| a.max(magnitude(float(x))))
}
}

/// A number rounded to a type.
#[inline(always)]
fn rounded(to: Source, x: f32) -> f32 {
    match to {
        Source::Bf16 => f32::from_bits(u32::from(cast::f32_to_bf16(x)) << 16),
        Source::F16 => cast::f16_to_f32(cast::f32_to_f16(x).to_le_bytes()),
        Source::F32 => x,
    }
}

for_every_level! {
fn words(how: (Kind, bool, Source), factor: f32, wide: &[u8], out: &mut [u8]) {
    match how {
        (Kind::E4m3, false, Source::F32) => each(wide, out, |x| e4m3(x / factor)),
        (Kind::E4m3, true, Source::F32) => each(wide, out, |x| e4m3(x * factor)),
        (Kind::I8, false, Source::F32) => each(wide, out, |x| i8_of(x / factor)),
        (Kind::I8, true, Source::F32) => each(wide, out, |x| i8_of(x * factor)),
        (kind, multiplies, to) => each(wide, out, |x| {
            let x = rounded(to, if multiplies { x * factor } else { x / factor });
            match kind {
                Kind::E4m3 => e4m3(x),
                Kind::E5m2 => e5m2(x),
                Kind::I8 => i8_of(x),
            }
        }),
    }
}
}

#[inline(always)]
fn each(wide: &[u8], out: &mut [u8], code: impl Fn(f32) -> u8) {
    for (x, out) in wide.as_chunks::<4>().0.iter().zip(out) {
        *out = code(float(x));
    }
}

#[inline(always)]
fn i8_of(x: f32) -> u8 {
    nearest(x, -128.0, 127.0) as u8
}

/// The nearest float of eight bits with 4 of exponent. Above the largest it is that one.
#[inline(always)]
fn e4m3(x: f32) -> u8 {
    eight_bits(x, 3, 0x7e)
}

/// The nearest float of eight bits with 5 of exponent. Above the largest it is that one.
#[inline(always)]
fn e5m2(x: f32) -> u8 {
    eight_bits(x, 2, 0x7b)
}

/// `mantissa` bits of mantissa, the largest number having the code `most`. Which NaN it is does not
/// tell, so all become 0.
#[inline(always)]
fn eight_bits(x: f32, mantissa: u32, most: u32) -> u8 {
    let (a, down) = (magnitude(x), 23 - mantissa);
    let bias = (1 << (6 - mantissa)) - 1;
    let odd = a >> down & 1;
    let normal = a.wrapping_sub((127 - bias) << 23).wrapping_add((1 << (down - 1)) - 1 + odd);
    // Below 2^(1−bias) numbers are multiples of the last bit of this one.
    let unit = f32::from_bits((127 + 24 - bias - mantissa) << 23);
    let subnormal = (f32::from_bits(a) + unit).to_bits().wrapping_sub(unit.to_bits());
    let code = if a < (128 - bias) << 23 { subnormal } else { (normal >> down).min(most) };
    let code = if a > 0x7f80_0000 { 0 } else { code };
    (code | x.to_bits() >> 31 << 7 & if a > 0x7f80_0000 { 0 } else { 0x80 }) as u8
}
