//! AVX2 variant: 32 words per step, scalar tail.
//!
//! The bytes of 32 words are first sorted by their place in the word, so that one vector holds
//! byte `b` of all 32. `movemask` then reads bit 7 of every byte, eight times with the vector
//! doubled in between. The inverse widens 32 bits to 32 bytes and tests one bit in each.

use std::arch::x86_64::*;

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn planes(word_len: usize, words: &[u8], planes: &mut [u8]) {
    match word_len {
        1 => planes_of::<1>(words, planes),
        2 => planes_of::<2>(words, planes),
        4 => planes_of::<4>(words, planes),
        _ => planes_of::<8>(words, planes),
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn words(word_len: usize, planes: &[u8], words: &mut [u8]) {
    match word_len {
        1 => words_of::<1>(planes, words),
        2 => words_of::<2>(planes, words),
        4 => words_of::<4>(planes, words),
        _ => words_of::<8>(planes, words),
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn planes_of<const W: usize>(words: &[u8], planes: &mut [u8]) {
    let n = words.len() / W;
    let len = super::plane_len(n);
    for (i, step) in words.chunks_exact(32 * W).enumerate() {
        let mut v = [_mm256_setzero_si256(); W];
        for (v, bytes) in v.iter_mut().zip(step.as_chunks().0) {
            *v = load(bytes);
        }
        for (b, v) in sort(v).into_iter().enumerate() {
            let mut v = v;
            for p in (0..8).rev() {
                let bits = _mm256_movemask_epi8(v) as u32;
                let at = (8 * b + p) * len + 4 * i;
                planes[at..at + 4].copy_from_slice(&bits.to_le_bytes());
                v = _mm256_add_epi8(v, v);
            }
        }
    }
    super::planes_scalar(W, n / 32 * 32..n, words, planes);
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn words_of<const W: usize>(planes: &[u8], words: &mut [u8]) {
    let n = words.len() / W;
    let len = super::plane_len(n);
    // Byte i / 8 of the mask in byte i, then bit i % 8 of it.
    let spread =
        _mm256_set_epi64x(0x0303_0303_0303_0303, 0x0202_0202_0202_0202, 0x0101_0101_0101_0101, 0);
    let select = _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64);
    for (i, step) in words.chunks_exact_mut(32 * W).enumerate() {
        let mut v = [_mm256_setzero_si256(); W];
        for (b, v) in v.iter_mut().enumerate() {
            for p in 0..8 {
                let at = (8 * b + p) * len + 4 * i;
                let bits = planes[at..at + 4].first_chunk().map_or(0, |c| i32::from_le_bytes(*c));
                let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits), spread);
                let set = _mm256_cmpeq_epi8(_mm256_and_si256(bytes, select), select);
                let bit = _mm256_and_si256(set, _mm256_set1_epi8((1u8 << p) as i8));
                *v = _mm256_or_si256(*v, bit);
            }
        }
        for (v, bytes) in unsort(v).into_iter().zip(step.as_chunks_mut().0) {
            store(bytes, v);
        }
    }
    super::words_scalar(W, n / 32 * 32..n, planes, words);
}

/// Sorts the bytes of 32 words of `W` bytes by their place in the word: each stage puts the even
/// bytes of neighbouring vectors into the lower half of the array, the odd ones into the upper.
#[target_feature(enable = "avx2")]
fn sort<const W: usize>(mut v: [__m256i; W]) -> [__m256i; W] {
    let low = _mm256_set1_epi16(0xff);
    for _ in 0..W.ilog2() {
        let from = v;
        for j in 0..W / 2 {
            let (x, y) = (from[2 * j], from[2 * j + 1]);
            let even = _mm256_packus_epi16(_mm256_and_si256(x, low), _mm256_and_si256(y, low));
            let odd = _mm256_packus_epi16(_mm256_srli_epi16::<8>(x), _mm256_srli_epi16::<8>(y));
            v[j] = _mm256_permute4x64_epi64::<0b11_01_10_00>(even);
            v[j + W / 2] = _mm256_permute4x64_epi64::<0b11_01_10_00>(odd);
        }
    }
    v
}

/// Inverse of [`sort`].
#[target_feature(enable = "avx2")]
fn unsort<const W: usize>(mut v: [__m256i; W]) -> [__m256i; W] {
    for _ in 0..W.ilog2() {
        let from = v;
        for j in 0..W / 2 {
            let low = _mm256_unpacklo_epi8(from[j], from[j + W / 2]);
            let high = _mm256_unpackhi_epi8(from[j], from[j + W / 2]);
            v[2 * j] = _mm256_permute2x128_si256::<0x20>(low, high);
            v[2 * j + 1] = _mm256_permute2x128_si256::<0x31>(low, high);
        }
    }
    v
}

#[target_feature(enable = "avx2")]
fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: `bytes` is exactly the 32 bytes read; the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[target_feature(enable = "avx2")]
fn store(bytes: &mut [u8; 32], v: __m256i) {
    // SAFETY: `bytes` is exactly the 32 bytes written; the store needs no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), v) }
}
