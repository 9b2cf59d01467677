//! Classes of magnitudes: what is entropy-coded of a number, and what follows as it is.
//!
//! ```text
//! magnitude            class                              bits that follow
//! 0 … 7                itself                             none
//! L ≥ 4 bits, fine     8 + 4·(L − 4) + next two bits      L − 3
//! L ≥ 4 bits, coarse   8 + (L − 4)                        L − 1
//! ```
//!
//! Fine classes are for words up to 32 bits: two bits below the leading one still save 0.05 to
//! 0.3 bit a word. A residual's symbol joins class and sign: 0 for 0, else `2·class − 1 + sign`.

/// Fine or coarse classes.
#[derive(Clone, Copy, Debug)]
pub struct Classes {
    /// Least magnitude of a class.
    least: [u64; 256],
    /// Bits that follow a class.
    bits: [u8; 256],
    fine: bool,
}

/// For words of up to 32 bits, and gaps.
pub static FINE: Classes = Classes::new(true);
/// For words of 64 bits.
pub static COARSE: Classes = Classes::new(false);

/// Classes that exist: the largest magnitude of a word has 32 or 64 bits.
const N_FINE: usize = 8 + 4 * 29;
const N_COARSE: usize = 8 + 61;

impl Classes {
    const fn new(fine: bool) -> Classes {
        let (mut least, mut bits) = ([0; 256], [0; 256]);
        let n = if fine { N_FINE } else { N_COARSE };
        let mut c = 0;
        while c < n {
            if c < 8 {
                least[c] = c as u64;
            } else if fine {
                bits[c] = ((c - 8) / 4 + 1) as u8;
                least[c] = (4 + (c as u64 - 8) % 4) << bits[c];
            } else {
                bits[c] = (c - 8 + 3) as u8;
                least[c] = 1 << bits[c];
            }
            c += 1;
        }
        Classes { least, bits, fine }
    }

    /// The classes for residuals of words of this many bytes.
    pub fn of_word(word: usize) -> &'static Classes {
        if word == 8 { &COARSE } else { &FINE }
    }

    /// Number of classes.
    pub fn count(&self) -> usize {
        if self.fine { N_FINE } else { N_COARSE }
    }

    /// Class of a magnitude (below 2³² for fine classes).
    #[inline(always)]
    pub fn class(&self, magnitude: u64) -> u8 {
        if magnitude < 8 {
            return magnitude as u8;
        }
        let top = 63 - magnitude.leading_zeros();
        if self.fine {
            (4 * (top - 3) + 4 + (magnitude >> (top - 2)) as u32) as u8
        } else {
            (8 + top - 3) as u8
        }
    }

    /// How many bits follow a class.
    #[inline(always)]
    pub fn bits(&self, class: u8) -> u32 {
        u32::from(self.bits[usize::from(class)])
    }

    /// Least magnitude of a class.
    #[inline(always)]
    pub fn least(&self, class: u8) -> u64 {
        self.least[usize::from(class)]
    }

    /// Symbol of a residual, one at a time.
    #[inline(always)]
    pub fn symbol(&self, residual: i64) -> u8 {
        if residual == 0 {
            return 0;
        }
        2 * self.class(residual.unsigned_abs()) - u8::from(residual > 0)
    }

    /// Number of symbols that residuals of words of this many bytes can have.
    pub fn symbols_of_word(word: usize) -> usize {
        2 * usize::from(Self::of_word(word).class(1 << (8 * word - 1))) + 1
    }
}

/// Class of a symbol's magnitude.
#[inline(always)]
pub fn class_of(symbol: u8) -> u8 {
    symbol.div_ceil(2)
}

/// Whether a symbol's residual is negative.
#[inline(always)]
pub fn is_negative(symbol: u8) -> bool {
    symbol != 0 && symbol.is_multiple_of(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_tile_the_magnitudes() {
        for (classes, top) in [(&FINE, 32), (&COARSE, 64)] {
            let mut next = 0u128;
            for c in 0..classes.count() as u8 {
                assert_eq!(u128::from(classes.least(c)), next);
                let last = classes.least(c) + ((1u64 << classes.bits(c)) - 1);
                assert_eq!((classes.class(classes.least(c)), classes.class(last)), (c, c));
                next = u128::from(last) + 1;
            }
            assert_eq!(next, 1 << top);
        }
    }

    #[test]
    fn symbols_hold_sign_and_class() {
        for d in [-1 << 31, -100, -8, -7, -1, 0, 1, 7, 8, 100, (1 << 31) - 1] {
            let s = FINE.symbol(d);
            assert_eq!(is_negative(s), d < 0);
            assert_eq!(class_of(s), FINE.class(d.unsigned_abs()));
        }
        for (word, least) in [(1, -1i64 << 7), (2, -1 << 15), (4, -1 << 31), (8, i64::MIN)] {
            let last = Classes::of_word(word).symbol(least);
            assert_eq!(usize::from(last) + 1, Classes::symbols_of_word(word));
        }
    }
}
