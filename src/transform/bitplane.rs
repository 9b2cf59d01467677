//! Bit-plane transposition: plane `p` collects bit `p` of every word of a chunk.
//!
//! ```text
//! words    n words of 1, 2, 4 or 8 little-endian bytes
//! planes   8 × word_len planes one after another, bit 0 first, each plane_len(n) bytes:
//!          bit i % 8 of byte i / 8 of plane p = bit p of word i
//! ```
//!
//! A plane is padded with zero bits to a multiple of 32 words, so that planes start at multiples
//! of four bytes. [`planes`] and [`words`] are inverses; `words` ignores the padding.
//! The scalar functions define the result; every other variant must equal them.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::simd::{Level, dispatch};

/// Bytes of one plane of `n_words` words.
pub const fn plane_len(n_words: usize) -> usize {
    4 * n_words.div_ceil(32)
}

/// Writes the bit planes of `words`.
///
/// # Panics
/// Where `word_len` is not 1, 2, 4 or 8, `words` is not whole words, or `planes` is not
/// `8 * word_len` planes of [`plane_len`] bytes.
pub fn planes(level: Level, word_len: usize, words: &[u8], planes: &mut [u8]) {
    let n = check(word_len, words.len(), planes.len());
    dispatch!(level,
        Avx512 => avx512::planes(word_len, words, planes),
        Avx2 => avx2::planes(word_len, words, planes),
        _ => planes_scalar(word_len, 0..n, words, planes),
    )
}

/// Inverse of [`planes`].
///
/// # Panics
/// As [`planes`].
pub fn words(level: Level, word_len: usize, planes: &[u8], words: &mut [u8]) {
    let n = check(word_len, words.len(), planes.len());
    dispatch!(level,
        Avx512 => avx512::words(word_len, planes, words),
        Avx2 => avx2::words(word_len, planes, words),
        _ => words_scalar(word_len, 0..n, planes, words),
    )
}

/// The number of words, once the lengths are found to fit each other.
fn check(word_len: usize, words_len: usize, planes_len: usize) -> usize {
    assert!(matches!(word_len, 1 | 2 | 4 | 8), "no words of {word_len} bytes");
    assert!(words_len.is_multiple_of(word_len));
    let n = words_len / word_len;
    assert!(planes_len == 8 * word_len * plane_len(n));
    n
}

/// Writes the bytes of all planes that hold the words `range`, which starts at a multiple of
/// eight and ends at the last word; so the padding is written too.
fn planes_scalar(word_len: usize, range: std::ops::Range<usize>, words: &[u8], planes: &mut [u8]) {
    let len = plane_len(range.end);
    for (p, plane) in planes.chunks_exact_mut(len.max(1)).enumerate() {
        for (i, byte) in plane.iter_mut().enumerate().skip(range.start / 8) {
            let bit = |w: usize| match words.get(w * word_len + p / 8) {
                Some(byte) => (byte >> (p % 8) & 1) << (w % 8),
                None => 0,
            };
            *byte = (8 * i..8 * i + 8).map(bit).sum();
        }
    }
}

/// Writes the words `range`, which may start anywhere and ends at the last word.
fn words_scalar(word_len: usize, range: std::ops::Range<usize>, planes: &[u8], words: &mut [u8]) {
    let len = plane_len(range.end);
    for w in range {
        for b in 0..word_len {
            let bit = |p: usize| (planes[(8 * b + p) * len + w / 8] >> (w % 8) & 1) << p;
            words[w * word_len + b] = (0..8).map(bit).sum();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(len: usize) -> Vec<u8> {
        (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8).collect()
    }

    #[test]
    fn every_level_equals_scalar_and_inverts_on_every_length() {
        for n in (0..200).chain([255, 256, 257, 4095, 4097]) {
            for word_len in [1, 2, 4, 8] {
                let input = sample(n * word_len);
                let mut want = vec![0xff; 8 * word_len * plane_len(n)];
                planes_scalar(word_len, 0..n, &input, &mut want);
                for level in Level::available() {
                    let mut got = vec![0xaa; want.len()];
                    planes(level, word_len, &input, &mut got);
                    assert_eq!(got, want, "planes {level:?} {word_len} {n}");
                    let mut back = vec![0xaa; input.len()];
                    words(level, word_len, &got, &mut back);
                    assert_eq!(back, input, "words {level:?} {word_len} {n}");
                }
            }
        }
    }

    #[test]
    fn a_plane_holds_one_bit_of_every_word() {
        let input: Vec<u8> = (0..40u16).flat_map(|i| (0x8000 | i).to_le_bytes()).collect();
        let mut out = vec![0; 16 * plane_len(40)];
        planes(Level::best(), 2, &input, &mut out);
        assert_eq!(out[..8], [0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0, 0, 0]);
        assert_eq!(out[8 * 5..][..8], [0, 0, 0, 0, 0xff, 0, 0, 0]);
        assert_eq!(out[8 * 15..], [0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0]);
    }
}
