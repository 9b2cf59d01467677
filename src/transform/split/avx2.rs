//! AVX2 variant: 32 words a step when splitting, 16 when joining.

use super::{Planes, PlanesMut, Split, scalar};
use crate::simd::avx2::{
    LEN, Vector, all, all_32, and, down, down_by, load, min, or, pack_to_8, pack_to_16, store,
    store_half, sub, unpack_8, up, up_by, upper_half_32, widen, zero,
};
use std::arch::x86_64::*;

super::vector::kernels!("avx2,bmi1,bmi2,lzcnt,popcnt");

crate::simd::with_features! { "avx2,bmi1,bmi2,lzcnt,popcnt":
    /// 0 where `s` is 0, else the sum.
    fn add_unless_zero(s: Vector, a: Vector, b: Vector) -> Vector {
        _mm256_andnot_si256(_mm256_cmpeq_epi16(s, zero()), _mm256_add_epi16(a, b))
    }

    fn or_of_three(a: Vector, b: Vector, c: Vector) -> Vector {
        or(a, or(b, c))
    }

    fn rotate_left(x: Vector) -> Vector {
        or(up::<1>(x), down::<15>(x))
    }

    fn rotate_right(x: Vector) -> Vector {
        or(down::<1>(x), up::<15>(x))
    }

    /// How many bytes are 255.
    fn n_escaped(symbols: Vector) -> usize {
        let escapes = _mm256_cmpeq_epi8(symbols, _mm256_set1_epi8(-1));
        _mm256_movemask_epi8(escapes).count_ones() as usize
    }

    fn none_escaped() -> Vector {
        zero()
    }

    /// Notes which words are 255.
    fn or_escaped(escaped: Vector, symbols: Vector) -> Vector {
        or(escaped, _mm256_cmpeq_epi16(symbols, all(0xFF)))
    }

    fn any_escaped(escaped: Vector) -> bool {
        _mm256_testz_si256(escaped, escaped) == 0
    }

    /// Narrows words below 256 to bytes and puts them in order.
    fn pack(a: Vector, b: Vector, order: Vector) -> Vector {
        _mm256_permutevar8x32_epi32(pack_to_8(a, b), order)
    }

    /// Stores the lower bytes of words.
    fn store_narrowed(bytes: &mut [u8], words: Vector) {
        let words = and(words, all(0xFF));
        let packed = _mm256_permute4x64_epi64::<0b11_01_10_00>(pack_to_8(words, words));
        store_half(bytes, _mm256_castsi256_si128(packed));
    }

    /// Words of 32 bits from their halves.
    fn interleave(low: Vector, high: Vector) -> [Vector; 2] {
        let (x, y) = (_mm256_unpacklo_epi16(low, high), _mm256_unpackhi_epi16(low, high));
        [_mm256_permute2x128_si256::<0x20>(x, y), _mm256_permute2x128_si256::<0x31>(x, y)]
    }

    /// Where each four bytes come from after the packs within lanes.
    fn order<const WORD: usize>() -> Vector {
        match WORD {
            8 => _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
            32 => _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7),
            _ => _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7),
        }
    }
}
