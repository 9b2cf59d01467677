//! Counting the symbols of a block.
//!
//! Incrementing a table waits for the store of the symbol before wherever symbols repeat, which
//! is what skewed planes do. Exponents lie close together, though: where a sample shows that
//! nearly all symbols are among a few neighbouring values, each value is counted by comparing
//! whole lines with it, and only lines with other symbols in them are gone through one by one.
//! The counts are the same either way.

use super::BLOCK_LEN;
use crate::simd::{Level, dispatch};

/// Symbols compared at once.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;
/// Lines after which a byte counter could overflow.
#[cfg(target_arch = "x86_64")]
const LINES: usize = 255;
/// More values than this are counted faster by table.
#[cfg(target_arch = "x86_64")]
const MAX_VALUES: usize = 40;

/// How often each symbol occurs in `block`, which is at most `BLOCK_LEN` long.
pub(super) fn count(level: Level, block: &[u8]) -> [u32; 256] {
    debug_assert!(block.len() <= BLOCK_LEN);
    dispatch!(level,
        Avx512 => avx512(block),
        Avx2 => avx2(block),
        _ => by_table(block),
    )
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn avx2(block: &[u8]) -> [u32; 256] {
    by_value(block)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
fn avx512(block: &[u8]) -> [u32; 256] {
    by_value(block)
}

/// Whether a sixteenth of a whole block shows that a code would gain nothing. Of n symbols drawn
/// from a distribution, Σ c(c − 1) / n(n − 1) is its collision probability without bias, and the
/// entropy is at least the negative logarithm of that: 7.98 bits for 1 in 252.
pub(super) fn looks_flat(block: &[u8]) -> bool {
    const STRETCH_LEN: usize = BLOCK_LEN / 256;
    if block.len() < BLOCK_LEN {
        return false;
    }
    let (mut counts, mut n) = ([0u64; 256], 0u64);
    for stretch in block.chunks_exact(STRETCH_LEN).step_by(16) {
        for &symbol in stretch {
            counts[usize::from(symbol)] += 1;
        }
        n += STRETCH_LEN as u64;
    }
    let collisions: u64 = counts.iter().map(|c| c * c.saturating_sub(1)).sum();
    collisions * 252 < n * (n - 1)
}

/// Counts in eight tables, so that a symbol waits only for its eighth predecessor.
pub(super) fn by_table(block: &[u8]) -> [u32; 256] {
    let mut tables = [[0u16; 256]; 8];
    let (eights, rest) = block.as_chunks::<8>();
    for eight in eights {
        for (table, &symbol) in tables.iter_mut().zip(eight) {
            table[usize::from(symbol)] += 1;
        }
    }
    let mut counts: [u32; 256] =
        std::array::from_fn(|s| tables.iter().map(|t| u32::from(t[s])).sum());
    for &symbol in rest {
        counts[usize::from(symbol)] += 1;
    }
    counts
}

/// The values that hold all but a thousandth of a sample, if they are few neighbours.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn window(block: &[u8]) -> Option<std::ops::Range<usize>> {
    let mut counts = [0u16; 256];
    for &symbol in block.iter().step_by(61) {
        counts[usize::from(symbol)] += 1;
    }
    let mut spare = block.len().div_ceil(61) / 1000;
    let (mut start, mut end) = (0, 256);
    while start < end {
        let (low, high) = (usize::from(counts[start]), usize::from(counts[end - 1]));
        if low.min(high) > spare {
            break;
        }
        spare -= low.min(high);
        if low <= high {
            start += 1;
        } else {
            end -= 1;
        }
    }
    (end - start <= MAX_VALUES && block.len() >= 4096).then_some(start..end)
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn by_value(block: &[u8]) -> [u32; 256] {
    let Some(window) = window(block) else { return by_table(block) };
    let mut counts = [0u32; 256];
    let (lines, rest) = block.as_chunks::<LINE>();
    let (first, n) = (window.start as u8, window.len() as u8);
    for lines in lines.chunks(LINES) {
        for value in window.clone() {
            let mut equal = [0u8; LINE];
            for line in lines {
                for (count, &symbol) in equal.iter_mut().zip(line) {
                    *count += u8::from(symbol == value as u8);
                }
            }
            counts[value] += equal.iter().map(|&c| u32::from(c)).sum::<u32>();
        }
        for line in lines {
            if line.iter().fold(false, |any, s| any | (s.wrapping_sub(first) >= n)) {
                for &symbol in line.iter().filter(|s| s.wrapping_sub(first) >= n) {
                    counts[usize::from(symbol)] += 1;
                }
            }
        }
    }
    for &symbol in rest {
        counts[usize::from(symbol)] += 1;
    }
    counts
}
