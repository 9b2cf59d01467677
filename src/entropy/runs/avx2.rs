//! AVX2 variant: compares 64 values with those after them.
use crate::simd::avx2::load;
use std::arch::x86_64::*;

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn encode(plane: &[u8], out: &mut [u8]) -> Option<usize> {
    super::encode_by_64(plane, out, |values, next| ends(values, next))
}

#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn ends(values: &[u8; 64], next: &[u8; 64]) -> u64 {
    let half = |at: usize| {
        let same = _mm256_cmpeq_epi8(load(&values[at..]), load(&next[at..]));
        u64::from(!_mm256_movemask_epi8(same) as u32)
    };
    half(0) | half(32) << 32
}
