//! Bits are sorted by `pext` and `pdep` of a compare's mask, 64 words at a time, words and bytes
//! by compressing and expanding registers. Returns of all functions begin with what is done.

use std::arch::x86_64::*;

use crate::simd::avx512::{load, store};

/// See `string::Strings::gather`. Returns how many masks.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn gather(
    classes: &[u8],
    masks: &[u64],
    strings: &mut [u8],
    room: usize,
    n_bits: &mut [usize],
) -> usize {
    let mut done = 0;
    let few = n_bits.chunks_mut(FEW).zip(strings.chunks_mut(FEW * room));
    for (first, (n_bits, strings)) in (1..).step_by(FEW).zip(few) {
        done = match n_bits.len() {
            1 => gather_few::<1>(first, classes, masks, strings, room, n_bits),
            2 => gather_few::<2>(first, classes, masks, strings, room, n_bits),
            _ => gather_few::<3>(first, classes, masks, strings, room, n_bits),
        };
    }
    if n_bits.is_empty() { masks.len() } else { done }
}

/// Classes at a time: what is known of them stays in registers.
const FEW: usize = 3;

/// [`gather`] of classes from `first` on.
#[inline]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn gather_few<const K: usize>(
    first: i8,
    classes: &[u8],
    masks: &[u64],
    strings: &mut [u8],
    room: usize,
    n_bits: &mut [usize],
) -> usize {
    let class: [__m512i; K] = std::array::from_fn(|k| _mm512_set1_epi8(first + k as i8));
    // Bits that are not written yet, how many, and where they will be.
    let (mut held, mut n_held, mut at) = ([0u64; K], [0u32; K], [0; K]);
    let strings: [&mut [u8]; K] = {
        let mut rest = strings.chunks_mut(room);
        std::array::from_fn(|_| rest.next().unwrap_or_default())
    };
    let groups = classes.as_chunks::<64>().0;
    for (classes, &mask) in groups.iter().zip(masks) {
        let classes = load(classes);
        for k in 0..K {
            let members = _mm512_cmpeq_epi8_mask(classes, class[k]);
            let bits = _pext_u64(mask, members);
            let all = held[k] | bits << n_held[k];
            if let Some(place) = strings[k].get_mut(at[k]..).and_then(|s| s.first_chunk_mut()) {
                *place = all.to_le_bytes();
            }
            let n = n_held[k] + members.count_ones();
            let full = n >= 64;
            held[k] = if full { bits >> 1 >> (63 - n_held[k]) } else { all };
            at[k] += 8 * usize::from(full);
            n_held[k] = n % 64;
        }
    }
    for k in 0..K {
        if let Some(place) = strings[k].get_mut(at[k]..).and_then(|s| s.first_chunk_mut()) {
            *place = held[k].to_le_bytes();
        }
        n_bits[k] = 8 * at[k] + n_held[k] as usize;
    }
    groups.len()
}

/// See `string::Strings::count`. Returns how many words.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn count(classes: &[u8], n_bits: &mut [usize]) -> usize {
    let groups = classes.as_chunks::<64>().0;
    for classes in groups {
        let classes = load(classes);
        for (class, n) in (1..).zip(&mut *n_bits) {
            let members = _mm512_cmpeq_epi8_mask(classes, _mm512_set1_epi8(class));
            *n += members.count_ones() as usize;
        }
    }
    64 * groups.len()
}

/// See `string::Strings::scatter`. Returns how many masks.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn scatter(
    classes: &[u8],
    strings: &[u8],
    room: usize,
    n_read: &mut [usize],
    masks: &mut [u64],
) -> usize {
    let groups = classes.as_chunks::<64>().0;
    for (classes, mask) in groups.iter().zip(masks) {
        let classes = load(classes);
        let mut all = 0;
        for ((class, at), string) in (1..).zip(&mut *n_read).zip(strings.chunks_exact(room)) {
            let members = _mm512_cmpeq_epi8_mask(classes, _mm512_set1_epi8(class));
            let shift = *at % 8;
            let place = &string[*at / 8..][..9];
            let mut low = [0; 8];
            low.copy_from_slice(&place[..8]);
            let bits = u64::from_le_bytes(low) >> shift | u64::from(place[8]) << 1 << (63 - shift);
            all |= _pdep_u64(bits, members);
            *at += members.count_ones() as usize;
        }
        *mask = all;
    }
    groups.len()
}

