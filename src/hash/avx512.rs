//! Blocks with a stripe a register.

use std::arch::x86_64::*;

use super::{BLOCK, Blocks, KEYS, LAST_KEYS, PRIME32_1, SCRAMBLE_KEY, START, STRIPE, Stream};
use crate::simd;

/// The lanes of a stream in a register, for kernels that have stripes in registers.
pub(crate) struct Lanes<'s> {
    sum: __m512i,
    stream: &'s mut Stream,
    /// Those of the block at hand.
    keys: &'static [[u64; 8]; 16],
}

impl<'s> Lanes<'s> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(super) fn new(stream: &'s mut Stream) -> Self {
        Lanes { sum: load(&stream.lanes), keys: keys(stream.at_last_block()), stream }
    }

    /// Adds stripes `at` and `at + 1` of a block.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn add(&mut self, at: usize, stripes: [__m512i; 2]) {
        for (words, key) in stripes.into_iter().zip(&self.keys[at..at + 2]) {
            self.sum = add_stripe(self.sum, words, load(key));
        }
    }

    /// What follows the 16 stripes of a block.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn end_block(&mut self) {
        if self.stream.at_last_block() {
            self.stream.count_last_block(store(self.sum));
            self.sum = load(&START);
        } else {
            self.stream.count_block();
            self.sum = scramble(self.sum);
        }
        self.keys = keys(self.stream.at_last_block());
    }

    /// Hands the lanes back to the stream they are of.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn put_back(self) {
        self.stream.lanes = store(self.sum);
    }
}

static ALL_KEYS: [[[u64; 8]; 16]; 2] = [KEYS, LAST_KEYS];

#[inline(always)]
fn keys(last: bool) -> &'static [[u64; 8]; 16] {
    &ALL_KEYS[usize::from(last)]
}

#[inline]
#[target_feature(enable = "avx512f")]
fn add_stripe(sum: __m512i, words: __m512i, key: __m512i) -> __m512i {
    let v = _mm512_xor_si512(words, key);
    let product = _mm512_mul_epu32(v, _mm512_srli_epi64::<32>(v));
    let swapped = _mm512_shuffle_epi32::<0b01_00_11_10>(words);
    _mm512_add_epi64(sum, _mm512_add_epi64(product, swapped))
}

#[inline]
#[target_feature(enable = "avx512f")]
fn scramble(sum: __m512i) -> __m512i {
    let prime = _mm512_set1_epi64(PRIME32_1 as i64);
    // The product of 64 by 32 bits from two of 32 by 32.
    let x = _mm512_xor_si512(sum, _mm512_srli_epi64::<47>(sum));
    let x = _mm512_xor_si512(x, load(&SCRAMBLE_KEY));
    let high = _mm512_mul_epu32(_mm512_srli_epi64::<32>(x), prime);
    _mm512_add_epi64(_mm512_mul_epu32(x, prime), _mm512_slli_epi64::<32>(high))
}

/// Adds whole blocks.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn add_blocks(lanes: &mut [u64; 8], blocks: Blocks<'_>) {
    let mut sum = load(lanes);
    let Blocks { bytes, n, ahead, last } = blocks;
    for (i, block) in bytes.as_chunks::<BLOCK>().0[..n].iter().enumerate() {
        if ahead > 0 {
            simd::prefetch(bytes, i * BLOCK + ahead, BLOCK);
        }
        let last = last && i + 1 == n;
        for (stripe, key) in block.as_chunks::<STRIPE>().0.iter().zip(keys(last)) {
            sum = add_stripe(sum, simd::avx512::load(stripe), load(key));
        }
        if !last {
            sum = scramble(sum);
        }
    }
    *lanes = store(sum);
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(sum: __m512i) -> [u64; 8] {
    let mut lanes = [0; 8];
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_storeu_si512(lanes.as_mut_ptr().cast(), sum) };
    lanes
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u64; 8]) -> __m512i {
    // SAFETY: the array has 64 bytes.
    unsafe { _mm512_loadu_si512(words.as_ptr().cast()) }
}
