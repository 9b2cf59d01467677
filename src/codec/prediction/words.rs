//! Symbols of residuals, and clusters of contexts.
//!
//! Classes are found without branches: for `m ≥ 8`, a float that holds `m` exactly has its class
//! in its top bits,
//!
//! ```text
//! bits of (m as f32) >> 21  =  4·(127 + L − 1) + next two bits  =  class + 512
//! bits of (m as f64) >> 50                                      =  class + 4096
//! ```

#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::{
    simd::{Level, dispatch, for_every_level},
    transform::delta,
};

/// Deltas of words of `word` bytes from the predicted ones, and their symbols.
pub fn residuals(
    level: Level,
    word: usize,
    words: &[u8],
    predicted: &[u8],
    deltas: &mut [u8],
    symbols: &mut [u8],
) {
    let done = match word {
        2 => dispatch!(level,
            Avx512 => avx512::residuals_2(words, predicted, deltas, symbols),
            _ => 0,
        ),
        4 => dispatch!(level,
            Avx512 => avx512::residuals_4(words, predicted, deltas, symbols),
            _ => 0,
        ),
        _ => 0,
    };
    let (words, predicted) = (&words[done * word..], &predicted[done * word..]);
    let (deltas, out) = (&mut deltas[done * word..], &mut symbols[done..]);
    delta::diff(level, word, words, predicted, deltas);
    self::symbols(level, word, deltas, out);
}

/// Symbols of deltas, which are words of `word` bytes.
pub fn symbols(level: Level, word: usize, deltas: &[u8], out: &mut [u8]) {
    match word {
        1 => symbols_1(level, deltas, out),
        2 => symbols_2(level, deltas, out),
        4 => symbols_4(level, deltas, out),
        _ => each(deltas, out, |d| super::classes::COARSE.symbol(i64::from_le_bytes(d))),
    }
}

for_every_level! {
    fn symbols_1(deltas: &[u8], out: &mut [u8]) {
        each(deltas, out, |d| small(i8::from_le_bytes(d).into()));
    }
}

for_every_level! {
    fn symbols_2(deltas: &[u8], out: &mut [u8]) {
        each(deltas, out, |d| small(i16::from_le_bytes(d).into()));
    }
}

for_every_level! {
    fn symbols_4(deltas: &[u8], out: &mut [u8]) {
        each(deltas, out, |d| large(i32::from_le_bytes(d)));
    }
}

#[inline(always)]
fn each<const N: usize>(deltas: &[u8], out: &mut [u8], f: impl Fn([u8; N]) -> u8) {
    for (out, d) in out.iter_mut().zip(deltas.as_chunks::<N>().0) {
        *out = f(*d);
    }
}

#[inline(always)]
fn small(d: i32) -> u8 {
    let m = d.abs();
    let class = if m < 8 { m } else { ((m as f32).to_bits() >> 21) as i32 - 512 };
    (2 * class - i32::from(d > 0)) as u8
}

#[inline(always)]
fn large(d: i32) -> u8 {
    let m = d.unsigned_abs();
    let class = if m < 8 { m } else { ((f64::from(m)).to_bits() >> 50) as u32 - 4096 };
    (2 * class).wrapping_sub(u32::from(d > 0)) as u8
}

/// The cluster of every context: the number of clusters that start at it or below, but for the
/// first.
pub fn clusters(level: Level, starts: &[u8], contexts: &[u8], out: &mut Vec<u8>) {
    let mut table = [0; 256];
    for &start in starts {
        table[usize::from(start)..].iter_mut().for_each(|cluster: &mut u8| *cluster += 1);
    }
    out.resize(contexts.len(), 0);
    let done = in_registers(level, &table, contexts, out);
    count_starts(level, starts, &contexts[done..], &mut out[done..]);
}

/// What a table has for every context.
pub fn look_up(level: Level, table: &[u8; 256], contexts: &[u8], out: &mut Vec<u8>) {
    out.resize(contexts.len(), 0);
    let done = in_registers(level, table, contexts, out);
    for (out, &context) in out[done..].iter_mut().zip(&contexts[done..]) {
        *out = table[usize::from(context)];
    }
}

/// Looks up the first contexts where a table fits registers. Returns how many.
fn in_registers(level: Level, table: &[u8; 256], contexts: &[u8], out: &mut [u8]) -> usize {
    dispatch!(level,
        Avx512 => avx512::look_up(table, contexts, out),
        _ => {
            let _ = (table, contexts, out);
            0
        }
    )
}

for_every_level! {
    fn count_starts(starts: &[u8], contexts: &[u8], out: &mut [u8]) {
        // Pieces that stay in the nearest cache.
        for (out, contexts) in out.chunks_mut(1024).zip(contexts.chunks(1024)) {
            out.fill(0);
            for &start in starts {
                for (cluster, &context) in out.iter_mut().zip(contexts) {
                    *cluster += u8::from(context >= start);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
