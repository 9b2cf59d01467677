//! Which symbols the levels of a cascade stand for.
use super::MAX_LEVELS;
use crate::simd;

/// Symbols of the levels of a cascade, from [`plan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    pub(super) levels: usize,
    pub(super) symbols: [[u8; 3]; MAX_LEVELS],
}

impl Plan {
    /// Number of levels, 1 to 4.
    pub fn levels(&self) -> usize {
        self.levels
    }

    /// Length of the cascade of a plane with these counts, or of one 1/k the size if `counts` are
    /// a sample of 1 in k; without the header.
    pub fn digits_and_raw_len(&self, counts: &[u32; 256]) -> u64 {
        let mut left: u64 = counts.iter().map(|&c| u64::from(c)).sum();
        let mut len = 0;
        for symbols in &self.symbols[..self.levels] {
            len += left.div_ceil(4);
            left -= symbols.iter().map(|&s| u64::from(counts[usize::from(s)])).sum::<u64>();
        }
        len + left
    }
}

/// Levels for symbols that occur in these proportions: the commonest first, the lower symbol
/// first where counts are the same, then the lowest that do not occur. A level is added while it
/// takes less room than it saves.
pub fn plan(counts: &[u32; 256]) -> Plan {
    // The inverted symbol below the count: the greatest key is the commonest, lowest symbol.
    let mut keys = [0u64; 256];
    let mut n_keys = 0;
    for symbol in 0..=255u8 {
        let count = u64::from(counts[usize::from(symbol)]);
        keys[n_keys] = count << 8 | u64::from(255 - symbol);
        n_keys += usize::from(count > 0);
    }
    let keys = &mut keys[..n_keys];
    let mut order = [0; 3 * MAX_LEVELS];
    let n_order = n_keys.min(order.len());
    let mut saved = [0; MAX_LEVELS];
    for (i, symbol) in order[..n_order].iter_mut().enumerate() {
        let (mut best, mut at) = (keys[i], i);
        for (j, &key) in keys.iter().enumerate().skip(i + 1) {
            (best, at) = if key > best { (key, j) } else { (best, at) };
        }
        keys.swap(i, at);
        *symbol = 255 - best as u8;
        saved[i / 3] += best >> 8;
    }
    let mut next = 0;
    for i in n_order..order.len() {
        while order[..i].contains(&next) {
            next += 1;
        }
        order[i] = next;
    }
    let mut left: u64 =
        saved.iter().sum::<u64>() + keys[n_order..].iter().map(|k| k >> 8).sum::<u64>();
    let mut levels = 0;
    for saved in saved {
        if levels > 0 && 4 * saved <= left {
            break;
        }
        left -= saved;
        levels += 1;
    }
    let mut symbols = [[0; 3]; MAX_LEVELS];
    symbols.as_flattened_mut().copy_from_slice(&order);
    Plan { levels, symbols }
}

/// Planes with fewer symbols are counted whole.
const SAMPLED_FROM: usize = 1 << 16;
const GROUP: usize = 64;
const STRETCH: usize = 64;

/// Counts of the symbols, or of 1 in 64 groups of 64 of a plane of 64 Ki symbols or more.
///
/// Stretch `k` of 64 groups gives its group `13 · k mod 64`, so that no column of a matrix is
/// seen in every row.
pub fn sample(symbols: &[u8]) -> [u32; 256] {
    count_groups(symbols.len(), |i| symbols[i])
}

/// [`sample`] of the symbols of bf16 words: their exponents.
pub fn sample_bf16(bytes: &[u8]) -> [u32; 256] {
    let words = bytes.as_chunks::<2>().0;
    if words.len() >= SAMPLED_FROM {
        // Far apart, and the first that is read of a chunk: all at once, not one after another.
        sampled(words.len()).for_each(|at| simd::prefetch(bytes, 2 * at, 2 * GROUP));
    }
    count_groups(words.len(), |i| (u16::from_le_bytes(words[i]) >> 7) as u8)
}

/// Where the sampled groups of `n` symbols start.
fn sampled(n: usize) -> impl Iterator<Item = usize> {
    (0..n / (GROUP * STRETCH)).map(|k| (k * STRETCH + 13 * k % STRETCH) * GROUP)
}

#[inline(always)]
fn count_groups(n: usize, symbol: impl Fn(usize) -> u8) -> [u32; 256] {
    // Four tables, so that equal neighbours do not wait for each other.
    let mut counts = [[0u32; 256]; 4];
    if n < SAMPLED_FROM {
        for i in 0..n {
            counts[i % 4][usize::from(symbol(i))] += 1;
        }
    } else {
        for start in sampled(n) {
            for i in start..start + GROUP {
                counts[i % 4][usize::from(symbol(i))] += 1;
            }
        }
    }
    let [mut sum, rest @ ..] = counts;
    for counts in rest {
        for (sum, count) in sum.iter_mut().zip(counts) {
            *sum += count;
        }
    }
    sum
}
