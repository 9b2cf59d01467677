//! Differences between the words of two checkpoints, in front of any method.

use crate::{dtype::Dtype, simd::Level, transform::delta};

/// How a word is related to the word at the same place of the base. All are bijections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delta {
    /// Not at all.
    None,
    /// Exclusive or.
    Xor,
    /// Difference of the words as integers, modulo their width.
    Subtract,
    /// Difference of integers that are in the order of the floats.
    Ordered,
}

impl Delta {
    /// All of them.
    pub const ALL: [Delta; 4] = [Delta::None, Delta::Xor, Delta::Subtract, Delta::Ordered];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Delta::None => "none",
            Delta::Xor => "xor",
            Delta::Subtract => "subtract",
            Delta::Ordered => "ordered",
        }
    }

    /// Writes the deltas of `bytes` to `out`; all three are of one length. Bytes at the end that
    /// fill no word stay as they are.
    pub fn apply(self, dtype: Dtype, bytes: &[u8], base: &[u8], out: &mut [u8]) {
        let (level, word_len) = (Level::best(), super::Layout::of(dtype).word_len);
        let n = bytes.len() - bytes.len() % word_len;
        out[n..].copy_from_slice(&bytes[n..]);
        let (bytes, base, out) = (&bytes[..n], &base[..n], &mut out[..n]);
        match self {
            Delta::None => out.copy_from_slice(bytes),
            Delta::Xor => delta::xor(level, bytes, base, out),
            Delta::Subtract => by_word(word_len, bytes, base, out, u64::wrapping_sub),
            Delta::Ordered => delta::diff(level, word_len, bytes, base, out),
        }
    }

    /// Inverse of [`Delta::apply`], by which tests know that it has one.
    #[cfg(test)]
    pub fn undo(self, dtype: Dtype, deltas: &[u8], base: &[u8], out: &mut [u8]) {
        let (level, word_len) = (Level::best(), super::Layout::of(dtype).word_len);
        let n = deltas.len() - deltas.len() % word_len;
        out[n..].copy_from_slice(&deltas[n..]);
        let (deltas, base, out) = (&deltas[..n], &base[..n], &mut out[..n]);
        match self {
            Delta::None => out.copy_from_slice(deltas),
            Delta::Xor => delta::xor(level, deltas, base, out),
            Delta::Subtract => by_word(word_len, deltas, base, out, u64::wrapping_add),
            Delta::Ordered => delta::undo(level, word_len, deltas, base, out),
        }
    }
}

fn by_word(word_len: usize, a: &[u8], b: &[u8], out: &mut [u8], f: fn(u64, u64) -> u64) {
    let read = |word: &[u8]| {
        let mut eight = [0; 8];
        eight[..word.len()].copy_from_slice(word);
        u64::from_le_bytes(eight)
    };
    let words = a.chunks_exact(word_len).zip(b.chunks_exact(word_len));
    for (out, (a, b)) in out.chunks_exact_mut(word_len).zip(words) {
        out.copy_from_slice(&f(read(a), read(b)).to_le_bytes()[..word_len]);
    }
}
