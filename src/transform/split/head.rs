//! Heads of words and back, for callers that look at heads before they are split.
use crate::simd::{Level, for_every_level};

/// Writes the head of every word (8, 16, 32 or 64 bits wide) of `bytes`.
///
/// # Panics
/// If `bytes` is not one word for each of `out`.
pub fn heads(level: Level, word_bits: u8, bytes: &[u8], out: &mut [u16]) {
    assert!(bytes.len() == out.len() * usize::from(word_bits / 8));
    match word_bits {
        8 => heads_of::<1>(level, bytes, out),
        16 => heads_of::<2>(level, bytes, out),
        32 => heads_of::<4>(level, bytes, out),
        _ => heads_of::<8>(level, bytes, out),
    }
}

for_every_level! {
fn heads_of<const LEN: usize>(bytes: &[u8], out: &mut [u16]) {
    for (out, word) in out.iter_mut().zip(bytes.as_chunks::<LEN>().0) {
        *out = head_at(word);
    }
}
}

/// Inverse of [`heads`]: writes words from their heads and the planes of bytes below.
///
/// # Panics
/// If lengths differ, or there are not as many tails as the word has bytes below its head.
pub fn words_of_heads(
    level: Level,
    word_bits: u8,
    heads: &[u16],
    tails: &[&[u8]],
    bytes: &mut [u8],
) {
    assert!(bytes.len() == heads.len() * usize::from(word_bits / 8));
    assert!(tails.iter().all(|t| t.len() == heads.len()));
    match (word_bits, tails) {
        (8, []) => words_of::<1>(level, heads, tails, bytes),
        (16, []) => words_of::<2>(level, heads, tails, bytes),
        (32, [t0, t1]) => words_32(level, heads, t0, t1, bytes),
        (64, [_, _, _, _, _, _]) => words_of::<8>(level, heads, tails, bytes),
        _ => panic!("{word_bits}-bit words with {} tails", tails.len()),
    }
}

for_every_level! {
fn words_of<const LEN: usize>(heads: &[u16], tails: &[&[u8]], bytes: &mut [u8]) {
    for (i, (word, head)) in bytes.as_chunks_mut::<LEN>().0.iter_mut().zip(heads).enumerate() {
        for (byte, tail) in word.iter_mut().zip(tails) {
            *byte = tail[i];
        }
        set_head(word, *head);
    }
}
}

for_every_level! {
/// [`words_of`] in a form that the compiler vectorises.
fn words_32(heads: &[u16], t0: &[u8], t1: &[u8], bytes: &mut [u8]) {
    let low = t0.iter().zip(t1).map(|(a, b)| u16::from_le_bytes([*a, *b]));
    for ((word, head), low) in bytes.as_chunks_mut().0.iter_mut().zip(heads).zip(low) {
        *word = (u32::from(head.rotate_right(1)) << 16 | u32::from(low)).to_le_bytes();
    }
}
}

/// Head of the little-endian word that `word` is.
#[inline(always)]
pub(super) fn head_at(word: &[u8]) -> u16 {
    match word {
        [byte] => byte.rotate_left(1).into(),
        [.., lo, hi] => u16::from_le_bytes([*lo, *hi]).rotate_left(1),
        [] => 0,
    }
}

/// Writes the top bytes of `word`, inverse of [`head_at`].
#[inline(always)]
pub(super) fn set_head(word: &mut [u8], head: u16) {
    match word {
        [byte] => *byte = (head as u8).rotate_right(1),
        [.., lo, hi] => [*lo, *hi] = head.rotate_right(1).to_le_bytes(),
        [] => {}
    }
}
