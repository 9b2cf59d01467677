//! Scales of rows and columns: how large the values in them are, in eighths of an octave.
//!
//! The scale of a row is the base-2 logarithm of the mean magnitude of its values that are not
//! zero, that of a column the same after each value was divided by its row's scale. All of it is
//! integer arithmetic on the fields of the words, so every machine finds the same scales.
//!
//! ```text
//! magnitude of a word    m · 2^(e − 15)      e = exponent field (1 for subnormals),
//!                                            m = mantissa with its leading one, 16 bits
//! ```

use crate::simd::{Level, for_every_level};

/// Where exponent and mantissa are in a head (sign lowest).
#[derive(Clone, Copy, Debug)]
pub struct HeadFields {
    /// Bits of mantissa in the head.
    pub mantissa: u32,
}

impl HeadFields {
    /// Exponent and 16-bit mantissa, which is 0 for zero.
    #[inline(always)]
    fn parts(self, head: u16) -> (u32, u32) {
        let magnitude = u32::from(head) >> 1;
        let exponent = magnitude >> self.mantissa;
        let fraction = magnitude & ((1 << self.mantissa) - 1);
        let leading = if exponent > 0 { 1 << self.mantissa } else { 0 };
        (exponent.max(1), (leading | fraction) << (15 - self.mantissa))
    }
}

/// Largest scale that can be stored, relative to the smallest of the chunk.
const MAX_SCALE: i32 = 255;
/// Columns' scales are stored with this added.
const COLUMN_BIAS: i32 = 64;

/// Scale of every row of `row` words, relative to the smallest, which is returned.
pub fn rows(
    level: Level,
    fields: HeadFields,
    heads: &[u16],
    row: usize,
    scales: &mut Vec<u8>,
) -> i32 {
    let absolute: Vec<Option<i32>> =
        heads.chunks(row).map(|words| row_scale(level, fields, words)).collect();
    let least = absolute.iter().flatten().copied().min().unwrap_or(0);
    scales.clear();
    scales.extend(absolute.iter().map(|s| (s.unwrap_or(least) - least).min(MAX_SCALE) as u8));
    least
}

/// Absolute scale of some words; `None` if all are zero.
pub fn row_scale(level: Level, fields: HeadFields, words: &[u16]) -> Option<i32> {
    let (top, sum, n) = sum_row(level, fields, words);
    (n > 0).then(|| 8 * top as i32 + log2_eighths((sum / n).max(1)) - 8 * 30)
}

for_every_level! {
/// The largest exponent of some words, their sum in units of it, and how many are not zero.
fn sum_row(fields: HeadFields, words: &[u16]) -> (u32, u64, u64) {
    let top = words.iter().fold(0, |most, w| most.max(w >> 1));
    let top = (u32::from(top) >> fields.mantissa).max(1);
    let (mut sum, mut n) = (0u64, 0u64);
    for words in words.chunks(1 << 10) {
        let mut some = 0u32;
        for &w in words {
            let (e, m) = fields.parts(w);
            sum += u64::from((m << 15) >> (top - e).min(31));
            some += u32::from(m != 0);
        }
        n += u64::from(some);
    }
    (top, sum, n)
}
}

/// Scale of every column, given what [`rows`] found.
pub fn columns(
    level: Level,
    fields: HeadFields,
    heads: &[u16],
    row: usize,
    least: i32,
    row_scales: &[u8],
    scales: &mut Vec<u8>,
) {
    let mut sums = vec![0u64; row];
    let mut counts = vec![0u32; row];
    for (words, &scale) in heads.chunks(row).zip(row_scales) {
        let scale = least + i32::from(scale);
        let (octave, eighth) = (scale.div_euclid(8), scale.rem_euclid(8) as usize);
        let inverse = INVERSE_EIGHTHS[eighth];
        add_columns(level, fields, words, octave, inverse, &mut sums, &mut counts);
    }
    scales.clear();
    scales.extend(sums.iter().zip(&counts).map(|(&sum, &n)| {
        if n == 0 {
            return COLUMN_BIAS as u8;
        }
        let log = log2_eighths((sum / u64::from(n)).max(1)) - 8 * 30;
        (log + COLUMN_BIAS).clamp(0, 2 * COLUMN_BIAS) as u8
    }));
    let least = scales.iter().copied().min().unwrap_or(0);
    scales.iter_mut().for_each(|s| *s -= least);
}

