//! Residuals ↔ symbols and the bits that follow, for words of 1, 2 and 4 bytes.
//!
//! Classes are found without branches: for `m ≥ 8`, a float that holds `m` exactly has its class
//! in its top bits,
//!
//! ```text
//! bits of (m as f32) >> 21  =  4·(127 + L − 1) + next two bits  =  class + 512
//! bits of (m as f64) >> 50                                      =  class + 4096
//! ```
//!
//! Joining works on groups of 64 words. Where no symbol of a group has bits to follow, which is
//! most groups of small residuals, all of it is vectors; else the bits are taken one word after
//! the other into an array of residuals first.

use super::classes::{FINE, class_of};
use crate::simd::Level;

/// Words of a group.
const GROUP: usize = 64;
/// Least symbol with bits that follow.
const LONG: u8 = 15;

/// Least magnitude, and above it the number of bits that follow, of every symbol.
static LEAST_AND_BITS: [u64; 256] = {
    let mut table = [0; 256];
    let mut s = 0usize;
    while s < 256 {
        let class = s.div_ceil(2);
        if class >= 8 && class < 8 + 4 * 29 {
            let bits = (class as u64 - 8) / 4 + 1;
            table[s] = (4 + (class as u64 - 8) % 4) << bits | bits << 40;
        } else if class < 8 {
            table[s] = class as u64;
        }
        s += 1;
    }
    table
};

/// Symbols of deltas, which are words of `word` bytes.
pub fn symbols(level: Level, word: usize, deltas: &[u8], out: &mut [u8]) {
    match word {
        1 => level.run(symbols_1, (deltas, out)),
        2 => level.run(symbols_2, (deltas, out)),
        4 => level.run(symbols_4, (deltas, out)),
        _ => each(deltas, out, |d| super::classes::COARSE.symbol(i64::from_le_bytes(d))),
    }
}

#[inline(always)]
fn symbols_1((deltas, out): (&[u8], &mut [u8])) {
    each(deltas, out, |d| small(i8::from_le_bytes(d).into()));
}

#[inline(always)]
fn symbols_2((deltas, out): (&[u8], &mut [u8])) {
    each(deltas, out, |d| small(i16::from_le_bytes(d).into()));
}

