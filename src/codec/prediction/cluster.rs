//! Few tables for many contexts: neighbouring contexts share one where that costs little.
//!
//! Contexts are bytes in an order in which neighbours are alike: exponents, mostly. Clusters are
//! ranges of them, so the byte at which each one but the first starts says it all. Starting from
//! one cluster a context, the pair of neighbours whose union costs least is merged until at most
//! sixteen are left and every further merge would cost more than the table it saves.

use crate::{
    bits::log2_q16,
    entropy::histogram,
    simd::{Level, for_every_level, largest},
};

/// Most clusters: tables of a chunk.
pub const MOST: usize = 16;
/// Estimated bits of a table, beside those of each symbol in it.
const TABLE_BITS: u64 = 24;
const SYMBOL_BITS: u64 = 5;

/// Counts of symbols by context.
pub struct Joint {
    counts: Vec<[u32; 256]>,
    /// Not zero for contexts that occur: the counts of others are zero.
    occurs: [u32; 256],
    /// Symbols from here on were not counted.
    n_symbols: usize,
}

impl Default for Joint {
    fn default() -> Self {
        Joint { counts: vec![[0; 256]; 256], occurs: [0; 256], n_symbols: 0 }
    }
}

impl Joint {
    /// Counts symbols under their contexts, from zero: the first `group` of each `step` times as
    /// many.
    pub fn count(
        &mut self,
        level: Level,
        contexts: &[u8],
        symbols: &[u8],
        group: usize,
        step: usize,
    ) {
        for (counts, occurs) in self.counts.iter_mut().zip(&mut self.occurs) {
            if std::mem::take(occurs) != 0 {
                *counts = [0; 256];
            }
        }
        histogram::mark(level, contexts, &mut self.occurs);
        let mut most = 0;
        let counts = self.counts.as_flattened_mut().first_chunk_mut::<{ 1 << 16 }>();
        let Some(counts) = counts else { return };
        let mut pairs = [0; PAIRS];
        let groups = contexts.chunks(group * step).zip(symbols.chunks(group * step));
        for (contexts, symbols) in groups {
            let n = group.min(contexts.len());
            for (contexts, symbols) in contexts[..n].chunks(PAIRS).zip(symbols[..n].chunks(PAIRS)) {
                let pairs = &mut pairs[..contexts.len()];
                pair(level, contexts, symbols, pairs);
                most = most.max(largest(level, symbols));
                pairs.iter().for_each(|&pair| counts[usize::from(pair)] += 1);
            }
        }
        self.n_symbols = usize::from(most) + 1;
    }

    /// The contexts that were counted, with the counts of their symbols and their sum.
    fn occurring(&self) -> Vec<(u8, &[u32; 256], u64)> {
        let all = (0..=255).zip(&self.counts).zip(self.occurs);
        let sum = |counts: &[u32; 256]| counts.iter().map(|&c| u64::from(c)).sum();
        let those = all.filter(|(_, occurs)| *occurs != 0).map(|((i, c), _)| (i, c, sum(c)));
        those.filter(|(.., n)| *n > 0).collect()
    }
}

/// Pairs formed at a time. Where they wait in memory, counting takes half the time.
const PAIRS: usize = 1024;

for_every_level! {
    fn pair(contexts: &[u8], symbols: &[u8], out: &mut [u16]) {
        for ((out, &context), &symbol) in out.iter_mut().zip(contexts).zip(symbols) {
            *out = u16::from_le_bytes([symbol, context]);
        }
    }
}

/// Ranges of contexts, each with the counts of its symbols.
pub struct Clusters {
    /// First context of every cluster but the first.
    pub starts: Vec<u8>,
    /// Counts of each cluster's symbols.
    pub counts: Vec<[u32; 256]>,
    /// Estimated bits of all symbols.
    pub bits: u64,
    /// Estimated bits of the tables.
    pub table_bits: u64,
}

