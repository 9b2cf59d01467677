//! 64 lanes in four registers of 16.
//!
//! Deviations from the scalar code, all invisible in the result:
//! - The encoder holds the lanes of a register in descending order. `compress` then puts the word
//!   of the highest lane first, one word permutation moves it to the top of a vector, and a plain
//!   store that ends where the stream starts writes all words of the register; what it spoils lies
//!   below the stream and is written later.
//! - Encoder entries are fetched by scalar loads, two groups before they are used: even and odd
//!   elements separately, just as the widening multiplication wants its factors.
//! - A decoder near the end of the words works on a padded copy of the rest.

use std::arch::x86_64::*;

use super::{
    decode::Source,
    encode::Input,
    table::{ABSENT, BIAS_AT, BIAS_MASK, EncodeTable, INC},
};
use crate::simd::{self, Ahead};

/// Bytes that are fetched ahead.
const AHEAD: usize = 4 << 10;
/// Bytes a group of 64 symbols may consume, and the furthest its vector loads reach.
const REACH: usize = 128;

/// See [`super::scalar::encode`]. The number of symbols is a multiple of 64.
///
/// # Safety
/// Every context is below the number of tables; without contexts, there is a table.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub unsafe fn encode<const CTX: bool>(
    input: Input,
    states: &mut [u32; 64],
    out: &mut [u8],
    end: usize,
    ahead: Ahead,
) -> Option<usize> {
    // SAFETY: the caller sees to what they need.
    unsafe {
        match input.any_inc() {
            true => encode_groups::<CTX, true>(input, states, out, end, ahead),
            false => encode_groups::<CTX, false>(input, states, out, end, ahead),
        }
    }
}

/// Groups between fetching entries and using them.
const AHEAD_GROUPS: usize = 2;

/// Fetches the entries of a group: of each register's elements, those with even numbers first.
///
/// # Safety
/// As for [`encode`].
#[inline(always)]
unsafe fn fetch<const CTX: bool>(
    symbols: &[u8; 64],
    contexts: &[u8],
    tables: &[EncodeTable],
    entries: &mut [u64; 64],
) {
    for z in 0..4 {
        for e in 0..16 {
            let lane = 16 * z + 15 - e;
            let context = if CTX { usize::from(contexts[lane]) } else { 0 };
            // SAFETY: contexts are below the number of tables; without them, there is one.
            let table = unsafe { tables.get_unchecked(context) };
            let entry = table.entries[usize::from(symbols[lane])];
            let place = &mut entries[16 * z + e % 2 * 8 + e / 2];
            // SAFETY: a reference may be written through. `volatile` keeps stores from being
            // gathered in registers, whose ports are what is scarce here.
            unsafe { std::ptr::from_mut(place).write_volatile(entry) };
        }
    }
}

