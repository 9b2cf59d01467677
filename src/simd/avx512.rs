//! Loads and stores of 512-bit registers from and to slices.
use std::arch::x86_64::*;

/// The first 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load(bytes: &[u8]) -> __m512i {
    let bytes = &bytes[..64];
    // SAFETY: `bytes` is exactly the 64 bytes read; the load needs no alignment.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// At most 64 bytes, then zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
pub(crate) fn load_part(bytes: &[u8]) -> __m512i {
    let bytes = &bytes[..bytes.len().min(64)];
    let mask = !(u64::MAX.checked_shl(bytes.len() as u32).unwrap_or(0));
    // SAFETY: the mask leaves out what is not in `bytes`.
    unsafe { _mm512_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) }
}

/// Fills at most 64 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,bmi2")]
pub(crate) fn store_part(bytes: &mut [u8], v: __m512i) {
    let n = bytes.len().min(64);
    let bytes = &mut bytes[..n];
    let mask = !(u64::MAX.checked_shl(n as u32).unwrap_or(0));
    // SAFETY: the mask leaves out what is not in `bytes`.
    unsafe { _mm512_mask_storeu_epi8(bytes.as_mut_ptr().cast(), mask, v) }
}

/// The first 32 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load_half(bytes: &[u8]) -> __m256i {
    let bytes = &bytes[..32];
    // SAFETY: `bytes` is exactly the 32 bytes read; the load needs no alignment.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

/// The first 16 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn load_quarter(bytes: &[u8]) -> __m128i {
    let bytes = &bytes[..16];
    // SAFETY: `bytes` is exactly the 16 bytes read; the load needs no alignment.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Writes the first 64 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store(bytes: &mut [u8], v: __m512i) {
    let bytes = &mut bytes[..64];
    // SAFETY: `bytes` is exactly the 64 bytes written; the store needs no alignment.
    unsafe { _mm512_storeu_si512(bytes.as_mut_ptr().cast(), v) }
}

/// Writes the first 32 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store_half(bytes: &mut [u8], v: __m256i) {
    let bytes = &mut bytes[..32];
    // SAFETY: `bytes` is exactly the 32 bytes written; the store needs no alignment.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), v) }
}

/// Writes the first 16 bytes.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn store_quarter(bytes: &mut [u8], v: __m128i) {
    let bytes = &mut bytes[..16];
    // SAFETY: `bytes` is exactly the 16 bytes written; the store needs no alignment.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), v) }
}

/// [`store`] past the caches; `_mm_sfence` must follow before others look at the bytes.
///
/// # Panics
/// If `bytes` does not start at a multiple of 64.
#[inline]
#[target_feature(enable = "avx512f")]
pub(crate) fn stream(bytes: &mut [u8], v: __m512i) {
    let bytes = &mut bytes[..64];
    assert!(bytes.as_ptr().addr().is_multiple_of(64));
    // SAFETY: `bytes` is exactly the 64 bytes written, aligned as was just checked.
    unsafe { _mm512_stream_si512(bytes.as_mut_ptr().cast(), v) }
}