impl Clusters {
    /// Clusters the contexts of a joint count.
    pub fn of(joint: &Joint) -> Clusters {
        let n_symbols = joint.n_symbols;
        let mut parts: Vec<Part> = Vec::new();
        let occurring = joint.occurring();
        let total: u64 = occurring.iter().map(|(.., n)| n).sum();
        // What has less than a thousandth joins its neighbour outright.
        let few = (total / 1000).max(64);
        for (context, counts, n) in occurring {
            match parts.last_mut() {
                Some(last) if last.n < few => last.join(counts, n),
                Some(last) if n < few && last.n < 4 * few => last.join(counts, n),
                _ => parts.push(Part { start: context, counts: *counts, n, bits: 0 }),
            }
        }
        for p in &mut parts {
            p.bits = bits(&p.counts[..n_symbols], p.n) + table_bits(&p.counts[..n_symbols]);
        }
        // Parts stay where they are: those that are left, and the gain of each pair of neighbours.
        let mut left: Vec<usize> = (0..parts.len()).collect();
        let gain = |parts: &[Part], a: usize, b: usize| Gain::of(&parts[a], &parts[b], n_symbols);
        let mut gains: Vec<Gain> = left.windows(2).map(|w| gain(&parts, w[0], w[1])).collect();
        while let Some((i, best)) =
            gains.iter().enumerate().max_by_key(|(i, g)| (g.saved, usize::MAX - i))
        {
            if left.len() <= MOST && best.saved < 0 {
                break;
            }
            let merged = best.bits;
            let (to, from) = (left[i], left.remove(i + 1));
            let (before, after) = parts.split_at_mut(from);
            before[to].join(&after[0].counts, after[0].n);
            before[to].bits = merged;
            gains.remove(i);
            if i < gains.len() {
                gains[i] = gain(&parts, left[i], left[i + 1]);
            }
            if i > 0 {
                gains[i - 1] = gain(&parts, left[i - 1], left[i]);
            }
        }
        let parts = || left.iter().map(|&i| &parts[i]);
        Clusters {
            starts: parts().skip(1).map(|p| p.start).collect(),
            bits: parts().map(|p| bits(&p.counts[..n_symbols], p.n)).sum(),
            table_bits: parts().map(|p| table_bits(&p.counts[..n_symbols])).sum(),
            counts: parts().map(|p| p.counts).collect(),
        }
    }
}

struct Part {
    start: u8,
    counts: [u32; 256],
    n: u64,
    bits: u64,
}

impl Part {
    fn join(&mut self, counts: &[u32; 256], n: u64) {
        for (a, b) in self.counts.iter_mut().zip(counts) {
            *a += b;
        }
        self.n += n;
    }
}

struct Gain {
    saved: i64,
    bits: u64,
}

impl Gain {
    fn of(a: &Part, b: &Part, n_symbols: usize) -> Gain {
        let mut counts = [0; 256];
        let counts = &mut counts[..n_symbols];
        for ((sum, a), b) in counts.iter_mut().zip(&a.counts).zip(&b.counts) {
            *sum = a + b;
        }
        let bits = bits(counts, a.n + b.n) + table_bits(counts);
        Gain { saved: (a.bits + b.bits) as i64 - bits as i64, bits }
    }
}

/// Bits of symbols with these counts, `n` in all.
fn bits(counts: &[u32], n: u64) -> u64 {
    let total = u64::from(log2_q16(u32::try_from(n).unwrap_or(u32::MAX)));
    let one = |c: u32| u64::from(c) * total.saturating_sub(u64::from(log2_q16(c)));
    counts.iter().filter(|&&c| c > 0).map(|&c| one(c)).sum::<u64>() >> 16
}

/// Bits of a table for these counts.
fn table_bits(counts: &[u32]) -> u64 {
    TABLE_BITS + SYMBOL_BITS * counts.iter().filter(|&&c| c > 0).count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alike_contexts_share_a_table_and_others_do_not() {
        let mut joint = Joint::default();
        let contexts: Vec<u8> = (0..40_000u32).map(|i| (i % 40) as u8 + 100).collect();
        let symbols = contexts
            .iter()
            .zip(0u32..)
            .map(|(&c, i)| if c < 120 { i / 40 % 2 } else { 10 + i / 40 % 64 });
        let symbols: Vec<u8> = symbols.map(|s| s as u8).collect();
        joint.count(Level::best(), &contexts, &symbols, 1, 1);
        let clusters = Clusters::of(&joint);
        assert_eq!(clusters.starts, [120]);
        assert_eq!(clusters.counts[0].iter().sum::<u32>(), 20_000);
    }

    #[test]
    fn there_are_never_more_than_sixteen() {
        let mut joint = Joint::default();
        let all: Vec<u8> = (0..256 * 1000u32).map(|i| i as u8).collect();
        joint.count(Level::best(), &all, &all, 64, 1);
        assert_eq!(Clusters::of(&joint).counts.len(), MOST);
        joint.count(Level::best(), &[], &[], 64, 1);
        assert!(Clusters::of(&joint).counts.is_empty());
    }
}
