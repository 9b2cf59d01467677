//! Chooses from a sample of a chunk how its words are split.

use super::fields::Float;
use crate::{
    bits::log2_q16,
    simd::{self, Level},
    transform::split::{self, Split},
};

/// Words of a sampled group, and how many words there are from one group to the next.
pub const GROUP: usize = 64;
/// Chunks up to this many words are looked at whole.
const SMALL: usize = 8 << 10;

/// Groups of `n` words from one that is looked at to the next: `most`, or all of a small chunk.
pub fn step(n: usize, most: usize) -> usize {
    if n <= SMALL { 1 } else { most }
}

/// Collects the heads of a sample: every 32nd group of 64 words, or every eighth where `many` are
/// asked for, or all of a small chunk.
pub fn sample_heads(level: Level, float: &Float, words: &[u8], many: bool, heads: &mut Vec<u16>) {
    let word = usize::from(float.bits / 8);
    let n = words.len() / word;
    let step = step(n, if many { 8 } else { 32 });
    heads.clear();
    heads.resize(n.div_ceil(step) + GROUP, 0);
    // Far apart, and the first that is read of a chunk: all at once, not one after another.
    for k in (0..n.div_ceil(GROUP)).step_by(step) {
        simd::prefetch(words, k * GROUP * word, GROUP * word);
    }
    let mut at = 0;
    for group in words.chunks(GROUP * word).step_by(step) {
        let len = group.len() / word;
        split::heads(level, float.bits, group, &mut heads[at..at + len]);
        at += len;
    }
    heads.truncate(at);
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
    count(heads, rest(most), 1 << (float.exponent + most), counts);
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
        let base = if split.is_windowed() { window(counts, k.into()) } else { 1 };
        let split = Split { base, ..split };
        let cost = cost(counts, &split, heads.len(), n);
        if best.is_none_or(|(_, least)| cost < least) {
            best = Some((split, cost));
        }
    }
    best.unwrap_or((Split { word_bits: float.bits, rest_bits: rest(0), base: 1, sign: None }, 0))
}

/// Counts the `n` values of `head >> down`. Neighbours, which are often equal, count in four tables,
/// so that they do not wait for each other.
fn count(heads: &[u16], down: u8, n: usize, counts: &mut Vec<u32>) {
    counts.clear();
    counts.resize(4 * n, 0);
    let (first, rest) = counts.split_at_mut(n);
    let (second, rest) = rest.split_at_mut(n);
    let (third, fourth) = rest.split_at_mut(n);
    let (fours, last) = heads.as_chunks();
    for [a, b, c, d] in fours {
        first[usize::from(a >> down)] += 1;
        second[usize::from(b >> down)] += 1;
        third[usize::from(c >> down)] += 1;
        fourth[usize::from(d >> down)] += 1;
    }
    for head in last {
        first[usize::from(head >> down)] += 1;
    }
    for (((sum, b), c), d) in first.iter_mut().zip(second).zip(third).zip(fourth) {
        *sum += *b + *c + *d;
    }
    counts.truncate(n);
}

/// Values of a window.
const WIDTH: usize = 254;

/// First value of the window for symbols that occur this often, of which 2^`k` make an octave.
///
/// A symbol in the window takes at least 1/4096 of its table, which costs all others together
/// n / 2840 bits of n words; an escape costs some 16 bits more than a rare symbol. So the window
/// starts at the lowest octave whose symbols occur once in 45,000 words or more each. Where it
/// then does not reach the largest value, it is the window that covers most words.
pub fn window(counts: &[u32], k: u32) -> u16 {
    const RARE: u64 = 45_000;
    let total: u64 = counts[1..].iter().map(|&c| u64::from(c)).sum();
    let octave = 1 << k;
    let common = |symbols: &[u32]| {
        let sum: u64 = symbols.iter().map(|&c| u64::from(c)).sum();
        sum * RARE >= total * octave as u64
    };
    let last = counts.len().saturating_sub(WIDTH).max(1);
    let low = counts.chunks(octave).position(common).unwrap_or(0) * octave;
    let low = low.clamp(1, last);
    let high = counts.iter().rposition(|&c| c > 0).unwrap_or(0);
    if high < low + WIDTH {
        return low as u16;
    }
    let mut covered: u64 = counts[1..1 + WIDTH].iter().map(|&c| u64::from(c)).sum();
    let (mut best, mut most) = (1, covered);
    for base in 2..=last {
        covered += u64::from(counts[base + WIDTH - 1]);
        covered -= u64::from(counts[base - 1]);
        if covered > most {
            (best, most) = (base, covered);
        }
    }
    best as u16
}

/// Estimated bits of `n` words whose symbols before mapping are distributed like `counts`, of
/// which there are `sampled`: entropy under a table of 12 bits, corrected for what a small sample
/// hides (Miller and Madow), plus rest, table and escapes.
fn cost(counts: &[u32], split: &Split, sampled: usize, n: usize) -> u64 {
    const ESCAPE_BITS: u64 = 28;
    const TABLE_BITS_A_SYMBOL: u64 = 5;
    const RARE_BITS_Q16: u64 = 12 << 16;
    let total = u64::from(log2_q16(sampled as u32));
    let window = usize::from(split.base)..usize::from(split.base) + WIDTH;
    let inside = |i: usize| !split.is_windowed() || i == 0 || window.contains(&i);
    let (mut bits_q16, mut present, mut rare) = (0u64, 0u64, 0u64);
    for (i, &c) in counts.iter().enumerate().filter(|(_, c)| **c > 0) {
        if inside(i) {
            let bits = total - u64::from(log2_q16(c)).min(total);
            bits_q16 += u64::from(c) * bits.min(RARE_BITS_Q16);
            present += 1;
            rare += 4096u64.saturating_sub(4096 * 4096 * u64::from(c) / sampled.max(1) as u64);
        } else {
            bits_q16 += (u64::from(c) * ESCAPE_BITS) << 16;
        }
    }
    // 2^16 / (2 ln 2) for what is hidden; 2^16 / (4096^2 ln 2) for what rare symbols take.
    bits_q16 += present.saturating_sub(1) * 47_274;
    bits_q16 += sampled as u64 * rare * 369 / (1 << 16);
    let scaled = u128::from(bits_q16) * n as u128 / sampled.max(1) as u128;
    (scaled >> 16) as u64
        + n as u64 * u64::from(split.stored_rest_bits())
        + present * TABLE_BITS_A_SYMBOL
}
