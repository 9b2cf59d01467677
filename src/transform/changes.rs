//! Which words of a chunk differ from the words they are compared with.
//!
//! ```text
//! masks[g] bit i     word 64·g + i differs; bits past the last word are zero
//! ```
//!
//! Where almost nothing changed this is all the work there is, so it must run at the speed of
//! memory: the vector variants make a mask of 64 words from one compare for each vector.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(target_arch = "x86_64")]
use crate::simd::Isa;
use crate::simd::Level;

/// Sets the masks of the words (1, 2, 4 or 8 bytes each) in which `a` and `b` differ. Returns how
/// many there are.
///
/// # Panics
/// Where the slices differ in length, that length is not a multiple of `word_len`, or there is
/// not a mask for every 64 words or part of them.
pub fn changes(level: Level, word_len: usize, a: &[u8], b: &[u8], masks: &mut [u64]) -> u64 {
    assert!(matches!(word_len, 1 | 2 | 4 | 8), "no words of {word_len} bytes");
    assert!(a.len() == b.len() && a.len().is_multiple_of(word_len));
    assert_eq!(masks.len(), (a.len() / word_len).div_ceil(64));
    let whole = a.len() / (64 * word_len);
    let at = whole * 64 * word_len;
    let (head, tail) = masks.split_at_mut(whole);
    match level.isa() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a `Level` with this `Isa` is only made after its features were detected.
        Isa::Avx2 => unsafe { avx2::changes(word_len, &a[..at], &b[..at], head) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Isa::Avx512 => unsafe { avx512::changes(word_len, &a[..at], &b[..at], head) },
        _ => scalar(word_len, &a[..at], &b[..at], head),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

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
                    assert_eq!(changes(level, word, &a, &b, &mut masks), count);
                    assert_eq!(masks, want, "{level:?} {word} bytes, {n} words");
                }
            }
        }
    }
}
