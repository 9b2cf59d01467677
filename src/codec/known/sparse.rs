//! Chunks in which few words differ from their prediction: where, and by how much.
//!
//! ```text
//! body     count of changed words (varint, at least 1)
//!          classes of the gaps (coded plane): words between a change and the one before
//!          symbols of the residuals (coded plane)
//!          for each change: the bits that follow its gap's class, those of its residual
//! ```
//!
//! Order-0 coding of quarter-octave classes of the gaps is within a hundredth of a bit of the
//! entropy of where changes are, if they are independent.

use super::{
    bits::{BitSource, Bits},
    classes::{self, Classes, FINE},
    residual::{Buffers, residual_at, undo_at},
};
use crate::{
    bits::{read_varint, write_varint},
    codec::plane::{self, Policy},
    simd::Level,
};

/// Appends the body for the `changed` words that `masks` names.
#[allow(clippy::too_many_arguments, reason = "one caller")]
pub fn encode(
    level: Level,
    word: usize,
    words: &[u8],
    predicted: &[u8],
    masks: &[u64],
    changed: u64,
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) {
    let classes = Classes::of_word(word);
    let Buffers { symbols, gaps, bits, coder, .. } = buffers;
    symbols.clear();
    gaps.clear();
    bits.clear();
    let mut bit_writer = Bits::new(bits);
    let mut next = 0;
    for (group, &mask) in masks.iter().enumerate() {
        let mut mask = mask;
        while mask != 0 {
            let i = 64 * group + mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let gap = (i - next) as u64;
            next = i + 1;
            let class = FINE.class(gap);
            gaps.push(class);
            bit_writer.push(gap - FINE.least(class), FINE.bits(class));
            let residual = residual_at(word, words, predicted, i);
            let symbol = classes.symbol(residual);
            symbols.push(symbol);
            let class = classes::class_of(symbol);
            bit_writer.push(residual.unsigned_abs() - classes.least(class), classes.bits(class));
        }
    }
    bit_writer.finish();
    write_varint(out, changed);
    plane::encode(level, Policy::Smallest, gaps, 8, coder, out);
    plane::encode(level, Policy::Smallest, symbols, 8, coder, out);
    out.extend_from_slice(bits);
}

/// Applies the changes of a body to `out`, which holds the prediction.
pub fn decode(
    level: Level,
    word: usize,
    mut payload: &[u8],
    buffers: &mut Buffers,
    out: &mut [u8],
) -> Option<()> {
    let classes = Classes::of_word(word);
    let n = out.len() / word;
    let Buffers { symbols, gaps, coder, .. } = buffers;
    let changed = usize::try_from(read_varint(&mut payload)?).ok()?;
    if changed == 0 || changed > n {
        return None;
    }
    gaps.resize(changed, 0);
    plane::take(&mut payload)?.decode(level, 8, coder, gaps)?;
    symbols.resize(changed, 0);
    plane::take(&mut payload)?.decode(level, 8, coder, symbols)?;
    let mut bits = BitSource::new(payload);
    let mut next = 0;
    for (&class, &symbol) in gaps.iter().zip(symbols.iter()) {
        if usize::from(class) >= FINE.count() || usize::from(symbol) >= classes.symbols() {
            return None;
        }
        let gap = FINE.least(class) + bits.take(FINE.bits(class));
        let i = usize::try_from(gap).ok()?.checked_add(next)?;
        if i >= n {
            return None;
        }
        next = i + 1;
        let class = classes::class_of(symbol);
        let magnitude = classes.least(class).wrapping_add(bits.take(classes.bits(class)));
        undo_at(word, out, i, magnitude, classes::is_negative(symbol));
    }
    bits.finish().then_some(())
}
