//! Encoding of 32 symbols at a time, and the decoder's tables by gathers.
//!
//! Each symbol's code word and length come out of registers (`code | len << 12` in a word, by
//! one two-register permutation where the symbols span at most 64 values, by four otherwise).
//! Neighbours are joined twice, in 32 and in 64 bits, so that what is appended to the stream is
//! four code words at once.

use std::arch::x86_64::*;

use super::{
    MAX_BITS,
    codebook::Codebook,
    scalar,
    table::{SIZE, Table},
};

/// As [`scalar::encode`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn encode(book: &Codebook, symbols: &[u8], out: &mut [u8], at: usize) -> usize {
    if book.last - book.first < 64 {
        encode_range::<1>(book, symbols, out, at)
    } else {
        encode_range::<4>(book, symbols, out, at)
    }
}

/// `QUARTERS` × 64 is how many values from the first symbol on are looked up.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
#[inline]
fn encode_range<const QUARTERS: usize>(
    book: &Codebook,
    symbols: &[u8],
    out: &mut [u8],
    mut at: usize,
) -> usize {
    let words: [u16; 256] = std::array::from_fn(|i| {
        let symbol = usize::from(book.first.wrapping_add(i as u8));
        book.codes[symbol] | u16::from(book.lens[symbol]) << 12
    });
    let halves: [__m512i; 8] = std::array::from_fn(|i| {
        // SAFETY: 32 words from 32 × i on are inside the 256.
        unsafe { _mm512_loadu_si512(words[32 * i..32 * i + 32].as_ptr().cast()) }
    });
    let first = _mm256_set1_epi8(book.first as i8);
    let low_code = _mm512_set1_epi32(0x7ff);
    let low_len = _mm512_set1_epi32(0xf);
    let low_half = _mm512_set1_epi64(0xffff_ffff);
    let (mut bits, mut n_bits) = (0u64, 0u32);
    let (groups, rest) = symbols.as_chunks::<32>();
    for group in groups {
        // SAFETY: a group is 32 bytes.
        let group = unsafe { _mm256_loadu_si256(group.as_ptr().cast()) };
        let index = _mm512_cvtepu8_epi16(_mm256_sub_epi8(group, first));
        let mut found = _mm512_permutex2var_epi16(halves[0], index, halves[1]);
        if QUARTERS == 4 {
            let second = _mm512_permutex2var_epi16(halves[2], index, halves[3]);
            let third = _mm512_permutex2var_epi16(halves[4], index, halves[5]);
            let fourth = _mm512_permutex2var_epi16(halves[6], index, halves[7]);
            let odd = _mm512_test_epi16_mask(index, _mm512_set1_epi16(0x40));
            let upper = _mm512_test_epi16_mask(index, _mm512_set1_epi16(0x80));
            found = _mm512_mask_blend_epi16(odd, found, second);
            let high = _mm512_mask_blend_epi16(odd, third, fourth);
            found = _mm512_mask_blend_epi16(upper, found, high);
        }
        let code_a = _mm512_and_si512(found, low_code);
        let len_a = _mm512_and_si512(_mm512_srli_epi32::<12>(found), low_len);
        let code_b = _mm512_and_si512(_mm512_srli_epi32::<16>(found), low_code);
        let len_b = _mm512_srli_epi32::<28>(found);
        let code = _mm512_or_si512(code_a, _mm512_sllv_epi32(code_b, len_a));
        let len = _mm512_add_epi32(len_a, len_b);
        let len_ab = _mm512_and_si512(len, low_half);
        let code_cd = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(code), len_ab);
        let code = _mm512_or_si512(_mm512_and_si512(code, low_half), code_cd);
        let len = _mm512_add_epi64(len_ab, _mm512_srli_epi64::<32>(len));
        // Mostly eight code words fit where four would: half the appends.
        let len_hi = _mm512_bsrli_epi128::<8>(len);
        let len_all = _mm512_add_epi64(len, len_hi);
        if _mm512_mask_cmpgt_epi64_mask(0x55, len_all, _mm512_set1_epi64(56)) == 0 {
            let code_hi = _mm512_sllv_epi64(_mm512_bsrli_epi128::<8>(code), len);
            let (codes, lens) = (words_of(_mm512_or_si512(code, code_hi)), words_of(len_all));
            for i in [0, 2, 4, 6] {
                bits |= codes[i] << n_bits;
                n_bits += lens[i] as u32;
                (bits, n_bits, at) = scalar::flush(bits, n_bits, out, at);
            }
            continue;
        }
        for (code, len) in words_of(code).into_iter().zip(words_of(len)) {
            bits |= code << n_bits;
            n_bits += len as u32;
            (bits, n_bits, at) = scalar::flush(bits, n_bits, out, at);
        }
    }
    for &symbol in rest {
        bits |= u64::from(book.codes[usize::from(symbol)]) << n_bits;
        n_bits += u32::from(book.lens[usize::from(symbol)]);
        (bits, n_bits, at) = scalar::flush(bits, n_bits, out, at);
    }
    scalar::finish(bits, n_bits, out, at)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn words_of(vector: __m512i) -> [u64; 8] {
    let mut words = [0; 8];
    // SAFETY: the array is 64 bytes.
    unsafe { _mm512_storeu_si512(words.as_mut_ptr().cast(), vector) };
    words
}

