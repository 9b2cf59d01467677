//! Quantised tensors from the floats they were made of.
//!
//! A quantiser is a closed formula, and the file that it made holds nothing new. What kinds of it
//! there are:
//!
//! ```text
//! blocks   GGUF Q4_0 … Q8_0     a scale, often a minimum, for 32 values, and the values' codes
//! given    GGUF Q2_K … Q6_K     scales come from a search and are known; the codes follow
//! scaled   F8, I8               a scale for a block of rows and columns, kept elsewhere
//! ```
//!
//! Which operations a quantiser rounds, and in which order, decides some codes, so there are
//! several orders. "Fused" means that a product is not rounded before a sum is formed: both are
//! exact in 64 bits, rounded once to 64 and once to 32.

pub mod blocks;
pub mod given;
pub mod scaled;

use super::cast::{self, Narrow};
use crate::simd::Level;

/// Type of the floats that something was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// `bf16`.
    Bf16,
    /// `f16`.
    F16,
    /// `f32`.
    F32,
}

impl Source {
    /// Bytes of a word.
    pub fn word_len(self) -> usize {
        if self == Source::F32 { 4 } else { 2 }
    }

    /// The number that stands for it, and its inverse.
    pub const ALL: [Source; 3] = [Source::Bf16, Source::F16, Source::F32];
}

/// Where row `row` comes from: tensors of heads whose rows are rotated in pairs are stored with the
/// two halves of each head one after the other (`half` rows each), or interleaved.
///
/// ```text
/// row        2·half·h + 2·j + k     comes from row 2·half·h + half·k + j     k = 0, 1
/// ```
pub fn origin_of_row(row: usize, half: usize) -> usize {
    if half == 0 {
        return row;
    }
    let (head, at) = (row / (2 * half), row % (2 * half));
    2 * half * head + half * (at % 2) + at / 2
}

/// Makes 32-bit floats of the words of a source, whose rows have `row` words, in the order of the
/// rows that were made of them.
pub fn widen(
    level: Level,
    source: Source,
    words: &[u8],
    (row, half): (usize, usize),
    wide: &mut Vec<u8>,
) {
    let len = source.word_len();
    wide.resize(words.len() / len * 4, 0);
    let convert = |from: &[u8], to: &mut [u8]| match source {
        Source::Bf16 => cast::widen(level, Narrow::Bf16, from, to),
        Source::F16 => cast::widen(level, Narrow::F16, from, to),
        Source::F32 => to.copy_from_slice(from),
    };
    if half == 0 || row == 0 {
        return convert(words, wide);
    }
    for (i, to) in wide.chunks_exact_mut(4 * row).enumerate() {
        let from = origin_of_row(i, half) * len * row;
        if let Some(from) = words.get(from..from + len * row) {
            convert(from, to);
        }
    }
}

/// A float of 32 bits.
#[inline(always)]
fn float(bytes: &[u8; 4]) -> f32 {
    f32::from_le_bytes(*bytes)
}

/// What magnitudes are compared as: NaNs are above infinities.
#[inline(always)]
fn magnitude(x: f32) -> u32 {
    x.to_bits() & 0x7fff_ffff
}

/// Floats above 2^23 are integers, whose last bit stands for 1: a sum with this one is rounded, and
/// vectors of them need no conversion, which saturates one by one.
const MAGIC: f32 = 12_582_912.0;

/// The nearest integer between two small ones, ties to even; the lower one for a NaN.
#[inline(always)]
fn nearest(x: f32, least: f32, most: f32) -> i32 {
    let x = if x > least { x } else { least };
    let x = if x < most { x } else { most };
    (x + MAGIC).to_bits() as i32 - MAGIC.to_bits() as i32
}

/// The integer part of a number, limited to 0 to a small one; 0 for a NaN.
#[inline(always)]
fn whole(x: f32, most: f32) -> i32 {
    let x = if x > 0.0 { x } else { 0.0 };
    let x = if x < most { x } else { most };
    let near = x + MAGIC;
    near.to_bits() as i32 - MAGIC.to_bits() as i32 - i32::from(near - MAGIC > x)
}

/// In which of 32 parts of the way from one integer to the next a number lies, the number being
/// positive and not large. What it lies close to the end of may have been rounded up.
#[inline(always)]
fn part(x: f32) -> u8 {
    let x = if x > 0.0 && x < 1024.0 { x } else { 0.0 };
    whole((x - whole(x, 1024.0) as f32) * 32.0, 31.0) as u8
}

/// A product and a sum, of which only the sum is rounded.
#[inline(always)]
fn fused(a: f32, b: f32, c: f32) -> f32 {
    (f64::from(a) * f64::from(b) + f64::from(c)) as f32
}
