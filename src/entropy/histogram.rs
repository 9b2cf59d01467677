//! Counts symbols.
//!
//! A counter that is incremented twice in a row waits for its own store, and exponents repeat.
//! So neighbours count into different sub-tables, which are summed at the end: the result does
//! not depend on how many there are. No instruction set has something faster than scalar
//! increments for 256 counters: one store a cycle is the limit, and slower than coding.
//!
//! So [`sample`] counts a quarter of the symbols, 16 of each 64 at a pseudo-random but fixed
//! place, and merely looks whether the others occur at all; of 2¹⁷ symbols or more, a
//! sixteenth is enough. A table made of it codes 2¹⁸ symbols of an alphabet of 80 in some 100 bytes
//! more than the exact one.
//!
//! ```text
//! sampled    symbols 64·g + 16·q … 64·g + 16·q + 15 for every whole group g of 64,
//!            where q = (g · 0x9e3779b1 mod 2^32) / 2^30, and all after the last whole group
//! from 2^17  symbols 128·g + 8·q … 128·g + 8·q + 7 for every whole group g of 128,
//!            where q = (g · 0x9e3779b1 mod 2^32) / 2^28, and all after the last whole group
//! ```
//!
//! To look whether all symbols of a vector occur, their bits in a bit map of 256 are fetched by
//! byte shuffles; a symbol that has no bit yet is rare and takes the scalar path.

use crate::simd::{self, Level, dispatch, for_every_level};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

/// Symbols of which a sixteenth is enough.
const MANY: usize = 1 << 17;
/// Symbols between two looks at whether a new one was among them, which costs a scalar pass over
/// them where one was.
#[cfg(target_arch = "x86_64")]
const STRIDE: usize = 256;

/// Adds the number of occurrences of each symbol to `counts`, wrapping at 2³².
pub fn count(_level: Level, symbols: &[u8], counts: &mut [u32; 256]) {
    let mut tables = [[0u32; 256]; 8];
    let (eights, rest) = symbols.as_chunks::<8>();
    for eight in eights {
        count_eight(eight, &mut tables);
    }
    for &symbol in rest {
        increment(&mut counts[usize::from(symbol)]);
    }
    for table in &tables {
        add(counts, table);
    }
}

/// Adds the number of sampled occurrences of each symbol to `counts`, wrapping at 2³², then sets
/// the count of each symbol that occurs, but has none, to 1.
pub fn sample(level: Level, symbols: &[u8], counts: &mut [u32; 256]) {
    sample_part(level, symbols, symbols.len() < MANY, counts);
}

/// [`sample`] of a quarter, however many symbols there are.
pub fn sample_quarter(level: Level, symbols: &[u8], counts: &mut [u32; 256]) {
    sample_part(level, symbols, true, counts);
}

fn sample_part(level: Level, symbols: &[u8], quarter: bool, counts: &mut [u32; 256]) {
    let mut tables = [[0u32; 256]; 8];
    let rest = if quarter {
        let (groups, rest) = symbols.as_chunks();
        for (g, group) in groups.iter().enumerate() {
            let eights = sampled(g, group).as_chunks().0;
            eights.iter().for_each(|eight| count_eight(eight, &mut tables));
        }
        rest
    } else {
        let (groups, rest) = symbols.as_chunks::<128>();
        for (g, group) in groups.iter().enumerate() {
            let eights = group.as_chunks::<8>().0;
            count_eight(&eights[(place(g) >> 28) as usize], &mut tables);
        }
        rest
    };
    for &symbol in rest {
        increment(&mut counts[usize::from(symbol)]);
    }
    for table in &tables {
        add(counts, table);
    }
    mark(level, symbols, counts);
}

/// Sets the count of each symbol that occurs, but has none, to 1.
pub fn mark(level: Level, symbols: &[u8], counts: &mut [u32; 256]) {
    dispatch!(level,
        Avx512 => avx512::mark(symbols, counts),
        Avx2 => avx2::mark(symbols, counts),
        _ => mark_scalar(symbols, counts),
    )
}

/// Adds the number of occurrences of each symbol in each context to `counts[context]`, wrapping at
/// 2³². Contexts are as many as symbols, all below the length of `counts`, which is at most 16.
pub fn count_contexts(level: Level, symbols: &[u8], contexts: &[u8], counts: &mut [[u32; 256]]) {
    check(level, symbols, contexts, counts);
    // Context and symbol are one number, and neighbours count in four tables.
    let mut tables = Box::new([[0; 16 << 8]; 4]);
    let mut places = [0; 512];
    for (symbols, contexts) in symbols.chunks(places.len()).zip(contexts.chunks(places.len())) {
        let places = &mut places[..symbols.len()];
        join(level, symbols, contexts, &mut *places);
        let (fours, rest) = places.as_chunks::<4>();
        for four in fours {
            for (place, table) in four.iter().zip(&mut *tables) {
                increment(&mut table[usize::from(place & 0xfff)]);
            }
        }
        for place in rest {
            increment(&mut tables[0][usize::from(place & 0xfff)]);
        }
    }
    for table in &*tables {
        let of_contexts = table.as_chunks().0;
        counts.iter_mut().zip(of_contexts).for_each(|(counts, more)| add(counts, more));
    }
}

