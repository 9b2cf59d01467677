//! bf16 words, hashed where they are in registers and written past the caches.
//!
//! Words are handled in blocks of the hash: 512 of them, in 16 groups of two registers, which are
//! a stripe. The last block, which the hash treats apart, goes without.

use super::{decode_32, encode_32, table};
use crate::{
    entropy::cascade::{PAD, scalar},
    hash::{BLOCK, Stream},
    simd::{
        self,
        avx2::{load, store, store_half},
    },
};
use std::arch::x86_64::*;

/// Words of a block.
const WORDS: usize = BLOCK / 2;
/// Bytes that are fetched ahead.
const AHEAD: usize = 16 << 10;

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(in super::super) fn encode_bf16(
    common: [u8; 3],
    bytes: &[u8],
    rest: &mut [u8],
    digits: &mut [u8],
    escapes: &mut [u8],
    hash: Option<&mut Stream>,
) -> usize {
    let values = common.map(|c| _mm256_set1_epi8(c as i8));
    let mut n = 0;
    let mut done = 0;
    if let Some(hash) = hash {
        let blocks = bytes.len().saturating_sub(1) / BLOCK;
        let mut sum = hash.avx2::<false>();
        let outputs = digits.as_chunks_mut::<{ WORDS / 4 }>().0.iter_mut();
        let outputs = outputs.zip(rest.as_chunks_mut::<WORDS>().0);
        let inputs = bytes.as_chunks::<BLOCK>().0[..blocks].iter();
        for (i, (block, (digits, rest))) in inputs.zip(outputs).enumerate() {
            simd::prefetch(bytes, i * BLOCK + AHEAD, BLOCK);
            let groups = block.as_chunks::<64>().0.iter().zip(digits.as_chunks_mut().0);
            for (j, ((group, digits), rest)) in groups.zip(rest.as_chunks_mut::<32>().0).enumerate()
            {
                let words = [load(&group[..32]), load(&group[32..])];
                sum.add(j, words);
                let (symbols, low) = split(words);
                store(rest, low);
                let (made, k) = encode_32(values, symbols, &mut escapes[n..]);
                *digits = made;
                n += k;
            }
            sum.end_block();
        }
        sum.put_back();
        done = blocks * WORDS;
    }
    let (bytes, rest) = (&bytes[2 * done..], &mut rest[done..]);
    let (groups, tail) = bytes.as_chunks::<64>();
    let (digit_groups, digits_tail) = digits[done / 4..].split_at_mut(8 * groups.len());
    let (rest_groups, rest_tail) = rest.split_at_mut(32 * groups.len());
    let outputs =
        digit_groups.as_chunks_mut().0.iter_mut().zip(rest_groups.as_chunks_mut::<32>().0);
    for (group, (digits, rest)) in groups.iter().zip(outputs) {
        let (symbols, low) = split([load(&group[..32]), load(&group[32..])]);
        store(rest, low);
        let (made, k) = encode_32(values, symbols, &mut escapes[n..]);
        *digits = made;
        n += k;
    }
    n + scalar::encode_bf16(common, tail, rest_tail, digits_tail, &mut escapes[n..])
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(in super::super) fn decode_bf16(
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    rest: &[u8],
    bytes: &mut [u8],
    far: bool,
    hash: Option<&mut Stream>,
) -> Option<usize> {
    let table = table(common);
    let mut n = 0;
    let mut done = 0;
    if let Some(hash) = hash {
        let blocks = bytes.len().saturating_sub(1) / BLOCK;
        done = blocks * WORDS;
        let (inputs, bytes) = ((digits, escapes, rest), &mut bytes[..blocks * BLOCK]);
        n = match bytes.as_ptr().addr() % 32 {
            0 if far => decode_blocks::<ALIGNED>(table, inputs, bytes, hash)?,
            16 if far => decode_blocks::<MIDDLE>(table, inputs, bytes, hash)?,
            _ => decode_blocks::<NEAR>(table, inputs, bytes, hash)?,
        };
    }
    let (groups, tail) = bytes[2 * done..].as_chunks_mut::<64>();
    let (digit_groups, digits_tail) = digits[done / 4..].split_at(8 * groups.len());
    let (rest_groups, rest_tail) = rest[done..].split_at(32 * groups.len());
    let inputs = digit_groups.as_chunks().0.iter().zip(rest_groups.as_chunks::<32>().0);
    for (group, (digits, rest)) in groups.iter_mut().zip(inputs) {
        let (symbols, k) = decode_32(table, digits, escapes.get(n..)?.first_chunk()?);
        let [a, b] = join(symbols, load(rest));
        store(&mut group[..32], a);
        store(&mut group[32..], b);
        n += k;
    }
    // If the last step took more than there are, too few are left for the scalar code as well.
    let escapes = escapes.get(n..).filter(|e| e.len() >= PAD)?;
    Some(n + scalar::decode_bf16(common, digits_tail, escapes, rest_tail, tail)?)
}

/// Where output starts: stores past the caches must be aligned.
const NEAR: u8 = 0;
const ALIGNED: u8 = 1;
/// In the middle of a register's room, as large buffers of common allocators do. Each store then
/// takes halves of two registers, and those of a block start 16 bytes before it:
///
/// ```text
/// registers   | 0 low   high | 1 low   high | 2 low   high |
/// stores             |       0       |      1       |
/// ```
const MIDDLE: u8 = 2;

/// Decodes digits, escapes and rest into whole blocks. Returns how many escapes it took, which may
/// be more than there are.
#[inline]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn decode_blocks<const PLACE: u8>(
    table: __m256i,
    (digits, escapes, rest): (&[u8], &[u8], &[u8]),
    bytes: &mut [u8],
    hash: &mut Stream,
) -> Option<usize> {
    let blocks = bytes.len() / BLOCK;
    let mut sum = hash.avx2::<true>();
    let mut last = _mm256_setzero_si256();
    let mut n = 0;
    let mut padded = [0; WORDS + PAD];
    let inputs = digits.as_chunks::<{ WORDS / 4 }>().0.iter();
    let inputs = inputs.zip(rest.as_chunks::<WORDS>().0).take(blocks).enumerate();
    for (i, (block_digits, block_rest)) in inputs {
        simd::prefetch(rest, i * WORDS + AHEAD, WORDS);
        simd::prefetch(digits, i * (WORDS / 4) + AHEAD / 4, WORDS / 4);
        // As many as a block may take, so that nothing need be checked inside of it.
        let left = escapes.get(n..)?;
        let near = match left.first_chunk() {
            Some(near) => near,
            None => {
                padded[..left.len()].copy_from_slice(left);
                &padded
            }
        };
        // The first block has nothing before it, and stores as usual.
        let (usual, start) = match PLACE {
            MIDDLE if i > 0 => (false, i * BLOCK - 16),
            _ => (PLACE != ALIGNED, i * BLOCK),
        };
        let window: &mut [u8; BLOCK] = bytes[start..].first_chunk_mut()?;
        assert!(usual || window.as_ptr().addr().is_multiple_of(32));
        let inputs = block_digits.as_chunks().0.iter().zip(block_rest.as_chunks::<32>().0);
        let mut k = 0;
        for (j, ((digits, rest), out)) in inputs.zip(window.as_chunks_mut::<64>().0).enumerate() {
            let (symbols, taken) = decode_32(table, digits, near[k % WORDS..].first_chunk()?);
            let [a, b] = join_crossed(symbols, load(rest));
            sum.add(j, [a, b]);
            k += taken;
            if PLACE == NEAR || usual {
                let [a, b] = uncross([a, b]);
                store(&mut out[..32], a);
                store(&mut out[32..], b);
            } else {
                let [first, second] = match PLACE {
                    ALIGNED => uncross([a, b]),
                    // The upper half of what is last, then the lower one of what is first; and
                    // what is between them.
                    _ => [
                        _mm256_permute2x128_si256::<0x21>(last, a),
                        _mm256_blend_epi32::<0b1111_0000>(b, a),
                    ],
                };
                let at = out.as_mut_ptr().cast::<__m256i>();
                // SAFETY: `out` has 64 bytes, at a multiple of 32, as the window does.
                unsafe {
                    _mm256_stream_si256(at, first);
                    _mm256_stream_si256(at.add(1), second);
                }
            }
            last = b;
        }
        sum.end_block();
        n += k;
    }
    if PLACE == MIDDLE && blocks > 0 {
        // Its lower half is there already, though it is not what is before the upper one.
        let upper = _mm256_extracti128_si256::<1>(last);
        store_half(&mut bytes[blocks * BLOCK - 16..], upper);
    }
    // SAFETY: every x86-64 has it; newer compilers call it safe.
    #[allow(unused_unsafe)]
    unsafe {
        _mm_sfence();
    }
    sum.put_back();
    Some(n)
}

