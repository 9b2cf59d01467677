//! AVX-512 variant: compares 64 values with those after them.
use std::arch::x86_64::*;

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn encode(plane: &[u8], out: &mut [u8]) -> Option<usize> {
    super::encode_by_64(plane, out, |values, next| {
        _mm512_cmpneq_epi8_mask(load(values), load(next))
    })
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: `bytes` is exactly the 64 bytes read; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}
