//! bf16 words, hashed where they are in registers and written past the caches.
//!
//! Words are handled in blocks of the hash: 512 of them, in 8 groups of two registers, which are
//! two stripes. The last block, which the hash treats apart, goes without.

use super::{Table, encode_64};
use crate::{
    entropy::cascade::PAD,
    hash::{BLOCK, Stream},
    simd::{
        self,
        avx512::{load, store},
    },
};
use std::arch::x86_64::*;

/// Words of a block.
const WORDS: usize = BLOCK / 2;
/// Bytes that are fetched ahead.
const AHEAD: usize = 16 << 10;

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(in super::super) fn encode_bf16(
    common: [u8; 3],
    bytes: &[u8],
    rest: &mut [u8],
    digits: &mut [u8],
    escapes: &mut [u8],
    hash: Option<&mut Stream>,
) -> usize {
    let common = common.map(|c| _mm512_set1_epi8(c as i8));
    let mut n = 0;
    let mut done = 0;
    if let Some(hash) = hash {
        let blocks = bytes.len().saturating_sub(1) / BLOCK;
        let mut sum = hash.avx512();
        let outputs = digits.as_chunks_mut::<{ WORDS / 4 }>().0.iter_mut();
        let outputs = outputs.zip(rest.as_chunks_mut::<WORDS>().0);
        let inputs = bytes.as_chunks::<BLOCK>().0[..blocks].iter();
        for (i, (block, (digits, rest))) in inputs.zip(outputs).enumerate() {
            simd::prefetch(bytes, i * BLOCK + AHEAD, BLOCK);
            let groups = block.as_chunks::<128>().0.iter().zip(digits.as_chunks_mut().0);
            for (j, ((group, digits), rest)) in groups.zip(rest.as_chunks_mut::<64>().0).enumerate()
            {
                let words = [load(&group[..64]), load(&group[64..])];
                sum.add(2 * j, words);
                let (symbols, low) = split(words);
                store(rest, low);
                let (made, k) = encode_64(common, symbols, u64::MAX, &mut escapes[n..]);
                *digits = made;
                n += k;
            }
            sum.end_block();
        }
        sum.put_back();
        done = blocks * WORDS;
    }
    let (bytes, rest) = (&bytes[2 * done..], &mut rest[done..]);
    let digits = &mut digits[done / 4..];
    let (groups, tail) = bytes.as_chunks::<128>();
    let (digit_groups, digits_tail) = digits.split_at_mut(16 * groups.len());
    let (rest_groups, rest_tail) = rest.split_at_mut(64 * groups.len());
    let outputs =
        digit_groups.as_chunks_mut().0.iter_mut().zip(rest_groups.as_chunks_mut::<64>().0);
    for (group, (digits, rest)) in groups.iter().zip(outputs) {
        let (symbols, low) = split([load(&group[..64]), load(&group[64..])]);
        store(rest, low);
        let (made, k) = encode_64(common, symbols, u64::MAX, &mut escapes[n..]);
        *digits = made;
        n += k;
    }
    if !tail.is_empty() {
        let (mut group, mut low_bytes) = ([0; 128], [0; 64]);
        group[..tail.len()].copy_from_slice(tail);
        let (symbols, low) = split([load(&group[..64]), load(&group[64..])]);
        store(&mut low_bytes, low);
        rest_tail.copy_from_slice(&low_bytes[..rest_tail.len()]);
        let valid = (1 << rest_tail.len()) - 1;
        let (made, k) = encode_64(common, symbols, valid, &mut escapes[n..]);
        digits_tail.copy_from_slice(&made[..digits_tail.len()]);
        n += k;
    }
    n
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(in super::super) fn decode_bf16(
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    rest: &[u8],
    bytes: &mut [u8],
    far: bool,
    hash: Option<&mut Stream>,
) -> Option<usize> {
    let table = Table::new(common);
    let mut n = 0;
    let mut done = 0;
    if let Some(hash) = hash {
        let blocks = bytes.len().saturating_sub(1) / BLOCK;
        let mut sum = hash.avx512();
        done = blocks * WORDS;
        let mut lines = Lines::new(&mut bytes[..blocks * BLOCK], far);
        let inputs = digits.as_chunks::<{ WORDS / 4 }>().0.iter();
        let inputs = inputs.zip(rest.as_chunks::<WORDS>().0).take(blocks).enumerate();
        for (i, (block_digits, block_rest)) in inputs {
            simd::prefetch(rest, i * WORDS + AHEAD, WORDS);
            simd::prefetch(digits, i * (WORDS / 4) + AHEAD / 4, WORDS / 4);
            let groups = block_digits.as_chunks().0.iter().zip(block_rest.as_chunks::<64>().0);
            for (j, (digits, rest)) in groups.enumerate() {
                let (symbols, k) = table.decode_64(digits, u64::MAX, escapes.get(n..n + PAD)?);
                let words = join(symbols, load(rest));
                sum.add(2 * j, words);
                lines.put(words);
                n += k;
            }
            sum.end_block();
        }
        lines.end();
        sum.put_back();
    }
    let (bytes, rest) = (&mut bytes[2 * done..], &rest[done..]);
    let (groups, tail) = bytes.as_chunks_mut::<128>();
    let (digit_groups, digits_tail) = digits[done / 4..].split_at(16 * groups.len());
    let (rest_groups, rest_tail) = rest.split_at(64 * groups.len());
    let inputs = digit_groups.as_chunks().0.iter().zip(rest_groups.as_chunks::<64>().0);
    for (group, (digits, rest)) in groups.iter_mut().zip(inputs) {
        let (symbols, k) = table.decode_64(digits, u64::MAX, escapes.get(n..n + PAD)?);
        let [a, b] = join(symbols, load(rest));
        store(&mut group[..64], a);
        store(&mut group[64..], b);
        n += k;
    }
    if !tail.is_empty() {
        let (mut group, mut digits, mut rest) = ([0; 128], [0; 16], [0; 64]);
        digits[..digits_tail.len()].copy_from_slice(digits_tail);
        rest[..rest_tail.len()].copy_from_slice(rest_tail);
        let valid = (1 << rest_tail.len()) - 1;
        let (symbols, k) = table.decode_64(&digits, valid, escapes.get(n..n + PAD)?);
        let [a, b] = join(symbols, load(&rest));
        store(&mut group[..64], a);
        store(&mut group[64..], b);
        tail.copy_from_slice(&group[..tail.len()]);
        n += k;
    }
    (n + PAD <= escapes.len()).then_some(n)
}

/// Writes registers one after another.
///
/// Past the caches, stores must be of aligned lines, so each takes the end of one register and the
/// beginning of the next:
///
/// ```text
/// registers   |       0       |       1       |       2       |
/// lines           |       0       |       1       |               ahead bytes before line 0
/// ```
struct Lines<'a> {
    bytes: &'a mut [u8],
    at: usize,
    /// Bytes before the first aligned place, a multiple of 8; `None` for stores as usual.
    ahead: Option<usize>,
    last: __m512i,
    order: __m512i,
}

