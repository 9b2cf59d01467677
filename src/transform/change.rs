//! Which words of a delta are not zero: the map of a sparse update.
//!
//! ```text
//! changed   bit i % 8 of byte i / 8 is set where word i of the delta is not zero
//! ```
//!
//! The map is padded with zero bits to a multiple of 32 words.

use crate::transform::bitplane::plane_len;

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
                for i in 0..8 * map.len() {
                    assert_eq!(map[i / 8] >> (i % 8) & 1 == 1, i < n && i % 3 == 0, "{i} of {n}");
                }
            }
        }
    }
}
