//! Sign, exponent and every bit of the mantissa as planes, each by LZMA.
//!
//! ```text
//! payload   sign plane        1 bit a word (floats only)
//!           exponent plane    1 or 2 bytes a word, less the bias (floats only)
//!           mantissa plane*   1 bit a word, the lowest bit first
//! ```
//!
//! Before their planes are formed, mantissas may be sorted by what is decoded before them: by
//! class (sign and exponent), or by exponent, and then signs with them. Sorting is stable, so
//! the inverse needs nothing but the classes.

use super::{Layout, corrupt, xz};
use crate::{error::Result, simd::Level, transform::bitplane};

/// In which order mantissas stand in their planes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    AsIs,
    /// By sign and exponent.
    Class,
    /// By exponent, and signs likewise.
    Exponent,
}

pub(super) fn encode(
    level: Level,
    layout: &Layout,
    order: Order,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    let words: Vec<u64> = layout.words(bytes).collect();
    let places = places(layout, order, words.iter().map(|&w| layout.class(w)));
    let sorted = |moved: bool| -> Vec<u8> {
        let mut sorted = vec![0; bytes.len()];
        for (i, &word) in words.iter().enumerate() {
            let place = if moved { places.get(i).map_or(i, |&p| p as usize) } else { i };
            layout.put(word, &mut sorted[place * layout.word_len..][..layout.word_len]);
        }
        sorted
    };
    let n = words.len();
    let mantissas = bit_planes(level, layout, &sorted(true));
    let plane_len = bitplane::plane_len(n);
    let plane = |planes: &[u8], bit: u32| -> Vec<u8> {
        planes[bit as usize * plane_len..][..n.div_ceil(8)].to_vec()
    };
    if layout.sign_bits > 0 {
        let top = 8 * layout.word_len as u32 - 1;
        match order {
            Order::Exponent => xz::put(&plane(&mantissas, top), out)?,
            _ => xz::put(&plane(&bit_planes(level, layout, &sorted(false)), top), out)?,
        }
        xz::put(&exponents(layout, &words), out)?;
    }
    (0..layout.mantissa_bits).try_for_each(|bit| xz::put(&plane(&mantissas, bit), out))
}

pub(super) fn decode(
    level: Level,
    layout: &Layout,
    order: Order,
    rest: &mut &[u8],
    out: &mut [u8],
) -> Result<()> {
    let n = out.len() / layout.word_len;
    let plane_len = bitplane::plane_len(n);
    let mut planes = vec![0; 8 * layout.word_len * plane_len];
    let mut signs = vec![0; n.div_ceil(8)];
    let mut classes = vec![0u32; 0];
    if layout.sign_bits > 0 {
        xz::get(rest, &mut signs)?;
        let width = exponent_len(layout);
        let mut exponents = vec![0; n * width];
        xz::get(rest, &mut exponents)?;
        let limit = (1u64 << layout.exponent_bits) - 1;
        let bias = limit >> 1;
        classes.reserve_exact(n);
        for (i, exponent) in exponents.chunks_exact(width).enumerate() {
            let debiased = exponent.iter().rev().fold(0u64, |e, &b| e << 8 | u64::from(b));
            let all = u64::MAX >> (64 - 8 * width);
            let exponent = debiased.wrapping_add(bias) & all;
            if exponent > limit {
                return Err(corrupt("an exponent out of range"));
            }
            // The sign is known here unless it is sorted itself.
            let sign = u64::from(signs[i / 8] >> (i % 8) & 1);
            let sign = if order == Order::Exponent { 0 } else { sign };
            classes.push((sign << layout.exponent_bits | exponent) as u32);
        }
    }
    for bit in 0..layout.mantissa_bits as usize {
        xz::get(rest, &mut planes[bit * plane_len..][..n.div_ceil(8)])?;
    }
    let mut sorted = vec![0; out.len()];
    bitplane::words(level, layout.word_len, &planes, &mut sorted);
    let places = places(layout, order, classes.iter().map(|&c| c as usize));
    for (i, word) in out.chunks_exact_mut(layout.word_len).enumerate() {
        let place = places.get(i).map_or(i, |&p| p as usize);
        let mut eight = [0; 8];
        eight[..layout.word_len]
            .copy_from_slice(&sorted[place * layout.word_len..][..layout.word_len]);
        let mut value = u64::from_le_bytes(eight);
        if let Some(&class) = classes.get(i) {
            value |= u64::from(class) << layout.mantissa_bits;
        }
        if order == Order::Exponent && layout.sign_bits > 0 {
            let sign = u64::from(signs[place / 8] >> (place % 8) & 1);
            value |= sign << (8 * layout.word_len - 1);
        }
        layout.put(value, word);
    }
    Ok(())
}

/// Where each word's mantissa goes; empty where all stay.
fn places(layout: &Layout, order: Order, classes: impl Iterator<Item = usize> + Clone) -> Vec<u32> {
    let mask = match order {
        Order::AsIs => return Vec::new(),
        _ if layout.class_bits() == 0 => return Vec::new(),
        Order::Class => (1 << layout.class_bits()) - 1,
        Order::Exponent => (1 << layout.exponent_bits) - 1,
    };
    let mut next = vec![0u32; mask + 2];
    for class in classes.clone() {
        next[(class & mask) + 1] += 1;
    }
    for class in 0..=mask {
        next[class + 1] += next[class];
    }
    let place = |class: usize| {
        let place = &mut next[class & mask];
        *place += 1;
        *place - 1
    };
    classes.map(place).collect()
}

fn bit_planes(level: Level, layout: &Layout, words: &[u8]) -> Vec<u8> {
    let n = words.len() / layout.word_len;
    let mut planes = vec![0; 8 * layout.word_len * bitplane::plane_len(n)];
    bitplane::planes(level, layout.word_len, words, &mut planes);
    planes
}

fn exponent_len(layout: &Layout) -> usize {
    layout.exponent_bits.div_ceil(8) as usize
}

fn exponents(layout: &Layout, words: &[u64]) -> Vec<u8> {
    let limit = (1u64 << layout.exponent_bits) - 1;
    let width = exponent_len(layout);
    words
        .iter()
        .flat_map(|word| {
            let exponent = word >> layout.mantissa_bits & limit;
            exponent.wrapping_sub(limit >> 1).to_le_bytes().into_iter().take(width)
        })
        .collect()
}