/// See `string::squeeze`. Returns how many bytes, and how many of them are not zero.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn squeeze(bytes: &[u8], some: &mut [u8], any: &mut [u8]) -> (usize, usize) {
    let groups = bytes.as_chunks::<64>().0;
    let mut n = 0;
    for (bytes, any) in groups.iter().zip(any.as_chunks_mut::<8>().0) {
        let bytes = load(bytes);
        let mask = _mm512_test_epi8_mask(bytes, bytes);
        *any = mask.to_le_bytes();
        store(&mut some[n..], _mm512_maskz_compress_epi8(mask, bytes));
        n += mask.count_ones() as usize;
    }
    (64 * groups.len(), n)
}

/// See `string::spread`. Returns how many bytes, and how many of them are not zero.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn spread(any: &[u8], some: &[u8], out: &mut [u8]) -> (usize, usize) {
    let (mut done, mut n) = (0, 0);
    for (out, any) in out.as_chunks_mut::<64>().0.iter_mut().zip(any.as_chunks::<8>().0) {
        // What is left may be shorter than a register.
        let Some(near) = some.get(n..n + 64) else { break };
        let mask = u64::from_le_bytes(*any);
        store(out, _mm512_maskz_expand_epi8(mask, load(near)));
        n += mask.count_ones() as usize;
        done += 64;
    }
    (done, n)
}

/// See `pick::pick`, of words of 1, 2 or 4 bytes; `out` has 64 bytes more than it needs. Returns how
/// many masks, and how many bytes.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn pick<const N: usize>(words: &[u8], masks: &[u64], out: &mut [u8]) -> (usize, usize) {
    let (mut done, mut at) = (0, 0);
    for (words, &mask) in words.chunks_exact(64 * N).zip(masks) {
        for (i, words) in words.as_chunks::<64>().0.iter().enumerate() {
            let (words, mask) = (load(words), mask >> (64 / N * i));
            let (packed, n) = match N {
                1 => (_mm512_maskz_compress_epi8(mask, words), mask.count_ones()),
                2 => (_mm512_maskz_compress_epi16(mask as u32, words), (mask as u32).count_ones()),
                _ => (_mm512_maskz_compress_epi32(mask as u16, words), (mask as u16).count_ones()),
            };
            store(&mut out[at..], packed);
            at += N * n as usize;
        }
        done += 1;
    }
    (done, at)
}

/// See `pick::place`, of words of 1, 2 or 4 bytes; `picked` has 64 bytes more than it needs. Returns
/// how many masks, and how many bytes.
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn place<const N: usize>(
    picked: &[u8],
    masks: &[u64],
    out: &mut [u8],
) -> (usize, usize) {
    let (mut done, mut at) = (0, 0);
    for (words, &mask) in out.chunks_exact_mut(64 * N).zip(masks) {
        for (i, words) in words.as_chunks_mut::<64>().0.iter_mut().enumerate() {
            let (old, new, mask) = (load(words), load(&picked[at..]), mask >> (64 / N * i));
            let (placed, n) = match N {
                1 => (_mm512_mask_expand_epi8(old, mask, new), mask.count_ones()),
                2 => {
                    let mask = mask as u32;
                    (_mm512_mask_expand_epi16(old, mask, new), mask.count_ones())
                }
                _ => {
                    let mask = mask as u16;
                    (_mm512_mask_expand_epi32(old, mask, new), mask.count_ones())
                }
            };
            store(words, placed);
            at += N * n as usize;
        }
        done += 1;
    }
    (done, at)
}