/// # Safety
/// As for [`encode`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
unsafe fn encode_groups<const CTX: bool, const ANY_INC: bool>(
    input: Input,
    states: &mut [u32; 64],
    out: &mut [u8],
    mut end: usize,
    mut ahead: Ahead,
) -> Option<usize> {
    let (groups, rest) = input.symbols.as_chunks::<64>();
    assert!(rest.is_empty() && (!CTX || input.contexts.len() == input.symbols.len()));
    assert!(end <= out.len() && end >= 2 * input.symbols.len() + 32);
    let reverse = _mm512_sub_epi32(_mm512_set1_epi32(15), iota());
    let mut x = load_states(states);
    for x in &mut x {
        *x = _mm512_permutexvar_epi32(reverse, *x);
    }
    // Word 15 - j of the result is the low word of element j.
    let stack =
        _mm512_sub_epi16(_mm512_set1_epi16(30), _mm512_add_epi16(words_iota(), words_iota()));
    let top12 = _mm512_set1_epi32(0xfff0_0000_u32 as i32);
    let bias_mask = _mm512_set1_epi32(BIAS_MASK as i32);
    let scale = _mm512_set1_epi32(4096);
    let one = _mm512_set1_epi32(1);
    let inc_bit = _mm512_set1_epi32(INC as i32);
    let zero = _mm512_setzero_si512();
    let mut all = zero;

    let mut ring = [[0; 64]; 4];
    let of_group = |g: usize| if CTX { &input.contexts[64 * g..64 * g + 64] } else { &[][..] };
    for g in groups.len().saturating_sub(AHEAD_GROUPS)..groups.len() {
        // SAFETY: the caller sees to what it needs.
        unsafe { fetch::<CTX>(&groups[g], of_group(g), input.tables, &mut ring[g % 4]) };
    }
    for g in (0..groups.len()).rev() {
        if let Some(g) = g.checked_sub(AHEAD_GROUPS) {
            // SAFETY: the caller sees to what it needs.
            unsafe { fetch::<CTX>(&groups[g], of_group(g), input.tables, &mut ring[g % 4]) };
        }
        ahead.fetch();
        let (eights, _) = ring[g % 4].as_chunks::<8>();
        for z in (0..4).rev() {
            // SAFETY: each array has 64 bytes.
            let [even, odd] =
                [0, 1].map(|i| unsafe { _mm512_loadu_si512(eights[2 * z + i].as_ptr().cast()) });
            let pack = _mm512_mask_shuffle_epi32::<0xf5>(odd, 0x5555, even);
            all = _mm512_or_si512(all, pack);

            let full = _mm512_cmpge_epu32_mask(x[z], _mm512_and_si512(pack, top12));
            let words = _mm512_permutexvar_epi16(stack, _mm512_maskz_compress_epi32(full, x[z]));
            // SAFETY: 32 bytes and two bytes for each symbol left lie below `end`, as asserted.
            unsafe {
                let at = out.as_mut_ptr().add(end - 32);
                _mm256_storeu_si256(at.cast(), _mm512_castsi512_si256(words));
            }
            end -= 2 * full.count_ones() as usize;
            let y = _mm512_mask_srli_epi32::<16>(x[z], full, x[z]);

            let mut dividend = y;
            if ANY_INC {
                let inc = _mm512_test_epi32_mask(pack, inc_bit);
                dividend = _mm512_mask_add_epi32(y, inc, y, one);
            }
            let even = _mm512_mul_epu32(dividend, even);
            let odd = _mm512_mul_epu32(_mm512_srli_epi64::<32>(dividend), odd);
            let high = _mm512_mask_shuffle_epi32::<0xf5>(odd, 0x5555, even);
            // Takes the count modulo 32, which is all that differs from a plain shift.
            let quotient = _mm512_shrdv_epi32(high, zero, pack);
            let step = _mm512_sub_epi32(scale, _mm512_srli_epi32::<20>(pack));
            let bias = _mm512_and_si512(_mm512_srli_epi32::<BIAS_AT>(pack), bias_mask);
            let y = _mm512_add_epi32(y, bias);
            x[z] = _mm512_add_epi32(y, _mm512_mullo_epi32(quotient, step));
        }
    }
    for x in &mut x {
        *x = _mm512_permutexvar_epi32(reverse, *x);
    }
    store_states(x, states);
    let absent = _mm512_test_epi32_mask(all, _mm512_set1_epi32(ABSENT as i32));
    (absent == 0).then_some(end)
}

/// See [`super::scalar::decode`]. The number of symbols is a multiple of 64.
///
/// # Safety
/// Every context is below the number of tables; without contexts, there is a table.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub unsafe fn decode<const CTX: bool>(
    source: Source,
    states: &mut [u32; 64],
    words: &mut &[u8],
    out: &mut [u8],
) -> bool {
    let (groups, rest) = out.as_chunks_mut::<64>();
    assert!(rest.is_empty());
    // SAFETY: the caller sees to what it needs.
    let (n, used) = unsafe { decode_far::<CTX>(source, states, words, groups) };
    *words = &words[used..];
    let groups = &mut groups[n..];
    if groups.is_empty() {
        return true;
    }
    // Fewer than `REACH` bytes are left: what follows them stands for words that do not exist.
    let mut padded = [0; 2 * REACH];
    padded[..words.len()].copy_from_slice(words);
    // SAFETY: as above.
    let (n, used) = unsafe { decode_far::<CTX>(source.skip(64 * n), states, &padded, groups) };
    let enough = used <= words.len();
    *words = &words[used.min(words.len())..];
    enough && n == groups.len()
}

