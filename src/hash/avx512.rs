//! Blocks with a stripe a register.

use std::arch::x86_64::*;

use super::{BLOCK, KEYS, PRIME32_1, SCRAMBLE_KEY, STRIPE, Stream};
use crate::simd;

/// The lanes in a register, for kernels that have stripes in registers.
pub(crate) struct Lanes(__m512i);

impl Lanes {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(lanes: &[u64; 8]) -> Self {
        Lanes(load(lanes))
    }

    /// Adds stripes `at` and `at + 1` of a block.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn add(&mut self, at: usize, stripes: [__m512i; 2]) {
        for (words, key) in stripes.into_iter().zip(&KEYS[at..at + 2]) {
            self.add_stripe(words, load(key));
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn add_stripe(&mut self, words: __m512i, key: __m512i) {
        let v = _mm512_xor_si512(words, key);
        let product = _mm512_mul_epu32(v, _mm512_srli_epi64::<32>(v));
        let swapped = _mm512_shuffle_epi32::<0b01_00_11_10>(words);
        self.0 = _mm512_add_epi64(self.0, _mm512_add_epi64(product, swapped));
    }

    /// What follows the 16 stripes of a block.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn scramble(&mut self) {
        let prime = _mm512_set1_epi64(PRIME32_1 as i64);
        // The product of 64 by 32 bits from two of 32 by 32.
        let x = _mm512_xor_si512(self.0, _mm512_srli_epi64::<47>(self.0));
        let x = _mm512_xor_si512(x, load(&SCRAMBLE_KEY));
        let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(x), prime);
        self.0 = _mm512_add_epi64(_mm512_mul_epu32(x, prime), _mm512_slli_epi64::<32>(high));
    }

    /// Hands the lanes back to the stream they are of.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn put_back(self, stream: &mut Stream) {
        self.store(&mut stream.lanes);
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn store(self, lanes: &mut [u64; 8]) {
        // SAFETY: the array has 64 bytes.
        unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), self.0) };
    }
}

/// Adds whole blocks, and fetches what is `ahead` bytes further on, where that is not 0.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn add_blocks(lanes: &mut [u64; 8], bytes: &[u8], ahead: usize) {
    let mut sum = Lanes::new(lanes);
    for (i, block) in bytes.as_chunks::<BLOCK>().0.iter().enumerate() {
        if ahead > 0 {
            simd::prefetch(bytes, i * BLOCK + ahead, BLOCK);
        }
        for (stripe, key) in block.as_chunks::<STRIPE>().0.iter().zip(&KEYS) {
            sum.add_stripe(simd::avx512::load(stripe), load(key));
        }
        sum.scramble();
    }
    sum.store(lanes);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u64; 8]) -> __m512i {
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}