impl<'a> Lines<'a> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn new(bytes: &'a mut [u8], far: bool) -> Self {
        let ahead = bytes.as_ptr().addr().wrapping_neg() % 64;
        let order = _mm512_add_epi64(
            _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7),
            _mm512_set1_epi64(ahead as i64 / 8),
        );
        let ahead = Some(ahead).filter(|a| far && a.is_multiple_of(8));
        Lines { bytes, at: 0, ahead, last: _mm512_setzero_si512(), order }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn put(&mut self, words: [__m512i; 2]) {
        for v in words {
            match self.ahead {
                Some(ahead) if self.at > 0 => {
                    let line = _mm512_permutex2var_epi64(self.last, self.order, v);
                    simd::avx512::stream(&mut self.bytes[self.at - 64 + ahead..], line);
                }
                // What lies before the first line; the rest of it is written again.
                _ => store(&mut self.bytes[self.at..], v),
            }
            self.last = v;
            self.at += 64;
        }
    }

    /// Writes what is left behind the last line.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn end(&mut self) {
        if self.ahead.is_some() && self.at > 0 {
            store(&mut self.bytes[self.at - 64..], self.last);
            // SAFETY: every x86-64 has it; newer compilers call it safe.
            #[allow(unused_unsafe)]
            unsafe {
                _mm_sfence();
            }
        }
    }
}

/// Exponents, and signs and mantissas, of 64 bf16 words.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
fn split(words: [__m512i; 2]) -> (__m512i, __m512i) {
    let [a, b] = words.map(|v| _mm512_shldi_epi16::<1>(v, v));
    let low = _mm512_set1_epi16(0xFF);
    // Packs work within 128-bit lanes; this puts their halves in order.
    let order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    let symbols = _mm512_packus_epi16(_mm512_srli_epi16::<8>(a), _mm512_srli_epi16::<8>(b));
    let rest = _mm512_packus_epi16(_mm512_and_si512(a, low), _mm512_and_si512(b, low));
    (_mm512_permutexvar_epi64(order, symbols), _mm512_permutexvar_epi64(order, rest))
}

/// Inverse of [`split`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
fn join(symbols: __m512i, rest: __m512i) -> [__m512i; 2] {
    let lo = _mm512_unpacklo_epi8(rest, symbols);
    let hi = _mm512_unpackhi_epi8(rest, symbols);
    let first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    let second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    [first, second].map(|order| {
        let v = _mm512_permutex2var_epi64(lo, order, hi);
        _mm512_shrdi_epi16::<1>(v, v)
    })
}
