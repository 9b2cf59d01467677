//! Blocks with half a stripe a register.

use std::arch::x86_64::*;

use super::{BLOCK, KEYS, PRIME32_1, SCRAMBLE_KEY, STRIPE};
use crate::simd;

/// Adds whole blocks, and fetches what is `ahead` bytes further on, where that is not 0.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn add_blocks(lanes: &mut [u64; 8], bytes: &[u8], ahead: usize) {
    let prime = _mm256_set1_epi64x(PRIME32_1 as i64);
    let mut sums = halves(lanes);
    for (i, block) in bytes.as_chunks::<BLOCK>().0.iter().enumerate() {
        if ahead > 0 {
            simd::prefetch(bytes, i * BLOCK + ahead, BLOCK);
        }
        for (stripe, key) in block.as_chunks::<STRIPE>().0.iter().zip(&KEYS) {
            let (words, keys) = (halves_of_bytes(stripe), halves(key));
            for h in 0..2 {
                let v = _mm256_xor_si256(words[h], keys[h]);
                let product = _mm256_mul_epu32(v, _mm256_srli_epi64::<32>(v));
                let swapped = _mm256_shuffle_epi32::<0b01_00_11_10>(words[h]);
                sums[h] = _mm256_add_epi64(sums[h], _mm256_add_epi64(product, swapped));
            }
        }
        for (sum, key) in sums.iter_mut().zip(halves(&SCRAMBLE_KEY)) {
            // The product of 64 by 32 bits from two of 32 by 32.
            let x = _mm256_xor_si256(*sum, _mm256_srli_epi64::<47>(*sum));
            let x = _mm256_xor_si256(x, key);
            let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(x), prime);
            *sum = _mm256_add_epi64(_mm256_mul_epu32(x, prime), _mm256_slli_epi64::<32>(high));
        }
    }
    let [low, high] = lanes.as_chunks_mut::<4>().0 else { return };
    // SAFETY: each array has 32 bytes.
    unsafe {
        _mm256_storeu_si256(low.as_mut_ptr().cast(), sums[0]);
        _mm256_storeu_si256(high.as_mut_ptr().cast(), sums[1]);
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn halves(words: &[u64; 8]) -> [__m256i; 2] {
    // SAFETY: the array has 64 bytes.
    unsafe {
        let at = words.as_ptr().cast::<__m256i>();
        [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))]
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn halves_of_bytes(bytes: &[u8; STRIPE]) -> [__m256i; 2] {
    // SAFETY: the array has 64 bytes.
    unsafe {
        let at = bytes.as_ptr().cast::<__m256i>();
        [_mm256_loadu_si256(at), _mm256_loadu_si256(at.add(1))]
    }
}
