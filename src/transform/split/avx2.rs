//! AVX2 variant: 32 words a step when splitting, 16 when joining; the scalar code ends it.
//!
//! Registers are narrowed by saturating packs, which work within 128-bit lanes, so that one
//! permutation of each plane at the end puts all words in order.
use super::{Planes, PlanesMut, Split, scalar};
use crate::simd::avx2::{load, load_half, store, store_half};
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
    rest_mask: __m256i,
    base: __m256i,
    sign: __m256i,
}

#[inline]
#[target_feature(enable = "avx2")]
fn registers(f: &Split) -> Registers {
    Registers {
        rest_bits: _mm_cvtsi32_si128(f.rest_bits.into()),
        dropped: _mm_cvtsi32_si128(f.sign.is_some().into()),
        rest_mask: _mm256_set1_epi16((1 << f.rest_bits) - 1),
        base: _mm256_set1_epi16(f.base as i16),
        sign: _mm256_set1_epi16((f.sign == Some(true)).into()),
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn split_words<const WORD: usize, const WINDOW: bool>(
    f: &Split,
    bytes: &[u8],
    shifts: Option<&[u8]>,
    planes: PlanesMut<'_>,
) -> usize {
    let len = len_of(WORD);
    let steps = bytes.len() / len / 32;
    let r = registers(f);
    let stored = f.stored_rest_bits();
    let byte = _mm256_set1_epi16(0xFF);
    let zero = _mm256_setzero_si256();
    let order = order::<WORD>();
    let mut n_escapes = 0;
    for step in 0..steps {
        let at = step * 32;
        let words = &bytes[at * len..][..32 * len];
        let (a, b) = match WORD {
            8 => {
                let v = load(words);
                let rotate = |x| {
                    let up = _mm256_and_si256(_mm256_slli_epi16::<1>(x), byte);
                    _mm256_or_si256(up, _mm256_srli_epi16::<7>(x))
                };
                (rotate(_mm256_unpacklo_epi8(v, zero)), rotate(_mm256_unpackhi_epi8(v, zero)))
            }
            16 => (rotate_left(load(words)), rotate_left(load(&words[32..]))),
            32 => {
                let v = [0, 32, 64, 96].map(|at| load(&words[at..]));
                let high = |x, y| {
                    _mm256_packus_epi32(_mm256_srli_epi32::<16>(x), _mm256_srli_epi32::<16>(y))
                };
                let half = _mm256_set1_epi32(0xFFFF);
                let low = |x, y| {
                    _mm256_packus_epi32(_mm256_and_si256(x, half), _mm256_and_si256(y, half))
                };
                let (x, y) = (low(v[0], v[1]), low(v[2], v[3]));
                let t0 = pack(_mm256_and_si256(x, byte), _mm256_and_si256(y, byte), order);
                let t1 = pack(_mm256_srli_epi16::<8>(x), _mm256_srli_epi16::<8>(y), order);
                store(&mut planes.tails[0][at..], t0);
                store(&mut planes.tails[1][at..], t1);
                (rotate_left(high(v[0], v[1])), rotate_left(high(v[2], v[3])))
            }
            _ => (load(words), load(&words[32..])),
        };

        let (mut sa, mut sb) = (_mm256_srl_epi16(a, r.rest_bits), _mm256_srl_epi16(b, r.rest_bits));
        if let Some(shifts) = shifts {
            let shift = |s, shifts: &[u8]| {
                let up = _mm256_sub_epi16(byte, _mm256_cvtepu8_epi16(load_half(shifts)));
                unless_zero(s, _mm256_add_epi16(s, up))
            };
            (sa, sb) = (shift(sa, &shifts[at..]), shift(sb, &shifts[at + 16..]));
        }
        if WINDOW {
            let window = |s| {
                let t = _mm256_min_epu16(_mm256_sub_epi16(s, r.base), _mm256_set1_epi16(254));
                unless_zero(s, _mm256_add_epi16(t, _mm256_set1_epi16(1)))
            };
            (sa, sb) = (window(sa), window(sb));
        }
        let symbols = pack(sa, sb, order);
        store(&mut planes.symbols[at..], symbols);
        if WINDOW {
            let escapes = _mm256_cmpeq_epi8(symbols, _mm256_set1_epi8(-1));
            n_escapes += _mm256_movemask_epi8(escapes).count_ones() as usize;
        }

        let rest = |x| _mm256_srl_epi16(_mm256_and_si256(x, r.rest_mask), r.dropped);
        let (ra, rb) = (rest(a), rest(b));
        if stored > 8 {
            let hi = pack(_mm256_srli_epi16::<8>(ra), _mm256_srli_epi16::<8>(rb), order);
            store(&mut planes.rest_hi[at..], hi);
        }
        if stored > 0 {
            let lo = pack(_mm256_and_si256(ra, byte), _mm256_and_si256(rb, byte), order);
            store(&mut planes.rest_lo[at..], lo);
        }
    }
    n_escapes
        + match WORD {
            HEADS => {
                scalar::split_heads(f, steps * 32, bytemuck::cast_slice(bytes), shifts, planes)
            }
            _ => scalar::split(f, steps * 32, bytes, planes),
        }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
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
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn join_words<const WORD: usize, const WINDOW: bool>(
    f: &Split,
    planes: Planes<'_>,
    shifts: Option<&[u8]>,
    bytes: &mut [u8],
) -> bool {
    let len = len_of(WORD);
    let steps = bytes.len() / len / 16;
    let r = registers(f);
    let stored = f.stored_rest_bits();
    let one_less = _mm256_sub_epi16(r.base, _mm256_set1_epi16(1));
    let byte = _mm256_set1_epi16(0xFF);
    let widen = |plane: &[u8]| _mm256_cvtepu8_epi16(load_half(plane));
    let mut escaped = _mm256_setzero_si256();
    for step in 0..steps {
        let at = step * 16;
        let mut s = widen(&planes.symbols[at..]);
        if WINDOW {
            escaped = _mm256_or_si256(escaped, _mm256_cmpeq_epi16(s, byte));
            let mut up = one_less;
            if let Some(shifts) = shifts {
                up = _mm256_sub_epi16(up, _mm256_sub_epi16(byte, widen(&shifts[at..])));
            }
            s = unless_zero(s, _mm256_add_epi16(s, up));
        }
        let mut rest = _mm256_setzero_si256();
        if stored > 0 {
            rest = widen(&planes.rest_lo[at..]);
        }
        if stored > 8 {
            rest = _mm256_or_si256(rest, _mm256_slli_epi16::<8>(widen(&planes.rest_hi[at..])));
        }
        let rest = _mm256_or_si256(_mm256_sll_epi16(rest, r.dropped), r.sign);
        let head = _mm256_or_si256(_mm256_sll_epi16(s, r.rest_bits), rest);

        let words = &mut bytes[at * len..][..16 * len];
        match WORD {
            8 => {
                let down = _mm256_srli_epi16::<1>(_mm256_and_si256(head, byte));
                let word = _mm256_or_si256(down, _mm256_slli_epi16::<7>(head));
                let word = _mm256_and_si256(word, byte);
                let word =
                    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(word, word));
                store_half(words, _mm256_castsi256_si128(word));
            }
            16 => store(words, rotate_right(head)),
            32 => {
                let high = rotate_right(head);
                let t1 = _mm256_slli_epi16::<8>(widen(&planes.tails[1][at..]));
                let low = _mm256_or_si256(widen(&planes.tails[0][at..]), t1);
                let x = _mm256_unpacklo_epi16(low, high);
                let y = _mm256_unpackhi_epi16(low, high);
                store(words, _mm256_permute2x128_si256::<0x20>(x, y));
                store(&mut words[32..], _mm256_permute2x128_si256::<0x31>(x, y));
            }
            _ => store(words, head),
        }
    }
    let rest_escaped = match WORD {
        HEADS => scalar::join_heads(f, steps * 16, planes, shifts, bytemuck::cast_slice_mut(bytes)),
        _ => scalar::join(f, steps * 16, planes, bytes),
    };
    _mm256_testz_si256(escaped, escaped) == 0 || rest_escaped
}

/// `value` where `s` is not 0, else 0.
#[inline]
#[target_feature(enable = "avx2")]
fn unless_zero(s: __m256i, value: __m256i) -> __m256i {
    _mm256_andnot_si256(_mm256_cmpeq_epi16(s, _mm256_setzero_si256()), value)
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotate_left(x: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_slli_epi16::<1>(x), _mm256_srli_epi16::<15>(x))
}

#[inline]
#[target_feature(enable = "avx2")]
fn rotate_right(x: __m256i) -> __m256i {
    _mm256_or_si256(_mm256_srli_epi16::<1>(x), _mm256_slli_epi16::<15>(x))
}

/// Narrows words below 256 to bytes and puts them in order.
#[inline]
#[target_feature(enable = "avx2")]
fn pack(a: __m256i, b: __m256i, order: __m256i) -> __m256i {
    _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), order)
}

/// Where each four bytes come from after the packs within lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn order<const WORD: usize>() -> __m256i {
    match WORD {
        8 => _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7),
        32 => _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7),
        _ => _mm256_setr_epi32(0, 1, 4, 5, 2, 3, 6, 7),
    }
}
