//! AVX2 variant: 32 words a step; the scalar code ends it.
//!
//! Pairs of registers are halved into their lower and upper bytes until bytes are left. All of
//! that works within 128-bit lanes; one permutation a plane puts the words in order.
use crate::simd::avx2::{load, store};
use std::arch::x86_64::*;

macro_rules! with_avx2 {
    ($($item:item)*) => {$(
        #[inline]
        #[target_feature(
            enable = "avx2,bmi1,bmi2,lzcnt,popcnt"
        )]
        $item
    )*};
}

with_avx2! {
    pub(super) fn split<const W: usize>(bytes: &[u8], planes: &mut [&mut [u8]]) {
        let steps = bytes.len() / (32 * W);
        let order = load(&order::<W>());
        for step in 0..steps {
            let words = &bytes[step * 32 * W..][..32 * W];
            let v: [__m256i; W] = std::array::from_fn(|i| load(&words[32 * i..]));
            let parts: [__m256i; W] = match *v.as_slice() {
                [a, b] => to_array(&halve_16(a, b)),
                [a, b, c, d] => to_array(&quarter(a, b, c, d)),
                [a, b, c, d, e, f, g, h] => {
                    let [ab, cd, ef, gh] =
                        [halve_64(a, b), halve_64(c, d), halve_64(e, f), halve_64(g, h)];
                    let low = quarter(ab[0], cd[0], ef[0], gh[0]);
                    let high = quarter(ab[1], cd[1], ef[1], gh[1]);
                    to_array([low, high].as_flattened())
                }
                _ => v,
            };
            for (plane, part) in planes.iter_mut().zip(parts) {
                store(&mut plane[step * 32..], in_order(order, part));
            }
        }
        super::split_scalar::<W>(steps * 32, bytes, planes);
    }

    pub(super) fn join<const W: usize>(planes: &[&[u8]], bytes: &mut [u8]) {
        let steps = bytes.len() / (32 * W);
        let order = load(&inverse(order::<W>()));
        for step in 0..steps {
            let words = &mut bytes[step * 32 * W..][..32 * W];
            let parts: [__m256i; W] = std::array::from_fn(|j| {
                out_of_order(order, load(&planes[j][step * 32..]))
            });
            let v: [__m256i; W] = match *parts.as_slice() {
                [a, b] => to_array(&double_8(a, b)),
                [a, b, c, d] => to_array(&double_twice(a, b, c, d)),
                [a, b, c, d, e, f, g, h] => {
                    let (low, high) = (double_twice(a, b, c, d), double_twice(e, f, g, h));
                    let [a, b, c, d] = [0, 1, 2, 3].map(|i| double_32(low[i], high[i]));
                    to_array([a, b, c, d].as_flattened())
                }
                _ => parts,
            };
            for (i, v) in v.into_iter().enumerate() {
                store(&mut words[32 * i..], v);
            }
        }
        super::join_scalar::<W>(steps * 32, planes, bytes);
    }

    /// Lower and upper bytes of 16-bit words.
    fn halve_16(a: __m256i, b: __m256i) -> [__m256i; 2] {
        let low = _mm256_set1_epi16(0xFF);
        [
            _mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low)),
            _mm256_packus_epi16(_mm256_srli_epi16::<8>(a), _mm256_srli_epi16::<8>(b)),
        ]
    }

    fn halve_32(a: __m256i, b: __m256i) -> [__m256i; 2] {
        let low = _mm256_set1_epi32(0xFFFF);
        [
            _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low)),
            _mm256_packus_epi32(_mm256_srli_epi32::<16>(a), _mm256_srli_epi32::<16>(b)),
        ]
    }

    fn halve_64(a: __m256i, b: __m256i) -> [__m256i; 2] {
        let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
        [
            _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b)),
            _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b)),
        ]
    }

    /// The four bytes of 32-bit words.
    fn quarter(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> [__m256i; 4] {
        let ([l0, h0], [l1, h1]) = (halve_32(a, b), halve_32(c, d));
        let ([p0, p1], [p2, p3]) = (halve_16(l0, l1), halve_16(h0, h1));
        [p0, p1, p2, p3]
    }

    /// Inverse of [`halve_16`].
    fn double_8(low: __m256i, high: __m256i) -> [__m256i; 2] {
        [_mm256_unpacklo_epi8(low, high), _mm256_unpackhi_epi8(low, high)]
    }

    fn double_16(low: __m256i, high: __m256i) -> [__m256i; 2] {
        [_mm256_unpacklo_epi16(low, high), _mm256_unpackhi_epi16(low, high)]
    }

    fn double_32(low: __m256i, high: __m256i) -> [__m256i; 2] {
        [_mm256_unpacklo_epi32(low, high), _mm256_unpackhi_epi32(low, high)]
    }

    /// Inverse of [`quarter`].
    fn double_twice(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> [__m256i; 4] {
        let ([l0, l1], [h0, h1]) = (double_8(a, b), double_8(c, d));
        let ([w0, w1], [w2, w3]) = (double_16(l0, h0), double_16(l1, h1));
        [w0, w1, w2, w3]
    }

    fn in_order(order: __m256i, v: __m256i) -> __m256i {
        _mm256_shuffle_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(v), order)
    }

    fn out_of_order(order: __m256i, v: __m256i) -> __m256i {
        _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(v, order))
    }

    fn to_array<const W: usize>(v: &[__m256i]) -> [__m256i; W] {
        std::array::from_fn(|i| v[i])
    }
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
