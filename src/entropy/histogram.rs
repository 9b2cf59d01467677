//! Counts symbols.
//!
//! A counter that is incremented twice in a row waits for its own store, and exponents repeat.
//! So neighbours count into different sub-tables, which are summed at the end: the result does
//! not depend on how many there are.

/// Sub-tables: enough that a counter is rarely incremented again before its last store is done.
const SUB_TABLES: usize = 8;

/// Adds the number of occurrences of each symbol to `counts`, wrapping at 2³².
pub fn count(_: crate::simd::Level, symbols: &[u8], counts: &mut [u32; 256]) {
    let mut tables = [[0u32; 256]; SUB_TABLES];
    let (eights, rest) = symbols.as_chunks::<8>();
    for eight in eights {
        let word = u64::from_le_bytes(*eight);
        for (i, table) in tables.iter_mut().enumerate() {
            let counter = &mut table[(word >> (8 * i)) as u8 as usize];
            *counter = counter.wrapping_add(1);
        }
    }
    for &symbol in rest {
        tables[0][symbol as usize] += 1;
    }
    for (symbol, total) in counts.iter_mut().enumerate() {
        *total = tables.iter().fold(*total, |sum, table| sum.wrapping_add(table[symbol]));
    }
}

pub fn count_contexts(_: crate::simd::Level, s: &[u8], c: &[u8], t: &mut [[u32; 256]]) {
    for (s, c) in s.iter().zip(c) {
        t[*c as usize][*s as usize] += 1;
    }
}
