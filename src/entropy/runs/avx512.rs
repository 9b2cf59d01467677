//! AVX-512 variant: compares 64 values with those after them.
use crate::simd::avx512::load;
use std::arch::x86_64::*;

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn encode(plane: &[u8], out: &mut [u8]) -> Option<usize> {
    super::encode_by_64(plane, out, |values, next| {
        _mm512_cmpneq_epi8_mask(load(values), load(next))
    })
}
