//! 64 lanes in eight registers of eight.
//!
//! Deviations from the scalar code, all invisible in the result:
//! - Words are packed and spread by a byte shuffle that a table gives for each set of lanes. The
//!   encoder packs them to the top of a vector and stores it so that it ends where the stream
//!   starts; what that spoils lies below the stream and is written later.
//! - An encoder entry is fetched by one 64-bit gather, even and odd lanes separately, just as the
//!   widening multiplication wants its factors.
//! - A decoder near the end of the words works on a padded copy of the rest.

use std::arch::x86_64::*;

use super::{
    LOW,
    decode::Source,
    encode::Input,
    table::{ABSENT, BIAS_AT, BIAS_MASK, INC},
};

use crate::simd::Ahead;

/// Bytes a group of 64 symbols may consume, and the furthest its vector loads reach.
const REACH: usize = 128;

/// For each set of lanes, the shuffle that moves their words, in order, to the top.
const PACK: [[u8; 16]; 256] = {
    let mut table = [[0x80; 16]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut to, mut lane) = (16, 8);
        while lane > 0 {
            lane -= 1;
            if set >> lane & 1 == 1 {
                to -= 2;
                table[set][to] = 2 * lane as u8;
                table[set][to + 1] = 2 * lane as u8 + 1;
            }
        }
        set += 1;
    }
    table
};

/// For each set of lanes, the shuffle that spreads the lowest words to them; zero elsewhere.
const SPREAD: [[u8; 16]; 256] = {
    let mut table = [[0x80; 16]; 256];
    let mut set = 0;
    while set < 256 {
        let (mut from, mut lane) = (0, 0);
        while lane < 8 {
            if set >> lane & 1 == 1 {
                table[set][2 * lane] = from;
                table[set][2 * lane + 1] = from + 1;
                from += 2;
            }
            lane += 1;
        }
        set += 1;
    }
    table
};

/// See [`super::scalar::encode`]. The number of symbols is a multiple of 64.
///
/// # Safety
/// Every context is below the number of tables; without contexts, there is a table.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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

