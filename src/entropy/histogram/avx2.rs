//! Looks for new symbols, 32 at a time.

use std::arch::x86_64::*;

use super::{STRIDE, bit_map};

/// See [`super::mark`].
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub fn mark(symbols: &[u8], counts: &mut [u32; 256]) {
    let row_mask = _mm256_set1_epi8(0x1f);
    let low3 = _mm256_set1_epi8(7);
    let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let mut map = load_map(counts);
    for stride in symbols.chunks(STRIDE) {
        let (vectors, rest) = stride.as_chunks::<32>();
        let mut new = _mm256_setzero_si256();
        for vector in vectors {
            // SAFETY: the array has 32 bytes.
            let symbols = unsafe { _mm256_loadu_si256(vector.as_ptr().cast()) };
            let row = _mm256_and_si256(_mm256_srli_epi16::<3>(symbols), row_mask);
            let (low, high) = (_mm256_shuffle_epi8(map[0], row), _mm256_shuffle_epi8(map[1], row));
            // Bit 7 of the symbol, which is bit 4 of the row, tells the half.
            let known = _mm256_blendv_epi8(low, high, symbols);
            let bit = _mm256_shuffle_epi8(bits, _mm256_and_si256(symbols, low3));
            new = _mm256_or_si256(new, _mm256_andnot_si256(known, bit));
        }
        if _mm256_testz_si256(new, new) == 0 {
            super::mark_scalar(stride, counts);
            map = load_map(counts);
        } else {
            super::mark_scalar(rest, counts);
        }
    }
}

/// See [`super::mark_contexts`].
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub fn mark_contexts(symbols: &[u8], contexts: &[u8], counts: &mut [[u32; 256]]) {
    let row_mask = _mm256_set1_epi8(0x1f);
    let low3 = _mm256_set1_epi8(7);
    let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let mut maps = [[_mm256_setzero_si256(); 2]; 16];
    load_maps(counts, &mut maps);
    for (stride, stride_contexts) in symbols.chunks(STRIDE).zip(contexts.chunks(STRIDE)) {
        let (vectors, rest) = stride.as_chunks::<32>();
        let (context_vectors, context_rest) = stride_contexts.as_chunks::<32>();
        let mut new = _mm256_setzero_si256();
        for (vector, contexts) in vectors.iter().zip(context_vectors) {
            // SAFETY: each array has 32 bytes.
            let (symbols, contexts) = unsafe {
                let contexts = _mm256_loadu_si256(contexts.as_ptr().cast());
                (_mm256_loadu_si256(vector.as_ptr().cast()), contexts)
            };
            let row = _mm256_and_si256(_mm256_srli_epi16::<3>(symbols), row_mask);
            let mut known = _mm256_setzero_si256();
            for (context, map) in maps[..counts.len()].iter().enumerate() {
                let here = _mm256_cmpeq_epi8(contexts, _mm256_set1_epi8(context as i8));
                let low = _mm256_shuffle_epi8(map[0], row);
                let high = _mm256_shuffle_epi8(map[1], row);
                let map = _mm256_blendv_epi8(low, high, symbols);
                known = _mm256_or_si256(known, _mm256_and_si256(here, map));
            }
            let bit = _mm256_shuffle_epi8(bits, _mm256_and_si256(symbols, low3));
            new = _mm256_or_si256(new, _mm256_andnot_si256(known, bit));
        }
        if _mm256_testz_si256(new, new) == 0 {
            super::mark_contexts_scalar(stride, stride_contexts, counts);
            load_maps(counts, &mut maps);
        } else {
            super::mark_contexts_scalar(rest, context_rest, counts);
        }
    }
}

#[target_feature(enable = "avx2")]
fn load_maps(counts: &[[u32; 256]], maps: &mut [[__m256i; 2]; 16]) {
    for (map, counts) in maps.iter_mut().zip(counts) {
        *map = load_map(counts);
    }
}

/// The two halves of the bit map, each in both halves of a register.
#[target_feature(enable = "avx2")]
fn load_map(counts: &[u32; 256]) -> [__m256i; 2] {
    let map = bit_map(counts);
    // SAFETY: the array has 32 bytes.
    let map = unsafe { _mm256_loadu_si256(map.as_ptr().cast()) };
    [_mm256_permute4x64_epi64::<0x44>(map), _mm256_permute4x64_epi64::<0xee>(map)]
}
