//! AVX-512 variant: 64 values, `8 · width` bytes, at a time.
//!
//! ```text
//! pack     bytes → pairs → quads → octets by multiply-add and a shift; one byte permutation
//!          closes the gaps between the octets
//! unpack   one byte permutation spreads `width` bytes into every 64-bit lane; `vpmultishiftqb`
//!          takes eight bits from bit j · width for byte j
//! ```
//!
//! Stores and loads are 64 bytes wide although only `8 · width` belong to the step, so the last
//! steps go through the scalar code.
use crate::simd::avx512::{load, store};
use std::arch::x86_64::*;

/// Steps of 64 values for which 64 bytes are there on the packed side.
fn steps(width: usize, packed: usize, values: usize) -> usize {
    if packed < 64 { 0 } else { ((packed - 64) / (8 * width) + 1).min(values / 64) }
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn pack(width: u8, values: &[u8], out: &mut [u8]) {
    let w = usize::from(width);
    let steps = steps(w, out.len(), values.len());
    let mask = _mm512_set1_epi8((0xFF_u8 >> (8 - w)) as i8);
    // Multipliers: (1, 2^w) for the bytes of a pair, (1, 2^2w) for the pairs of a quad. The first
    // is the unsigned operand of `vpmaddubsw`, because 2^7 is no positive signed byte.
    let pairs = _mm512_set1_epi16((1 << (8 + w)) + 1);
    let quads = _mm512_set1_epi32((1 << (16 + 2 * w)) + 1);
    let low = _mm512_set1_epi64((1i64 << (4 * w)) - 1);
    let shift = _mm_set_epi64x(0, 32 - 4 * i64::from(width));
    let close = {
        let mut index = [0u8; 64];
        for (i, x) in index[..8 * w].iter_mut().enumerate() {
            *x = (i / w * 8 + i % w) as u8;
        }
        load(&index)
    };
    let (values_64, _) = values.as_chunks::<64>();
    for (i, values) in values_64[..steps].iter().enumerate() {
        let v = _mm512_and_si512(load(values), mask);
        let v = _mm512_madd_epi16(_mm512_maddubs_epi16(pairs, v), quads);
        // Lower quad where it is, upper quad moved down behind it: low ? v : v >> shift.
        let v = _mm512_ternarylogic_epi64::<0xCA>(low, v, _mm512_srl_epi64(v, shift));
        store(&mut out[i * 8 * w..], _mm512_permutexvar_epi8(close, v));
    }
    super::pack_scalar(width, &values[steps * 64..], &mut out[steps * 8 * w..]);
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn unpack(width: u8, bytes: &[u8], values: &mut [u8]) {
    let w = usize::from(width);
    let steps = steps(w, bytes.len(), values.len());
    let mask = _mm512_set1_epi8((0xFF_u8 >> (8 - w)) as i8);
    let (spread, shifts) = {
        let (mut index, mut shifts) = ([0u8; 64], [0u8; 64]);
        for i in 0..64 {
            // Bytes past the group's `w` hold bits that no value takes.
            index[i] = ((i / 8 * w + i % 8) % 64) as u8;
            shifts[i] = (i % 8 * w) as u8;
        }
        (load(&index), load(&shifts))
    };
    let (values_64, _) = values.as_chunks_mut::<64>();
    for (i, values) in values_64[..steps].iter_mut().enumerate() {
        let v = _mm512_permutexvar_epi8(spread, load(&bytes[i * 8 * w..]));
        let v = _mm512_multishift_epi64_epi8(shifts, v);
        store(values, _mm512_and_si512(v, mask));
    }
    super::unpack_scalar(width, &bytes[steps * 8 * w..], &mut values[steps * 64..]);
}
