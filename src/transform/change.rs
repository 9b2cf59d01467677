//! Which words of a chunk differ from the words they are compared with.
//!
//! ```text
//! masks     bit i of masks[g] is set where word 64·g + i differs; bits past the last are zero
//! bitmap    the same bits in bytes, for a delta that is formed already: word i is not zero;
//!           padded to a multiple of 32 words
//! ```
//!
//! Where almost nothing changed this is all the work there is, so it must run at the speed of
//! memory: the vector variants make a mask of 64 words from one compare for each vector.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::{
    simd::{Level, dispatch},
    transform::bitplane::plane_len,
};

/// Sets the masks of the words (1, 2, 4 or 8 bytes each) in which `a` and `b` differ. Returns how
/// many there are.
///
/// # Panics
/// Where the slices differ in length, that length is not a multiple of `word_len`, or there is
/// not a mask for every 64 words or part of them.
pub fn masks(level: Level, word_len: usize, a: &[u8], b: &[u8], masks: &mut [u64]) -> u64 {
    assert!(matches!(word_len, 1 | 2 | 4 | 8), "no words of {word_len} bytes");
    assert!(a.len() == b.len() && a.len().is_multiple_of(word_len));
    assert_eq!(masks.len(), (a.len() / word_len).div_ceil(64));
    let whole = a.len() / (64 * word_len);
    let at = whole * 64 * word_len;
    let (head, tail) = masks.split_at_mut(whole);
    dispatch!(level,
        Avx512 => avx512::masks(word_len, &a[..at], &b[..at], head),
        Avx2 => avx2::masks(word_len, &a[..at], &b[..at], head),
        _ => scalar(word_len, &a[..at], &b[..at], head),
    );
    scalar(word_len, &a[at..], &b[at..], tail);
    masks.iter().map(|m| u64::from(m.count_ones())).sum()
}

fn scalar(word_len: usize, a: &[u8], b: &[u8], masks: &mut [u64]) {
    let groups = a.chunks(64 * word_len).zip(b.chunks(64 * word_len));
    for (mask, (a, b)) in masks.iter_mut().zip(groups) {
        *mask = 0;
        if a != b {
            let words = a.chunks_exact(word_len).zip(b.chunks_exact(word_len));
            for (i, (a, b)) in words.enumerate() {
                *mask |= u64::from(a != b) << i;
            }
        }
    }
}

/// Writes the map of the words of `delta` that are not zero and returns their number.
///
/// # Panics
/// Where `word_len` is not 1, 2, 4 or 8, `delta` is not whole words, or `changed` is not
/// [`plane_len`] bytes long.
pub fn bitmap(word_len: usize, delta: &[u8], changed: &mut [u8]) -> usize {
    match word_len {
        1 => of_words::<1>(delta, changed),
        2 => of_words::<2>(delta, changed),
        4 => of_words::<4>(delta, changed),
        8 => of_words::<8>(delta, changed),
        _ => panic!("no words of {word_len} bytes"),
    }
}

fn of_words<const N: usize>(delta: &[u8], changed: &mut [u8]) -> usize {
    let (words, rest) = delta.as_chunks::<N>();
    assert!(rest.is_empty() && changed.len() == plane_len(words.len()));
    changed.fill(0);
    for (byte, words) in changed.iter_mut().zip(words.chunks(8)) {
        *byte = words.iter().rev().fold(0, |map, word| map << 1 | u8::from(*word != [0; N]));
    }
    changed.iter().map(|byte| byte.count_ones() as usize).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_has_a_bit_for_every_word_that_changed() {
        for word_len in [1, 2, 4, 8] {
            for n in [0, 1, 7, 8, 9, 31, 32, 33, 100] {
                let mut delta = vec![0; n * word_len];
                for i in (0..n).step_by(3) {
                    delta[i * word_len + i % word_len] = 1 + i as u8;
                }
                let mut map = vec![0xff; plane_len(n)];
                assert_eq!(bitmap(word_len, &delta, &mut map), n.div_ceil(3));
                let mut of_64 = vec![0; n.div_ceil(64)];
                super::masks(Level::best(), word_len, &delta, &vec![0; delta.len()], &mut of_64);
                let bytes: Vec<u8> = of_64.iter().flat_map(|m| m.to_le_bytes()).collect();
                assert_eq!(bytes[..map.len()], map);
                for i in 0..8 * map.len() {
                    assert_eq!(map[i / 8] >> (i % 8) & 1 == 1, i < n && i % 3 == 0, "{i} of {n}");
                }
            }
        }
    }

    #[test]
    fn every_level_equals_scalar_on_every_length_and_finds_every_change() {
        for word in [1, 2, 4, 8] {
            for n in (0..200usize).chain([1023, 1024, 1025]) {
                let a: Vec<u8> = (0..n * word).map(|i| (i * 7 % 251) as u8).collect();
                let mut b = a.clone();
                let mut want = vec![0u64; n.div_ceil(64)];
                for i in (0..n).filter(|i| i * i % 11 == 3 || i % 64 == 63) {
                    b[i * word + i % word] ^= 1 << (i % 8);
                    want[i / 64] |= 1 << (i % 64);
                }
                let count = want.iter().map(|m| u64::from(m.count_ones())).sum::<u64>();
                for level in Level::available() {
                    let mut masks = vec![!0; want.len()];
                    assert_eq!(super::masks(level, word, &a, &b, &mut masks), count);
                    assert_eq!(masks, want, "{level:?} {word} bytes, {n} words");
                }
            }
        }
    }
}