/// Decodes groups while `REACH` bytes are left; how many groups, and how many bytes they took.
///
/// # Safety
/// As for [`decode`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
unsafe fn decode_far<const CTX: bool>(
    source: Source,
    states: &mut [u32; 64],
    words: &[u8],
    groups: &mut [[u8; 64]],
) -> (usize, usize) {
    assert!(!CTX || source.contexts.len() >= 64 * groups.len());
    let entries = source.tables;
    let mut x = load_states(states);
    let low12 = _mm512_set1_epi32(4095);
    let low = _mm512_set1_epi32(super::LOW as i32);
    // Word i in the upper half of dword i.
    let spread = _mm512_srli_epi16::<1>(words_iota());
    // Byte 0 of each dword in all four bytes.
    let copy = _mm512_set4_epi32(0x0c0c_0c0c, 0x0808_0808, 0x0404_0404, 0);
    // Byte 16 z + j is byte z of dword j.
    let gather_bytes = _mm512_add_epi8(
        _mm512_set4_epi32(0x3c38_3430, 0x2c28_2420, 0x1c18_1410, 0x0c08_0400),
        _mm512_inserti64x4::<1>(
            _mm512_inserti64x2::<1>(_mm512_setzero_si512(), _mm_set1_epi8(1)),
            _mm256_set_m128i(_mm_set1_epi8(3), _mm_set1_epi8(2)),
        ),
    );
    let mut used = 0;
    for (g, group) in groups.iter_mut().enumerate() {
        let Some(mut near) = words.get(used..).filter(|w| w.len() >= REACH) else {
            store_states(x, states);
            return (g, used);
        };
        simd::prefetch(words, used + AHEAD, 64);
        let mut symbols = _mm512_setzero_si512();
        let mut short = [0; 4];
        for z in 0..4 {
            let mut index = _mm512_and_si512(x[z], low12);
            if CTX {
                let contexts = &source.contexts[64 * g + 16 * z..64 * g + 16 * z + 16];
                // SAFETY: the slice has 16 bytes.
                let contexts = unsafe { _mm_loadu_si128(contexts.as_ptr().cast()) };
                let contexts = _mm512_cvtepu8_epi32(contexts);
                index = _mm512_or_si512(index, _mm512_slli_epi32::<12>(contexts));
            }
            // SAFETY: an index is below 4096, plus 4096 times a context; contexts are below the
            // number of tables, which `check_contexts` established.
            let entry = unsafe { _mm512_i32gather_epi32::<4>(index, entries.as_ptr().cast()) };
            symbols = match z {
                0 => entry,
                1 => _mm512_mask_shuffle_epi8(symbols, 0x2222_2222_2222_2222, entry, copy),
                2 => _mm512_mask_shuffle_epi8(symbols, 0x4444_4444_4444_4444, entry, copy),
                _ => _mm512_mask_shuffle_epi8(symbols, 0x8888_8888_8888_8888, entry, copy),
            };
            let product =
                _mm512_mullo_epi32(_mm512_srli_epi32::<12>(x[z]), _mm512_srli_epi32::<20>(entry));
            let bias = _mm512_and_si512(_mm512_srli_epi32::<8>(entry), low12);
            x[z] = _mm512_add_epi32(product, bias);
            short[z] = _mm512_cmplt_epu32_mask(x[z], low);
        }
        let symbols = _mm512_permutexvar_epi8(gather_bytes, symbols);
        // SAFETY: the array has 64 bytes.
        unsafe { _mm512_storeu_si512(group.as_mut_ptr().cast(), symbols) };
        for z in 0..4 {
            // SAFETY: of the `REACH` bytes, at most 96 were skipped by the registers before.
            let next = unsafe { _mm256_loadu_si256(near.as_ptr().cast()) };
            let next = _mm512_permutexvar_epi16(spread, _mm512_castsi256_si512(next));
            let next = _mm512_maskz_expand_epi32(short[z], next);
            x[z] = _mm512_mask_shldi_epi32::<16>(x[z], short[z], x[z], next);
            let taken = 2 * short[z].count_ones() as usize;
            used += taken;
            near = &near[taken..];
        }
    }
    store_states(x, states);
    (groups.len(), used)
}

/// 0, 1, … 15.
#[target_feature(enable = "avx512f")]
fn iota() -> __m512i {
    _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
}

/// 0, 1, … 31 in words.
#[target_feature(enable = "avx512f,avx512bw")]
fn words_iota() -> __m512i {
    let pairs = _mm512_slli_epi32::<1>(iota());
    _mm512_add_epi32(
        _mm512_mullo_epi32(pairs, _mm512_set1_epi32(0x1_0001)),
        _mm512_set1_epi32(0x1_0000),
    )
}

#[target_feature(enable = "avx512f")]
fn load_states(states: &[u32; 64]) -> [__m512i; 4] {
    let (quarters, _) = states.as_chunks::<16>();
    let mut x = [_mm512_setzero_si512(); 4];
    for (x, quarter) in x.iter_mut().zip(quarters) {
        // SAFETY: the array has 64 bytes.
        *x = unsafe { _mm512_loadu_si512(quarter.as_ptr().cast()) };
    }
    x
}

#[target_feature(enable = "avx512f")]
fn store_states(x: [__m512i; 4], states: &mut [u32; 64]) {
    let (quarters, _) = states.as_chunks_mut::<16>();
    for (quarter, x) in quarters.iter_mut().zip(x) {
        // SAFETY: the array has 64 bytes.
        unsafe { _mm512_storeu_si512(quarter.as_mut_ptr().cast(), x) };
    }
}
