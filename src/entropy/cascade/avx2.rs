//! AVX2 variant: 32 symbols a step; the scalar code ends it.
//!
//! ```text
//! encode   comparisons give the two bits of all digits as masks; `pdep` interleaves them; `pext`
//!          closes up the escapes of eight symbols at a time
//! decode   bytes of four digits are spread and looked up in the register; counts of the escapes
//!          before each place make the shuffle that brings them there, 16 places at a time
//! ```
mod words;

use super::{PAD, scalar};
use crate::simd::avx2::{load, load_half, store};
use std::arch::x86_64::*;
pub(super) use words::{decode_bf16, encode_bf16};

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn encode(
    common: [u8; 3],
    symbols: &[u8],
    digits: &mut [u8],
    escapes: &mut [u8],
) -> usize {
    let values = common.map(|c| _mm256_set1_epi8(c as i8));
    let (groups, tail) = symbols.as_chunks::<32>();
    let (digit_groups, digits_tail) = digits.split_at_mut(8 * groups.len());
    let mut n = 0;
    for (group, digits) in groups.iter().zip(digit_groups.as_chunks_mut().0) {
        let (made, k) = encode_32(values, load(group), &mut escapes[n..]);
        *digits = made;
        n += k;
    }
    n + scalar::encode(common, tail, digits_tail, &mut escapes[n..])
}

/// Digits of 32 symbols, and how many escapes it wrote.
#[inline]
#[target_feature(enable = "avx2,bmi2,popcnt")]
fn encode_32(common: [__m256i; 3], symbols: __m256i, escapes: &mut [u8]) -> ([u8; 8], usize) {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let [is_0, is_1, is_2] = common.map(|c| _mm256_cmpeq_epi8(symbols, c));
    let is_0_or_1 = _mm256_or_si256(is_0, is_1);
    let low = !_mm256_movemask_epi8(_mm256_or_si256(is_0, is_2)) as u32;
    let high = !_mm256_movemask_epi8(is_0_or_1) as u32;
    let digits = _pdep_u64(low.into(), EVEN) | _pdep_u64(high.into(), !EVEN);

    let common = _mm256_or_si256(is_0_or_1, is_2);
    let escaped = _mm256_andnot_si256(common, _mm256_set1_epi8(-1));
    // At most 24 come before the last eight, so that `% 32` changes nothing and saves checks.
    let escapes = &mut escapes[..PAD];
    let mut n = 0;
    for (eight, escaped) in quarters(symbols).into_iter().zip(quarters(escaped)) {
        let closed = _pext_u64(eight, escaped);
        escapes[n % 32..][..8].copy_from_slice(&closed.to_le_bytes());
        n += escaped.count_ones() as usize / 8;
    }
    (digits.to_le_bytes(), n)
}

#[inline]
#[target_feature(enable = "avx2")]
fn quarters(v: __m256i) -> [u64; 4] {
    [
        _mm256_extract_epi64::<0>(v) as u64,
        _mm256_extract_epi64::<1>(v) as u64,
        _mm256_extract_epi64::<2>(v) as u64,
        _mm256_extract_epi64::<3>(v) as u64,
    ]
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn decode(
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    symbols: &mut [u8],
) -> Option<usize> {
    let table = table(common);
    let (groups, tail) = symbols.as_chunks_mut::<32>();
    let (digit_groups, digits_tail) = digits.split_at(8 * groups.len());
    let mut n = 0;
    for (group, digits) in groups.iter_mut().zip(digit_groups.as_chunks().0) {
        let (symbols, k) = decode_32(table, digits, escapes.get(n..)?.first_chunk()?);
        store(group, symbols);
        n += k;
    }
    // If the last step took more than there are, too few are left for the scalar code as well.
    let escapes = escapes.get(n..).filter(|e| e.len() >= PAD)?;
    Some(n + scalar::decode(common, digits_tail, escapes, tail)?)
}

/// Symbol of a digit in bits 0 and 1 of an index (even places) or in bits 2 and 3 (odd places);
/// 0 for an escape.
#[inline]
#[target_feature(enable = "avx2")]
fn table([a, b, c]: [u8; 3]) -> __m256i {
    let [a, b, c] = [a, b, c].map(|c| c as i8);
    let lane = _mm_setr_epi8(a, b, c, 0, b, 0, 0, 0, c, 0, 0, 0, 0, 0, 0, 0);
    _mm256_broadcastsi128_si256(lane)
}

/// Symbols of 32 digits, and how many escapes they took.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn decode_32(table: __m256i, digits: &[u8; 8], escapes: &[u8; PAD]) -> (__m256i, usize) {
    // Each byte of four digits to four bytes, its upper half moved down for the last two.
    let four_times = _mm256_setr_epi8(
        0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7,
        7, 7,
    );
    let v = _mm256_set1_epi64x(i64::from_le_bytes(*digits));
    let v = _mm256_shuffle_epi8(v, four_times);
    let upper = _mm256_srli_epi16::<4>(v);
    let v = _mm256_blendv_epi8(v, upper, _mm256_set1_epi32(0x8080_0000_u32 as i32));
    // Even places keep bits 0 and 1, odd ones 2 and 3; all of them set is an escape.
    let mine = _mm256_set1_epi32(0x0C03_0C03);
    let index = _mm256_and_si256(v, mine);
    let symbols = _mm256_shuffle_epi8(table, index);
    let common = _mm256_cmpgt_epi8(mine, index);

    // The negative count of common symbols up to each place of a lane: within eight places by
    // shifts, then the count of the lower eight is added to the upper eight.
    let count = _mm256_add_epi8(common, _mm256_slli_epi64::<8>(common));
    let count = _mm256_add_epi8(count, _mm256_slli_epi64::<16>(count));
    let count = _mm256_add_epi8(count, _mm256_slli_epi64::<32>(count));
    let lower = _mm256_set_epi64x(SEVENTH, ZERO, SEVENTH, ZERO);
    let count = _mm256_add_epi8(count, _mm256_shuffle_epi8(count, lower));
    // Together with its place that is which of the escapes an escape is; common symbols get a set
    // top bit, which makes the shuffle leave a zero.
    let places = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
    ));
    let places = _mm256_or_si256(_mm256_add_epi8(count, places), common);

    let mask = !_mm256_movemask_epi8(common) as u32;
    let n_first = (mask as u16).count_ones() as usize;
    let from = _mm256_set_m128i(load_half(&escapes[n_first..]), load_half(escapes));
    let expanded = _mm256_shuffle_epi8(from, places);
    (_mm256_or_si256(symbols, expanded), mask.count_ones() as usize)
}

/// Indices of a shuffle: eight times byte 7, and eight zeros.
const SEVENTH: i64 = 0x0707_0707_0707_0707;
const ZERO: i64 = 0x8080_8080_8080_8080_u64 as i64;
