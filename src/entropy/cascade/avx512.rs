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
use super::PAD;
use crate::simd::avx512::{load, load_quarter, store, stream};
use std::arch::x86_64::*;

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

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn encode_bf16(
    common: [u8; 3],
    bytes: &[u8],
    rest: &mut [u8],
    digits: &mut [u8],
    escapes: &mut [u8],
) -> usize {
    let common = common.map(|c| _mm512_set1_epi8(c as i8));
    let (groups, tail) = bytes.as_chunks::<128>();
    let (digit_groups, digits_tail) = digits.split_at_mut(16 * groups.len());
    let (rest_groups, rest_tail) = rest.split_at_mut(64 * groups.len());
    let mut n = 0;
    let outputs =
        digit_groups.as_chunks_mut().0.iter_mut().zip(rest_groups.as_chunks_mut::<64>().0);
    for (group, (digits, rest)) in groups.iter().zip(outputs) {
        let (symbols, low) = split(group);
        store(rest, low);
        let (made, k) = encode_64(common, symbols, u64::MAX, &mut escapes[n..]);
        *digits = made;
        n += k;
    }
    if !tail.is_empty() {
        let (mut group, mut low_bytes) = ([0; 128], [0; 64]);
        group[..tail.len()].copy_from_slice(tail);
        let (symbols, low) = split(&group);
        store(&mut low_bytes, low);
        rest_tail.copy_from_slice(&low_bytes[..rest_tail.len()]);
        let valid = (1 << rest_tail.len()) - 1;
        let (made, k) = encode_64(common, symbols, valid, &mut escapes[n..]);
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

/// Exponents, and signs and mantissas, of 64 bf16 words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
fn split(words: &[u8; 128]) -> (__m512i, __m512i) {
    let rotated = [0, 64].map(|at| {
        let v = load(&words[at..]);
        _mm512_shldi_epi16::<1>(v, v)
    });
    let [a, b] = rotated;
    let low = _mm512_set1_epi16(0xFF);
    // Packs work within 128-bit lanes; this puts their halves in order.
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    let symbols = _mm512_packus_epi16(_mm512_srli_epi16::<8>(a), _mm512_srli_epi16::<8>(b));
    let rest = _mm512_packus_epi16(_mm512_and_si512(a, low), _mm512_and_si512(b, low));
    (_mm512_permutexvar_epi64(order, symbols), _mm512_permutexvar_epi64(order, rest))
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

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn decode_bf16(
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    rest: &[u8],
    bytes: &mut [u8],
    non_temporal: bool,
) -> Option<usize> {
    // Streaming stores must be aligned: the words before the first such place go ahead, if they
    // are whole bytes of digits.
    let ahead = bytes.as_ptr().addr().wrapping_neg() % 64;
    if !non_temporal || !ahead.is_multiple_of(8) || bytes.len() < ahead {
        return decode_words::<false>(common, digits, escapes, rest, bytes);
    }
    let (first, bytes) = bytes.split_at_mut(ahead);
    let (first_digits, digits) = digits.split_at(ahead / 8);
    let (first_rest, rest) = rest.split_at(ahead / 2);
    let n = decode_words::<false>(common, first_digits, escapes, first_rest, first)?;
    let taken = decode_words::<true>(common, digits, escapes.get(n..)?, rest, bytes);
    _mm_sfence();
    Some(n + taken?)
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn decode_words<const NON_TEMPORAL: bool>(
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    rest: &[u8],
    bytes: &mut [u8],
) -> Option<usize> {
    let table = Table::new(common);
    let (groups, tail) = bytes.as_chunks_mut::<128>();
    let (digit_groups, digits_tail) = digits.split_at(16 * groups.len());
    let (rest_groups, rest_tail) = rest.split_at(64 * groups.len());
    let mut n = 0;
    let inputs = digit_groups.as_chunks().0.iter().zip(rest_groups.as_chunks::<64>().0);
    for (group, (digits, rest)) in groups.iter_mut().zip(inputs) {
        let (symbols, k) = table.decode_64(digits, u64::MAX, escapes.get(n..n + PAD)?);
        let [a, b] = join(symbols, load(rest));
        if NON_TEMPORAL {
            stream(&mut group[..64], a);
            stream(&mut group[64..], b);
        } else {
            store(&mut group[..64], a);
            store(&mut group[64..], b);
        }
        n += k;
    }
    if !tail.is_empty() {
        let (mut group, mut digits, mut rest) = ([0; 128], [0; 16], [0; 64]);
        digits[..digits_tail.len()].copy_from_slice(digits_tail);
        rest[..rest_tail.len()].copy_from_slice(rest_tail);
        let valid = (1 << rest_tail.len()) - 1;
        let (symbols, k) = table.decode_64(&digits, valid, escapes.get(n..n + PAD)?);
        let [a, b] = join(symbols, load(&rest));
        store(&mut group[..64], a);
        store(&mut group[64..], b);
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

/// Inverse of [`split`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
fn join(symbols: __m512i, rest: __m512i) -> [__m512i; 2] {
    let lo = _mm512_unpacklo_epi8(rest, symbols);
    let hi = _mm512_unpackhi_epi8(rest, symbols);
    let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    let second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    [first, second].map(|order| {
        let v = _mm512_permutex2var_epi64(lo, order, hi);
        _mm512_shrdi_epi16::<1>(v, v)
    })
}
