//! AVX-512 variant: 64 words a step.

use crate::simd::avx512::{
    LEN, Vector, all, all_32, and, down, halve_64, load, pack_to_8, pack_to_16, store, unpack_8,
    unpack_16, unpack_32, upper_half_32,
};
use std::arch::x86_64::*;

super::vector::kernels!(
    "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
);

#[inline]
#[target_feature(enable = "avx512vbmi")]
fn in_order(order: Vector, v: Vector) -> Vector {
    _mm512_permutexvar_epi8(order, v)
}

#[inline]
#[target_feature(enable = "avx512vbmi")]
fn out_of_order(order: Vector, v: Vector) -> Vector {
    _mm512_permutexvar_epi8(order, v)
}

/// Where byte i of a plane is after the halvings: each lane holds the words that each of the W
/// registers had in that lane, 16 / W of them.
const fn order<const W: usize>() -> [u8; 64] {
    let each = 16 / W;
    let mut order = [0; 64];
    let mut i = 0;
    while i < 64 {
        let (register, lane, k) = (i / (4 * each), i / each % 4, i % each);
        order[i] = (16 * lane + register * each + k) as u8;
        i += 1;
    }
    order
}

fn inverse(order: [u8; 64]) -> [u8; 64] {
    let mut inverse = [0; 64];
    for (i, &from) in order.iter().enumerate() {
        inverse[usize::from(from)] = i as u8;
    }
    inverse
}
