//! Counts symbols.
//!
//! A counter that is incremented twice in a row waits for its own store, and exponents repeat.
//! So neighbours count into different sub-tables, which are summed at the end: the result does
//! not depend on how many there are.
//!
//! No instruction set has something faster than scalar increments for 256 counters, so there is
//! one version.

use crate::simd::Level;

/// Adds the number of occurrences of each symbol to `counts`, wrapping at 2³².
pub fn count(_level: Level, symbols: &[u8], counts: &mut [u32; 256]) {
    let mut tables = [[0u32; 256]; 8];
    let (eights, rest) = symbols.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_le_bytes(*eight);
        for (i, table) in tables.iter_mut().enumerate() {
            increment(&mut table[usize::from((word >> (8 * i)) as u8)]);
        }
    }
    for &symbol in rest {
        increment(&mut counts[usize::from(symbol)]);
    }
    for table in &tables {
        add(counts, table);
    }
}

/// Adds the number of occurrences of each symbol in each context to `counts[context]`, wrapping at
/// 2³². Contexts are as many as symbols, all below the length of `counts`, which is at most 16.
pub fn count_contexts(_level: Level, symbols: &[u8], contexts: &[u8], counts: &mut [[u32; 256]]) {
    assert_eq!(contexts.len(), symbols.len(), "a context for each symbol");
    let largest = contexts.iter().fold(0, |a, &b| a.max(b));
    assert!(usize::from(largest) < counts.len() && counts.len() <= 16, "counts for each context");
    // Every other symbol counts here: 16 KiB, as large as the cache comfortably takes.
    let mut odd = [[0u32; 256]; 16];
    let (pairs, rest) = symbols.as_chunks::<2>();
    let (context_pairs, context_rest) = contexts.as_chunks::<2>();
    for (s, c) in pairs.iter().zip(context_pairs) {
        increment(&mut counts[usize::from(c[0])][usize::from(s[0])]);
        increment(&mut odd[usize::from(c[1] & 15)][usize::from(s[1])]);
    }
    for (&s, &c) in rest.iter().zip(context_rest) {
        increment(&mut counts[usize::from(c)][usize::from(s)]);
    }
    for (counts, odd) in counts.iter_mut().zip(&odd) {
        add(counts, odd);
    }
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

    #[test]
    #[should_panic(expected = "counts for each context")]
    fn a_context_without_counts_is_a_bug_of_the_caller() {
        count_contexts(Level::SCALAR, &[0; 9], &[0, 1, 2, 3, 4, 3, 2, 1, 0], &mut [[0; 256]; 4]);
    }
}