for_every_level! {
/// Adds a row's words to the sums of their columns.
fn add_columns(
    fields: HeadFields,
    words: &[u16],
    octave: i32,
    inverse: u64,
    sums: &mut [u64],
    counts: &mut [u32],
) {
    for ((&w, sum), n) in words.iter().zip(sums).zip(counts) {
        let (e, m) = fields.parts(w);
        let m = u64::from(m) * inverse;
        *sum += (m << 15) >> (octave + 16 - e as i32).clamp(0, 63) as u64;
        *n += u32::from(m != 0);
    }
}
}

/// 2^16 · 2^(−i/8).
const INVERSE_EIGHTHS: [u64; 8] = [65536, 60097, 55109, 50535, 46341, 42495, 38968, 35734];

/// 8 · log2(x), rounded down, for x > 0.
fn log2_eighths(x: u64) -> i32 {
    /// 2^(i/8) · 2^15, rounded up.
    const STEPS: [u64; 8] = [32768, 35734, 38968, 42495, 46341, 50535, 55109, 60097];
    let octave = x.ilog2();
    let top = if octave >= 15 { x >> (octave - 15) } else { x << (15 - octave) };
    8 * octave as i32 + STEPS.iter().filter(|&&s| s <= top).count() as i32 - 1
}

/// Scales of the rows of a chunk, of `row` words each, and maybe of its columns.
#[derive(Clone, Copy, Debug)]
pub struct Scales<'a> {
    pub rows: &'a [u8],
    pub columns: Option<&'a [u8]>,
    pub row: usize,
    /// Mantissa bits in a symbol.
    pub k: u32,
}

impl Scales<'_> {
    /// Shift and context of every word from `at` on: `t = min(row + column, limit)`,
    /// context `t mod 8`, shift `(t div 8) · 2^k` symbols.
    pub fn shifts_and_contexts(
        &self,
        level: Level,
        at: usize,
        mut shifts: &mut [u8],
        mut contexts: &mut [u8],
    ) {
        let limit = ((255u32 >> self.k) * 8 + 7) as u16;
        let mut column = at % self.row;
        for &r in &self.rows[at / self.row..] {
            let n = (self.row - column).min(shifts.len());
            let (row_shifts, row_contexts);
            (row_shifts, shifts) = shifts.split_at_mut(n);
            (row_contexts, contexts) = contexts.split_at_mut(n);
            match self.columns {
                None => {
                    let t = u16::from(r).min(limit);
                    row_shifts.fill(((t >> 3) << self.k) as u8);
                    row_contexts.fill((t & 7) as u8);
                }
                Some(columns) => {
                    let columns = &columns[column..column + n];
                    add_scales(level, r, columns, limit, self.k, row_shifts, row_contexts);
                }
            }
            if shifts.is_empty() {
                break;
            }
            column = 0;
        }
    }
}

for_every_level! {
fn add_scales(r: u8, columns: &[u8], limit: u16, k: u32, shifts: &mut [u8], contexts: &mut [u8]) {
    for ((shift, context), &c) in shifts.iter_mut().zip(contexts).zip(columns) {
        let t = (u16::from(r) + u16::from(c)).min(limit);
        *shift = ((t >> 3) << k) as u8;
        *context = (t & 7) as u8;
    }
}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(x: f32) -> u16 {
        ((x.to_bits() >> 16) as u16).rotate_left(1)
    }

    #[test]
    fn a_scale_is_eight_times_the_logarithm_of_the_mean_magnitude() {
        let fields = HeadFields { mantissa: 7 };
        for (value, log) in [(1.0f32, 0.0f64), (1.5, 0.585), (0.02, -5.644), (-3.0e-20, -64.853)] {
            let words = vec![head(value); 64];
            let want = (8.0 * (127.0 + log)).floor() as i32;
            let got = row_scale(Level::best(), fields, &words).unwrap();
            assert!((got - want).abs() <= 1, "{value}: {got} {want}");
        }
        assert_eq!(row_scale(Level::best(), fields, &[0, 1]), None);
    }

    #[test]
    fn columns_tell_apart_what_rows_do_not() {
        let fields = HeadFields { mantissa: 7 };
        let heads: Vec<u16> =
            (0..64 * 32).map(|i| head(if i % 32 < 16 { 1.0 } else { 4.0 })).collect();
        let (mut r, mut c) = (Vec::new(), Vec::new());
        let least = rows(Level::best(), fields, &heads, 32, &mut r);
        columns(Level::best(), fields, &heads, 32, least, &r, &mut c);
        assert!(r.iter().all(|&s| s == 0));
        assert!(c[..16].iter().all(|&s| s == 0) && c[16..].iter().all(|&s| s == 16), "{c:?}");
    }
}