for_every_level! {
fn join(symbols: &[u8], contexts: &[u8], places: &mut [u16]) {
    for ((place, s), c) in places.iter_mut().zip(symbols).zip(contexts) {
        *place = u16::from_be_bytes([*c, *s]);
    }
}
}

/// Like [`count_contexts`] of a quarter of the symbols, those of `sample_quarter`, then sets the
/// count of each symbol that occurs in a context, but has none there, to 1.
pub fn sample_contexts(level: Level, symbols: &[u8], contexts: &[u8], counts: &mut [[u32; 256]]) {
    check(level, symbols, contexts, counts);
    let mut odd = [[0; 256]; 16];
    let (groups, rest) = symbols.as_chunks::<64>();
    let (context_groups, context_rest) = contexts.as_chunks::<64>();
    for (g, (symbols, contexts)) in groups.iter().zip(context_groups).enumerate() {
        let [symbols, contexts] = [symbols, contexts].map(|group| sampled(g, group));
        count_pairs(symbols, contexts, counts, &mut odd);
    }
    count_pairs(rest, context_rest, counts, &mut odd);
    for (counts, odd) in counts.iter_mut().zip(&odd) {
        add(counts, odd);
    }
    mark_contexts(level, symbols, contexts, counts);
}

/// Sets the count of each symbol that occurs in a context, but has none there, to 1.
pub fn mark_contexts(level: Level, symbols: &[u8], contexts: &[u8], counts: &mut [[u32; 256]]) {
    check(level, symbols, contexts, counts);
    dispatch!(level,
        Avx512 => avx512::mark_contexts(symbols, contexts, counts),
        Avx2 => avx2::mark_contexts(symbols, contexts, counts),
        _ => mark_contexts_scalar(symbols, contexts, counts),
    )
}

fn check(level: Level, symbols: &[u8], contexts: &[u8], counts: &[[u32; 256]]) {
    assert_eq!(contexts.len(), symbols.len(), "a context for each symbol");
    let largest = simd::largest(level, contexts);
    assert!(usize::from(largest) < counts.len() && counts.len() <= 16, "counts for each context");
}

/// The sampled quarter of group `g`.
fn sampled(g: usize, group: &[u8; 64]) -> &[u8; 16] {
    &group.as_chunks::<16>().0[(place(g) >> 30) as usize]
}

/// Whose top bits say which part of group `g` is sampled.
fn place(g: usize) -> u32 {
    (g as u32).wrapping_mul(0x9e37_79b1)
}

fn count_eight(eight: &[u8; 8], tables: &mut [[u32; 256]; 8]) {
    let word = u64::from_le_bytes(*eight);
    for (i, table) in tables.iter_mut().enumerate() {
        increment(&mut table[usize::from((word >> (8 * i)) as u8)]);
    }
}

/// Counts every other symbol in `odd`: two times 16 KiB is as much as the cache comfortably takes.
fn count_pairs(
    symbols: &[u8],
    contexts: &[u8],
    counts: &mut [[u32; 256]],
    odd: &mut [[u32; 256]; 16],
) {
    let (pairs, rest) = symbols.as_chunks::<2>();
    let (context_pairs, context_rest) = contexts.as_chunks::<2>();
    for (s, c) in pairs.iter().zip(context_pairs) {
        increment(&mut counts[usize::from(c[0])][usize::from(s[0])]);
        increment(&mut odd[usize::from(c[1] & 15)][usize::from(s[1])]);
    }
    for (&s, &c) in rest.iter().zip(context_rest) {
        increment(&mut counts[usize::from(c)][usize::from(s)]);
    }
}

/// [`mark`] one by one.
fn mark_scalar(symbols: &[u8], counts: &mut [u32; 256]) {
    for &symbol in symbols {
        let counter = &mut counts[usize::from(symbol)];
        if *counter == 0 {
            *counter = 1;
        }
    }
}

/// [`mark`] in each context.
fn mark_contexts_scalar(symbols: &[u8], contexts: &[u8], counts: &mut [[u32; 256]]) {
    for (&symbol, &context) in symbols.iter().zip(contexts) {
        let counter = &mut counts[usize::from(context)][usize::from(symbol)];
        if *counter == 0 {
            *counter = 1;
        }
    }
}

/// Bit `s % 8` of byte `s / 8` says whether symbol `s` has a count.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn bit_map(counts: &[u32; 256]) -> [u8; 32] {
    let mut map = [0; 32];
    for (byte, counts) in map.iter_mut().zip(counts.as_chunks::<8>().0) {
        for (bit, &count) in counts.iter().enumerate() {
            *byte |= u8::from(count > 0) << bit;
        }
    }
    map
}

