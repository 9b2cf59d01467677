//! Difference between the words of a chunk and the words of its base, and back.
//!
//! Two kinds, each its own inverse pair over little-endian words of the same length:
//!
//! ```text
//! xor    delta = word ^ base                          word = base ^ delta
//! diff   delta = order(word) - order(base) mod 2^w    word = order(order(base) + delta)
//! order(x) = x with all bits below the sign flipped where the sign is set
//! ```
//!
//! Read as signed integers, `order` puts floats in their numeric order (−0 just below +0, NaNs at
//! the ends), so that neighbouring values differ by small numbers across a change of sign too.
//! It is an involution on every bit pattern: nothing is lost, whatever the words mean.
//!
//! The scalar loops are what the compiler vectorises best, so the variants are these loops
//! compiled for each level rather than intrinsics.

use crate::simd::{Level, for_every_level};

/// A signed integer as wide as a word.
trait Word: Copy {
    /// Flips the bits below the sign where the sign is set.
    fn order(self) -> Self;
}

macro_rules! word {
    ($($int:ty)*) => {$(
        impl Word for $int {
            #[inline(always)]
            fn order(self) -> Self {
                // The arithmetic shift is all ones exactly where the sign is set.
                self ^ ((self >> (<$int>::BITS - 1)) & <$int>::MAX)
            }
        }
    )*};
}
word!(i8 i16 i32 i64);

#[inline(always)]
fn order<T: Word>(x: T) -> T {
    x.order()
}

/// Sets every word of `out` to a function of the words of `a` and `b` at the same place.
macro_rules! each {
    ($int:ty, $a:ident, $b:ident, $out:ident, |$x:ident, $y:ident| $value:expr) => {{
        let pairs = $a.as_chunks().0.iter().zip($b.as_chunks().0);
        for (out, (x, y)) in $out.as_chunks_mut().0.iter_mut().zip(pairs) {
            let ($x, $y) = (<$int>::from_le_bytes(*x), <$int>::from_le_bytes(*y));
            *out = ($value).to_le_bytes();
        }
    }};
}

/// XOR of two byte strings: forms a delta from (words, base), and undoes it from (delta, base).
///
/// # Panics
/// Where the slices differ in length.
pub fn xor(level: Level, a: &[u8], b: &[u8], out: &mut [u8]) {
    assert!(a.len() == b.len() && a.len() == out.len());
    xor_each(level, a, b, out);
}

/// Writes the order-preserving differences `words - base`. `word_len` is 1, 2, 4 or 8.
///
/// # Panics
/// Where the slices differ in length, or that length is not a multiple of `word_len`.
pub fn diff(level: Level, word_len: usize, words: &[u8], base: &[u8], delta: &mut [u8]) {
    check(word_len, words, base, delta);
    diff_each(level, word_len, words, base, delta);
}

/// Inverse of [`diff`]: writes the words that differ from `base` by `delta`.
///
/// # Panics
/// Where the slices differ in length, or that length is not a multiple of `word_len`.
pub fn undo(level: Level, word_len: usize, delta: &[u8], base: &[u8], words: &mut [u8]) {
    check(word_len, delta, base, words);
    undo_each(level, word_len, delta, base, words);
}

fn check(word_len: usize, a: &[u8], b: &[u8], out: &[u8]) {
    assert!(matches!(word_len, 1 | 2 | 4 | 8), "no words of {word_len} bytes");
    assert!(a.len() == b.len() && a.len() == out.len() && a.len().is_multiple_of(word_len));
}

for_every_level! {
fn xor_each(a: &[u8], b: &[u8], out: &mut [u8]) {
    for ((out, a), b) in out.iter_mut().zip(a).zip(b) {
        *out = a ^ b;
    }
}
}

for_every_level! {
fn diff_each(word_len: usize, words: &[u8], base: &[u8], delta: &mut [u8]) {
    match word_len {
        1 => each!(i8, words, base, delta, |w, b| order(w).wrapping_sub(order(b))),
        2 => each!(i16, words, base, delta, |w, b| order(w).wrapping_sub(order(b))),
        4 => each!(i32, words, base, delta, |w, b| order(w).wrapping_sub(order(b))),
        _ => each!(i64, words, base, delta, |w, b| order(w).wrapping_sub(order(b))),
    }
}
}

for_every_level! {
fn undo_each(word_len: usize, delta: &[u8], base: &[u8], words: &mut [u8]) {
    match word_len {
        1 => each!(i8, delta, base, words, |d, b| order(order(b).wrapping_add(d))),
        2 => each!(i16, delta, base, words, |d, b| order(order(b).wrapping_add(d))),
        4 => each!(i32, delta, base, words, |d, b| order(order(b).wrapping_add(d))),
        _ => each!(i64, delta, base, words, |d, b| order(order(b).wrapping_add(d))),
    }
}
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words of every kind of neighbourhood: all 16-bit patterns, then a hash of their position.
    fn sample(len: usize, seed: u64) -> Vec<u8> {
        let word = |i: u64| (i + seed) as u16 ^ ((i * seed).wrapping_mul(0x9e37_79b9) >> 17) as u16;
        (0..len as u64 / 2 + 1).flat_map(|i| word(i).to_le_bytes()).take(len).collect()
    }

    #[test]
    fn every_level_equals_scalar_and_inverts_on_every_length() {
        let lengths = (0..300).chain([4095, 4096, 4097, 1 << 17]);
        for n_words in lengths {
            for word_len in [1, 2, 4, 8] {
                let (words, base) = (sample(n_words * word_len, 1), sample(n_words * word_len, 77));
                let (mut want, mut got) = (vec![0; words.len()], vec![1; words.len()]);
                diff_each(Level::SCALAR, word_len, &words, &base, &mut want);
                for level in Level::available() {
                    diff(level, word_len, &words, &base, &mut got);
                    assert_eq!(got, want, "diff {level:?} {word_len} {n_words}");
                    undo(level, word_len, &want, &base, &mut got);
                    assert_eq!(got, words, "undo {level:?} {word_len} {n_words}");
                    xor(level, &words, &base, &mut got);
                    let mut back = vec![0; got.len()];
                    xor(level, &got, &base, &mut back);
                    assert_eq!(back, words, "xor {level:?} {word_len} {n_words}");
                }
            }
        }
    }

    #[test]
    fn every_pair_of_bytes_differs_by_the_distance_in_numeric_order() {
        // 1.0 → 1.0 + ulp is one step; −0 → +0 is one step; −1 → −1 − ulp is one step down.
        for (base, word, distance) in
            [(0x3f80u16, 0x3f81u16, 1i16), (0x8000, 0, 1), (0xbf80, 0xbf81, -1), (1, 0x8001, -3)]
        {
            let mut delta = [0; 2];
            diff(Level::best(), 2, &word.to_le_bytes(), &base.to_le_bytes(), &mut delta);
            assert_eq!(i16::from_le_bytes(delta), distance, "{base:04x} {word:04x}");
        }
        let all: Vec<u8> = (0..=255).collect();
        for base in 0..=255u8 {
            let (mut delta, mut back) = ([0; 256], [0; 256]);
            diff(Level::best(), 1, &all, &[base; 256], &mut delta);
            undo(Level::best(), 1, &delta, &[base; 256], &mut back);
            assert_eq!(back[..], all);
        }
    }
}
