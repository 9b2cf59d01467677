//! Change masks by compares into mask registers.

use std::arch::x86_64::*;

/// Masks of whole groups of 64 words.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn masks(word_len: usize, a: &[u8], b: &[u8], masks: &mut [u64]) {
    match word_len {
        1 => each::<1>(a, b, masks, |a, b| _mm512_cmpneq_epi8_mask(a, b)),
        2 => each::<2>(a, b, masks, |a, b| u64::from(_mm512_cmpneq_epi16_mask(a, b))),
        4 => each::<4>(a, b, masks, |a, b| u64::from(_mm512_cmpneq_epi32_mask(a, b))),
        _ => each::<8>(a, b, masks, |a, b| u64::from(_mm512_cmpneq_epi64_mask(a, b))),
    }
}

/// `W` vectors of 64 / `W` words make a mask.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn each<const W: usize>(
    a: &[u8],
    b: &[u8],
    masks: &mut [u64],
    compare: impl Fn(__m512i, __m512i) -> u64,
) {
    let vectors = a.as_chunks::<64>().0.chunks_exact(W).zip(b.as_chunks::<64>().0.chunks_exact(W));
    for (mask, (a, b)) in masks.iter_mut().zip(vectors) {
        *mask = 0;
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            // SAFETY: both arrays hold the 64 bytes that are loaded.
            let (a, b) = unsafe {
                (_mm512_loadu_si512(a.as_ptr().cast()), _mm512_loadu_si512(b.as_ptr().cast()))
            };
            *mask |= compare(a, b) << (64 / W * i);
        }
    }
}
