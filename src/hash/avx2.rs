//! Blocks with half a stripe a register.

use std::arch::x86_64::*;

use super::{BLOCK, KEYS, PRIME32_1, SCRAMBLE_KEY, STRIPE, Stream};
use crate::simd;

/// The lanes in registers, for kernels that have stripes in registers: halves of the stripe, or
/// `CROSSED`, as unpacking bytes leaves them.
///
/// ```text
/// quarters of a stripe   0 1 | 2 3        crossed   0 2 | 1 3
/// ```
pub(crate) struct Lanes<const CROSSED: bool>([__m256i; 2]);

/// The words of a stripe as they lie in crossed registers, or back.
const fn cross([a, b, c, d, e, f, g, h]: [u64; 8]) -> [u64; 8] {
    [a, b, e, f, c, d, g, h]
}

/// [`KEYS`], and after them the key to scramble with.
static CROSSED_KEYS: [[u64; 8]; 17] = {
    let mut keys = [cross(SCRAMBLE_KEY); 17];
    let mut i = 0;
    while i < 16 {
        keys[i] = cross(KEYS[i]);
        i += 1;
    }
    keys
};

impl<const CROSSED: bool> Lanes<CROSSED> {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn new(lanes: &[u64; 8]) -> Self {
        Lanes(halves(&if CROSSED { cross(*lanes) } else { *lanes }))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn key(at: usize) -> [__m256i; 2] {
        match (CROSSED, at) {
            (true, at) => halves(&CROSSED_KEYS[at]),
            (false, 16) => halves(&SCRAMBLE_KEY),
            (false, at) => halves(&KEYS[at]),
        }
    }

    /// Adds stripe `at` of a block.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn add(&mut self, at: usize, stripe: [__m256i; 2]) {
        for ((sum, words), key) in self.0.iter_mut().zip(stripe).zip(Self::key(at)) {
            let v = _mm256_xor_si256(words, key);
            let product = _mm256_mul_epu32(v, _mm256_srli_epi64::<32>(v));
            let swapped = _mm256_shuffle_epi32::<0b01_00_11_10>(words);
            *sum = _mm256_add_epi64(*sum, _mm256_add_epi64(product, swapped));
        }
    }

    /// What follows the 16 stripes of a block.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn scramble(&mut self) {
        let prime = _mm256_set1_epi64x(PRIME32_1 as i64);
        for (sum, key) in self.0.iter_mut().zip(Self::key(16)) {
            // The product of 64 by 32 bits from two of 32 by 32.
            let x = _mm256_xor_si256(*sum, _mm256_srli_epi64::<47>(*sum));
            let x = _mm256_xor_si256(x, key);
            let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(x), prime);
            *sum = _mm256_add_epi64(_mm256_mul_epu32(x, prime), _mm256_slli_epi64::<32>(high));
        }
    }

    /// Hands the lanes back to the stream they are of.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn put_back(self, stream: &mut Stream) {
        self.store(&mut stream.lanes);
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn store(self, lanes: &mut [u64; 8]) {
        let at = lanes.as_mut_ptr().cast::<__m256i>();
        // SAFETY: the array has 64 bytes.
        unsafe {
            _mm256_storeu_si256(at, self.0[0]);
            _mm256_storeu_si256(at.add(1), self.0[1]);
        }
        if CROSSED {
            *lanes = cross(*lanes);
        }
    }
}

/// Adds whole blocks, and fetches what is `ahead` bytes further on, where that is not 0.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn add_blocks(lanes: &mut [u64; 8], bytes: &[u8], ahead: usize) {
    let mut sum = Lanes::<false>::new(lanes);
    for (i, block) in bytes.as_chunks::<BLOCK>().0.iter().enumerate() {
        if ahead > 0 {
            simd::prefetch(bytes, i * BLOCK + ahead, BLOCK);
        }
        for (i, stripe) in block.as_chunks::<STRIPE>().0.iter().enumerate() {
            sum.add(i, halves_of_bytes(stripe));
        }
        sum.scramble();
    }
    sum.store(lanes);
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
