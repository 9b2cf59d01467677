//! Sixteen words at a time.
//!
//! Deviations from the scalar code, all invisible in the result:
//! - Joining finds where each word's bits start by a sum over the words before, and gathers them
//!   all at once; near the end, from a padded copy of the rest.
//! - Splitting joins the bits of two or four neighbours in vectors before they go one after the
//!   other into the stream.
//! - Clusters are looked up in a table of 256 bytes, in four registers.

use std::arch::x86_64::*;

use super::Writer;
use crate::simd::avx512::{load, load_half, load_quarter, store, store_half, store_quarter};

/// Words of a vector.
const N_WORDS: usize = 16;
/// Bytes that the bits of a vector of words may reach.
const REACH: usize = 80;

/// Bits that follow symbols, and magnitudes without their sign's half: `(bits, class)`.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn classes(symbols: __m512i) -> (__m512i, __m512i) {
    let class = _mm512_srli_epi32::<1>(_mm512_add_epi32(symbols, _mm512_set1_epi32(1)));
    let four = _mm512_set1_epi32(4);
    let bits = _mm512_srli_epi32::<2>(_mm512_sub_epi32(_mm512_max_epi32(class, four), four));
    (bits, class)
}

/// Joins whole vectors of words. Returns how many words, and how many bits they took.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn join<const N: usize>(
    symbols: &[u8],
    bits: &[u8],
    predicted: &[u8],
    out: &mut [u8],
) -> (usize, usize) {
    let zero = _mm512_setzero_si512();
    let (one, three, four) = (_mm512_set1_epi32(1), _mm512_set1_epi32(3), _mm512_set1_epi32(4));
    let mut at = 0usize;
    let mut done = 0;
    let words = out.chunks_exact_mut(N * N_WORDS).zip(predicted.chunks_exact(N * N_WORDS));
    for ((out, predicted), symbols) in words.zip(symbols.chunks_exact(N_WORDS)) {
        let s = _mm512_cvtepu8_epi32(load_quarter(symbols));
        let (n, class) = classes(s);
        let is_small = _mm512_cmplt_epu32_mask(class, four);
        let lead = _mm512_mask_mov_epi32(
            _mm512_or_si512(_mm512_and_si512(class, three), four),
            is_small,
            class,
        );
        let mut magnitude = _mm512_sllv_epi32(lead, n);
        if _mm512_test_epi32_mask(n, n) != 0 {
            let mut sum = _mm512_add_epi32(n, _mm512_alignr_epi32::<15>(n, zero));
            sum = _mm512_add_epi32(sum, _mm512_alignr_epi32::<14>(sum, zero));
            sum = _mm512_add_epi32(sum, _mm512_alignr_epi32::<12>(sum, zero));
            sum = _mm512_add_epi32(sum, _mm512_alignr_epi32::<8>(sum, zero));
            let total = _mm_extract_epi32::<3>(_mm512_extracti32x4_epi32::<3>(sum)) as usize;
            let from =
                _mm512_add_epi32(_mm512_sub_epi32(sum, n), _mm512_set1_epi32((at % 8) as i32));
            let mut padded = [0; REACH];
            let near = match bits.get(at / 8..at / 8 + REACH) {
                Some(near) => near,
                None => {
                    let rest = bits.get(at / 8..).unwrap_or(&[]);
                    let len = rest.len().min(REACH);
                    padded[..len].copy_from_slice(&rest[..len]);
                    &padded
                }
            };
            let byte = _mm512_srli_epi32::<3>(from);
            let shift = _mm512_and_si512(from, _mm512_set1_epi32(7));
            // SAFETY: bits start below bit 7 + 15 · 31, so 8 bytes from there end below `REACH`.
            let (low, high) = unsafe {
                let near = near.as_ptr();
                let low = _mm512_i32gather_epi32::<1>(byte, near.cast());
                let high = match N {
                    4 => _mm512_i32gather_epi32::<1>(byte, near.add(4).cast()),
                    _ => zero,
                };
                (low, high)
            };
            let value = match N {
                4 => _mm512_shrdv_epi32(low, high, shift),
                _ => _mm512_srlv_epi32(low, shift),
            };
            let below = _mm512_sub_epi32(_mm512_sllv_epi32(one, n), one);
            magnitude = _mm512_add_epi32(magnitude, _mm512_and_si512(value, below));
            at += total;
        }
        let minus = _mm512_sub_epi32(_mm512_and_si512(s, one), one);
        let r = _mm512_sub_epi32(_mm512_xor_si512(magnitude, minus), minus);
        match N {
            1 => {
                let order = |x: __m128i| {
                    let negative = _mm_movm_epi8(_mm_movepi8_mask(x));
                    _mm_xor_si128(x, _mm_and_si128(negative, _mm_set1_epi8(i8::MAX)))
                };
                let p = order(load_quarter(predicted));
                store_quarter(out, order(_mm_add_epi8(p, _mm512_cvtepi32_epi8(r))));
            }
            2 => {
                let order = |x: __m256i| {
                    let flip = _mm256_srli_epi16::<1>(_mm256_srai_epi16::<15>(x));
                    _mm256_xor_si256(x, flip)
                };
                let moved = _mm256_add_epi16(order(load_half(predicted)), _mm512_cvtepi32_epi16(r));
                store_half(out, order(moved));
            }
            _ => {
                let order = |x: __m512i| {
                    let flip = _mm512_srli_epi32::<1>(_mm512_srai_epi32::<31>(x));
                    _mm512_xor_si512(x, flip)
                };
                store(out, order(_mm512_add_epi32(order(load(predicted)), r)));
            }
        }
        done += N_WORDS;
    }
    (done, at)
}

