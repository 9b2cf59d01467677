//! AVX-512 variant: 64 words a step; the scalar code ends it.
//!
//! Pairs of registers are halved into their lower and upper bytes until bytes are left. All of
//! that works within 128-bit lanes; one permutation a plane puts the words in order.
use crate::simd::avx512::{load, store};
use std::arch::x86_64::*;

macro_rules! with_avx512 {
    ($($item:item)*) => {$(
        #[inline]
        #[target_feature(
            enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
        )]
        $item
    )*};
}

with_avx512! {
    pub(super) fn split<const W: usize>(bytes: &[u8], planes: &mut [&mut [u8]]) {
        let steps = bytes.len() / (64 * W);
        let order = load(&order::<W>());
        for step in 0..steps {
            let words = &bytes[step * 64 * W..][..64 * W];
            let v: [__m512i; W] = std::array::from_fn(|i| load(&words[64 * i..]));
            let parts: [__m512i; W] = match *v.as_slice() {
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
                store(&mut plane[step * 64..], _mm512_permutexvar_epi8(order, part));
            }
        }
        super::split_scalar::<W>(steps * 64, bytes, planes);
    }

    pub(super) fn join<const W: usize>(planes: &[&[u8]], bytes: &mut [u8]) {
        let steps = bytes.len() / (64 * W);
        let order = load(&inverse(order::<W>()));
        for step in 0..steps {
            let words = &mut bytes[step * 64 * W..][..64 * W];
            let parts: [__m512i; W] = std::array::from_fn(|j| {
                _mm512_permutexvar_epi8(order, load(&planes[j][step * 64..]))
            });
            let v: [__m512i; W] = match *parts.as_slice() {
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
                store(&mut words[64 * i..], v);
            }
        }
        super::join_scalar::<W>(steps * 64, planes, bytes);
    }

    /// Lower and upper bytes of 16-bit words.
    fn halve_16(a: __m512i, b: __m512i) -> [__m512i; 2] {
        let low = _mm512_set1_epi16(0xFF);
        [
            _mm512_packus_epi16(_mm512_and_si512(a, low), _mm512_and_si512(b, low)),
            _mm512_packus_epi16(_mm512_srli_epi16::<8>(a), _mm512_srli_epi16::<8>(b)),
        ]
    }

    fn halve_32(a: __m512i, b: __m512i) -> [__m512i; 2] {
        let low = _mm512_set1_epi32(0xFFFF);
        [
            _mm512_packus_epi32(_mm512_and_si512(a, low), _mm512_and_si512(b, low)),
            _mm512_packus_epi32(_mm512_srli_epi32::<16>(a), _mm512_srli_epi32::<16>(b)),
        ]
    }

    fn halve_64(a: __m512i, b: __m512i) -> [__m512i; 2] {
        let (a, b) = (_mm512_castsi512_ps(a), _mm512_castsi512_ps(b));
        [
            _mm512_castps_si512(_mm512_shuffle_ps::<0b10_00_10_00>(a, b)),
            _mm512_castps_si512(_mm512_shuffle_ps::<0b11_01_11_01>(a, b)),
        ]
    }

    /// The four bytes of 32-bit words.
    fn quarter(a: __m512i, b: __m512i, c: __m512i, d: __m512i) -> [__m512i; 4] {
        let ([l0, h0], [l1, h1]) = (halve_32(a, b), halve_32(c, d));
        let ([p0, p1], [p2, p3]) = (halve_16(l0, l1), halve_16(h0, h1));
        [p0, p1, p2, p3]
    }

    /// Inverse of [`halve_16`].
    fn double_8(low: __m512i, high: __m512i) -> [__m512i; 2] {
        [_mm512_unpacklo_epi8(low, high), _mm512_unpackhi_epi8(low, high)]
    }

    fn double_16(low: __m512i, high: __m512i) -> [__m512i; 2] {
        [_mm512_unpacklo_epi16(low, high), _mm512_unpackhi_epi16(low, high)]
    }

    fn double_32(low: __m512i, high: __m512i) -> [__m512i; 2] {
        [_mm512_unpacklo_epi32(low, high), _mm512_unpackhi_epi32(low, high)]
    }

    /// Inverse of [`quarter`].
    fn double_twice(a: __m512i, b: __m512i, c: __m512i, d: __m512i) -> [__m512i; 4] {
        let ([l0, l1], [h0, h1]) = (double_8(a, b), double_8(c, d));
        let ([w0, w1], [w2, w3]) = (double_16(l0, h0), double_16(l1, h1));
        [w0, w1, w2, w3]
    }

    fn to_array<const W: usize>(v: &[__m512i]) -> [__m512i; W] {
        std::array::from_fn(|i| v[i])
    }
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