/// As [`Table::fill_multiple`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn fill_multiple(table: &mut Table) {
    let mut index = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    let eight = _mm512_set1_epi64(8);
    for i in (0..SIZE).step_by(8) {
        // SAFETY: eight entries from `i` on are inside the table.
        let a = unsafe { _mm512_loadu_si512(table.one[i..i + 8].as_ptr().cast()) };
        let b = gather(&table.one, rest_of(index, a));
        let pair = _mm512_mask_blend_epi64(fits(a, b), a, join(a, b));
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(table.two[i..i + 8].as_mut_ptr().cast(), pair) };
        index = _mm512_add_epi64(index, eight);
    }
    index = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
    for i in (0..SIZE).step_by(8) {
        // SAFETY: eight entries from `i` on are inside the table.
        let a = unsafe { _mm512_loadu_si512(table.two[i..i + 8].as_ptr().cast()) };
        let rest = rest_of(index, a);
        let (b, c) = (gather(&table.two, rest), gather(&table.one, rest));
        let mut all = _mm512_mask_blend_epi64(fits(a, c), a, join(a, c));
        all = _mm512_mask_blend_epi64(fits(a, b), all, join(a, b));
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(table.four[i..i + 8].as_mut_ptr().cast(), all) };
        index = _mm512_add_epi64(index, eight);
    }
}

/// The window that is left of `index` after the code words of `entry`.
#[target_feature(enable = "avx512f")]
#[inline]
fn rest_of(index: __m512i, entry: __m512i) -> __m512i {
    _mm512_srlv_epi64(index, _mm512_and_si512(entry, _mm512_set1_epi64(63)))
}

const _: () = assert!(SIZE.is_power_of_two());

/// The entries at these places, modulo their number.
#[target_feature(enable = "avx512f")]
#[inline]
fn gather(entries: &[u64; SIZE], index: __m512i) -> __m512i {
    let index = _mm512_and_si512(index, _mm512_set1_epi64(SIZE as i64 - 1));
    // SAFETY: every index is below the number of entries.
    unsafe { _mm512_i64gather_epi64::<8>(index, entries.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn fits(a: __m512i, b: __m512i) -> __mmask8 {
    let len = _mm512_set1_epi64(63);
    let sum = _mm512_add_epi64(_mm512_and_si512(a, len), _mm512_and_si512(b, len));
    _mm512_cmple_epi64_mask(sum, _mm512_set1_epi64(MAX_BITS as i64))
}

#[target_feature(enable = "avx512f")]
#[inline]
fn join(a: __m512i, b: __m512i) -> __m512i {
    let n = _mm512_and_si512(_mm512_srli_epi64::<8>(a), _mm512_set1_epi64(7));
    let shift = _mm512_add_epi64(_mm512_slli_epi64::<3>(n), _mm512_set1_epi64(32));
    let symbols = _mm512_sllv_epi64(_mm512_srli_epi64::<32>(b), shift);
    let counts = _mm512_and_si512(b, _mm512_set1_epi64(0xffff));
    _mm512_add_epi64(_mm512_add_epi64(a, counts), symbols)
}
