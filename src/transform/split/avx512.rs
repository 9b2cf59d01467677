//! AVX-512 variant: 64 words a step when splitting, 32 when joining; the scalar code ends it.
//!
//! Registers are narrowed by saturating packs, which work within 128-bit lanes, so that one
//! permutation of each plane at the end puts all words in order.
use super::{Planes, PlanesMut, Split, scalar};
use crate::simd::avx512::{load, load_half, store, store_half};
use std::arch::x86_64::*;

/// In place of a word's width: heads, 16 bits each and already rotated.
const HEADS: usize = 0;

const fn len_of(word_bits: usize) -> usize {
    if word_bits == HEADS { 2 } else { word_bits / 8 }
}

/// The fields in registers.
struct Registers {
    rest_bits: __m128i,
    /// 1 if the sign is dropped.
    dropped: __m128i,
    rest_mask: __m512i,
    base: __m512i,
    sign: __m512i,
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn registers(f: &Split) -> Registers {
    Registers {
        rest_bits: _mm_cvtsi32_si128(f.rest_bits.into()),
        dropped: _mm_cvtsi32_si128(f.sign.is_some().into()),
        rest_mask: _mm512_set1_epi16((1 << f.rest_bits) - 1),
        base: _mm512_set1_epi16(f.base as i16),
        sign: _mm512_set1_epi16((f.sign == Some(true)).into()),
    }
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn split(f: &Split, bytes: &[u8], planes: PlanesMut<'_>) -> usize {
    match (f.word_bits, f.is_windowed()) {
        (8, _) => split_words::<8, false>(f, bytes, None, planes),
        (16, false) => split_words::<16, false>(f, bytes, None, planes),
        (16, true) => split_words::<16, true>(f, bytes, None, planes),
        (32, false) => split_words::<32, false>(f, bytes, None, planes),
        (32, true) => split_words::<32, true>(f, bytes, None, planes),
        _ => scalar::split(f, 0, bytes, planes),
    }
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn split_heads(
    f: &Split,
    heads: &[u16],
    shifts: Option<&[u8]>,
    planes: PlanesMut<'_>,
) -> usize {
    let bytes = bytemuck::cast_slice(heads);
    if shifts.is_some() || f.is_windowed() {
        split_words::<HEADS, true>(f, bytes, shifts, planes)
    } else {
        split_words::<HEADS, false>(f, bytes, None, planes)
    }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn split_words<const WORD: usize, const WINDOW: bool>(
    f: &Split,
    bytes: &[u8],
    shifts: Option<&[u8]>,
    planes: PlanesMut<'_>,
) -> usize {
    let len = len_of(WORD);
    let steps = bytes.len() / len / 64;
    let r = registers(f);
    let stored = f.stored_rest_bits();
    let byte = _mm512_set1_epi16(0xFF);
    let order = order::<WORD>();
    let mut n_escapes = 0;
    for step in 0..steps {
        let at = step * 64;
        let words = &bytes[at * len..][..64 * len];
        let (a, b) = match WORD {
            8 => {
                let v = load(words);
                let rotate = |x| {
                    let up = _mm512_and_si512(_mm512_slli_epi16::<1>(x), byte);
                    _mm512_or_si512(up, _mm512_srli_epi16::<7>(x))
                };
                let zero = _mm512_setzero_si512();
                (rotate(_mm512_unpacklo_epi8(v, zero)), rotate(_mm512_unpackhi_epi8(v, zero)))
            }
            16 => (rotate(load(words)), rotate(load(&words[64..]))),
            32 => {
                let v = [0, 64, 128, 192].map(|at| load(&words[at..]));
                let high = |x, y| {
                    _mm512_packus_epi32(_mm512_srli_epi32::<16>(x), _mm512_srli_epi32::<16>(y))
                };
                let half = _mm512_set1_epi32(0xFFFF);
                let low = |x, y| {
                    _mm512_packus_epi32(_mm512_and_si512(x, half), _mm512_and_si512(y, half))
                };
                let (x, y) = (low(v[0], v[1]), low(v[2], v[3]));
                let t0 = pack(_mm512_and_si512(x, byte), _mm512_and_si512(y, byte), order);
                let t1 = pack(_mm512_srli_epi16::<8>(x), _mm512_srli_epi16::<8>(y), order);
                store(&mut planes.tails[0][at..], t0);
                store(&mut planes.tails[1][at..], t1);
                (rotate(high(v[0], v[1])), rotate(high(v[2], v[3])))
            }
            _ => (load(words), load(&words[64..])),
        };

        let (mut sa, mut sb) = (_mm512_srl_epi16(a, r.rest_bits), _mm512_srl_epi16(b, r.rest_bits));
        if let Some(shifts) = shifts {
            let shift = |s, shifts: &[u8]| {
                let up = _mm512_sub_epi16(byte, _mm512_cvtepu8_epi16(load_half(shifts)));
                _mm512_maskz_add_epi16(_mm512_test_epi16_mask(s, s), s, up)
            };
            (sa, sb) = (shift(sa, &shifts[at..]), shift(sb, &shifts[at + 32..]));
        }
        if WINDOW {
            let window = |s| {
                let t = _mm512_min_epu16(_mm512_sub_epi16(s, r.base), _mm512_set1_epi16(254));
                _mm512_maskz_add_epi16(_mm512_test_epi16_mask(s, s), t, _mm512_set1_epi16(1))
            };
            (sa, sb) = (window(sa), window(sb));
        }
        let symbols = pack(sa, sb, order);
        store(&mut planes.symbols[at..], symbols);
        if WINDOW {
            let escapes = _mm512_cmpeq_epi8_mask(symbols, _mm512_set1_epi8(-1));
            n_escapes += escapes.count_ones() as usize;
        }

        let rest = |x| _mm512_srl_epi16(_mm512_and_si512(x, r.rest_mask), r.dropped);
        let (ra, rb) = (rest(a), rest(b));
        if stored > 8 {
            let hi = pack(_mm512_srli_epi16::<8>(ra), _mm512_srli_epi16::<8>(rb), order);
            store(&mut planes.rest_hi[at..], hi);
        }
        if stored > 0 {
            let lo = pack(_mm512_and_si512(ra, byte), _mm512_and_si512(rb, byte), order);
            store(&mut planes.rest_lo[at..], lo);
        }
    }
    n_escapes
        + match WORD {
            HEADS => {
                scalar::split_heads(f, steps * 64, bytemuck::cast_slice(bytes), shifts, planes)
            }
            _ => scalar::split(f, steps * 64, bytes, planes),
        }
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn join(f: &Split, planes: Planes<'_>, bytes: &mut [u8]) -> bool {
    match (f.word_bits, f.is_windowed()) {
        (8, _) => join_words::<8, false>(f, planes, None, bytes),
        (16, false) => join_words::<16, false>(f, planes, None, bytes),
        (16, true) => join_words::<16, true>(f, planes, None, bytes),
        (32, false) => join_words::<32, false>(f, planes, None, bytes),
        (32, true) => join_words::<32, true>(f, planes, None, bytes),
        _ => scalar::join(f, 0, planes, bytes),
    }
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn join_heads(
    f: &Split,
    planes: Planes<'_>,
    shifts: Option<&[u8]>,
    heads: &mut [u16],
) -> bool {
    let bytes = bytemuck::cast_slice_mut(heads);
    if shifts.is_some() || f.is_windowed() {
        join_words::<HEADS, true>(f, planes, shifts, bytes)
    } else {
        join_words::<HEADS, false>(f, planes, None, bytes)
    }
}

#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn join_words<const WORD: usize, const WINDOW: bool>(
    f: &Split,
    planes: Planes<'_>,
    shifts: Option<&[u8]>,
    bytes: &mut [u8],
) -> bool {
    let len = len_of(WORD);
    let steps = bytes.len() / len / 32;
    let r = registers(f);
    let stored = f.stored_rest_bits();
    let one_less = _mm512_sub_epi16(r.base, _mm512_set1_epi16(1));
    let widen = |plane: &[u8]| _mm512_cvtepu8_epi16(load_half(plane));
    let byte = _mm512_set1_epi16(0xFF);
    let mut escaped = 0;
    for step in 0..steps {
        let at = step * 32;
        let mut s = widen(&planes.symbols[at..]);
        if WINDOW {
            escaped |= _mm512_cmpeq_epi16_mask(s, byte);
            let mut up = one_less;
            if let Some(shifts) = shifts {
                let down = _mm512_sub_epi16(byte, widen(&shifts[at..]));
                up = _mm512_sub_epi16(up, down);
            }
            s = _mm512_maskz_add_epi16(_mm512_test_epi16_mask(s, s), s, up);
        }
        let mut rest = _mm512_setzero_si512();
        if stored > 0 {
            rest = widen(&planes.rest_lo[at..]);
        }
        if stored > 8 {
            rest = _mm512_or_si512(rest, _mm512_slli_epi16::<8>(widen(&planes.rest_hi[at..])));
        }
        let rest = _mm512_sll_epi16(rest, r.dropped);
        // The or of all three.
        let head =
            _mm512_ternarylogic_epi64::<0xFE>(_mm512_sll_epi16(s, r.rest_bits), rest, r.sign);

        let words = &mut bytes[at * len..][..32 * len];
        match WORD {
            8 => {
                let down = _mm512_srli_epi16::<1>(_mm512_and_si512(head, _mm512_set1_epi16(0xFF)));
                let word = _mm512_or_si512(down, _mm512_slli_epi16::<7>(head));
                store_half(words, _mm512_cvtepi16_epi8(word));
            }
            16 => store(words, _mm512_shrdi_epi16::<1>(head, head)),
            32 => {
                let high = _mm512_shrdi_epi16::<1>(head, head);
                let t1 = _mm512_slli_epi16::<8>(widen(&planes.tails[1][at..]));
                let low = _mm512_or_si512(widen(&planes.tails[0][at..]), t1);
                let x = _mm512_unpacklo_epi16(low, high);
                let y = _mm512_unpackhi_epi16(low, high);
                let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
                let second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
                store(words, _mm512_permutex2var_epi64(x, first, y));
                store(&mut words[64..], _mm512_permutex2var_epi64(x, second, y));
            }
            _ => store(words, head),
        }
    }
    let rest_escaped = match WORD {
        HEADS => scalar::join_heads(f, steps * 32, planes, shifts, bytemuck::cast_slice_mut(bytes)),
        _ => scalar::join(f, steps * 32, planes, bytes),
    };
    escaped != 0 || rest_escaped
}

#[inline]
#[target_feature(enable = "avx512f,avx512vbmi2")]
fn rotate(x: __m512i) -> __m512i {
    _mm512_shldi_epi16::<1>(x, x)
}

/// Narrows words below 256 to bytes and puts them in order.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn pack(a: __m512i, b: __m512i, order: __m512i) -> __m512i {
    _mm512_permutexvar_epi32(order, _mm512_packus_epi16(a, b))
}

/// Where each four bytes come from after the packs within lanes.
#[inline]
#[target_feature(enable = "avx512f")]
fn order<const WORD: usize>() -> __m512i {
    match WORD {
        8 => _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
        32 => _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15),
        _ => _mm512_setr_epi32(0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15),
    }
}
