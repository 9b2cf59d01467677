//! For every processor: blocks of symbols, in loops that the compiler vectorises, and without
//! branches where escapes are.
use super::{PAD, scalar};
use crate::hash::Stream;
use std::hint::select_unpredictable;

const BLOCK: usize = PAD;

/// Digits of a block, packed.
type Digits = [u8; BLOCK / 4];

/// See [`scalar::encode`].
pub(super) fn encode(
    common: [u8; 3],
    symbols: &[u8],
    digits: &mut [u8],
    escapes: &mut [u8],
) -> usize {
    let (blocks, tail) = symbols.as_chunks();
    let (digits, digits_tail) = digits.split_at_mut(blocks.len() * BLOCK / 4);
    let mut n = 0;
    for (block, digits) in blocks.iter().zip(digits.as_chunks_mut().0) {
        n += encode_block(common, block, digits, &mut escapes[n..]);
    }
    n + scalar::encode(common, tail, digits_tail, &mut escapes[n..])
}

/// See [`scalar::encode_bf16`].
pub(super) fn encode_bf16(
    common: [u8; 3],
    bytes: &[u8],
    rest: &mut [u8],
    digits: &mut [u8],
    escapes: &mut [u8],
    _: Option<&mut Stream>,
) -> usize {
    let (blocks, tail) = bytes.as_chunks::<{ 2 * BLOCK }>();
    let (rest, rest_tail) = rest.split_at_mut(blocks.len() * BLOCK);
    let (digits, digits_tail) = digits.split_at_mut(blocks.len() * BLOCK / 4);
    let blocks = blocks.iter().zip(rest.as_chunks_mut::<BLOCK>().0);
    let mut n = 0;
    for ((block, rest), digits) in blocks.zip(digits.as_chunks_mut().0) {
        let mut symbols = [0; BLOCK];
        let words = block.as_chunks().0.iter().map(|word| u16::from_le_bytes(*word));
        for ((symbol, rest), word) in symbols.iter_mut().zip(rest).zip(words) {
            [*rest, *symbol] = word.rotate_left(1).to_le_bytes();
        }
        n += encode_block(common, &symbols, digits, &mut escapes[n..]);
    }
    n + scalar::encode_bf16(common, tail, rest_tail, digits_tail, &mut escapes[n..])
}

/// Returns the number of escapes; as many bytes as a block has symbols are written to their place.
#[inline(always)]
fn encode_block(
    common: [u8; 3],
    symbols: &[u8; BLOCK],
    digits: &mut Digits,
    escapes: &mut [u8],
) -> usize {
    let ([a, b, c], mut each) = (common, [0; BLOCK]);
    for (digit, &s) in each.iter_mut().zip(symbols) {
        *digit = 3 - 3 * u8::from(s == a) - 2 * u8::from(s == b) - u8::from(s == c);
    }
    for (eight, packed) in each.as_chunks().0.iter().zip(digits.as_chunks_mut().0) {
        let x = u64::from_le_bytes(*eight);
        let x = (x | x >> 6) & 0x000f_000f_000f_000f;
        let x = (x | x >> 12) & 0x0000_00ff_0000_00ff;
        *packed = ((x | x >> 24) as u16).to_le_bytes();
    }
    let (mut found, mut n) = ([0; BLOCK], 0);
    for (symbol, digit) in symbols.iter().zip(each) {
        found[n % BLOCK] = *symbol;
        n += usize::from(digit == 3);
    }
    escapes[..BLOCK].copy_from_slice(&found);
    n
}

/// See [`scalar::decode`].
pub(super) fn decode(
    common: [u8; 3],
    digits: &[u8],
    mut escapes: &[u8],
    symbols: &mut [u8],
) -> Option<usize> {
    let n_escapes = escapes.len();
    let (blocks, tail) = symbols.as_chunks_mut();
    let (digits, digits_tail) = digits.split_at(blocks.len() * BLOCK / 4);
    for (block, digits) in blocks.iter_mut().zip(digits.as_chunks().0) {
        escapes = decode_block(common, digits, escapes, block)?;
    }
    let taken = n_escapes - escapes.len();
    Some(taken + scalar::decode(common, digits_tail, escapes, tail)?)
}

/// See [`scalar::decode_bf16`].
pub(super) fn decode_bf16(
    common: [u8; 3],
    digits: &[u8],
    mut escapes: &[u8],
    rest: &[u8],
    bytes: &mut [u8],
    _: bool,
    _: Option<&mut Stream>,
) -> Option<usize> {
    let n_escapes = escapes.len();
    let (blocks, tail) = bytes.as_chunks_mut::<{ 2 * BLOCK }>();
    let (rest, rest_tail) = rest.split_at(blocks.len() * BLOCK);
    let (digits, digits_tail) = digits.split_at(blocks.len() * BLOCK / 4);
    let blocks = blocks.iter_mut().zip(rest.as_chunks::<BLOCK>().0);
    for ((block, rest), digits) in blocks.zip(digits.as_chunks().0) {
        let mut symbols = [0; BLOCK];
        escapes = decode_block(common, digits, escapes, &mut symbols)?;
        for ((word, rest), symbol) in block.as_chunks_mut().0.iter_mut().zip(rest).zip(symbols) {
            *word = u16::from_le_bytes([*rest, symbol]).rotate_right(1).to_le_bytes();
        }
    }
    let taken = n_escapes - escapes.len();
    Some(taken + scalar::decode_bf16(common, digits_tail, escapes, rest_tail, tail)?)
}

/// Returns the escapes that are left; none if there are too few.
#[inline(always)]
fn decode_block<'a>(
    common: [u8; 3],
    digits: &Digits,
    escapes: &'a [u8],
    symbols: &mut [u8; BLOCK],
) -> Option<&'a [u8]> {
    let mut each = [0; BLOCK];
    for (eight, packed) in each.as_chunks_mut().0.iter_mut().zip(digits.as_chunks().0) {
        let x = u64::from(u16::from_le_bytes(*packed));
        let x = (x | x << 24) & 0x0000_00ff_0000_00ff;
        let x = (x | x << 12) & 0x000f_000f_000f_000f;
        *eight = ((x | x << 6) & 0x0303_0303_0303_0303).to_le_bytes();
    }
    let [a, b, c] = common;
    for (symbol, digit) in symbols.iter_mut().zip(each) {
        let low = if digit == 0 { a } else { b };
        *symbol = if digit < 2 { low } else { c };
    }
    let (near, mut n): (&[u8; BLOCK], _) = (escapes.first_chunk()?, 0);
    for (symbol, digit) in symbols.iter_mut().zip(each) {
        *symbol = select_unpredictable(digit == 3, near[n % BLOCK], *symbol);
        n += usize::from(digit == 3);
    }
    escapes.get(n..).filter(|left| left.len() >= PAD)
}
