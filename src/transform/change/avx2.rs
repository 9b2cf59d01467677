//! Change masks by compares whose bytes' top bits are gathered.

use std::arch::x86_64::*;

/// Masks of whole groups of 64 words.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn masks(word_len: usize, a: &[u8], b: &[u8], masks: &mut [u64]) {
    match word_len {
        1 => each::<2>(a, b, masks, |a, b| bits(_mm256_cmpeq_epi8(a, b))),
        // Of the two equal bytes of a word the lower one's bit stays.
        2 => each::<4>(a, b, masks, |a, b| {
            u64::from(_pext_u32(bits(_mm256_cmpeq_epi16(a, b)) as u32, 0x5555_5555))
        }),
        4 => each::<8>(a, b, masks, |a, b| {
            let equal = _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b));
            u64::from(_mm256_movemask_ps(equal) as u8)
        }),
        _ => each::<16>(a, b, masks, |a, b| {
            let equal = _mm256_castsi256_pd(_mm256_cmpeq_epi64(a, b));
            u64::from(_mm256_movemask_pd(equal) as u8)
        }),
    }
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn bits(equal: __m256i) -> u64 {
    u64::from(_mm256_movemask_epi8(equal) as u32)
}

/// `V` vectors of 64 / `V` words make a mask; `equal` gives a bit for each equal word.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn each<const V: usize>(
    a: &[u8],
    b: &[u8],
    masks: &mut [u64],
    equal: impl Fn(__m256i, __m256i) -> u64,
) {
    let vectors = a.as_chunks::<32>().0.chunks_exact(V).zip(b.as_chunks::<32>().0.chunks_exact(V));
    for (mask, (a, b)) in masks.iter_mut().zip(vectors) {
        let mut same = 0;
        for (i, (a, b)) in a.iter().zip(b).enumerate() {
            // SAFETY: both arrays hold the 32 bytes that are loaded.
            let (a, b) = unsafe {
                (_mm256_loadu_si256(a.as_ptr().cast()), _mm256_loadu_si256(b.as_ptr().cast()))
            };
            same |= equal(a, b) << (64 / V * i);
        }
        *mask = !same;
    }
}
