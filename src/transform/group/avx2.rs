//! AVX2 variant: 32 words a step.

use crate::simd::avx2::{
    LEN, Vector, all, all_32, and, down, halve_64, load, pack_to_8, pack_to_16, store, unpack_8,
    unpack_16, unpack_32, upper_half_32,
};
use std::arch::x86_64::*;

super::vector::kernels!("avx2,bmi1,bmi2,lzcnt,popcnt");

#[inline]
#[target_feature(enable = "avx2")]
fn in_order(order: Vector, v: Vector) -> Vector {
    _mm256_shuffle_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(v), order)
}

#[inline]
#[target_feature(enable = "avx2")]
fn out_of_order(order: Vector, v: Vector) -> Vector {
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(v, order))
}

/// Where byte i of a lane is after the halvings and a swap of the middle quarters. Before that,
/// each lane holds the words that each of the W registers had in it, 16 / W of them.
const fn order<const W: usize>() -> [u8; 32] {
    let each = 16 / W;
    let mut order = [0; 32];
    let mut i = 0;
    while i < 32 {
        let (register, lane, k) = (i % 16 / (2 * each), i / each % 2, i % each);
        order[i] = (lane * 8 + register * each + k) as u8;
        i += 1;
    }
    order
}

fn inverse(order: [u8; 32]) -> [u8; 32] {
    let mut inverse = [0; 32];
    for (i, &from) in order.iter().enumerate() {
        inverse[i / 16 * 16 + usize::from(from)] = i as u8 % 16;
    }
    inverse
}