/// Writes the bits of whole vectors of words. Returns how many words.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn write<const N: usize>(deltas: &[u8], symbols: &[u8], to: &mut Writer<'_>) -> usize {
    let one = _mm512_set1_epi32(1);
    let low = _mm512_set1_epi64(0xffff_ffff);
    let mut done = 0;
    for (deltas, symbols) in deltas.chunks_exact(N * N_WORDS).zip(symbols.chunks_exact(N_WORDS)) {
        done += N_WORDS;
        let (n, _) = classes(_mm512_cvtepu8_epi32(load_quarter(symbols)));
        if _mm512_test_epi32_mask(n, n) == 0 {
            continue;
        }
        let d = match N {
            1 => _mm512_cvtepi8_epi32(load_quarter(deltas)),
            2 => _mm512_cvtepi16_epi32(load_half(deltas)),
            _ => load(deltas),
        };
        let below = _mm512_sub_epi32(_mm512_sllv_epi32(one, n), one);
        let value = _mm512_and_si512(_mm512_abs_epi32(d), below);
        let n_low = _mm512_and_si512(n, low);
        let mut n = _mm512_add_epi64(n_low, _mm512_srli_epi64::<32>(n));
        let mut value = _mm512_or_si512(
            _mm512_and_si512(value, low),
            _mm512_sllv_epi64(_mm512_srli_epi64::<32>(value), n_low),
        );
        // Pairs, and pairs of pairs where they fit.
        let pairs = _mm512_cmpgt_epu64_mask(n, _mm512_set1_epi64(32)) != 0;
        if !pairs {
            let high = _mm512_unpackhi_epi64(value, value);
            value = _mm512_or_si512(value, _mm512_sllv_epi64(high, n));
            n = _mm512_add_epi64(n, _mm512_unpackhi_epi64(n, n));
        }
        let (mut values, mut lens) = ([0u64; 8], [0u64; 8]);
        // SAFETY: both arrays have the 64 bytes that are stored.
        unsafe {
            _mm512_storeu_si512(values.as_mut_ptr().cast(), value);
            _mm512_storeu_si512(lens.as_mut_ptr().cast(), n);
        }
        let (half, all) = (lens[0] + lens[2], lens[0] + lens[2] + lens[4] + lens[6]);
        if pairs {
            values.iter().zip(lens).for_each(|(&v, n)| to.push(v, n as u32));
        } else if all < 64 {
            let lower = values[0] | values[2] << lens[0];
            let upper = values[4] | values[6] << lens[4];
            to.push(lower | upper << half, all as u32);
        } else {
            (0..8).step_by(2).for_each(|i| to.push(values[i], lens[i] as u32));
        }
    }
    done
}

/// Looks contexts up in a table of clusters. Returns how many.
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
