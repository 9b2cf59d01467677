//! Groups ↔ planes of values.
//!
//! ```text
//! for each group, for each move, for each byte b and value v of it
//!     split   v |= (b >> bit) mod 2^width << shift
//!     join    b |= (v >> shift) mod 2^width << bit
//! ```
//!
//! Four bytes at a time in a word of 32 bits: fields do not cross bytes, so what a shift brings in
//! from the neighbour is masked away. The compiler makes vectors of that for the usual lengths,
//! which are constants here; for each instruction set it compiles the same code.

use super::layout::{Bytes, Spread, Values};
use crate::simd::for_every_level;

for_every_level! {
/// Gathers the values of groups of `len` bytes, in the order of the groups.
pub fn split(len: usize, values: &Values, groups: &[u8], out: &mut [u8]) {
    out.fill(0);
    for m in values.moves {
        let (from, to) = (Fields { len, at: m.from }, Fields { len: values.count, at: m.to });
        sized(m.len, (groups, from), (out, to), m.bit, m.shift, m.width);
    }
    if let Some(Spread { from, shift }) = values.spread {
        for (group, out) in groups.chunks_exact(len).zip(out.chunks_exact_mut(values.count)) {
            for (eight, &byte) in out.as_chunks_mut::<8>().0.iter_mut().zip(&group[from..]) {
                // Bit i of the byte to the lowest bit of byte i.
                let bits = (u64::from(byte) * 0x0101_0101_0101_0101) & 0x8040_2010_0804_0201;
                let ones = (bits + 0x7f7f_7f7f_7f7f_7f7f) >> 7 & 0x0101_0101_0101_0101;
                *eight = (u64::from_le_bytes(*eight) | ones << shift).to_le_bytes();
            }
        }
    }
}
}

for_every_level! {
/// Puts values back into groups of `len` bytes whose bits at these places are zero.
pub fn join(len: usize, values: &Values, plane: &[u8], groups: &mut [u8]) {
    for m in values.moves {
        let (from, to) = (Fields { len: values.count, at: m.to }, Fields { len, at: m.from });
        sized(m.len, (plane, from), (groups, to), m.shift, m.bit, m.width);
    }
    if let Some(Spread { from, shift }) = values.spread {
        for (group, plane) in groups.chunks_exact_mut(len).zip(plane.chunks_exact(values.count)) {
            for (eight, byte) in plane.as_chunks::<8>().0.iter().zip(&mut group[from..]) {
                let ones = u64::from_le_bytes(*eight) >> shift & 0x0101_0101_0101_0101;
                *byte = (ones.wrapping_mul(0x0102_0408_1020_4080) >> 56) as u8;
            }
        }
    }
}
}

/// Where fields lie: at `at` in each record of `len` bytes.
#[derive(Clone, Copy)]
struct Fields {
    len: usize,
    at: usize,
}

/// Moves the fields of one move in all records: with a constant number of bytes where it is a
/// usual one, so that a field is a vector or two.
#[inline(always)]
fn sized(
    n: usize,
    from: (&[u8], Fields),
    to: (&mut [u8], Fields),
    right: u32,
    left: u32,
    width: u32,
) {
    #[inline(always)]
    fn all(
        (source, from): (&[u8], Fields),
        (target, to): (&mut [u8], Fields),
        one: impl Fn(&[u8], &mut [u8]),
    ) {
        for (s, t) in source.chunks_exact(from.len).zip(target.chunks_exact_mut(to.len)) {
            one(&s[from.at..], &mut t[to.at..]);
        }
    }
    #[inline(always)]
    fn exactly<const N: usize>(from: &[u8], to: &mut [u8], right: u32, left: u32, width: u32) {
        if let (Some(from), Some(to)) = (from.first_chunk::<N>(), to.first_chunk_mut::<N>()) {
            fields(from, to, right, left, width);
        }
    }
    match n {
        16 => all(from, to, |f, t| exactly::<16>(f, t, right, left, width)),
        32 => all(from, to, |f, t| exactly::<32>(f, t, right, left, width)),
        64 => all(from, to, |f, t| exactly::<64>(f, t, right, left, width)),
        _ => all(from, to, |f, t| fields(&f[..n], &mut t[..n], right, left, width)),
    }
}

/// ORs fields of `width` bits into `to`, each moved down by `right` and up by `left` bits.
#[inline(always)]
fn fields(from: &[u8], to: &mut [u8], right: u32, left: u32, width: u32) {
    let mask = (0xff_u32 >> (8 - width)) * 0x0101_0101;
    for (from, to) in from.as_chunks::<4>().0.iter().zip(to.as_chunks_mut::<4>().0) {
        let field = (u32::from_le_bytes(*from) >> right & mask) << left;
        *to = (u32::from_le_bytes(*to) | field).to_le_bytes();
    }
}

/// Gathers the 16-bit words at `at`.
pub fn split_halves(len: usize, at: usize, groups: &[u8], out: &mut Vec<u16>) {
    out.clear();
    out.extend(groups.chunks_exact(len).map(|g| u16::from_le_bytes([g[at], g[at + 1]])));
}

/// Inverse of [`split_halves`].
pub fn join_halves(len: usize, at: usize, halves: &[u16], groups: &mut [u8]) {
    for (group, half) in groups.chunks_exact_mut(len).zip(halves) {
        group[at..at + 2].copy_from_slice(&half.to_le_bytes());
    }
}

/// Gathers whole bytes.
pub fn split_bytes(len: usize, bytes: &Bytes, groups: &[u8], out: &mut Vec<u8>) {
    out.clear();
    for group in groups.chunks_exact(len) {
        out.extend(group[bytes.from..].iter().step_by(bytes.step).take(bytes.count));
    }
}

/// Inverse of [`split_bytes`].
pub fn join_bytes(len: usize, bytes: &Bytes, plane: &[u8], groups: &mut [u8]) {
    for (group, plane) in groups.chunks_exact_mut(len).zip(plane.chunks_exact(bytes.count)) {
        for (to, from) in group[bytes.from..].iter_mut().step_by(bytes.step).zip(plane) {
            *to = *from;
        }
    }
}
