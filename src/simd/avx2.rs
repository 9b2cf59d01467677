//! Registers of 256 bits: loads and stores from and to slices, and instructions that kernels share.
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

/// A register, and how many bytes it has.
pub(crate) type Vector = __m256i;
pub(crate) const LEN: usize = 32;

// Instructions under names without a width, for kernels that are one text for all widths. Lanes of
// 16 bits unless the name says otherwise; packs and unpacks work within 128 bits.
super::with_features! { "avx2,bmi1,bmi2,lzcnt,popcnt":
    pub(crate) fn zero() -> Vector {
        _mm256_setzero_si256()
    }

    pub(crate) fn all(x: i16) -> Vector {
        _mm256_set1_epi16(x)
    }

    pub(crate) fn all_32(x: i32) -> Vector {
        _mm256_set1_epi32(x)
    }

    pub(crate) fn up<const N: i32>(x: Vector) -> Vector {
        _mm256_slli_epi16::<N>(x)
    }

    pub(crate) fn down<const N: i32>(x: Vector) -> Vector {
        _mm256_srli_epi16::<N>(x)
    }

    pub(crate) fn up_by(x: Vector, n: __m128i) -> Vector {
        _mm256_sll_epi16(x, n)
    }

    pub(crate) fn down_by(x: Vector, n: __m128i) -> Vector {
        _mm256_srl_epi16(x, n)
    }

    pub(crate) fn upper_half_32(x: Vector) -> Vector {
        _mm256_srli_epi32::<16>(x)
    }

    /// Lower and upper halves of 64-bit words.
    pub(crate) fn halve_64(a: Vector, b: Vector) -> [Vector; 2] {
        let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
        [
            _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b)),
            _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b)),
        ]
    }

    /// As many bytes as a register has words, widened.
    pub(crate) fn widen(bytes: &[u8]) -> Vector {
        _mm256_cvtepu8_epi16(load_half(bytes))
    }
}

super::of_two! { "avx2,bmi1,bmi2,lzcnt,popcnt":
    and(a, b) -> Vector = _mm256_and_si256(a, b);
    or(a, b) -> Vector = _mm256_or_si256(a, b);
    sub(a, b) -> Vector = _mm256_sub_epi16(a, b);
    min(a, b) -> Vector = _mm256_min_epu16(a, b);
    pack_to_8(a, b) -> Vector = _mm256_packus_epi16(a, b);
    pack_to_16(a, b) -> Vector = _mm256_packus_epi32(a, b);
    unpack_8(a, b) -> [Vector; 2] =
        [_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)];
    unpack_16(a, b) -> [Vector; 2] =
        [_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)];
    unpack_32(a, b) -> [Vector; 2] =
        [_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)];
}