/// # Safety
/// As for [`encode`].
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn encode_groups<const CTX: bool, const ANY_INC: bool>(
    input: Input,
    states: &mut [u32; 64],
    out: &mut [u8],
    mut end: usize,
    mut ahead: Ahead,
) -> Option<usize> {
    let (eights, _) = input.symbols.as_chunks::<8>();
    assert!(input.symbols.len().is_multiple_of(64));
    assert!(!CTX || input.contexts.len() == input.symbols.len());
    assert!(end <= out.len() && end >= 2 * input.symbols.len() + 16);
    let entries = input.tables;
    let mut x = load_states(states);
    // Symbol of lane 2e in dword e, of lane 2e + 1 in dword e.
    let even_bytes = _mm_setr_epi8(0, -1, -1, -1, 2, -1, -1, -1, 4, -1, -1, -1, 6, -1, -1, -1);
    let odd_bytes = _mm_setr_epi8(1, -1, -1, -1, 3, -1, -1, -1, 5, -1, -1, -1, 7, -1, -1, -1);
    let top12 = _mm256_set1_epi32(0xfff0_0000_u32 as i32);
    let low5 = _mm256_set1_epi32(31);
    let bias_mask = _mm256_set1_epi32(BIAS_MASK as i32);
    let scale = _mm256_set1_epi32(4096);
    let inc_bit = _mm256_set1_epi32(INC as i32);
    let mut all = _mm256_setzero_si256();

    for g in (0..eights.len() / 8).rev() {
        ahead.fetch();
        for z in (0..8).rev() {
            // SAFETY: the array has 8 bytes.
            let symbols = unsafe { _mm_loadl_epi64(eights[8 * g + z].as_ptr().cast()) };
            let mut even = _mm_shuffle_epi8(symbols, even_bytes);
            let mut odd = _mm_shuffle_epi8(symbols, odd_bytes);
            if CTX {
                let contexts = &input.contexts[64 * g + 8 * z..64 * g + 8 * z + 8];
                // SAFETY: the slice has 8 bytes.
                let contexts = unsafe { _mm_loadl_epi64(contexts.as_ptr().cast()) };
                even =
                    _mm_or_si128(even, _mm_slli_epi32::<8>(_mm_shuffle_epi8(contexts, even_bytes)));
                odd = _mm_or_si128(odd, _mm_slli_epi32::<8>(_mm_shuffle_epi8(contexts, odd_bytes)));
            }
            // SAFETY: an index is below 256, plus 256 times a context; contexts are below the
            // number of tables, which `check_contexts` established.
            let (even, odd) = unsafe {
                (
                    _mm256_i32gather_epi64::<8>(entries.as_ptr().cast(), even),
                    _mm256_i32gather_epi64::<8>(entries.as_ptr().cast(), odd),
                )
            };
            let pack = _mm256_blend_epi32::<0xaa>(_mm256_srli_epi64::<32>(even), odd);
            all = _mm256_or_si256(all, pack);

            let full =
                _mm256_cmpeq_epi32(_mm256_max_epu32(x[z], _mm256_and_si256(pack, top12)), x[z]);
            let set = _mm256_movemask_ps(_mm256_castsi256_ps(full)) as u8;
            let low = _mm256_blend_epi16::<0xaa>(x[z], _mm256_setzero_si256());
            let low =
                _mm_packus_epi32(_mm256_castsi256_si128(low), _mm256_extracti128_si256::<1>(low));
            // SAFETY: the array has 16 bytes. 16 bytes and two bytes for each symbol left lie
            // below `end`, as asserted.
            unsafe {
                let shuffle = _mm_loadu_si128(PACK[usize::from(set)].as_ptr().cast());
                let at = out.as_mut_ptr().add(end - 16);
                _mm_storeu_si128(at.cast(), _mm_shuffle_epi8(low, shuffle));
            }
            end -= 2 * set.count_ones() as usize;
            let y = _mm256_srlv_epi32(x[z], _mm256_slli_epi32::<4>(_mm256_srli_epi32::<31>(full)));

            let mut dividend = y;
            if ANY_INC {
                let inc = _mm256_cmpeq_epi32(_mm256_and_si256(pack, inc_bit), inc_bit);
                dividend = _mm256_sub_epi32(y, inc);
            }
            let even = _mm256_mul_epu32(dividend, even);
            let odd = _mm256_mul_epu32(_mm256_srli_epi64::<32>(dividend), odd);
            let high = _mm256_blend_epi32::<0xaa>(_mm256_srli_epi64::<32>(even), odd);
            let shift = _mm256_and_si256(pack, low5);
            let quotient = _mm256_srlv_epi32(high, shift);
            let step = _mm256_sub_epi32(scale, _mm256_srli_epi32::<20>(pack));
            let bias = _mm256_and_si256(_mm256_srli_epi32::<{ BIAS_AT as i32 }>(pack), bias_mask);
            let y = _mm256_add_epi32(y, bias);
            x[z] = _mm256_add_epi32(y, _mm256_mullo_epi32(quotient, step));
        }
    }
    store_states(x, states);
    (_mm256_testz_si256(all, _mm256_set1_epi32(ABSENT as i32)) == 1).then_some(end)
}