fn increment(counter: &mut u32) {
    *counter = counter.wrapping_add(1);
}

fn add(counts: &mut [u32; 256], more: &[u32; 256]) {
    for (total, &n) in counts.iter_mut().zip(more) {
        *total = total.wrapping_add(n);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(n: usize, modulus: usize) -> Vec<u8> {
        (0..n).map(|i| (i * i / 3 % modulus) as u8).collect()
    }

    #[test]
    fn every_length_is_counted() {
        for level in Level::available() {
            for n in (0..100).chain([1023, 1024, 70_000]) {
                for modulus in [1, 2, 255, 256] {
                    let symbols = bytes(n, modulus);
                    let mut counts = [7; 256];
                    count(level, &symbols, &mut counts);
                    let mut want = [7; 256];
                    for &s in &symbols {
                        want[s as usize] += 1;
                    }
                    assert_eq!(counts, want, "{level:?} n={n} modulus={modulus}");
                }
            }
        }
    }

    #[test]
    fn every_context_is_counted() {
        for level in Level::available() {
            for n in (0..100).chain([1023, 1024, 70_000]) {
                for n_contexts in [1, 2, 11, 16] {
                    let (symbols, mut contexts) = (bytes(n, 256), bytes(n, n_contexts));
                    contexts.reverse();
                    let mut counts = [[5; 256]; 16];
                    count_contexts(level, &symbols, &contexts, &mut counts[..n_contexts]);
                    let mut want = [[5; 256]; 16];
                    for (&s, &c) in symbols.iter().zip(&contexts) {
                        want[c as usize][s as usize] += 1;
                    }
                    assert_eq!(counts, want, "{level:?} n={n} contexts={n_contexts}");
                }
            }
        }
    }

    /// Symbols that are rare, and some that only a close look finds.
    fn with_rare_symbols(n: usize) -> Vec<u8> {
        let mut symbols: Vec<u8> = (0..n).map(|i| (i * i / 3 % 50) as u8 + 90).collect();
        for i in (0..n).step_by(997) {
            symbols[i] = (i / 997 * 37) as u8;
        }
        symbols
    }

    #[test]
    fn a_sample_counts_a_part_and_misses_no_symbol() {
        for level in Level::available() {
            for n in (0..200).chain([1023, 1024, 1025, 4095, 70_000, MANY - 1, MANY, MANY + 129]) {
                let symbols = with_rare_symbols(n);
                let (mut counts, mut want) = ([0; 256], [0; 256]);
                sample(level, &symbols, &mut counts);
                for (i, &s) in symbols.iter().enumerate() {
                    let (group, part, bits) = if n < MANY { (64, 16, 2) } else { (128, 8, 4) };
                    let sampled = (i as u32 / group).wrapping_mul(0x9e37_79b1) >> (32 - bits);
                    let whole = i as u32 / group < n as u32 / group;
                    want[s as usize] += u32::from(!whole || i as u32 % group / part == sampled);
                }
                for &s in &symbols {
                    want[s as usize] = want[s as usize].max(1);
                }
                assert_eq!(counts, want, "{level:?} n={n}");
            }
        }
    }

    #[test]
    fn a_sample_with_contexts_is_a_sample_of_each_context() {
        for level in Level::available() {
            for n in (0..200).chain([1023, 1024, 1025, 70_000]) {
                for n_contexts in [1, 2, 7, 8, 16] {
                    let (symbols, mut contexts) = (with_rare_symbols(n), bytes(n, n_contexts));
                    contexts.reverse();
                    let mut counts = vec![[0; 256]; n_contexts];
                    sample_contexts(level, &symbols, &contexts, &mut counts);
                    let mut reference = vec![[0; 256]; n_contexts];
                    sample_contexts(Level::SCALAR, &symbols, &contexts, &mut reference);
                    assert_eq!(counts, reference, "{level:?} n={n} contexts={n_contexts}");
                    let (mut all, mut want) = ([0; 256], [0; 256]);
                    sample(level, &symbols, &mut want);
                    counts.iter().for_each(|counts| add(&mut all, counts));
                    if n_contexts == 1 {
                        assert_eq!(all, want);
                    }
                    assert_eq!(all.map(|c| c > 0), want.map(|c| c > 0));
                    let mut exact = vec![[0; 256]; n_contexts];
                    count_contexts(level, &symbols, &contexts, &mut exact);
                    for (exact, counts) in exact.iter().zip(&counts) {
                        assert_eq!(exact.map(|c| c > 0), counts.map(|c| c > 0));
                    }
                }
            }
        }
    }

    #[test]
    #[should_panic(expected = "counts for each context")]
    fn a_context_without_counts_is_a_bug_of_the_caller() {
        count_contexts(Level::SCALAR, &[0; 9], &[0, 1, 2, 3, 4, 3, 2, 1, 0], &mut [[0; 256]; 4]);
    }
}