#[inline(always)]
fn symbols_4((deltas, out): (&[u8], &mut [u8])) {
    each(deltas, out, |d| large(i32::from_le_bytes(d)));
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

/// Appends the bits that follow the symbols of deltas.
pub fn write_bits(word: usize, deltas: &[u8], symbols: &[u8], out: &mut Vec<u8>) {
    let total: u64 = symbols.iter().map(|&s| u64::from(FINE.bits(class_of(s)))).sum();
    let start = out.len();
    let len = total.div_ceil(8) as usize;
    out.resize(start + len + 8, 0);
    let room = &mut out[start..];
    match word {
        1 => write_each(deltas, symbols, room, |d| i8::from_le_bytes(d).unsigned_abs().into()),
        2 => write_each(deltas, symbols, room, |d| i16::from_le_bytes(d).unsigned_abs().into()),
        _ => write_each(deltas, symbols, room, |d| i32::from_le_bytes(d).unsigned_abs()),
    }
    out.truncate(start + len);
}

#[inline(always)]
fn write_each<const N: usize>(
    deltas: &[u8],
    symbols: &[u8],
    out: &mut [u8],
    magnitude: impl Fn([u8; N]) -> u32,
) {
    let (mut at, mut pending, mut n_pending) = (0, 0u64, 0u32);
    for (deltas, symbols) in deltas.chunks(N * GROUP).zip(symbols.chunks(GROUP)) {
        if !any_long(symbols) {
            continue;
        }
        for (d, &s) in deltas.as_chunks::<N>().0.iter().zip(symbols) {
            let n = (LEAST_AND_BITS[usize::from(s)] >> 40) as u32;
            // A class is a range that starts at a multiple of its length.
            let value = u64::from(magnitude(*d)) & ((1 << n) - 1);
            pending |= value << n_pending;
            n_pending += n;
            if let Some(room) = out.get_mut(at..at + 8) {
                room.copy_from_slice(&pending.to_le_bytes());
            }
            at += (n_pending / 8) as usize;
            pending >>= n_pending & !7;
            n_pending &= 7;
        }
    }
}

#[inline(always)]
fn any_long(symbols: &[u8]) -> bool {
    symbols.iter().fold(0, |a, &s| a.max(s)) >= LONG
}

/// Sets `out` to the predicted words moved by the residuals of symbols and bits. Whether all bits
/// were used and nothing is left.
pub fn join(
    level: Level,
    word: usize,
    symbols: &[u8],
    bits: &[u8],
    predicted: &[u8],
    out: &mut [u8],
) -> bool {
    let args = (symbols, bits, predicted, out);
    let n_bits = match word {
        1 => level.run(join_1, args),
        2 => level.run(join_2, args),
        _ => level.run(join_4, args),
    };
    let padding = (8 - n_bits % 8) % 8;
    n_bits.div_ceil(8) == bits.len()
        && bits.last().is_none_or(|&last| padding == 0 || last >> (8 - padding) == 0)
}

/// Symbols, bits, predicted words, words.
type Parts<'a> = (&'a [u8], &'a [u8], &'a [u8], &'a mut [u8]);

#[inline(always)]
fn join_1(parts: Parts<'_>) -> usize {
    join_each(parts, move_i8)
}

#[inline(always)]
fn join_2(parts: Parts<'_>) -> usize {
    join_each(parts, move_i16)
}

#[inline(always)]
fn join_4(parts: Parts<'_>) -> usize {
    join_each(parts, move_i32)
}

#[inline(always)]
fn move_i8(word: [u8; 1], by: i32) -> [u8; 1] {
    let order = |x: i8| x ^ (x >> 7 & i8::MAX);
    order(order(i8::from_le_bytes(word)).wrapping_add(by as i8)).to_le_bytes()
}

#[inline(always)]
fn move_i16(word: [u8; 2], by: i32) -> [u8; 2] {
    let order = |x: i16| x ^ (x >> 15 & i16::MAX);
    order(order(i16::from_le_bytes(word)).wrapping_add(by as i16)).to_le_bytes()
}

#[inline(always)]
fn move_i32(word: [u8; 4], by: i32) -> [u8; 4] {
    let order = |x: i32| x ^ (x >> 31 & i32::MAX);
    order(order(i32::from_le_bytes(word)).wrapping_add(by)).to_le_bytes()
}

/// Returns how many bits the symbols ask for.
#[inline(always)]
fn join_each<const N: usize>(
    (symbols, bits, predicted, out): Parts<'_>,
    moved: impl Fn([u8; N], i32) -> [u8; N],
) -> usize {
    let mut at = 0;
    let mut residuals = [0i32; GROUP];
    let words = out.chunks_mut(N * GROUP).zip(predicted.chunks(N * GROUP));
    for ((out, predicted), symbols) in words.zip(symbols.chunks(GROUP)) {
        if any_long(symbols) {
            for (r, &s) in residuals.iter_mut().zip(symbols) {
                let entry = LEAST_AND_BITS[usize::from(s)];
                let n = (entry >> 40) as u32;
                let value = load(bits, at / 8) >> (at % 8) & ((1 << n) - 1);
                at += n as usize;
                *r = signed(s, (entry as u32).wrapping_add(value as u32));
            }
        } else {
            for (r, &s) in residuals.iter_mut().zip(symbols) {
                *r = signed(s, u32::from(s).div_ceil(2));
            }
        }
        let pairs = out.as_chunks_mut::<N>().0.iter_mut().zip(predicted.as_chunks::<N>().0);
        for ((out, p), r) in pairs.zip(&residuals) {
            *out = moved(*p, *r);
        }
    }
    at
}

/// A magnitude with the sign of its symbol: even ones are negative, or zero.
#[inline(always)]
fn signed(symbol: u8, magnitude: u32) -> i32 {
    let minus = i32::from(symbol & 1) - 1;
    (magnitude as i32 ^ minus).wrapping_sub(minus)
}

/// Eight bytes from `at` on, zeros past the end.
#[inline(always)]
fn load(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..at + 8) {
        Some(eight) => {
            let mut word = [0; 8];
            word.copy_from_slice(eight);
            u64::from_le_bytes(word)
        }
        None => last(bytes, at),
    }
}

