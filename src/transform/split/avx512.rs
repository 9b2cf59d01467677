//! AVX-512 variant: 64 words a step when splitting, 32 when joining.

use super::{Planes, PlanesMut, Split, scalar};
use crate::simd::avx512::{
    LEN, Vector, all, all_32, and, down, down_by, load, min, or, pack_to_8, pack_to_16, store,
    store_half, sub, unpack_8, up, up_by, upper_half_32, widen, zero,
};
use std::arch::x86_64::*;

super::vector::kernels!(
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
);

crate::simd::with_features! { "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt":
    /// 0 where `s` is 0, else the sum.
    fn add_unless_zero(s: Vector, a: Vector, b: Vector) -> Vector {
        _mm512_maskz_add_epi16(_mm512_test_epi16_mask(s, s), a, b)
    }

    fn or_of_three(a: Vector, b: Vector, c: Vector) -> Vector {
        _mm512_ternarylogic_epi64::<0xFE>(a, b, c)
    }

    fn rotate_left(x: Vector) -> Vector {
        _mm512_shldi_epi16::<1>(x, x)
    }

    fn rotate_right(x: Vector) -> Vector {
        _mm512_shrdi_epi16::<1>(x, x)
    }

    /// How many bytes are 255.
    fn n_escaped(symbols: Vector) -> usize {
        _mm512_cmpeq_epi8_mask(symbols, _mm512_set1_epi8(-1)).count_ones() as usize
    }

    fn none_escaped() -> __mmask32 {
        0
    }

    /// Notes which words are 255.
    fn or_escaped(escaped: __mmask32, symbols: Vector) -> __mmask32 {
        escaped | _mm512_cmpeq_epi16_mask(symbols, all(0xFF))
    }

    fn any_escaped(escaped: __mmask32) -> bool {
        escaped != 0
    }

    /// Narrows words below 256 to bytes and puts them in order.
    fn pack(a: Vector, b: Vector, order: Vector) -> Vector {
        _mm512_permutexvar_epi32(order, pack_to_8(a, b))
    }

    /// Stores the lower bytes of words.
    fn store_narrowed(bytes: &mut [u8], words: Vector) {
        store_half(bytes, _mm512_cvtepi16_epi8(words));
    }

    /// Words of 32 bits from their halves.
    fn interleave(low: Vector, high: Vector) -> [Vector; 2] {
        let (x, y) = (_mm512_unpacklo_epi16(low, high), _mm512_unpackhi_epi16(low, high));
        let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
        let second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
        [_mm512_permutex2var_epi64(x, first, y), _mm512_permutex2var_epi64(x, second, y)]
    }

    /// Where each four bytes come from after the packs within lanes.
    fn order<const WORD: usize>() -> Vector {
        match WORD {
            8 => _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
            32 => _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
            _ => _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15),
        }
    }
}
