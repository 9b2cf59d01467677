//! The reference: every other variant equals these functions, one level at a time, and leaves to
//! them what does not fill a block.
//!
//! Escapes are written to and read from slices with [`super::PAD`] bytes more than there can be,
//! which only the other variants touch.
use super::PAD;

/// Writes the digits of `symbols` and the escapes among them; returns how many those are.
pub(super) fn encode(
    common: [u8; 3],
    symbols: &[u8],
    digits: &mut [u8],
    escapes: &mut [u8],
) -> usize {
    encode_with(common, symbols.len(), digits, escapes, |i| symbols[i])
}

/// [`encode`] of the exponents of bf16 words, whose sign and mantissa go to `rest`.
pub(super) fn encode_bf16(
    common: [u8; 3],
    bytes: &[u8],
    rest: &mut [u8],
    digits: &mut [u8],
    escapes: &mut [u8],
) -> usize {
    let words = bytes.as_chunks::<2>().0;
    encode_with(common, words.len(), digits, escapes, |i| {
        let [lo, hi] = u16::from_le_bytes(words[i]).rotate_left(1).to_le_bytes();
        rest[i] = lo;
        hi
    })
}

fn encode_with(
    common: [u8; 3],
    n: usize,
    digits: &mut [u8],
    escapes: &mut [u8],
    mut symbol: impl FnMut(usize) -> u8,
) -> usize {
    let mut n_escapes = 0;
    for (i, byte) in digits.iter_mut().enumerate() {
        *byte = 0;
        for j in 0..(n - 4 * i).min(4) {
            let symbol = symbol(4 * i + j);
            let digit = common.iter().position(|c| *c == symbol).unwrap_or(3);
            *byte |= (digit as u8) << (2 * j);
            escapes[n_escapes] = symbol;
            n_escapes += usize::from(digit == 3);
        }
    }
    n_escapes
}

/// Writes the symbols of `digits` and returns how many `escapes` they took; none if there are
/// too few.
pub(super) fn decode(
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    symbols: &mut [u8],
) -> Option<usize> {
    decode_with(common, digits, escapes, symbols.len(), |i, symbol| symbols[i] = symbol)
}

/// [`decode`] for bf16 words.
pub(super) fn decode_bf16(
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    rest: &[u8],
    bytes: &mut [u8],
) -> Option<usize> {
    let words = bytes.as_chunks_mut::<2>().0;
    decode_with(common, digits, escapes, words.len(), |i, symbol| {
        words[i] = u16::from_le_bytes([rest[i], symbol]).rotate_right(1).to_le_bytes();
    })
}

fn decode_with(
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    n: usize,
    mut put: impl FnMut(usize, u8),
) -> Option<usize> {
    let mut escapes = escapes[..escapes.len() - PAD].iter();
    let n_escapes = escapes.len();
    for i in 0..n {
        let digit = digits[i / 4] >> (2 * (i % 4)) & 3;
        let symbol = match common.get(usize::from(digit)) {
            Some(symbol) => *symbol,
            None => *escapes.next()?,
        };
        put(i, symbol);
    }
    Some(n_escapes - escapes.len())
}
