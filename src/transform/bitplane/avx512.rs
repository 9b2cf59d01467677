//! AVX-512 variant: 64 words a step.

use crate::simd::avx512::{LEN, Vector, load, store, zero};
use std::arch::x86_64::*;

/// A bit of every byte.
type Bits = u64;

super::vector::kernels!(
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
);

crate::simd::with_features! {
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt":

    /// The bits of every byte, the lowest first: a test writes them straight to a mask register.
    fn bits_of(v: Vector) -> [Bits; 8] {
        std::array::from_fn(|p| _mm512_test_epi8_mask(v, _mm512_set1_epi8((1u8 << p) as i8)))
    }

    /// Sets bit `p`, which is not, of the bytes whose bit is set.
    fn with_bits(v: Vector, bits: Bits, p: usize) -> Vector {
        _mm512_mask_add_epi8(v, bits, v, _mm512_set1_epi8((1u8 << p) as i8))
    }

    fn sorted(x: Vector, y: Vector) -> [Vector; 2] {
        [EVEN, ODD].map(|places| _mm512_permutex2var_epi8(x, load(&places), y))
    }

    fn merged(even: Vector, odd: Vector) -> [Vector; 2] {
        [LOWER, UPPER].map(|places| _mm512_permutex2var_epi8(even, load(&places), odd))
    }
}

/// Places of the even bytes of two vectors one after the other, and of their odd bytes.
const EVEN: [u8; 64] = places(0, 2, 4);
const ODD: [u8; 64] = places(1, 2, 4);
/// Places that interleave the lower halves of two vectors, and their upper halves.
const LOWER: [u8; 64] = places(0, 64, 1);
const UPPER: [u8; 64] = places(32, 64, 1);

/// `start` and `start + second`, then each pair of places `step` further on.
const fn places(start: u8, second: u8, step: u8) -> [u8; 64] {
    let mut table = [0; 64];
    let mut i = 0;
    while i < 64 {
        table[i as usize] = start + i / 2 * step + (i & 1) * second;
        i += 1;
    }
    table
}