/// Exponents, and signs and mantissas, of 32 bf16 words.
#[inline]
#[target_feature(enable = "avx2")]
fn split(words: [__m256i; 2]) -> (__m256i, __m256i) {
    let [a, b] =
        words.map(|v| _mm256_or_si256(_mm256_slli_epi16::<1>(v), _mm256_srli_epi16::<15>(v)));
    let low = _mm256_set1_epi16(0xFF);
    let symbols = _mm256_packus_epi16(_mm256_srli_epi16::<8>(a), _mm256_srli_epi16::<8>(b));
    let rest = _mm256_packus_epi16(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
    // Packs work within 128-bit lanes; this puts their halves in order.
    let order = |v| _mm256_permute4x64_epi64::<0b11_01_10_00>(v);
    (order(symbols), order(rest))
}

/// Inverse of [`split`].
#[inline]
#[target_feature(enable = "avx2")]
fn join(symbols: __m256i, rest: __m256i) -> [__m256i; 2] {
    uncross(join_crossed(symbols, rest))
}

/// [`join`] that leaves quarters 0 and 2 in the first register, 1 and 3 in the second.
#[inline]
#[target_feature(enable = "avx2")]
fn join_crossed(symbols: __m256i, rest: __m256i) -> [__m256i; 2] {
    let rotate = |v| _mm256_or_si256(_mm256_srli_epi16::<1>(v), _mm256_slli_epi16::<15>(v));
    let lo = rotate(_mm256_unpacklo_epi8(rest, symbols));
    let hi = rotate(_mm256_unpackhi_epi8(rest, symbols));
    [lo, hi]
}

/// Puts quarters in order.
#[inline]
#[target_feature(enable = "avx2")]
fn uncross([a, b]: [__m256i; 2]) -> [__m256i; 2] {
    [_mm256_permute2x128_si256::<0x20>(a, b), _mm256_permute2x128_si256::<0x31>(a, b)]
}
