//! Blocks with half a stripe a register.

use std::arch::x86_64::*;

use super::{BLOCK, Blocks, KEYS, LAST_KEYS, PRIME32_1, SCRAMBLE_KEY, START, STRIPE, Stream};
use crate::simd;

/// The lanes of a stream in registers, for kernels that have stripes in registers: halves of the
/// stripe, or `CROSSED`, as unpacking bytes leaves them.
///
/// ```text
/// quarters of a stripe   0 1 | 2 3        crossed   0 2 | 1 3
/// ```
pub(crate) struct Lanes<'s, const CROSSED: bool> {
    sums: [__m256i; 2],
    stream: &'s mut Stream,
    /// Those of the block at hand.
    keys: &'static [[u64; 8]; 16],
}

/// The words of a stripe as they lie in crossed registers, or back.
const fn cross([a, b, c, d, e, f, g, h]: [u64; 8]) -> [u64; 8] {
    [a, b, e, f, c, d, g, h]
}

const fn all_crossed(mut keys: [[u64; 8]; 16]) -> [[u64; 8]; 16] {
    let mut i = 0;
    while i < 16 {
        keys[i] = cross(keys[i]);
        i += 1;
    }
    keys
}

/// Keys as they are and crossed, of blocks that are not the last and that are.
static ALL_KEYS: [[[[u64; 8]; 16]; 2]; 2] =
    [[KEYS, LAST_KEYS], [all_crossed(KEYS), all_crossed(LAST_KEYS)]];

#[inline(always)]
fn keys<const CROSSED: bool>(last: bool) -> &'static [[u64; 8]; 16] {
    &ALL_KEYS[usize::from(CROSSED)][usize::from(last)]
}

/// Words in the order of the registers, or back.
#[inline(always)]
const fn ordered<const CROSSED: bool>(words: [u64; 8]) -> [u64; 8] {
    if CROSSED { cross(words) } else { words }
}

impl<'s, const CROSSED: bool> Lanes<'s, CROSSED> {
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn new(stream: &'s mut Stream) -> Self {
        let sums = halves(&ordered::<CROSSED>(stream.lanes));
        Lanes { sums, keys: keys::<CROSSED>(stream.at_last_block()), stream }
    }

    /// Adds stripe `at` of a block.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn add(&mut self, at: usize, stripe: [__m256i; 2]) {
        self.sums = add_stripe(self.sums, stripe, halves(&self.keys[at]));
    }

    /// What follows the 16 stripes of a block.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn end_block(&mut self) {
        if self.stream.at_last_block() {
            self.stream.count_last_block(ordered::<CROSSED>(store(self.sums)));
            self.sums = halves(&const { ordered::<CROSSED>(START) });
        } else {
            self.stream.count_block();
            self.sums = scramble(self.sums, halves(&const { ordered::<CROSSED>(SCRAMBLE_KEY) }));
        }
        self.keys = keys::<CROSSED>(self.stream.at_last_block());
    }

    /// Hands the lanes back to the stream they are of.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(crate) fn put_back(self) {
        self.stream.lanes = ordered::<CROSSED>(store(self.sums));
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn add_stripe(mut sums: [__m256i; 2], stripe: [__m256i; 2], keys: [__m256i; 2]) -> [__m256i; 2] {
    for ((sum, words), key) in sums.iter_mut().zip(stripe).zip(keys) {
        let v = _mm256_xor_si256(words, key);
        let product = _mm256_mul_epu32(v, _mm256_srli_epi64::<32>(v));
        let swapped = _mm256_shuffle_epi32::<0b01_00_11_10>(words);
        *sum = _mm256_add_epi64(*sum, _mm256_add_epi64(product, swapped));
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2")]
fn scramble(mut sums: [__m256i; 2], keys: [__m256i; 2]) -> [__m256i; 2] {
    let prime = _mm256_set1_epi64x(PRIME32_1 as i64);
    for (sum, key) in sums.iter_mut().zip(keys) {
        // The product of 64 by 32 bits from two of 32 by 32.
        let x = _mm256_xor_si256(*sum, _mm256_srli_epi64::<47>(*sum));
        let x = _mm256_xor_si256(x, key);
        let high = _mm256_mul_epu32(_mm256_srli_epi64::<32>(x), prime);
        *sum = _mm256_add_epi64(_mm256_mul_epu32(x, prime), _mm256_slli_epi64::<32>(high));
    }
    sums
}

/// Adds whole blocks.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn add_blocks(lanes: &mut [u64; 8], blocks: Blocks<'_>) {
    let mut sums = halves(lanes);
    let Blocks { bytes, n, ahead, last } = blocks;
    for (i, block) in bytes.as_chunks::<BLOCK>().0[..n].iter().enumerate() {
        if ahead > 0 {
            simd::prefetch(bytes, i * BLOCK + ahead, BLOCK);
        }
        let last = last && i + 1 == n;
        for (stripe, key) in block.as_chunks::<STRIPE>().0.iter().zip(keys::<false>(last)) {
            sums = add_stripe(sums, halves_of_bytes(stripe), halves(key));
        }
        if !last {
            sums = scramble(sums, halves(&SCRAMBLE_KEY));
        }
    }
    *lanes = store(sums);
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(sums: [__m256i; 2]) -> [u64; 8] {
    let mut lanes = [0u64; 8];
    let at = lanes.as_mut_ptr().cast::<__m256i>();
    // SAFETY: the array has 64 bytes.
    unsafe {
        _mm256_storeu_si256(at, sums[0]);
        _mm256_storeu_si256(at.add(1), sums[1]);
    }
    lanes
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
