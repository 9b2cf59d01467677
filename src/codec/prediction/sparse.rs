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
    Changes,
    bits::{BitSource, Bits},
    classes::{self, Classes, FINE},
    residual::{Buffers, moved, residual},
};
use crate::{
    bits::{read_varint, write_varint},
    codec::plane::{self, Policy},
    simd::Level,
};

/// Appends the body for the words that changed.
pub(super) fn encode(
    level: Level,
    changes: &Changes<'_>,
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) {
    let Changes { word, words, predicted, masks, count } = *changes;
    let n = count as usize;
    find(masks, n, &mut buffers.groups, &mut buffers.places);
    buffers.symbols.resize(n, 0);
    buffers.gaps.resize(n, 0);
    buffers.bits.clear();
    match word {
        1 => list::<1>(words, predicted, buffers),
        2 => list::<2>(words, predicted, buffers),
        4 => list::<4>(words, predicted, buffers),
        _ => list::<8>(words, predicted, buffers),
    }
    let Buffers { symbols, gaps, bits, coder, .. } = buffers;
    write_varint(out, count);
    plane::encode(level, Policy::Smallest, gaps, 8, coder, out);
    plane::encode(level, Policy::Smallest, symbols, 8, coder, out);
    out.extend_from_slice(bits);
}

/// Sets `places` to the indices of the `changed` words, and a few more. Which words changed
/// cannot be foreseen, so neither step branches on it: groups without a change are skipped by
/// overwriting them, and four indices are written where there may be fewer.
fn find(masks: &[u64], changed: usize, groups: &mut Vec<usize>, places: &mut Vec<usize>) {
    groups.resize(masks.len() + 1, 0);
    let mut n = 0;
    for (g, &mask) in masks.iter().enumerate() {
        groups[n] = g;
        n += usize::from(mask != 0);
    }
    places.resize(changed + 4, 0);
    let mut at = 0;
    for &g in &groups[..n] {
        let mut mask = masks[g];
        let end = at + mask.count_ones() as usize;
        while at < end {
            for place in &mut places[at..at + 4] {
                *place = 64 * g + mask.trailing_zeros() as usize;
                mask &= mask.wrapping_sub(1);
            }
            at = end.min(at + 4);
        }
    }
}

/// Fills gaps, symbols and bits.
fn list<const N: usize>(words: &[u8], predicted: &[u8], buffers: &mut Buffers) {
    let Buffers { symbols, gaps, bits, places, .. } = buffers;
    let classes = Classes::of_word(N);
    let (words, predicted) = (words.as_chunks::<N>().0, predicted.as_chunks::<N>().0);
    let mut bits = Bits::new(bits);
    let mut next = 0;
    for ((&i, gap_class), symbol) in places.iter().zip(gaps).zip(symbols) {
        let gap = (i - next) as u64;
        next = i + 1;
        let class = FINE.class(gap);
        *gap_class = class;
        bits.push(gap - FINE.least(class), FINE.bits(class));
        let residual = residual(words[i], predicted[i]);
        *symbol = classes.symbol(residual);
        let class = classes::class_of(*symbol);
        bits.push(residual.unsigned_abs() - classes.least(class), classes.bits(class));
    }
    bits.finish();
}

/// Applies the changes of a body to `out`, which holds the prediction.
pub fn decode(
    level: Level,
    word: usize,
    mut payload: &[u8],
    buffers: &mut Buffers,
    out: &mut [u8],
) -> Option<()> {
    let Buffers { symbols, gaps, coder, .. } = buffers;
    let changed = usize::try_from(read_varint(&mut payload)?).ok()?;
    if changed == 0 || changed > out.len() / word {
        return None;
    }
    gaps.resize(changed, 0);
    plane::take(&mut payload)?.decode(level, 8, coder, gaps)?;
    symbols.resize(changed, 0);
    plane::take(&mut payload)?.decode(level, 8, coder, symbols)?;
    let above = |values: &[u8]| usize::from(values.iter().fold(0, |a, &b| a.max(b)));
    // A word that is listed differs from its prediction.
    if above(gaps) >= FINE.count()
        || above(symbols) >= Classes::symbols_of_word(word)
        || symbols.contains(&0)
    {
        return None;
    }
    match word {
        1 => apply::<1>(gaps, symbols, payload, out),
        2 => apply::<2>(gaps, symbols, payload, out),
        4 => apply::<4>(gaps, symbols, payload, out),
        _ => apply::<8>(gaps, symbols, payload, out),
    }
}

/// Moves the words that gaps lead to.
fn apply<const N: usize>(gaps: &[u8], symbols: &[u8], bits: &[u8], out: &mut [u8]) -> Option<()> {
    let classes = Classes::of_word(N);
    let words = out.as_chunks_mut::<N>().0;
    let mut bits = BitSource::new(bits);
    let mut next = 0usize;
    for (&class, &symbol) in gaps.iter().zip(symbols) {
        let gap = FINE.least(class) + bits.take(FINE.bits(class));
        let i = next.checked_add(usize::try_from(gap).ok()?)?;
        let word = words.get_mut(i)?;
        next = i + 1;
        let class = classes::class_of(symbol);
        let magnitude = classes.least(class).wrapping_add(bits.take(classes.bits(class)));
        *word = moved(*word, magnitude, classes::is_negative(symbol));
    }
    bits.finish().then_some(())
}
