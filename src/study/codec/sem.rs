//! Sign and exponent as one symbol at their order-0 entropy, the mantissa raw.
//!
//! ```text
//! payload   classes: stream (order0.rs), mantissas: their bits one after another, low bit first
//! ```
//!
//! Words without an exponent are coded by their top byte instead.

use super::{Layout, order0, put_stream, take, take_stream};
use crate::error::Result;

/// Bits above those that are kept raw.
fn class_bits(layout: &Layout) -> u32 {
    if layout.class_bits() > 0 { layout.class_bits() } else { 8 }
}

pub(super) fn encode(layout: &Layout, bytes: &[u8], out: &mut Vec<u8>) {
    let raw_bits = 8 * layout.word_len as u32 - class_bits(layout);
    let classes: Vec<u16> = layout.words(bytes).map(|w| (w >> raw_bits) as u16).collect();
    put_stream(out, |out| order0::encode(class_bits(layout), &classes, out));
    let (mut bits, mut n_bits) = (0u64, 0);
    for word in layout.words(bytes) {
        // At most 7 bits of the last round and 52 of an f64, or 56 of an integer.
        bits |= (word & ((1 << raw_bits) - 1)) << n_bits;
        n_bits += raw_bits;
        while n_bits >= 8 {
            out.push(bits as u8);
            bits >>= 8;
            n_bits -= 8;
        }
    }
    if n_bits > 0 {
        out.push(bits as u8);
    }
}

pub(super) fn decode(layout: &Layout, rest: &mut &[u8], out: &mut [u8]) -> Result<()> {
    let raw_bits = 8 * layout.word_len as u32 - class_bits(layout);
    let n = out.len() / layout.word_len;
    let mut classes = vec![0u16; n];
    order0::decode(class_bits(layout), take_stream(rest)?, &mut classes)?;
    let raw = take(rest, (n * raw_bits as usize).div_ceil(8))?;
    let mut raw = raw.iter();
    let (mut bits, mut n_bits) = (0u64, 0);
    for (word, class) in out.chunks_exact_mut(layout.word_len).zip(classes) {
        while n_bits < raw_bits {
            bits |= u64::from(raw.next().copied().unwrap_or(0)) << n_bits;
            n_bits += 8;
        }
        let low = bits & ((1 << raw_bits) - 1);
        bits >>= raw_bits;
        n_bits -= raw_bits;
        layout.put(u64::from(class) << raw_bits | low, word);
    }
    Ok(())
}
