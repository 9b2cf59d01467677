//! Packs values of 1 to 8 bits into a bit string, and back.
//!
//! ```text
//! value i            bits i·width … i·width + width − 1 of the string
//! bit b of the string  bit b mod 8 of byte b div 8 (lowest bit first)
//!
//! width 3, byte      0                1                2
//! bit (low first)    000 111 22|2 333 444 5|55 666 777
//! ```
//!
//! Eight values fill `width` bytes exactly, so every variant works in groups of eight. The string
//! of `n` values has `⌈n · width / 8⌉` bytes; what is left of its last byte is zero.
//! Width 0 is the empty string and stands for zeros, width 8 is a copy.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use crate::simd::{Level, dispatch};

/// Length in bytes of `n` packed values of `width` bits (0 to 8).
pub const fn packed_len(width: u8, n: usize) -> usize {
    n / 8 * width as usize + (n % 8 * width as usize).div_ceil(8)
}

/// Packs the low `width` bits (0 to 8) of every value; higher bits are ignored.
///
/// # Panics
/// If `width` exceeds 8 or `out` is not [`packed_len`] bytes long.
pub fn pack(level: Level, width: u8, values: &[u8], out: &mut [u8]) {
    assert!(width <= 8 && out.len() == packed_len(width, values.len()));
    match width {
        0 => {}
        8 => out.copy_from_slice(values),
        _ => dispatch!(level,
            Avx512 => avx512::pack(width, values, out),
            Avx2 => avx2::pack(width, values, out),
            _ => pack_scalar(width, values, out),
        ),
    }
}

/// Inverse of [`pack`]; false if an unused bit of the last byte is set.
///
/// # Panics
/// If `width` exceeds 8 or `bytes` is not [`packed_len`] bytes long.
#[must_use]
pub fn unpack(level: Level, width: u8, bytes: &[u8], values: &mut [u8]) -> bool {
    assert!(width <= 8 && bytes.len() == packed_len(width, values.len()));
    match width {
        0 => values.fill(0),
        8 => values.copy_from_slice(bytes),
        _ => dispatch!(level,
            Avx512 => avx512::unpack(width, bytes, values),
            Avx2 => avx2::unpack(width, bytes, values),
            _ => unpack_scalar(width, bytes, values),
        ),
    }
    let used = values.len() % 8 * usize::from(width) % 8;
    used == 0 || bytes[bytes.len() - 1] >> used == 0
}

/// Width 1 to 7.
fn pack_scalar(width: u8, values: &[u8], out: &mut [u8]) {
    match width {
        1 => pack_wide::<1>(values, out),
        2 => pack_wide::<2>(values, out),
        3 => pack_wide::<3>(values, out),
        4 => pack_wide::<4>(values, out),
        5 => pack_wide::<5>(values, out),
        6 => pack_wide::<6>(values, out),
        _ => pack_wide::<7>(values, out),
    }
}

/// Width 1 to 7.
fn unpack_scalar(width: u8, bytes: &[u8], values: &mut [u8]) {
    match width {
        1 => unpack_wide::<1>(bytes, values),
        2 => unpack_wide::<2>(bytes, values),
        3 => unpack_wide::<3>(bytes, values),
        4 => unpack_wide::<4>(bytes, values),
        5 => unpack_wide::<5>(bytes, values),
        6 => unpack_wide::<6>(bytes, values),
        _ => unpack_wide::<7>(bytes, values),
    }
}

fn pack_wide<const W: usize>(values: &[u8], out: &mut [u8]) {
    let (groups, rest) = values.as_chunks();
    let (packed, packed_rest) = out.split_at_mut(groups.len() * W);
    for (group, packed) in groups.iter().zip(packed.as_chunks_mut().0) {
        *packed = pack_group::<W>(*group);
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    packed_rest.copy_from_slice(&pack_group::<W>(last)[..packed_rest.len()]);
}

fn unpack_wide<const W: usize>(bytes: &[u8], values: &mut [u8]) {
    let (groups, rest) = values.as_chunks_mut();
    let (packed, packed_rest) = bytes.split_at(groups.len() * W);
    for (group, packed) in groups.iter_mut().zip(packed.as_chunks().0) {
        *group = unpack_group::<W>(*packed);
    }
    let mut last = [0; W];
    last[..packed_rest.len()].copy_from_slice(packed_rest);
    rest.copy_from_slice(&unpack_group::<W>(last)[..rest.len()]);
}

/// The low `bits` bits of every `of` bits.
const fn low(bits: usize, of: usize) -> u64 {
    (u64::MAX >> (64 - bits)) * (u64::MAX / (u64::MAX >> (64 - of)))
}

/// Eight values as a number, each step bringing neighbours together.
#[inline(always)]
fn pack_group<const W: usize>(values: [u8; 8]) -> [u8; W] {
    let mut x = u64::from_le_bytes(values) & low(W, 8);
    for (size, of) in [(W, 8), (2 * W, 16), (4 * W, 32)] {
        let even = low(size, 2 * of);
        x = (x & even) | (x >> (of - size) & even << size);
    }
    let mut out = [0; W];
    out.copy_from_slice(&x.to_le_bytes()[..W]);
    out
}

#[inline(always)]
fn unpack_group<const W: usize>(bytes: [u8; W]) -> [u8; 8] {
    let mut x = [0; 8];
    x[..W].copy_from_slice(&bytes);
    let mut x = u64::from_le_bytes(x);
    for (size, of) in [(4 * W, 32), (2 * W, 16), (W, 8)] {
        let even = low(size, 2 * of);
        x = (x & even) | (x & even << size) << (of - size);
    }
    x.to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths() -> impl Iterator<Item = usize> {
        (0..300).chain((1 << 18) - 1..=(1 << 18) + 1)
    }

    #[test]
    fn every_level_equals_scalar_on_every_width_and_length() {
        let noise: Vec<u8> =
            (0..(1u32 << 18) + 1).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 23) as u8).collect();
        for level in Level::available() {
            for width in 0..=8u8 {
                for n in lengths() {
                    let values = &noise[noise.len() - n..];
                    let mut want = vec![0xAA; packed_len(width, n)];
                    pack(Level::SCALAR, width, values, &mut want);
                    let mut got = vec![0x55; want.len()];
                    pack(level, width, values, &mut got);
                    assert_eq!(got, want, "{level:?} width={width} n={n}");
                    let mut back = vec![0xAA; n];
                    assert!(unpack(level, width, &want, &mut back));
                    let mask = ((1u32 << width) - 1) as u8;
                    let same = back.iter().zip(values).all(|(b, v)| *b == v & mask);
                    assert!(same, "{level:?} width={width} n={n}");
                }
            }
        }
    }

    #[test]
    fn values_lie_lowest_bit_first() {
        let mut out = [0; 2];
        pack(Level::SCALAR, 3, &[1, 2, 3, 4], &mut out);
        assert_eq!(u16::from_le_bytes(out), 0o4321);
    }

    #[test]
    fn a_set_bit_in_the_padding_is_reported() {
        for level in Level::available() {
            for width in 1..8 {
                for n in 1..100 {
                    let mut bytes = vec![0; packed_len(width, n)];
                    let last = bytes.len() - 1;
                    for bit in 0..8 {
                        bytes[last] = 1 << bit;
                        let inside = last * 8 + bit < n * usize::from(width);
                        let ok = unpack(level, width, &bytes, &mut vec![0; n]);
                        assert_eq!(ok, inside, "{level:?} width={width} n={n} bit={bit}");
                    }
                }
            }
        }
    }
}
