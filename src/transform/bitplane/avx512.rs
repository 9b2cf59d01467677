//! AVX-512 variant: 64 words per step, scalar tail.
//!
//! As the AVX2 variant, but a test writes the bits of 64 bytes straight to a mask register, and
//! a masked addition puts them back.

use std::arch::x86_64::*;

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn planes(word_len: usize, words: &[u8], planes: &mut [u8]) {
    match word_len {
        1 => planes_of::<1>(words, planes),
        2 => planes_of::<2>(words, planes),
        4 => planes_of::<4>(words, planes),
        _ => planes_of::<8>(words, planes),
    }
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn words(word_len: usize, planes: &[u8], words: &mut [u8]) {
    match word_len {
        1 => words_of::<1>(planes, words),
        2 => words_of::<2>(planes, words),
        4 => words_of::<4>(planes, words),
        _ => words_of::<8>(planes, words),
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn planes_of<const W: usize>(words: &[u8], planes: &mut [u8]) {
    let n = words.len() / W;
    let len = super::plane_len(n);
    for (i, step) in words.chunks_exact(64 * W).enumerate() {
        let mut v = [_mm512_setzero_si512(); W];
        for (v, bytes) in v.iter_mut().zip(step.as_chunks().0) {
            *v = load(bytes);
        }
        for (b, v) in sort(v).into_iter().enumerate() {
            for p in 0..8 {
                let bits = _mm512_test_epi8_mask(v, _mm512_set1_epi8((1u8 << p) as i8));
                let at = (8 * b + p) * len + 8 * i;
                planes[at..at + 8].copy_from_slice(&bits.to_le_bytes());
            }
        }
    }
    super::planes_scalar(W, n / 64 * 64..n, words, planes);
}

#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn words_of<const W: usize>(planes: &[u8], words: &mut [u8]) {
    let n = words.len() / W;
    let len = super::plane_len(n);
    for (i, step) in words.chunks_exact_mut(64 * W).enumerate() {
        let mut v = [_mm512_setzero_si512(); W];
        for (b, v) in v.iter_mut().enumerate() {
            for p in 0..8 {
                let at = (8 * b + p) * len + 8 * i;
                let bits = planes[at..at + 8].first_chunk().map_or(0, |c| u64::from_le_bytes(*c));
                *v = _mm512_mask_add_epi8(*v, bits, *v, _mm512_set1_epi8((1u8 << p) as i8));
            }
        }
        for (v, bytes) in unsort(v).into_iter().zip(step.as_chunks_mut().0) {
            store(bytes, v);
        }
    }
    super::words_scalar(W, n / 64 * 64..n, planes, words);
}

/// Places of the even bytes of two vectors one after the other, and of their odd bytes.
const EVEN: [u8; 64] = places(0, 2, 4);
const ODD: [u8; 64] = places(1, 2, 4);
/// Places that interleave the lower halves of two vectors, and their upper halves.
const LOWER: [u8; 64] = places(0, 64, 1);
const UPPER: [u8; 64] = places(32, 64, 1);

/// `start` and `start + second`, then each pair of places `step` further on.
const fn places(start: u8, second: u8, step: u8) -> [u8; 64] {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i as usize] = start + i / 2 * step + (i & 1) * second;
        i += 1;
    }
    table
}

/// Sorts the bytes of 64 words of `W` bytes by their place in the word: each stage puts the even
/// bytes of neighbouring vectors into the lower half of the array, the odd ones into the upper.
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn sort<const W: usize>(mut v: [__m512i; W]) -> [__m512i; W] {
    let (even, odd) = (load(&EVEN), load(&ODD));
    for _ in 0..W.ilog2() {
        let from = v;
        for j in 0..W / 2 {
            v[j] = _mm512_permutex2var_epi8(from[2 * j], even, from[2 * j + 1]);
            v[j + W / 2] = _mm512_permutex2var_epi8(from[2 * j], odd, from[2 * j + 1]);
        }
    }
    v
}

/// Inverse of [`sort`].
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi")]
fn unsort<const W: usize>(mut v: [__m512i; W]) -> [__m512i; W] {
    let (lower, upper) = (load(&LOWER), load(&UPPER));
    for _ in 0..W.ilog2() {
        let from = v;
        for j in 0..W / 2 {
            v[2 * j] = _mm512_permutex2var_epi8(from[j], lower, from[j + W / 2]);
            v[2 * j + 1] = _mm512_permutex2var_epi8(from[j], upper, from[j + W / 2]);
        }
    }
    v
}

#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: `bytes` is exactly the 64 bytes read; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx512f")]
fn store(bytes: &mut [u8; 64], v: __m512i) {
    // SAFETY: `bytes` is exactly the 64 bytes written; the store needs no alignment.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), v) }
}
