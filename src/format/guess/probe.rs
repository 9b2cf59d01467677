//! A first look at a window: how often a byte repeats the one a word before it.
//!
//! The top byte of a float holds its sign and most of its exponent, and takes few values; the bytes
//! below it take all. So of the bytes at one place of every word, one in five to one in fifty equals
//! that of the next word if it is the top one, and one in 256 if it is not. In text all places are
//! alike, and in compressed data none stands out. Zero bytes do not count, since rows of zeros
//! would look like anything.

use crate::simd::{Level, for_every_level};

/// Bytes of a window.
pub(super) const WINDOW: usize = 2 << 10;

/// Lengths of words.
pub(super) const WORDS: [usize; 3] = [2, 4, 8];

/// Repeats in a window, by the length of words and by the byte's offset modulo 8.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Profile {
    repeats: [[u32; 8]; 3],
    len: usize,
}

impl Profile {
    /// Of a window that begins at a multiple of 8.
    pub(super) fn of(window: &[u8]) -> Profile {
        let level = Level::best();
        Profile { repeats: WORDS.map(|word| repeats(level, window, word)), len: window.len() }
    }

    /// Where the top byte of words of this length lies, as an offset modulo the length, if one
    /// place stands out. `index` is that of the length in [`WORDS`].
    pub(super) fn top(&self, index: usize) -> Option<usize> {
        let word = WORDS[index];
        let mut places = [0; 8];
        for (i, n) in self.repeats[index].iter().enumerate() {
            places[i % word] += n;
        }
        let places = &places[..word];
        let (top, most) = places.iter().copied().enumerate().max_by_key(|&(i, n)| (n, i))?;
        let least = places.iter().copied().min()?;
        let words = (self.len / word) as u32;
        (most >= 2 * least + 12 && most >= words / 64).then_some(top)
    }

    /// Whether any length of words has a place that stands out.
    pub(super) fn may_be_floats(&self) -> bool {
        (0..WORDS.len()).any(|i| self.top(i).is_some())
    }
}

for_every_level! {
    /// Bytes other than zero that equal the byte `lag` after them, by their offset modulo 8.
    fn repeats(window: &[u8], lag: usize) -> [u32; 8] {
        const LANES: usize = 64;
        // So many groups of lanes that a byte can count them.
        const GROUPS: usize = 255;
        let n = window.len().saturating_sub(lag) / LANES * LANES;
        let (now, after) = (window[..n].as_chunks::<LANES>().0, &window[window.len().min(lag)..]);
        let after = after.as_chunks::<LANES>().0;
        let mut sums = [0; 8];
        for (now, after) in now.chunks(GROUPS).zip(after.chunks(GROUPS)) {
            let mut counts = [0u8; LANES];
            for (now, after) in now.iter().zip(after) {
                for i in 0..LANES {
                    counts[i] += u8::from((now[i] == after[i]) & (now[i] != 0));
                }
            }
            for (i, n) in counts.iter().enumerate() {
                sums[i % 8] += u32::from(*n);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_are_counted_by_place() {
        let mut window = vec![0u8; 64 * 300 + 4];
        for i in (3..window.len()).step_by(4) {
            window[i] = 0x3c;
        }
        for level in Level::available() {
            assert_eq!(repeats(level, &window, 4), [0, 0, 0, 2400, 0, 0, 0, 2400]);
            assert_eq!(repeats(level, &window, 2), [0; 8]);
            assert_eq!(repeats(level, &window[..5], 8), [0; 8]);
        }
    }

    #[test]
    fn text_and_noise_have_no_top_byte() {
        let text: Vec<u8> = b"the quick brown fox jumps over the lazy dog; ".repeat(50);
        assert!(!Profile::of(&text[..WINDOW]).may_be_floats());
        let mut state = 1u32;
        for _ in 0..200 {
            let noise: Vec<u8> = (0..WINDOW)
                .map(|_| {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    (state >> 24) as u8
                })
                .collect();
            assert!(!Profile::of(&noise).may_be_floats());
        }
        assert!(!Profile::of(&[]).may_be_floats());
    }
}
