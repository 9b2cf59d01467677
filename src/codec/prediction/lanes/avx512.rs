//! A row at a time: one word of every lane in a register.
//!
//! Deviations from the scalar code, all invisible in the result:
//! - Units leave and reach their lanes by compressing and expanding registers.
//! - What a lane holds beside a unit's worth is in a second register for as long as a step lasts.
//! - The last row, if it is not whole, is filled up with words of no bits.
//! - Near the end, units come from a padded copy of the rest.

use std::arch::x86_64::*;

use super::{OF_LARGE, OF_SMALL, zeros};
use crate::simd::avx512::{load, load_half, load_quarter, store, store_half};

/// Bytes of the units that a row may take.
const REACH: usize = 64;

/// Stores the lowest `n` bytes of units at the end of `out[..at]`. Returns where they start.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn put(out: &mut [u8], at: usize, n: usize, units: __m512i) -> usize {
    let from = at - n;
    let to = &mut out[from..at];
    let mask = _bzhi_u64(!0, n as u32);
    // SAFETY: the mask lets through the `n` bytes of `to` alone.
    unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), mask, units) };
    from
}

/// The units from `at` on, and zeros behind the last one.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn next(units: &[u8], at: usize) -> __m512i {
    match units.get(at..at + REACH) {
        Some(near) => load(near),
        None => load(&last(units, at)),
    }
}

#[cold]
fn last(units: &[u8], at: usize) -> [u8; REACH] {
    let rest = units.get(at..).unwrap_or(&[]);
    let mut padded = [0; REACH];
    padded[..rest.len()].copy_from_slice(rest);
    padded
}

/// What lanes hold, and how many bits of it, in words of 16 or 32 bits; and where the units are.
struct Lanes {
    held: __m512i,
    n_held: __m512i,
    at: usize,
}

/// See [`super::write_each`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn write_small<const N: usize>(
    deltas: &[u8],
    symbols: &[u8],
    sums: &[u32; OF_SMALL],
    out: &mut [u8],
) {
    let counts: [u8; 64] =
        std::array::from_fn(|i| if i % 2 == 0 { zeros(sums[i / 2], 16) as u8 } else { 0 });
    let mut lanes = Lanes { held: _mm512_setzero_si512(), n_held: load(&counts), at: out.len() };
    let (rows, last) = symbols.as_chunks::<OF_SMALL>();
    let (delta_rows, last_deltas) = deltas.split_at(N * OF_SMALL * rows.len());
    if !last.is_empty() {
        let (mut symbols, mut deltas) = ([0; OF_SMALL], [0; 64]);
        symbols[..last.len()].copy_from_slice(last);
        deltas[..last_deltas.len()].copy_from_slice(last_deltas);
        lanes.write_16::<N>(&deltas, &symbols, out);
    }
    for (deltas, symbols) in delta_rows.chunks_exact(N * OF_SMALL).zip(rows).rev() {
        lanes.write_16::<N>(deltas, symbols, out);
    }
}

/// [`write_small`] for words of four bytes.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn write_large(deltas: &[u8], symbols: &[u8], sums: &[u32; OF_LARGE], out: &mut [u8]) {
    let counts: [u8; 64] =
        std::array::from_fn(|i| if i % 4 == 0 { zeros(sums[i / 4], 32) as u8 } else { 0 });
    let mut lanes = Lanes { held: _mm512_setzero_si512(), n_held: load(&counts), at: out.len() };
    let (rows, last) = symbols.as_chunks::<OF_LARGE>();
    let (delta_rows, last_deltas) = deltas.split_at(64 * rows.len());
    if !last.is_empty() {
        let (mut symbols, mut deltas) = ([0; OF_LARGE], [0; 64]);
        symbols[..last.len()].copy_from_slice(last);
        deltas[..last_deltas.len()].copy_from_slice(last_deltas);
        lanes.write_32(&deltas, &symbols, out);
    }
    for (deltas, symbols) in delta_rows.chunks_exact(64).zip(rows).rev() {
        lanes.write_32(deltas, symbols, out);
    }
}

/// See [`super::join_each`].
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn join_small<const N: usize>(
    symbols: &[u8],
    units: &[u8],
    predicted: &[u8],
    out: &mut [u8],
) -> bool {
    let mut lanes = Lanes { held: _mm512_setzero_si512(), n_held: _mm512_setzero_si512(), at: 0 };
    let (rows, last) = symbols.as_chunks::<OF_SMALL>();
    let (predicted, last_predicted) = predicted.split_at(N * OF_SMALL * rows.len());
    let (out, last_out) = out.split_at_mut(N * OF_SMALL * rows.len());
    let words = out.chunks_exact_mut(N * OF_SMALL).zip(predicted.chunks_exact(N * OF_SMALL));
    for ((out, predicted), symbols) in words.zip(rows) {
        lanes.join_16::<N>(symbols, units, predicted, out);
    }
    if !last.is_empty() {
        let (mut symbols, mut predicted, mut out) = ([0; OF_SMALL], [0; 64], [0; 64]);
        symbols[..last.len()].copy_from_slice(last);
        predicted[..last_predicted.len()].copy_from_slice(last_predicted);
        lanes.join_16::<N>(&symbols, units, &predicted, &mut out);
        last_out.copy_from_slice(&out[..last_out.len()]);
    }
    lanes.are_empty() && lanes.at == units.len()
}

