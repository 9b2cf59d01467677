//! Deviations from the scalar code, all invisible in the result:
//! - Deltas and their symbols are formed in one pass. Magnitudes of 32 bits become floats of 32 bits
//!   by truncation, which keeps the three top bits: all that a class depends on.
//! - Contexts are looked up in a table of 256 bytes, in four registers.

use std::arch::x86_64::*;

use crate::simd::avx512::{load, store, store_half, store_quarter};

/// Forms deltas and symbols of whole vectors of words. Returns how many words.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn residuals_2(
    words: &[u8],
    predicted: &[u8],
    deltas: &mut [u8],
    symbols: &mut [u8],
) -> usize {
    let order = |x: __m512i| {
        let flip = _mm512_srli_epi16::<1>(_mm512_srai_epi16::<15>(x));
        _mm512_xor_si512(x, flip)
    };
    let zero = _mm512_setzero_si512();
    let eight = _mm512_set1_epi16(8);
    let pairs = words.chunks_exact(64).zip(predicted.chunks_exact(64));
    let outs = deltas.chunks_exact_mut(64).zip(symbols.chunks_exact_mut(32));
    let mut done = 0;
    for ((words, predicted), (deltas, symbols)) in pairs.zip(outs) {
        let d = _mm512_sub_epi16(order(load(words)), order(load(predicted)));
        store(deltas, d);
        let m = _mm512_abs_epi16(d);
        // The upper halves of floats, in the order in which unpacking leaves the magnitudes.
        let top = |m: __m512i| _mm512_srli_epi32::<16>(_mm512_castps_si512(_mm512_cvtepi32_ps(m)));
        let tops = _mm512_packus_epi32(
            top(_mm512_unpacklo_epi16(m, zero)),
            top(_mm512_unpackhi_epi16(m, zero)),
        );
        let class = _mm512_sub_epi16(_mm512_srli_epi16::<5>(tops), _mm512_set1_epi16(512));
        let class = _mm512_mask_mov_epi16(class, _mm512_cmplt_epu16_mask(m, eight), m);
        let twice = _mm512_add_epi16(class, class);
        let up = _mm512_cmpgt_epi16_mask(d, zero);
        let s = _mm512_mask_sub_epi16(twice, up, twice, _mm512_set1_epi16(1));
        store_half(symbols, _mm512_cvtepi16_epi8(s));
        done += 32;
    }
    done
}

/// [`residuals_2`] of words of four bytes.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn residuals_4(
    words: &[u8],
    predicted: &[u8],
    deltas: &mut [u8],
    symbols: &mut [u8],
) -> usize {
    let order = |x: __m512i| {
        let flip = _mm512_srli_epi32::<1>(_mm512_srai_epi32::<31>(x));
        _mm512_xor_si512(x, flip)
    };
    let zero = _mm512_setzero_si512();
    let eight = _mm512_set1_epi32(8);
    let pairs = words.chunks_exact(64).zip(predicted.chunks_exact(64));
    let outs = deltas.chunks_exact_mut(64).zip(symbols.chunks_exact_mut(16));
    let mut done = 0;
    for ((words, predicted), (deltas, symbols)) in pairs.zip(outs) {
        let d = _mm512_sub_epi32(order(load(words)), order(load(predicted)));
        store(deltas, d);
        let m = _mm512_abs_epi32(d);
        let float = _mm512_cvt_roundepu32_ps::<{ _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC }>(m);
        let top = _mm512_srli_epi32::<21>(_mm512_castps_si512(float));
        let class = _mm512_sub_epi32(top, _mm512_set1_epi32(512));
        let class = _mm512_mask_mov_epi32(class, _mm512_cmplt_epu32_mask(m, eight), m);
        let twice = _mm512_add_epi32(class, class);
        let up = _mm512_cmpgt_epi32_mask(d, zero);
        let s = _mm512_mask_sub_epi32(twice, up, twice, _mm512_set1_epi32(1));
        store_quarter(symbols, _mm512_cvtepi32_epi8(s));
        done += 16;
    }
    done
}

/// Looks up what a table has for whole vectors of contexts. Returns how many contexts.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn look_up(table: &[u8; 256], contexts: &[u8], out: &mut [u8]) -> usize {
    let [a, b, c, d] = [0, 64, 128, 192].map(|i| load(&table[i..]));
    let mut done = 0;
    for (out, contexts) in out.chunks_exact_mut(64).zip(contexts.chunks_exact(64)) {
        let contexts = load(contexts);
        let lower = _mm512_permutex2var_epi8(a, contexts, b);
        let upper = _mm512_permutex2var_epi8(c, contexts, d);
        store(out, _mm512_mask_mov_epi8(lower, _mm512_movepi8_mask(contexts), upper));
        done += 64;
    }
    done
}
