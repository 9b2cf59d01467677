//! AVX-512 variant: 64 symbols a step, the last ones by way of a buffer of 64.
//!
//! ```text
//! encode   three comparisons give the two bits of all digits as masks; `pdep` interleaves them;
//!          `vpcompressb` closes up the escapes
//! decode   `vpmultishiftqb` spreads the digits over bytes, `vpermb` looks them up, with a value
//!          that is none of the three for an escape; `vpexpandb` puts the escapes there
//! ```
//!
//! Escapes are stored and loaded 64 at a time, of which the step's own come first: hence the room
//! behind them. The register forms of compress and expand with plain stores and loads are faster
//! than those on memory.
mod words;

use super::PAD;
use crate::simd::avx512::{load, load_quarter, store};
use std::arch::x86_64::*;
pub(super) use words::{decode_bf16, encode_bf16};

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn encode(
    common: [u8; 3],
    symbols: &[u8],
    digits: &mut [u8],
    escapes: &mut [u8],
) -> usize {
    let common = common.map(|c| _mm512_set1_epi8(c as i8));
    let (groups, tail) = symbols.as_chunks::<64>();
    let (digit_groups, digits_tail) = digits.split_at_mut(16 * groups.len());
    let mut n = 0;
    for (group, digits) in groups.iter().zip(digit_groups.as_chunks_mut().0) {
        let (made, k) = encode_64(common, load(group), u64::MAX, &mut escapes[n..]);
        *digits = made;
        n += k;
    }
    if !tail.is_empty() {
        let mut group = [0; 64];
        group[..tail.len()].copy_from_slice(tail);
        let valid = (1 << tail.len()) - 1;
        let (made, k) = encode_64(common, load(&group), valid, &mut escapes[n..]);
        digits_tail.copy_from_slice(&made[..digits_tail.len()]);
        n += k;
    }
    n
}

/// Digits of the valid ones of 64 symbols, and how many escapes it wrote.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2,popcnt")]
fn encode_64(
    common: [__m512i; 3],
    symbols: __m512i,
    valid: u64,
    escapes: &mut [u8],
) -> ([u8; 16], usize) {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let [is_0, is_1, is_2] = common.map(|c| _mm512_cmpeq_epi8_mask(symbols, c));
    let low = !(is_0 | is_2) & valid;
    let high = !(is_0 | is_1) & valid;
    let escaped = low & high;
    store(escapes, _mm512_maskz_compress_epi8(escaped, symbols));
    let word = |low: u64, high: u64| _pdep_u64(low, EVEN) | _pdep_u64(high, !EVEN);
    let digits = [word(low, high), word(low >> 32, high >> 32)];
    (bytemuck::cast(digits.map(u64::to_le_bytes)), escaped.count_ones() as usize)
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn decode(
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    symbols: &mut [u8],
) -> Option<usize> {
    let table = Table::new(common);
    let (groups, tail) = symbols.as_chunks_mut::<64>();
    let (digit_groups, digits_tail) = digits.split_at(16 * groups.len());
    let mut n = 0;
    for (group, digits) in groups.iter_mut().zip(digit_groups.as_chunks().0) {
        let (symbols, k) = table.decode_64(digits, u64::MAX, escapes.get(n..n + PAD)?);
        store(group, symbols);
        n += k;
    }
    if !tail.is_empty() {
        let (mut group, mut digits) = ([0; 64], [0; 16]);
        digits[..digits_tail.len()].copy_from_slice(digits_tail);
        let valid = (1 << tail.len()) - 1;
        let (symbols, k) = table.decode_64(&digits, valid, escapes.get(n..n + PAD)?);
        store(&mut group, symbols);
        tail.copy_from_slice(&group[..tail.len()]);
        n += k;
    }
    (n + PAD <= escapes.len()).then_some(n)
}

/// What digits stand for.
struct Table {
    symbols: __m512i,
    escape: __m512i,
}

impl Table {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new(common: [u8; 3]) -> Self {
        // Of four values, one is none of the three.
        let mut escape = 0;
        while common.contains(&escape) {
            escape += 1;
        }
        let [a, b, c] = common;
        // Bits above a digit belong to its neighbours, so the table repeats.
        let four = i32::from_le_bytes([a, b, c, escape]);
        Table { symbols: _mm512_set1_epi32(four), escape: _mm512_set1_epi8(escape as i8) }
    }

    /// Symbols of 64 digits, with escapes where they are valid, and how many those are.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi,avx512vbmi2,popcnt")]
    fn decode_64(&self, digits: &[u8; 16], valid: u64, escapes: &[u8]) -> (__m512i, usize) {
        let shifts = _mm512_set1_epi64(0x0E0C_0A08_0604_0200);
        let lanes = _mm512_cvtepu16_epi64(load_quarter(digits));
        let spread = _mm512_multishift_epi64_epi8(shifts, lanes);
        let symbols = _mm512_permutexvar_epi8(spread, self.symbols);
        let escaped = _mm512_cmpeq_epi8_mask(symbols, self.escape) & valid;
        let symbols = _mm512_mask_expand_epi8(symbols, escaped, load(escapes));
        (symbols, escaped.count_ones() as usize)
    }
}
