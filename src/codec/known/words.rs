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

#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(target_arch = "x86_64")]
use crate::simd::Isa;
use crate::simd::{Level, for_every_level};

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

for_every_level! {
    /// How many bits follow the symbols of words of up to four bytes.
    pub fn bits_len(symbols: &[u8]) -> u64 {
        let one = |s: u8| u32::from(s.div_ceil(2).saturating_sub(4) / 4);
        symbols.chunks(4096).map(|s| u64::from(s.iter().map(|&s| one(s)).sum::<u32>())).sum()
    }
}

/// Bits on their way into a buffer that has eight bytes more than all of them need.
struct Writer<'o> {
    out: &'o mut [u8],
    /// Bytes that are complete, and the bits that follow them, fewer than eight.
    at: usize,
    pending: u64,
    n_pending: u32,
}

impl Writer<'_> {
    /// Appends the low `n` bits, at most 64, of `value`, which has no others.
    #[inline(always)]
    fn push(&mut self, value: u64, n: u32) {
        let all = u128::from(self.pending) | u128::from(value) << self.n_pending;
        if let Some(room) = self.out.get_mut(self.at..self.at + 8) {
            room.copy_from_slice(&(all as u64).to_le_bytes());
        }
        let n = self.n_pending + n;
        self.at += (n / 8) as usize;
        self.pending = (all >> (n & !7)) as u64;
        self.n_pending = n & 7;
    }
}

/// Appends the bits that follow the symbols of deltas.
pub fn write_bits(level: Level, word: usize, deltas: &[u8], symbols: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let len = bits_len(level, symbols).div_ceil(8) as usize;
    out.resize(start + len + 8, 0);
    let mut to = Writer { out: &mut out[start..], at: 0, pending: 0, n_pending: 0 };
    let done = match (level.isa(), word) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a `Level` with this `Isa` is only made after its features were detected.
        (Isa::Avx512, 1) => unsafe { avx512::write::<1>(deltas, symbols, &mut to) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Isa::Avx512, 2) => unsafe { avx512::write::<2>(deltas, symbols, &mut to) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Isa::Avx512, _) => unsafe { avx512::write::<4>(deltas, symbols, &mut to) },
        _ => 0,
    };
    let (deltas, symbols) = (&deltas[done * word..], &symbols[done..]);
    match word {
        1 => write_each(deltas, symbols, &mut to, |d| i8::from_le_bytes(d).unsigned_abs().into()),
        2 => write_each(deltas, symbols, &mut to, |d| i16::from_le_bytes(d).unsigned_abs().into()),
        _ => write_each(deltas, symbols, &mut to, |d| i32::from_le_bytes(d).unsigned_abs()),
    }
    let last = to.pending as u8;
    if let Some(byte) = to.out.get_mut(to.at) {
        *byte = last;
    }
    out.truncate(start + len);
}

#[inline(always)]
fn write_each<const N: usize>(
    deltas: &[u8],
    symbols: &[u8],
    to: &mut Writer<'_>,
    magnitude: impl Fn([u8; N]) -> u32,
) {
    for (deltas, symbols) in deltas.chunks(N * GROUP).zip(symbols.chunks(GROUP)) {
        if !any_long(symbols) {
            continue;
        }
        for (d, &s) in deltas.as_chunks::<N>().0.iter().zip(symbols) {
            let n = (LEAST_AND_BITS[usize::from(s)] >> 40) as u32;
            // A class is a range that starts at a multiple of its length.
            to.push(u64::from(magnitude(*d)) & ((1 << n) - 1), n);
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
    let (done, at) = match (level.isa(), word) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a `Level` with this `Isa` is only made after its features were detected.
        (Isa::Avx512, 1) => unsafe { avx512::join::<1>(symbols, bits, predicted, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Isa::Avx512, 2) => unsafe { avx512::join::<2>(symbols, bits, predicted, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        (Isa::Avx512, _) => unsafe { avx512::join::<4>(symbols, bits, predicted, out) },
        _ => (0, 0),
    };
    let (predicted, out) = (&predicted[done * word..], &mut out[done * word..]);
    let symbols = &symbols[done..];
    let n_bits = match word {
        1 => join_1(level, symbols, bits, at, predicted, out),
        2 => join_2(level, symbols, bits, at, predicted, out),
        _ => join_4(level, symbols, bits, at, predicted, out),
    };
    let padding = (8 - n_bits % 8) % 8;
    n_bits.div_ceil(8) == bits.len()
        && bits.last().is_none_or(|&last| padding == 0 || last >> (8 - padding) == 0)
}

for_every_level! {
    fn join_1(symbols: &[u8], bits: &[u8], at: usize, predicted: &[u8], out: &mut [u8]) -> usize {
        join_each(symbols, bits, at, predicted, out, move_i8)
    }
}

for_every_level! {
    fn join_2(symbols: &[u8], bits: &[u8], at: usize, predicted: &[u8], out: &mut [u8]) -> usize {
        join_each(symbols, bits, at, predicted, out, move_i16)
    }
}

for_every_level! {
    fn join_4(symbols: &[u8], bits: &[u8], at: usize, predicted: &[u8], out: &mut [u8]) -> usize {
        join_each(symbols, bits, at, predicted, out, move_i32)
    }
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

/// Joins words whose bits start at bit `at`. Returns where they end.
#[inline(always)]
fn join_each<const N: usize>(
    symbols: &[u8],
    bits: &[u8],
    mut at: usize,
    predicted: &[u8],
    out: &mut [u8],
    moved: impl Fn([u8; N], i32) -> [u8; N],
) -> usize {
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
    out.resize(contexts.len(), 0);
    let done = match level.isa() {
        #[cfg(target_arch = "x86_64")]
        Isa::Avx512 => {
            let mut table = [0; 256];
            for &start in starts {
                table[usize::from(start)..].iter_mut().for_each(|cluster| *cluster += 1);
            }
            // SAFETY: a `Level` with this `Isa` is only made after its features were detected.
            unsafe { avx512::look_up(&table, contexts, out) }
        }
        _ => 0,
    };
    count_starts(level, starts, &contexts[done..], &mut out[done..]);
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