/// [`join_small`] for words of four bytes.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn join_large(symbols: &[u8], units: &[u8], predicted: &[u8], out: &mut [u8]) -> bool {
    let mut lanes = Lanes { held: _mm512_setzero_si512(), n_held: _mm512_setzero_si512(), at: 0 };
    let (rows, last) = symbols.as_chunks::<OF_LARGE>();
    let (predicted, last_predicted) = predicted.split_at(64 * rows.len());
    let (out, last_out) = out.split_at_mut(64 * rows.len());
    let words = out.chunks_exact_mut(64).zip(predicted.chunks_exact(64));
    for ((out, predicted), symbols) in words.zip(rows) {
        lanes.join_32(symbols, units, predicted, out);
    }
    if !last.is_empty() {
        let (mut symbols, mut predicted, mut out) = ([0; OF_LARGE], [0; 64], [0; 64]);
        symbols[..last.len()].copy_from_slice(last);
        predicted[..last_predicted.len()].copy_from_slice(last_predicted);
        lanes.join_32(&symbols, units, &predicted, &mut out);
        last_out.copy_from_slice(&out[..last_out.len()]);
    }
    lanes.are_empty() && lanes.at == units.len()
}

impl Lanes {
    #[inline]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
    )]
    fn are_empty(&self) -> bool {
        _mm512_test_epi32_mask(self.held, self.held) == 0
    }

    /// Puts the bits of a row of words into the lanes, and full units before those in `out`.
    #[inline]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
    )]
    fn write_16<const N: usize>(&mut self, deltas: &[u8], symbols: &[u8; 32], out: &mut [u8]) {
        let (one, fifteen, sixteen) =
            (_mm512_set1_epi16(1), _mm512_set1_epi16(15), _mm512_set1_epi16(16));
        let (n, _) = small(_mm512_cvtepu8_epi16(load_half(symbols)));
        let d = if N == 1 { _mm512_cvtepi8_epi16(load_half(deltas)) } else { load(deltas) };
        let below = _mm512_sub_epi16(_mm512_sllv_epi16(one, n), one);
        let value = _mm512_and_si512(_mm512_abs_epi16(d), below);
        let low = _mm512_or_si512(value, _mm512_sllv_epi16(self.held, n));
        let high = _mm512_srlv_epi16(self.held, _mm512_sub_epi16(sixteen, n));
        let n_bits = _mm512_add_epi16(self.n_held, n);
        let full = _mm512_cmpge_epu16_mask(n_bits, sixteen);
        self.n_held = _mm512_and_si512(n_bits, fifteen);
        let unit = _mm512_shrdv_epi16(low, high, self.n_held);
        let rest = _mm512_sub_epi16(_mm512_sllv_epi16(one, self.n_held), one);
        self.held = _mm512_and_si512(low, rest);
        let n = 2 * full.count_ones() as usize;
        self.at = put(out, self.at, n, _mm512_maskz_compress_epi16(full, unit));
    }

    /// [`Lanes::write_16`] with lanes of 32 bits.
    #[inline]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
    )]
    fn write_32(&mut self, deltas: &[u8], symbols: &[u8; 16], out: &mut [u8]) {
        let (one, most, all) = (_mm512_set1_epi32(1), _mm512_set1_epi32(31), _mm512_set1_epi32(32));
        let (n, _) = large(_mm512_cvtepu8_epi32(load_quarter(symbols)));
        let below = _mm512_sub_epi32(_mm512_sllv_epi32(one, n), one);
        let value = _mm512_and_si512(_mm512_abs_epi32(load(deltas)), below);
        let low = _mm512_or_si512(value, _mm512_sllv_epi32(self.held, n));
        let high = _mm512_srlv_epi32(self.held, _mm512_sub_epi32(all, n));
        let n_bits = _mm512_add_epi32(self.n_held, n);
        let full = _mm512_cmpge_epu32_mask(n_bits, all);
        self.n_held = _mm512_and_si512(n_bits, most);
        let unit = _mm512_shrdv_epi32(low, high, self.n_held);
        let rest = _mm512_sub_epi32(_mm512_sllv_epi32(one, self.n_held), one);
        self.held = _mm512_and_si512(low, rest);
        let n = 4 * full.count_ones() as usize;
        self.at = put(out, self.at, n, _mm512_maskz_compress_epi32(full, unit));
    }

    /// Takes the bits of a row of words from the lanes, which take units, and moves the words.
    #[inline]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
    )]
    fn join_16<const N: usize>(
        &mut self,
        symbols: &[u8; 32],
        units: &[u8],
        predicted: &[u8],
        out: &mut [u8],
    ) {
        let (one, fifteen) = (_mm512_set1_epi16(1), _mm512_set1_epi16(15));
        let s = _mm512_cvtepu8_epi16(load_half(symbols));
        let (n, lead) = small(s);
        let need = _mm512_cmplt_epu16_mask(self.n_held, n);
        let unit = _mm512_maskz_expand_epi16(need, next(units, self.at));
        self.at += 2 * need.count_ones() as usize;
        let below = _mm512_sub_epi16(_mm512_sllv_epi16(one, n), one);
        let value = _mm512_or_si512(self.held, _mm512_sllv_epi16(unit, self.n_held));
        // A lane that needs a unit holds fewer than `n` bits; the unit of the others is zero.
        self.held = _mm512_or_si512(
            _mm512_srlv_epi16(self.held, n),
            _mm512_srlv_epi16(unit, _mm512_sub_epi16(n, self.n_held)),
        );
        self.n_held = _mm512_and_si512(_mm512_sub_epi16(self.n_held, n), fifteen);
        let magnitude =
            _mm512_add_epi16(_mm512_sllv_epi16(lead, n), _mm512_and_si512(value, below));
        let minus = _mm512_sub_epi16(_mm512_and_si512(s, one), one);
        let r = _mm512_sub_epi16(_mm512_xor_si512(magnitude, minus), minus);
        if N == 1 {
            let order = |x: __m256i| {
                let negative = _mm256_movm_epi8(_mm256_movepi8_mask(x));
                _mm256_xor_si256(x, _mm256_and_si256(negative, _mm256_set1_epi8(i8::MAX)))
            };
            let p = order(load_half(predicted));
            store_half(out, order(_mm256_add_epi8(p, _mm512_cvtepi16_epi8(r))));
        } else {
            let order = |x: __m512i| {
                let flip = _mm512_srli_epi16::<1>(_mm512_srai_epi16::<15>(x));
                _mm512_xor_si512(x, flip)
            };
            store(out, order(_mm512_add_epi16(order(load(predicted)), r)));
        }
    }

    /// [`Lanes::join_16`] with lanes of 32 bits.
    #[inline]
    #[target_feature(
        enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
    )]
    fn join_32(&mut self, symbols: &[u8; 16], units: &[u8], predicted: &[u8], out: &mut [u8]) {
        let (one, most) = (_mm512_set1_epi32(1), _mm512_set1_epi32(31));
        let s = _mm512_cvtepu8_epi32(load_quarter(symbols));
        let (n, lead) = large(s);
        let need = _mm512_cmplt_epu32_mask(self.n_held, n);
        let unit = _mm512_maskz_expand_epi32(need, next(units, self.at));
        self.at += 4 * need.count_ones() as usize;
        let below = _mm512_sub_epi32(_mm512_sllv_epi32(one, n), one);
        let value = _mm512_or_si512(self.held, _mm512_sllv_epi32(unit, self.n_held));
        self.held = _mm512_or_si512(
            _mm512_srlv_epi32(self.held, n),
            _mm512_srlv_epi32(unit, _mm512_sub_epi32(n, self.n_held)),
        );
        self.n_held = _mm512_and_si512(_mm512_sub_epi32(self.n_held, n), most);
        let magnitude =
            _mm512_add_epi32(_mm512_sllv_epi32(lead, n), _mm512_and_si512(value, below));
        let minus = _mm512_sub_epi32(_mm512_and_si512(s, one), one);
        let r = _mm512_sub_epi32(_mm512_xor_si512(magnitude, minus), minus);
        let order = |x: __m512i| {
            let flip = _mm512_srli_epi32::<1>(_mm512_srai_epi32::<31>(x));
            _mm512_xor_si512(x, flip)
        };
        store(out, order(_mm512_add_epi32(order(load(predicted)), r)));
    }
}

/// Of symbols in words of 16 bits: how many bits follow, and the bits of the magnitudes above.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn small(symbols: __m512i) -> (__m512i, __m512i) {
    let class = _mm512_avg_epu16(symbols, _mm512_setzero_si512());
    let four = _mm512_set1_epi16(4);
    let n = _mm512_srli_epi16::<2>(_mm512_subs_epu16(class, four));
    // Classes below 4 are themselves, others the bits 1 and two more.
    let lead = _mm512_or_si512(_mm512_and_si512(class, _mm512_set1_epi16(3)), four);
    (n, _mm512_min_epu16(class, lead))
}

/// [`small`] in words of 32 bits.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn large(symbols: __m512i) -> (__m512i, __m512i) {
    let class = _mm512_avg_epu16(symbols, _mm512_setzero_si512());
    let four = _mm512_set1_epi32(4);
    let n = _mm512_srli_epi32::<2>(_mm512_subs_epu16(class, four));
    let lead = _mm512_or_si512(_mm512_and_si512(class, _mm512_set1_epi32(3)), four);
    (n, _mm512_min_epu32(class, lead))
}
