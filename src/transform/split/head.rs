//! Heads of words and back, for callers that look at heads before they are split.
use crate::simd::Level;

/// Writes the head of every word (8, 16, 32 or 64 bits wide) of `bytes`.
///
/// # Panics
/// If `bytes` is not one word for each of `out`.
pub fn heads(level: Level, word_bits: u8, bytes: &[u8], out: &mut [u16]) {
    assert!(bytes.len() == out.len() * usize::from(word_bits / 8));
    level.run(|| match word_bits {
        8 => each(bytes, out, |w: &[u8; 1]| w[0].rotate_left(1).into()),
        16 => each(bytes, out, |&w| u16::from_le_bytes(w).rotate_left(1)),
        32 => each(bytes, out, |&w| ((u32::from_le_bytes(w) >> 16) as u16).rotate_left(1)),
        _ => each(bytes, out, |&w| ((u64::from_le_bytes(w) >> 48) as u16).rotate_left(1)),
    });
}

#[inline(always)]
fn each<const W: usize>(bytes: &[u8], out: &mut [u16], head: impl Fn(&[u8; W]) -> u16) {
    for (out, word) in out.iter_mut().zip(bytes.as_chunks::<W>().0) {
        *out = head(word);
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
    level.run(|| match (word_bits, tails) {
        (8, []) => {
            for (byte, head) in bytes.iter_mut().zip(heads) {
                *byte = (*head as u8).rotate_right(1);
            }
        }
        (16, []) => {
            for (word, head) in bytes.as_chunks_mut().0.iter_mut().zip(heads) {
                *word = head.rotate_right(1).to_le_bytes();
            }
        }
        (32, [t0, t1]) => {
            let low = t0.iter().zip(*t1).map(|(a, b)| u16::from_le_bytes([*a, *b]));
            for ((word, head), low) in bytes.as_chunks_mut().0.iter_mut().zip(heads).zip(low) {
                *word = (u32::from(head.rotate_right(1)) << 16 | u32::from(low)).to_le_bytes();
            }
        }
        (64, [_, _, _, _, _, _]) => {
            for (i, (word, head)) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(heads).enumerate()
            {
                let mut bits = u64::from(head.rotate_right(1));
                for tail in tails.iter().rev() {
                    bits = bits << 8 | u64::from(tail[i]);
                }
                *word = bits.to_le_bytes();
            }
        }
        _ => panic!("{word_bits}-bit words with {} tails", tails.len()),
    });
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