/// See [`super::scalar::decode`]. The number of symbols is a multiple of 64.
///
/// # Safety
/// Every context is below the number of tables; without contexts, there is a table.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
unsafe fn decode_far<const CTX: bool>(
    source: Source,
    states: &mut [u32; 64],
    words: &[u8],
    groups: &mut [[u8; 64]],
) -> (usize, usize) {
    assert!(!CTX || source.contexts.len() >= 64 * groups.len());
    let entries = source.tables;
    let mut x = load_states(states);
    let low12 = _mm256_set1_epi32(4095);
    let low8 = _mm256_set1_epi32(255);
    // Four dwords of each register were packed in turn within either half.
    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    let mut used = 0;
    for (g, group) in groups.iter_mut().enumerate() {
        let Some(mut near) = words.get(used..).filter(|w| w.len() >= REACH) else {
            store_states(x, states);
            return (g, used);
        };
        let mut symbols = [_mm256_setzero_si256(); 8];
        for z in 0..8 {
            let mut index = _mm256_and_si256(x[z], low12);
            if CTX {
                let contexts = &source.contexts[64 * g + 8 * z..64 * g + 8 * z + 8];
                // SAFETY: the slice has 8 bytes.
                let contexts = unsafe { _mm_loadl_epi64(contexts.as_ptr().cast()) };
                let contexts = _mm256_cvtepu8_epi32(contexts);
                index = _mm256_or_si256(index, _mm256_slli_epi32::<12>(contexts));
            }
            // SAFETY: an index is below 4096, plus 4096 times a context; contexts are below the
            // number of tables, which `check_contexts` established.
            let entry = unsafe { _mm256_i32gather_epi32::<4>(entries.as_ptr().cast(), index) };
            symbols[z] = _mm256_and_si256(entry, low8);
            let product =
                _mm256_mullo_epi32(_mm256_srli_epi32::<12>(x[z]), _mm256_srli_epi32::<20>(entry));
            let bias = _mm256_and_si256(_mm256_srli_epi32::<8>(entry), low12);
            let y = _mm256_add_epi32(product, bias);

            const { assert!(LOW == 1 << 16) };
            let short = _mm256_cmpeq_epi32(_mm256_srli_epi32::<16>(y), _mm256_setzero_si256());
            let set = _mm256_movemask_ps(_mm256_castsi256_ps(short)) as u8;
            // SAFETY: of the `REACH` bytes, at most 112 were skipped by the registers before; the
            // array has 16 bytes.
            let (next, shuffle) = unsafe {
                let shuffle = SPREAD[usize::from(set)].as_ptr();
                (_mm_loadu_si128(near.as_ptr().cast()), _mm_loadu_si128(shuffle.cast()))
            };
            let next = _mm256_cvtepu16_epi32(_mm_shuffle_epi8(next, shuffle));
            let shift = _mm256_slli_epi32::<4>(_mm256_srli_epi32::<31>(short));
            x[z] = _mm256_or_si256(_mm256_sllv_epi32(y, shift), next);
            let taken = 2 * set.count_ones() as usize;
            used += taken;
            near = &near[taken..];
        }
        let (halves, _) = group.as_chunks_mut::<32>();
        for (half, quad) in halves.iter_mut().zip(symbols.as_chunks::<4>().0) {
            let low = _mm256_packus_epi32(quad[0], quad[1]);
            let high = _mm256_packus_epi32(quad[2], quad[3]);
            let bytes = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
            // SAFETY: the array has 32 bytes.
            unsafe { _mm256_storeu_si256(half.as_mut_ptr().cast(), bytes) };
        }
    }
    store_states(x, states);
    (groups.len(), used)
}

#[target_feature(enable = "avx2")]
fn load_states(states: &[u32; 64]) -> [__m256i; 8] {
    let (eighths, _) = states.as_chunks::<8>();
    let mut x = [_mm256_setzero_si256(); 8];
    for (x, eighth) in x.iter_mut().zip(eighths) {
        // SAFETY: the array has 32 bytes.
        *x = unsafe { _mm256_loadu_si256(eighth.as_ptr().cast()) };
    }
    x
}

#[target_feature(enable = "avx2")]
fn store_states(x: [__m256i; 8], states: &mut [u32; 64]) {
    let (eighths, _) = states.as_chunks_mut::<8>();
    for (eighth, x) in eighths.iter_mut().zip(x) {
        // SAFETY: the array has 32 bytes.
        unsafe { _mm256_storeu_si256(eighth.as_mut_ptr().cast(), x) };
    }
}
