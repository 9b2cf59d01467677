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
//! steps mask the rest.
use crate::simd::avx512::{load, load_part, store, store_part};
use std::arch::x86_64::*;

/// Steps of 64 values for which 64 bytes are there on the packed side.
fn steps(width: usize, packed: usize, values: usize) -> usize {
    if packed < 64 { 0 } else { ((packed - 64) / (8 * width) + 1).min(values / 64) }
}

/// Which byte of the octets goes where when `pack` closes gaps, by width.
static CLOSE: [[u8; 64]; 8] = {
    let mut close = [[0; 64]; 8];
    let (mut w, mut i) = (1, 0);
    while w < 8 {
        while i < 8 * w {
            close[w][i] = (i / w * 8 + i % w) as u8;
            i += 1;
        }
        (w, i) = (w + 1, 0);
    }
    close
};

/// Which bytes every octet takes when `unpack` spreads them, and by how many bits each of its
/// bytes is then shifted, by width. Bytes past the group's own hold bits that no value takes.
static SPREAD: [[[u8; 64]; 2]; 8] = {
    let mut spread = [[[0; 64]; 2]; 8];
    let (mut w, mut i) = (1, 0);
    while w < 8 {
        while i < 64 {
            spread[w][0][i] = ((i / 8 * w + i % 8) % 64) as u8;
            spread[w][1][i] = (i % 8 * w) as u8;
            i += 1;
        }
        (w, i) = (w + 1, 0);
    }
    spread
};

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
    let close = load(&CLOSE[w]);
    let packed = |values| {
        let v = _mm512_and_si512(load(values), mask);
        let v = _mm512_madd_epi16(_mm512_maddubs_epi16(pairs, v), quads);
        // Lower quad where it is, upper quad moved down behind it: low ? v : v >> shift.
        let v = _mm512_ternarylogic_epi64::<0xCA>(low, v, _mm512_srl_epi64(v, shift));
        _mm512_permutexvar_epi8(close, v)
    };
    let (values_64, rest) = values.as_chunks::<64>();
    for (i, values) in values_64[..steps].iter().enumerate() {
        store(&mut out[i * 8 * w..], packed(values));
    }
    for (i, values) in values_64.iter().enumerate().skip(steps) {
        store_part(&mut out[i * 8 * w..][..8 * w], packed(values));
    }
    super::pack_scalar(width, rest, &mut out[values_64.len() * 8 * w..]);
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn unpack(width: u8, bytes: &[u8], values: &mut [u8]) {
    let w = usize::from(width);
    let steps = steps(w, bytes.len(), values.len());
    let mask = _mm512_set1_epi8((0xFF_u8 >> (8 - w)) as i8);
    let [spread, shifts] = &SPREAD[w];
    let (spread, shifts) = (load(spread), load(shifts));
    let unpacked = |bytes| {
        let v = _mm512_multishift_epi64_epi8(shifts, _mm512_permutexvar_epi8(spread, bytes));
        _mm512_and_si512(v, mask)
    };
    let (values_64, rest) = values.as_chunks_mut::<64>();
    let n = values_64.len();
    let (whole, last) = values_64.split_at_mut(steps);
    for (values, i) in whole.iter_mut().zip(0..) {
        store(values, unpacked(load(&bytes[i * 8 * w..])));
    }
    for (values, i) in last.iter_mut().zip(steps..) {
        store(values, unpacked(load_part(&bytes[i * 8 * w..][..8 * w])));
    }
    super::unpack_scalar(width, &bytes[n * 8 * w..], rest);
}
