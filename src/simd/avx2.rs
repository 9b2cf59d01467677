//! Loads and stores of 256-bit registers from and to slices.
use std::arch::x86_64::*;

/// The first 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load(bytes: &[u8]) -> __m256i {
    let bytes = &bytes[..32];
    // SAFETY: `bytes` is exactly the 32 bytes read; the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// The first 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_half(bytes: &[u8]) -> __m128i {
    let bytes = &bytes[..16];
    // SAFETY: `bytes` is exactly the 16 bytes read; the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Writes the first 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store(bytes: &mut [u8], v: __m256i) {
    let bytes = &mut bytes[..32];
    // SAFETY: `bytes` is exactly the 32 bytes written; the store needs no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), v) }
}

/// Writes the first 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store_half(bytes: &mut [u8], v: __m128i) {
    let bytes = &mut bytes[..16];
    // SAFETY: `bytes` is exactly the 16 bytes written; the store needs no alignment.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), v) }
}
