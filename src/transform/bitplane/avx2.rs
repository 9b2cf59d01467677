//! AVX2 variant: 32 words a step.

use crate::simd::avx2::{LEN, Vector, all, and, down, load, or, pack_to_8, store, unpack_8, zero};
use std::arch::x86_64::*;

/// A bit of every byte.
type Bits = u32;

super::vector::kernels!("avx2,bmi1,bmi2,lzcnt,popcnt");

crate::simd::with_features! { "avx2,bmi1,bmi2,lzcnt,popcnt":
    /// The bits of every byte, the lowest first: `movemask` reads bit 7, eight times with the vector
    /// doubled in between.
    fn bits_of(mut v: Vector) -> [Bits; 8] {
        let mut bits = [0; 8];
        for bits in bits.iter_mut().rev() {
            *bits = _mm256_movemask_epi8(v) as u32;
            v = _mm256_add_epi8(v, v);
        }
        bits
    }

    /// Sets bit `p` of the bytes whose bit is set: 32 bits are widened to 32 bytes, in each of which
    /// one bit is tested.
    fn with_bits(v: Vector, bits: Bits, p: usize) -> Vector {
        // Byte i / 8 of the mask in byte i, then bit i % 8 of it.
        let spread = _mm256_set_epi64x(
            0x0303_0303_0303_0303,
            0x0202_0202_0202_0202,
            0x0101_0101_0101_0101,
            0,
        );
        let select = _mm256_set1_epi64x(0x8040_2010_0804_0201u64 as i64);
        let bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(bits as i32), spread);
        let set = _mm256_cmpeq_epi8(and(bytes, select), select);
        or(v, and(set, _mm256_set1_epi8((1u8 << p) as i8)))
    }

    fn sorted(x: Vector, y: Vector) -> [Vector; 2] {
        let low = all(0xff);
        let even = pack_to_8(and(x, low), and(y, low));
        let odd = pack_to_8(down::<8>(x), down::<8>(y));
        [even, odd].map(|v| _mm256_permute4x64_epi64::<0b11_01_10_00>(v))
    }

    fn merged(even: Vector, odd: Vector) -> [Vector; 2] {
        let [x, y] = unpack_8(even, odd);
        [_mm256_permute2x128_si256::<0x20>(x, y), _mm256_permute2x128_si256::<0x31>(x, y)]
    }
}
