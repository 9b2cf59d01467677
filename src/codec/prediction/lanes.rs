//! The bits that follow the symbols of many words, of 1, 2 or 4 bytes: in lanes that take turns.
//!
//! Bits of varying number that lie one after the other must be written one after the other. Here
//! word `i` belongs to lane `i % L`, every lane has bits of its own, and what is stored are units
//! of them in the order in which decoding needs them:
//!
//! ```text
//! words      lanes L   unit U
//! 1, 2 bytes   32      16 bits, little endian
//! 4 bytes      16      32 bits, little endian
//!
//! for each word i from first to last, with j = i % L and b the number of bits that follow it
//!     if lane j holds fewer than b bits:  the next unit goes on top of them
//!     the lowest b bits of lane j are those of the word, and leave the lane
//! no unit is left, and the bits that lanes still hold are zero
//! ```
//!
//! The encoder runs all of this backward, so it meets the units from the last to the first. How
//! many zeros each lane ends with it knows from the number of bits in it. The scalar code works in
//! rows of one word a lane: where no symbol of a row has bits to follow, which is most rows of small
//! residuals, all of it is vectors.

#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::simd::{Level, dispatch, for_every_level};
use std::hint::select_unpredictable;

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

/// Lanes for words of up to two bytes, and of four.
const OF_SMALL: usize = 32;
const OF_LARGE: usize = 16;

/// How many bits follow a symbol.
#[inline(always)]
fn bits_of(symbol: u8) -> u32 {
    (LEAST_AND_BITS[usize::from(symbol)] >> 40) as u32
}

/// Adds to each lane's sum the bits that follow its symbols.
#[inline(always)]
fn add_bits<const L: usize>(symbols: &[u8], sums: &mut [u32; L]) {
    // The sums of eight rows of at most 29 bits fit into bytes.
    let one = |s: u8| ((s >> 1) + (s & 1)).saturating_sub(4) >> 2;
    for rows in symbols.chunks(8 * L) {
        let mut few = [0u8; L];
        for row in rows.chunks(L) {
            few.iter_mut().zip(row).for_each(|(few, &s)| *few += one(s));
        }
        sums.iter_mut().zip(few).for_each(|(sum, few)| *sum += u32::from(few));
    }
}

for_every_level! {
    fn add_small(symbols: &[u8], sums: &mut [u32; OF_SMALL]) {
        add_bits(symbols, sums);
    }
}

for_every_level! {
    fn add_large(symbols: &[u8], sums: &mut [u32; OF_LARGE]) {
        add_bits(symbols, sums);
    }
}

/// Appends the units of deltas, which are words of `word` bytes, with their symbols.
pub fn write(level: Level, word: usize, deltas: &[u8], symbols: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    if word == 4 {
        let mut sums = [0; OF_LARGE];
        add_large(level, symbols, &mut sums);
        let units: u32 = sums.iter().map(|s| s.div_ceil(32)).sum();
        out.resize(start + 4 * units as usize, 0);
        return write_large(level, deltas, symbols, &sums, &mut out[start..]);
    }
    let mut sums = [0; OF_SMALL];
    add_small(level, symbols, &mut sums);
    let units: u32 = sums.iter().map(|s| s.div_ceil(16)).sum();
    out.resize(start + 2 * units as usize, 0);
    write_small(level, word, deltas, symbols, &sums, &mut out[start..]);
}

fn write_large(level: Level, deltas: &[u8], symbols: &[u8], sums: &[u32; 16], out: &mut [u8]) {
    let magnitude = |d| i32::from_le_bytes(d).unsigned_abs();
    dispatch!(level,
        Avx512 => avx512::write_large(deltas, symbols, sums, out),
        _ => write_each::<4, OF_LARGE, 4>(deltas, symbols, sums, out, magnitude),
    )
}

fn write_small(
    level: Level,
    word: usize,
    deltas: &[u8],
    symbols: &[u8],
    sums: &[u32; OF_SMALL],
    out: &mut [u8],
) {
    let magnitude_1 = |d| i8::from_le_bytes(d).unsigned_abs().into();
    let magnitude_2 = |d| i16::from_le_bytes(d).unsigned_abs().into();
    match word {
        1 => dispatch!(level,
            Avx512 => avx512::write_small::<1>(deltas, symbols, sums, out),
            _ => write_each::<1, OF_SMALL, 2>(deltas, symbols, sums, out, magnitude_1),
        ),
        _ => dispatch!(level,
            Avx512 => avx512::write_small::<2>(deltas, symbols, sums, out),
            _ => write_each::<2, OF_SMALL, 2>(deltas, symbols, sums, out, magnitude_2),
        ),
    }
}

/// Bits in a lane before the first ones are put in: the zeros that it ends with.
#[inline(always)]
fn zeros(sum: u32, unit_bits: u32) -> u32 {
    sum.wrapping_neg() % unit_bits
}

