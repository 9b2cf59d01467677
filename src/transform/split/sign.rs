//! The sign of all words of a chunk.

use crate::simd::{Level, for_every_level};

/// The sign bit of the little-endian words (8, 16, 32 or 64 bits wide) of `bytes` where they share
/// it. There is none where there are no words.
///
/// # Panics
/// If `bytes` is not whole words.
pub fn sign(level: Level, word_bits: u8, bytes: &[u8]) -> Option<bool> {
    let len = usize::from(word_bits / 8);
    assert!(bytes.len().is_multiple_of(len));
    // Words do not matter to what eight bytes at a time have set: their places in these do.
    let signs = (0..8).step_by(len).fold(0, |mask, at| mask | 0x80 << (8 * (at + len - 1)));
    let (any, all) = set_bits(level, bytes);
    match (any & signs == 0, all & signs == signs) {
        (true, false) => Some(false),
        (false, true) => Some(true),
        _ => None,
    }
}

for_every_level! {
    /// The bits that are set in any of eight bytes after the other, and those that are set in all of
    /// them.
    fn set_bits(bytes: &[u8]) -> (u64, u64) {
        let (eights, rest) = bytes.as_chunks::<8>();
        let (mut any, mut all) = (0, u64::MAX);
        for eight in eights {
            let eight = u64::from_le_bytes(*eight);
            any |= eight;
            all &= eight;
        }
        for (i, &byte) in rest.iter().enumerate() {
            any |= u64::from(byte) << (8 * i);
            all &= !(u64::from(!byte) << (8 * i));
        }
        (any, all)
    }
}
