//! Looks for new symbols, 64 at a time.
//!
//! A byte permutation takes its index modulo 64, so a bit map of 32 bytes that stands twice in a
//! register is indexed by the byte that shifting words leaves, neighbour's bits and all.

use std::arch::x86_64::*;

use super::{STRIDE, bit_map};

/// `new | (bit & !known)`.
const OR_AND_NOT: i32 = 0xf4;

/// See [`super::mark`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub fn mark(symbols: &[u8], counts: &mut [u32; 256]) {
    let bits = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    let mut map = load_map(counts);
    for stride in symbols.chunks(STRIDE) {
        let (vectors, rest) = stride.as_chunks::<64>();
        let mut new = _mm512_setzero_si512();
        for vector in vectors {
            // SAFETY: the array has 64 bytes.
            let symbols = unsafe { _mm512_loadu_si512(vector.as_ptr().cast()) };
            let known = _mm512_permutexvar_epi8(_mm512_srli_epi16::<3>(symbols), map);
            let bit = _mm512_permutexvar_epi8(symbols, bits);
            new = _mm512_ternarylogic_epi64::<OR_AND_NOT>(new, bit, known);
        }
        if _mm512_test_epi64_mask(new, new) != 0 {
            super::mark(stride, counts);
            map = load_map(counts);
        } else {
            super::mark(rest, counts);
        }
    }
}

/// See [`super::mark_contexts`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub fn mark_contexts(symbols: &[u8], contexts: &[u8], counts: &mut [[u32; 256]]) {
    let bits = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    let mut maps = [_mm512_setzero_si512(); 16];
    load_maps(counts, &mut maps);
    for (stride, stride_contexts) in symbols.chunks(STRIDE).zip(contexts.chunks(STRIDE)) {
        let (vectors, rest) = stride.as_chunks::<64>();
        let (context_vectors, context_rest) = stride_contexts.as_chunks::<64>();
        let mut new = _mm512_setzero_si512();
        for (vector, contexts) in vectors.iter().zip(context_vectors) {
            // SAFETY: each array has 64 bytes.
            let (symbols, contexts) = unsafe {
                let contexts = _mm512_loadu_si512(contexts.as_ptr().cast());
                (_mm512_loadu_si512(vector.as_ptr().cast()), contexts)
            };
            let row = _mm512_srli_epi16::<3>(symbols);
            let mut known = _mm512_setzero_si512();
            for (context, &map) in maps[..counts.len()].iter().enumerate() {
                let here = _mm512_cmpeq_epi8_mask(contexts, _mm512_set1_epi8(context as i8));
                known = _mm512_mask_permutexvar_epi8(known, here, row, map);
            }
            let bit = _mm512_permutexvar_epi8(symbols, bits);
            new = _mm512_ternarylogic_epi64::<OR_AND_NOT>(new, bit, known);
        }
        if _mm512_test_epi64_mask(new, new) != 0 {
            super::mark_contexts(stride, stride_contexts, counts);
            load_maps(counts, &mut maps);
        } else {
            super::mark_contexts(rest, context_rest, counts);
        }
    }
}

#[target_feature(enable = "avx512f")]
fn load_maps(counts: &[[u32; 256]], maps: &mut [__m512i; 16]) {
    for (map, counts) in maps.iter_mut().zip(counts) {
        *map = load_map(counts);
    }
}

/// The bit map, twice.
#[target_feature(enable = "avx512f")]
fn load_map(counts: &[u32; 256]) -> __m512i {
    let map = bit_map(counts);
    // SAFETY: the array has 32 bytes.
    _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(map.as_ptr().cast()) })
}