#[inline(always)]
fn write_each<const N: usize, const L: usize, const U: usize>(
    deltas: &[u8],
    symbols: &[u8],
    sums: &[u32; L],
    out: &mut [u8],
    magnitude: impl Fn([u8; N]) -> u32,
) {
    let unit_bits = 8 * U as u32;
    let mut held = [0u64; L];
    let mut n_held = sums.map(|sum| zeros(sum, unit_bits));
    let units = out.as_chunks_mut::<U>().0;
    let mut n_left = units.len();
    for (deltas, symbols) in deltas.chunks(N * L).zip(symbols.chunks(L)).rev() {
        if !any_long(symbols) {
            continue;
        }
        let mut few = [[0; U]; L];
        let room = units[..n_left].last_chunk_mut().unwrap_or(&mut few);
        // A unit is written in any case: a branch would be mispredicted every other time.
        let mut at = L - 1;
        let words = deltas.as_chunks::<N>().0.iter().zip(symbols).enumerate();
        for (j, (d, &s)) in words.rev() {
            let n = bits_of(s);
            // A class is a range that starts at a multiple of its length.
            let bits = held[j] << n | u64::from(magnitude(*d)) & ((1 << n) - 1);
            let n_bits = n_held[j] + n;
            n_held[j] = n_bits % unit_bits;
            held[j] = bits & ((1 << n_held[j]) - 1);
            room[at % L].copy_from_slice(&(bits >> n_held[j]).to_le_bytes()[..U]);
            at = at.wrapping_sub(usize::from(n_bits >= unit_bits));
        }
        let used = (L - 1).wrapping_sub(at).min(n_left);
        if n_left < L {
            units[n_left - used..n_left].copy_from_slice(&few[L - used..]);
        }
        n_left -= used;
    }
}

#[inline(always)]
fn any_long(symbols: &[u8]) -> bool {
    symbols.iter().fold(0, |a, &s| a.max(s)) >= LONG
}

/// Sets `out` to the predicted words moved by the residuals of symbols and units. Whether all
/// units were used and nothing is left. Symbols are those that words of this length can have.
pub fn join(
    level: Level,
    word: usize,
    symbols: &[u8],
    units: &[u8],
    predicted: &[u8],
    out: &mut [u8],
) -> bool {
    match word {
        1 => dispatch!(level,
            Avx512 => avx512::join_small::<1>(symbols, units, predicted, out),
            _ => join_1(level, symbols, units, predicted, out),
        ),
        2 => dispatch!(level,
            Avx512 => avx512::join_small::<2>(symbols, units, predicted, out),
            _ => join_2(level, symbols, units, predicted, out),
        ),
        _ => dispatch!(level,
            Avx512 => avx512::join_large(symbols, units, predicted, out),
            _ => join_4(level, symbols, units, predicted, out),
        ),
    }
}

for_every_level! {
    fn join_1(symbols: &[u8], units: &[u8], predicted: &[u8], out: &mut [u8]) -> bool {
        join_each::<1, OF_SMALL, 2>(symbols, units, predicted, out, move_i8)
    }
}

for_every_level! {
    fn join_2(symbols: &[u8], units: &[u8], predicted: &[u8], out: &mut [u8]) -> bool {
        join_each::<2, OF_SMALL, 2>(symbols, units, predicted, out, move_i16)
    }
}

for_every_level! {
    fn join_4(symbols: &[u8], units: &[u8], predicted: &[u8], out: &mut [u8]) -> bool {
        join_each::<4, OF_LARGE, 4>(symbols, units, predicted, out, move_i32)
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

#[inline(always)]
fn join_each<const N: usize, const L: usize, const U: usize>(
    symbols: &[u8],
    units: &[u8],
    predicted: &[u8],
    out: &mut [u8],
    moved: impl Fn([u8; N], i32) -> [u8; N],
) -> bool {
    let mut residuals = [0i32; L];
    let (mut held, mut n_held) = ([0u64; L], [0u32; L]);
    let (mut units, ends) = units.as_chunks::<U>();
    let mut enough = ends.is_empty();
    let words = out.chunks_mut(N * L).zip(predicted.chunks(N * L));
    for ((out, predicted), symbols) in words.zip(symbols.chunks(L)) {
        if any_long(symbols) {
            // Each lane looks at the next unit whether it takes it or not, as in rANS.
            let mut padded = [[0; U]; L];
            let near = units.first_chunk().unwrap_or_else(|| {
                padded[..units.len()].copy_from_slice(units);
                &padded
            });
            let mut used = 0;
            for (j, &s) in symbols.iter().enumerate() {
                let n = bits_of(s);
                let lacks = n_held[j] < n;
                let unit = near[used % L].iter().rev().fold(0, |x, &b| x << 8 | u64::from(b));
                held[j] |= select_unpredictable(lacks, unit << n_held[j], 0);
                n_held[j] += select_unpredictable(lacks, 8 * U as u32, 0);
                used += usize::from(lacks);
                let value = held[j] & ((1 << n) - 1);
                held[j] >>= n;
                n_held[j] -= n;
                let least = LEAST_AND_BITS[usize::from(s)] as u32;
                residuals[j] = signed(s, least.wrapping_add(value as u32));
            }
            enough &= used <= units.len();
            units = &units[used.min(units.len())..];
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
    enough && units.is_empty() && held == [0; L]
}

/// A magnitude with the sign of its symbol: even ones are negative, or zero.
#[inline(always)]
fn signed(symbol: u8, magnitude: u32) -> i32 {
    let minus = i32::from(symbol & 1) - 1;
    (magnitude as i32 ^ minus).wrapping_sub(minus)
}

#[cfg(test)]
mod tests;
