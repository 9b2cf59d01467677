//! Entropy as a floor to compare methods with, by means that are not biased in its favour.
//!
//! The entropy of counts is less than that of what they were counted from, the more so the fewer
//! the samples in each table: split a plane by enough classes and any noise seems to shrink. So
//! every table is paid for here, or the bias is estimated and taken out (Miller and Madow), and
//! where the two differ much, neither is a finding.

use crate::{
    dtype::Dtype,
    study::codec,
    study::huffman::{self, BLOCK_LEN},
};

/// How often each byte occurs.
pub fn counts(bytes: &[u8]) -> [u32; 256] {
    let mut tables = [[0u32; 256]; 4];
    for four in bytes.chunks(4) {
        for (table, &byte) in tables.iter_mut().zip(four) {
            table[usize::from(byte)] += 1;
        }
    }
    std::array::from_fn(|s| tables.iter().map(|t| t[s]).sum())
}

/// Bits of all symbols at the entropy of their counts, without a table.
pub fn plug_in_bits(counts: &[u32]) -> f64 {
    let n: u64 = counts.iter().map(|&c| u64::from(c)).sum();
    let of = |&c: &u32| f64::from(c) * (n as f64 / f64::from(c)).log2();
    counts.iter().filter(|c| **c > 0).map(of).sum()
}

/// The same with Miller and Madow's correction of its bias: half a nat for each symbol that
/// occurs but one.
pub fn miller_madow_bits(counts: &[u32]) -> f64 {
    let used = counts.iter().filter(|c| **c > 0).count();
    plug_in_bits(counts) + used.saturating_sub(1) as f64 / 2.0 * std::f64::consts::LOG2_E
}

/// The same with a static table: a bit for each symbol that could occur, and a frequency of 12
/// bits for each that does, but for one.
pub fn with_table_bits(counts: &[u32]) -> f64 {
    let used = counts.iter().filter(|c| **c > 0).count();
    plug_in_bits(counts) + (counts.len() + 12 * used.saturating_sub(1)) as f64
}

/// Bits of `bytes` by the entropy of each byte group in blocks of 64 KiB, each with its codebook:
/// what LMC's coder can reach at best.
pub fn block_bits(dtype: Dtype, bytes: &[u8]) -> f64 {
    let of = |group: &[u8]| group.chunks(BLOCK_LEN).map(coded_bits).sum::<f64>();
    groups(dtype, bytes).iter().map(|g| of(g)).sum()
}

/// The same of what is left of the groups when LMC has shortened their runs: what its Huffman
/// coder can reach at best.
pub fn run_bits(dtype: Dtype, bytes: &[u8]) -> f64 {
    let mut bits = 0.0;
    codec::visit_lmc_symbols(dtype, bytes, |symbols| {
        bits += symbols.chunks(BLOCK_LEN).map(coded_bits).sum::<f64>();
    });
    bits + (8 * (bytes.len() % codec::group_len(dtype))) as f64
}

fn coded_bits(bytes: &[u8]) -> f64 {
    let counts = counts(bytes);
    let coded = plug_in_bits(&counts) + 8.0 * huffman::codebook_len(&counts) as f64;
    coded.min(8.0 * bytes.len() as f64)
}

/// The bytes of words by significance; what fills no word belongs to the last group.
fn groups(dtype: Dtype, bytes: &[u8]) -> Vec<Vec<u8>> {
    let width = codec::group_len(dtype);
    let whole = bytes.len() - bytes.len() % width;
    let mut groups: Vec<Vec<u8>> = (0..width)
        .map(|k| bytes[..whole].iter().skip(k).step_by(width).copied().collect())
        .collect();
    if let Some(last) = groups.last_mut() {
        last.extend_from_slice(&bytes[whole..]);
    }
    groups
}

/// Bits of symbols coded with a table for each class.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditional {
    /// As the counts have it, which is too low.
    pub plug_in: f64,
    /// With the bias taken out.
    pub miller_madow: f64,
    /// With every table paid for.
    pub with_tables: f64,
}

/// The bits of `symbols` (each below `n_symbols`), each coded by the table of its class.
pub fn conditional_bits(
    n_symbols: usize,
    pairs: impl Iterator<Item = (usize, usize)>,
) -> Conditional {
    let mut tables: Vec<Vec<u32>> = Vec::new();
    for (class, symbol) in pairs {
        if tables.len() <= class {
            tables.resize(class + 1, Vec::new());
        }
        let table = &mut tables[class];
        if table.is_empty() {
            table.resize(n_symbols, 0);
        }
        table[symbol] += 1;
    }
    let mut sum = Conditional::default();
    for table in tables.iter().filter(|t| !t.is_empty()) {
        sum.plug_in += plug_in_bits(table);
        sum.miller_madow += miller_madow_bits(table);
        // A class too rare to pay for its table is sent raw.
        let n: u64 = table.iter().map(|&c| u64::from(c)).sum();
        let raw = n as f64 * (n_symbols as f64).log2() + 1.0;
        sum.with_tables += (with_table_bits(table) + 1.0).min(raw);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_seen_through_many_classes_gains_nothing_once_tables_are_paid_for() {
        let mut state = 1u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 16) as usize
        };
        let pairs: Vec<(usize, usize)> =
            (0..50_000).map(|_| (next() % 100, next() % 128)).collect();
        let bits = conditional_bits(128, pairs.iter().copied());
        let raw = 7.0 * pairs.len() as f64;
        assert!(bits.plug_in < 0.98 * raw, "the bias that is to be seen through");
        assert!(bits.with_tables >= raw);
        assert!((raw - bits.miller_madow).abs() < 0.3 * (raw - bits.plug_in));
    }

    #[test]
    fn entropy_of_a_fair_byte_is_eight_bits() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1 << 16).collect();
        assert_eq!(plug_in_bits(&counts(&bytes)), 8.0 * bytes.len() as f64);
        assert_eq!(block_bits(Dtype::U8, &bytes), 8.0 * bytes.len() as f64);
    }
}
