//! Chooses from a sample of a chunk how its words are split.

use super::float::Float;
use crate::{bits::log2_q16, transform::split::Split};

/// Words of a sampled group, and how many words there are from one group to the next.
pub const GROUP: usize = 64;
/// Chunks up to this many words are looked at whole.
const SMALL: usize = 8 << 10;

/// Collects the heads of a sample: every 16th group of 64 words, or all of a small chunk.
pub fn sample_heads(float: &Float, words: &[u8], heads: &mut Vec<u16>) {
    let word = usize::from(float.bits / 8);
    let n = words.len() / word;
    let step = if n <= SMALL { 1 } else { 16 };
    heads.clear();
    for group in words.chunks(GROUP * word).step_by(step) {
        match float.bits {
            8 => heads.extend(group.iter().map(|b| u16::from(b.rotate_left(1)))),
            _ => heads.extend(
                group
                    .chunks_exact(word)
                    .map(|w| u16::from_le_bytes([w[word - 2], w[word - 1]]).rotate_left(1)),
            ),
        }
    }
}

/// The split with the least estimated cost for `n` words of which `heads` is a sample, with
/// `k` mantissa bits in the symbol for some k in `k_range`, and that cost in bits.
pub fn choose_split(
    float: &Float,
    heads: &[u16],
    n: usize,
    sign: Option<bool>,
    k_range: std::ops::RangeInclusive<u8>,
    counts: &mut Vec<u32>,
) -> (Split, u64) {
    let head_bits = float.bits.min(16);
    let most = (head_bits - 1 - float.exponent).min(*k_range.end());
    let least = (*k_range.start()).min(most);
    let rest = |k: u8| head_bits - float.exponent - k;
    counts.clear();
    counts.resize(1 << (float.exponent + most), 0);
    for &h in heads {
        counts[usize::from(h >> rest(most))] += 1;
    }
    let mut best: Option<(Split, u64)> = None;
    for k in (least..=most).rev() {
        if k < most {
            let half = counts.len() / 2;
            for i in 0..half {
                counts[i] = counts[2 * i] + counts[2 * i + 1];
            }
            counts.truncate(half);
        }
        let sign = sign.filter(|_| rest(k) > 0);
        let split = Split { word_bits: float.bits, rest_bits: rest(k), base: 1, sign };
        let base = if split.is_windowed() { window(counts) } else { 1 };
        let split = Split { base, ..split };
        let cost = cost(counts, &split, heads.len(), n);
        if best.is_none_or(|(_, least)| cost < least) {
            best = Some((split, cost));
        }
    }
    best.unwrap_or((Split { word_bits: float.bits, rest_bits: rest(0), base: 1, sign: None }, 0))
}

/// First value of the window of 254 that covers most of the counts above 0.
fn window(counts: &[u32]) -> u16 {
    const WIDTH: usize = 254;
    let last = counts.len() - WIDTH;
    let mut covered: u64 = counts[1..1 + WIDTH].iter().map(|&c| u64::from(c)).sum();
    let (mut best, mut most) = (1, covered);
    for base in 2..=last {
        covered += u64::from(counts[base + WIDTH - 1]);
        covered -= u64::from(counts[base - 1]);
        if covered > most {
            (best, most) = (base, covered);
        }
    }
    // Ties lie between the extremes of what occurs: take the middle of them, so that words the
    // sample missed are covered on both sides.
    let used = |i: &usize| counts[*i] > 0;
    let low = (best..best + WIDTH).find(used).unwrap_or(best);
    let high = (best..best + WIDTH).rev().find(used).unwrap_or(best);
    let slack = WIDTH - 1 - (high - low);
    low.saturating_sub(slack / 2).clamp(1, last) as u16
}

/// Estimated bits of `n` words whose symbols before mapping are distributed like `counts`, of
/// which there are `sampled`: entropy, corrected for what a small sample hides (Miller and Madow),
/// plus rest, tables and escapes.
fn cost(counts: &[u32], split: &Split, sampled: usize, n: usize) -> u64 {
    const ESCAPE_BITS: u64 = 18;
    const TABLE_BITS_A_SYMBOL: u64 = 5;
    let total = u64::from(log2_q16(sampled as u32));
    let window = usize::from(split.base)..usize::from(split.base) + 254;
    let (mut bits_q16, mut present, mut escapes) = (0u64, 0u64, 0u64);
    for (i, &c) in counts.iter().enumerate() {
        if c > 0 {
            bits_q16 += u64::from(c) * (total - u64::from(log2_q16(c)).min(total));
            present += 1;
            if split.is_windowed() && i != 0 && !window.contains(&i) {
                escapes += u64::from(c);
            }
        }
    }
    let hidden_q16 = present.saturating_sub(1) * 47274; // 2^16 / (2 ln 2)
    let sample_bits = ((bits_q16 + hidden_q16) >> 16) + escapes * ESCAPE_BITS;
    let scaled = u128::from(sample_bits) * n as u128 / sampled.max(1) as u128;
    scaled as u64 + n as u64 * u64::from(split.stored_rest_bits()) + present * TABLE_BITS_A_SYMBOL
}
