//! Looks for new symbols, 64 at a time.
//!
//! A byte permutation takes its index modulo 64, so a bit map of 32 bytes that stands twice in a
//! register is indexed by the byte that shifting words leaves, neighbour's bits and all.

use std::arch::x86_64::*;

use super::STRIDE;

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
            super::mark_scalar(stride, counts);
            map = load_map(counts);
        } else {
            super::mark_scalar(rest, counts);
        }
    }
}

/// See [`super::mark_contexts`]. The bit maps of all contexts are two tables of 256 bytes, one for
/// the lower and one for the upper half of the symbols, 16 bytes a context.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub fn mark_contexts(symbols: &[u8], contexts: &[u8], counts: &mut [[u32; 256]]) {
    let bits = _mm512_set1_epi64(0x8040_2010_0804_0201_u64 as i64);
    let (low4, high4) = (_mm512_set1_epi8(15), _mm512_set1_epi8(0xf0_u8 as i8));
    let mut maps = load_maps(counts);
    let (vectors, rest) = symbols.as_chunks::<64>();
    let (context_vectors, context_rest) = contexts.as_chunks::<64>();
    for (vector, vector_contexts) in vectors.iter().zip(context_vectors) {
        // SAFETY: each array has 64 bytes.
        let (symbols, contexts) = unsafe {
            let contexts = _mm512_loadu_si512(vector_contexts.as_ptr().cast());
            (_mm512_loadu_si512(vector.as_ptr().cast()), contexts)
        };
        let row = _mm512_or_si512(
            _mm512_and_si512(_mm512_slli_epi16::<4>(contexts), high4),
            _mm512_and_si512(_mm512_srli_epi16::<3>(symbols), low4),
        );
        let mut known = look_up(&maps[0], row);
        let upper = _mm512_movepi8_mask(symbols);
        if upper != 0 {
            known = _mm512_mask_mov_epi8(known, upper, look_up(&maps[1], row));
        }
        let bit = _mm512_permutexvar_epi8(symbols, bits);
        let mut new = _mm512_testn_epi8_mask(known, bit);
        if new != 0 {
            while new != 0 {
                let i = new.trailing_zeros() as usize % 64;
                let pair = (&vector[i..=i], &vector_contexts[i..=i]);
                super::mark_contexts_scalar(pair.0, pair.1, counts);
                new &= new - 1;
            }
            maps = load_maps(counts);
        }
    }
    super::mark_contexts_scalar(rest, context_rest, counts);
}

/// Bytes of a table of 256.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn look_up(table: &[__m512i; 4], index: __m512i) -> __m512i {
    let lower = _mm512_permutex2var_epi8(table[0], index, table[1]);
    let upper = _mm512_permutex2var_epi8(table[2], index, table[3]);
    _mm512_mask_mov_epi8(lower, _mm512_movepi8_mask(index), upper)
}

/// Bit `s % 8` of byte `s / 8` says whether symbol `s` has a count.
#[inline]
#[target_feature(enable = "avx512f")]
fn bit_map(counts: &[u32; 256]) -> [u8; 32] {
    let mut map = [0; 32];
    for (bytes, counts) in map.as_chunks_mut().0.iter_mut().zip(counts.as_chunks::<16>().0) {
        // SAFETY: the array has 64 bytes.
        let counts = unsafe { _mm512_loadu_si512(counts.as_ptr().cast()) };
        *bytes = _mm512_test_epi32_mask(counts, counts).to_le_bytes();
    }
    map
}

/// The bit maps of at most 16 contexts, by half of the symbols.
#[target_feature(enable = "avx512f")]
fn load_maps(counts: &[[u32; 256]]) -> [[__m512i; 4]; 2] {
    let mut tables = [[0u8; 256]; 2];
    for (i, counts) in counts.iter().enumerate() {
        let map = bit_map(counts);
        tables[0][16 * i..][..16].copy_from_slice(&map[..16]);
        tables[1][16 * i..][..16].copy_from_slice(&map[16..]);
    }
    tables.map(|table| {
        let quarters = table.as_chunks::<64>().0;
        // SAFETY: each array has 64 bytes.
        std::array::from_fn(|i| unsafe { _mm512_loadu_si512(quarters[i].as_ptr().cast()) })
    })
}

/// The bit map, twice.
#[target_feature(enable = "avx512f")]
fn load_map(counts: &[u32; 256]) -> __m512i {
    let map = bit_map(counts);
    // SAFETY: the array has 32 bytes.
    _mm512_broadcast_i64x4(unsafe { _mm256_loadu_si256(map.as_ptr().cast()) })
}
