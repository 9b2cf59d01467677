//! What one look at a chunk tells before it is split: constant bits and the range of symbols.
use crate::simd::Level;

/// Statistics of the words of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Bits that are set in any word; 0 if there are none.
    pub or_bits: u64,
    /// Bits that are set in all words; all bits of a word if there are none.
    pub and_bits: u64,
    /// Least `s` (`head >> rest_bits`) above 0; `u16::MAX` if there is none.
    pub symbol_min: u16,
    /// Greatest `s`.
    pub symbol_max: u16,
    /// Width of a word.
    pub word_bits: u8,
}

impl Stats {
    /// The sign bit if all words share it.
    pub fn sign(&self) -> Option<bool> {
        let (any, all) =
            (self.or_bits >> (self.word_bits - 1), self.and_bits >> (self.word_bits - 1));
        (any == all).then_some(any == 1)
    }

    /// The word if all words are the same.
    pub fn constant(&self) -> Option<u64> {
        (self.or_bits == self.and_bits).then_some(self.or_bits)
    }

    /// How many of the lowest bits are zero in all words.
    pub fn zero_low_bits(&self) -> u8 {
        (self.or_bits.trailing_zeros() as u8).min(self.word_bits)
    }
}

/// Statistics of the little-endian words (8, 16, 32 or 64 bits wide) of `bytes`, with symbols
/// for this many rest bits.
///
/// # Panics
/// If `bytes` is not whole words.
pub fn stats(level: Level, word_bits: u8, rest_bits: u8, bytes: &[u8]) -> Stats {
    assert!(bytes.len().is_multiple_of(usize::from(word_bits / 8)));
    match word_bits {
        8 => level.run(of8, (bytes, rest_bits)),
        16 => level.run(of16, (bytes, rest_bits)),
        32 => level.run(of32, (bytes, rest_bits)),
        _ => level.run(of64, (bytes, rest_bits)),
    }
}

/// One function a width, so that the compiler vectorises each with lanes of that width.
/// `s − 1` wraps 0 to the greatest value, which leaves it out of the minimum.
macro_rules! stats_of {
    ($name:ident, $word:ty, $head_bits:literal) => {
        #[inline(always)]
        fn $name((bytes, rest_bits): (&[u8], u8)) -> Stats {
            const LEN: usize = size_of::<$word>();
            const BELOW: u32 = <$word>::BITS - $head_bits;
            // The head without rotation keeps the sign on top; with it s is magnitude >> (r − 1).
            let down = BELOW + u32::from(rest_bits) - u32::from(rest_bits > 0);
            let (mut or, mut and, mut min, mut max) = (0, <$word>::MAX, <$word>::MAX, 0);
            for word in bytes.as_chunks::<LEN>().0 {
                let word = <$word>::from_le_bytes(*word);
                or |= word;
                and &= word;
                let s = if rest_bits > 0 {
                    (word & (<$word>::MAX >> 1)) >> down
                } else {
                    let head = word >> BELOW;
                    ((head << 1) | (word >> (<$word>::BITS - 1))) & (<$word>::MAX >> BELOW)
                };
                min = min.min(s.wrapping_sub(1));
                max = max.max(s);
            }
            Stats {
                or_bits: or.into(),
                and_bits: and.into(),
                symbol_min: if max == 0 { u16::MAX } else { (min + 1) as u16 },
                symbol_max: max as u16,
                word_bits: <$word>::BITS as u8,
            }
        }
    };
}
stats_of!(of8, u8, 8);
stats_of!(of16, u16, 16);
stats_of!(of32, u32, 16);
stats_of!(of64, u64, 16);