#[cold]
fn last(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or(&[]);
    rest.iter().take(8).rev().fold(0, |word, &b| word << 8 | u64::from(b))
}

/// The cluster of every context: the number of clusters that start at it or below, but for the
/// first.
pub fn clusters(level: Level, starts: &[u8], contexts: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.resize(contexts.len(), 0);
    level.run(add_starts, (starts, contexts, out));
}

#[inline(always)]
fn add_starts((starts, contexts, out): (&[u8], &[u8], &mut [u8])) {
    // Pieces that stay in the nearest cache.
    for (out, contexts) in out.chunks_mut(1024).zip(contexts.chunks(1024)) {
        for &start in starts {
            for (cluster, &context) in out.iter_mut().zip(contexts) {
                *cluster += u8::from(context >= start);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::known::classes::Classes;

    fn deltas() -> Vec<i32> {
        let mut all: Vec<i32> = (-300..300).collect();
        for bit in 0..32 {
            for near in -3..4 {
                all.push((1u32 << bit).wrapping_add_signed(near) as i32);
                all.push((1u32 << bit).wrapping_add_signed(near).wrapping_neg() as i32);
            }
        }
        all.extend((0..5000u32).map(|i| i.wrapping_mul(0x9E37_79B1) as i32 >> (i % 31)));
        all
    }

    #[test]
    fn every_level_splits_and_joins_every_delta_alike() {
        let all = deltas();
        for word in [1, 2, 4] {
            let bytes = |x: i32| x.to_le_bytes()[..word].to_vec();
            let deltas: Vec<u8> = all.iter().flat_map(|&d| bytes(d)).collect();
            let base: Vec<u8> = all.iter().rev().flat_map(|&d| bytes(d)).collect();
            let mut want = vec![0; all.len()];
            for (s, &d) in want.iter_mut().zip(&all) {
                let up = 32 - 8 * word as u32;
                *s = Classes::of_word(word).symbol(i64::from(d << up >> up));
            }
            let mut outs = Vec::new();
            for level in Level::available() {
                let mut got = vec![0; all.len()];
                symbols(level, word, &deltas, &mut got);
                assert_eq!(got, want, "{level:?} {word}");
                let mut bits = vec![7];
                write_bits(word, &deltas, &got, &mut bits);
                let mut out = vec![0; deltas.len()];
                assert!(join(level, word, &got, &bits[1..], &base, &mut out));
                let mut back = vec![0; deltas.len()];
                crate::transform::delta::diff(level, word, &out, &base, &mut back);
                assert_eq!(back, deltas, "{level:?} {word}");
                outs.push((bits.clone(), out.clone()));
                bits.push(0);
                assert!(!join(level, word, &got, &bits[1..], &base, &mut out));
                bits.truncate(bits.len() / 2);
                assert!(!join(level, word, &got, &bits[1..], &base, &mut out));
            }
            assert!(outs.windows(2).all(|w| w[0] == w[1]));
        }
    }

    #[test]
    fn contexts_fall_into_the_cluster_that_starts_last() {
        let contexts: Vec<u8> = (0..3000).map(|i| i as u8).collect();
        for level in Level::available() {
            let mut out = Vec::new();
            clusters(level, &[3, 100, 255], &contexts, &mut out);
            assert_eq!((out[0], out[2], out[3], out[99], out[100]), (0, 0, 1, 1, 2));
            assert_eq!((out[254], out[255], out[256 + 3]), (2, 3, 1));
        }
    }
}
