//! Bit strings: masks sorted by class, and strings of few bits as those bytes that have any.
//!
//! ```text
//! string c    a bit for each word of class c, in order: bit c of the masks of such words
//! squeezed    the bytes that are not zero, and a string of which they are
//! ```
//!
//! A class 0 has no string. Strings of all classes have the same room, with some bytes to spare
//! that vectors may write to.

#[cfg(target_arch = "x86_64")]
use super::avx512;
use crate::simd::{Level, dispatch};

/// Bytes behind a string.
pub const SPARE: usize = 16;

/// A string for every class.
#[derive(Default)]
pub struct Strings {
    bytes: Vec<u8>,
    /// Bytes from one string to the next.
    room: usize,
    /// Bits of every string.
    pub n_bits: Vec<usize>,
}

impl Strings {
    /// Sorts the masks of words of these classes, of which there are `n` beside 0.
    pub fn gather(&mut self, level: Level, classes: &[u8], masks: &[u64], n: usize) {
        self.make(n, classes.len());
        let Strings { bytes, room, n_bits } = self;
        let done = dispatch!(level,
            Avx512 => avx512::gather(classes, masks, bytes, *room, n_bits),
            _ => 0,
        );
        for (classes, &mask) in classes.chunks(64).zip(masks).skip(done) {
            for (i, &class) in classes.iter().enumerate() {
                let Some(class) = usize::from(class).checked_sub(1) else { continue };
                let at = &mut n_bits[class];
                let byte = &mut bytes[class * *room + *at / 8];
                let before = if *at % 8 == 0 { 0 } else { *byte };
                *byte = before | ((mask >> i & 1) as u8) << (*at % 8);
                *at += 1;
            }
        }
    }

    /// Makes room for the strings of words of these classes, and counts their bits.
    pub fn count(&mut self, level: Level, classes: &[u8], n: usize) {
        self.make(n, classes.len());
        let done = dispatch!(level,
            Avx512 => avx512::count(classes, &mut self.n_bits),
            _ => 0,
        );
        for class in classes.iter().skip(done).filter_map(|&c| usize::from(c).checked_sub(1)) {
            self.n_bits[class] += 1;
        }
    }

    /// Inverse of [`Strings::gather`]; strings are as long as [`Strings::count`] found.
    pub fn scatter(&self, level: Level, classes: &[u8], masks: &mut [u64]) {
        let mut at = vec![0; self.n_bits.len()];
        let done = dispatch!(level,
            Avx512 => avx512::scatter(classes, &self.bytes, self.room, &mut at, masks),
            _ => 0,
        );
        for (classes, mask) in classes.chunks(64).zip(masks).skip(done) {
            *mask = 0;
            for (i, &class) in classes.iter().enumerate() {
                let Some(class) = usize::from(class).checked_sub(1) else { continue };
                let bit = self.bytes[class * self.room + at[class] / 8] >> (at[class] % 8) & 1;
                *mask |= u64::from(bit) << i;
                at[class] += 1;
            }
        }
    }

    /// The bytes of a string.
    pub fn string(&self, i: usize) -> &[u8] {
        &self.bytes[i * self.room..][..self.n_bits[i].div_ceil(8)]
    }

    /// The bytes of a string, to fill.
    pub fn string_mut(&mut self, i: usize) -> &mut [u8] {
        &mut self.bytes[i * self.room..][..self.n_bits[i].div_ceil(8)]
    }

    fn make(&mut self, n: usize, n_words: usize) {
        self.room = n_words.div_ceil(8) + SPARE;
        self.n_bits.clear();
        self.n_bits.resize(n, 0);
        self.bytes.resize(self.bytes.len().max(n * self.room), 0);
        self.bytes.chunks_exact_mut(self.room).take(n).for_each(|string| string[0] = 0);
    }
}

/// The bytes that are not zero, and the string of which they are.
pub fn squeeze(level: Level, bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut any = vec![0; bytes.len().div_ceil(8)];
    let mut some = vec![0; bytes.len() + 64];
    let (done, mut n) = dispatch!(level,
        Avx512 => avx512::squeeze(bytes, &mut some, &mut any),
        _ => (0, 0),
    );
    for (i, &byte) in bytes.iter().enumerate().skip(done) {
        some[n] = byte;
        n += usize::from(byte != 0);
        any[i / 8] |= u8::from(byte != 0) << (i % 8);
    }
    some.truncate(n);
    (some, any)
}

/// Inverse of [`squeeze`]: fills `out`, of as many bytes as `any` has bits, or a few less, which then
/// are zero. `some` has a byte for every bit that is set.
pub fn spread(level: Level, any: &[u8], some: &[u8], out: &mut [u8]) {
    let (done, mut n) = dispatch!(level,
        Avx512 => avx512::spread(any, some, out),
        _ => (0, 0),
    );
    for (i, byte) in out.iter_mut().enumerate().skip(done) {
        *byte = 0;
        if any[i / 8] >> (i % 8) & 1 == 1 {
            *byte = some.get(n).copied().unwrap_or(0);
            n += 1;
        }
    }
}

/// Whether no bit of a string stands behind its last one.
pub fn ends(string: &[u8], n_bits: usize) -> bool {
    n_bits.is_multiple_of(8) || string.last().is_none_or(|last| last >> (n_bits % 8) == 0)
}

/// Bits of a string that are set.
pub fn ones(string: &[u8]) -> usize {
    let (eights, rest) = string.as_chunks::<8>();
    let of_eights: u32 = eights.iter().map(|e| u64::from_le_bytes(*e).count_ones()).sum();
    of_eights as usize + rest.iter().map(|b| b.count_ones() as usize).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_sorts_masks_alike_and_back() {
        for n in [0usize, 1, 63, 64, 65, 127, 1000, 4096] {
            for n_classes in [1, 3, 16] {
                let classes: Vec<u8> =
                    (0..n).map(|i| (i * i % 23 % (n_classes + 1)) as u8).collect();
                let mut masks: Vec<u64> = (0..n.div_ceil(64) as u64)
                    .map(|i| !i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                    .collect();
                let in_string = |i: usize| classes[i] > 0 && masks[i / 64] >> (i % 64) & 1 == 1;
                let kept: Vec<bool> = (0..n).map(in_string).collect();
                masks.iter_mut().enumerate().for_each(|(g, mask)| {
                    *mask = (0..64)
                        .filter(|b| kept.get(64 * g + b) == Some(&true))
                        .fold(0, |m, b| m | 1 << b);
                });
                let mut want = Strings::default();
                want.gather(Level::SCALAR, &classes, &masks, n_classes);
                for level in Level::available() {
                    let (mut got, mut counted) = (Strings::default(), Strings::default());
                    got.gather(level, &classes, &masks, n_classes);
                    counted.count(level, &classes, n_classes);
                    assert!(got.n_bits == want.n_bits && counted.n_bits == want.n_bits);
                    for i in 0..n_classes {
                        assert_eq!(got.string(i), want.string(i), "{level:?} {n} {i}");
                        counted.string_mut(i).copy_from_slice(want.string(i));
                    }
                    let mut back = vec![!0; masks.len()];
                    counted.scatter(level, &classes, &mut back);
                    assert_eq!(back, masks, "{level:?} {n}");
                }
            }
        }
    }

    #[test]
    fn every_level_squeezes_alike_and_back() {
        for n in [0, 1, 7, 8, 63, 64, 65, 130, 1000] {
            for one_in in [1, 2, 50] {
                let byte = |i: usize| {
                    if (i * i % 97).is_multiple_of(one_in) { (i % 255) as u8 + 1 } else { 0 }
                };
                let bytes: Vec<u8> = (0..n).map(byte).collect();
                let want = squeeze(Level::SCALAR, &bytes);
                assert_eq!(ones(&want.1), want.0.len());
                assert!(ends(&want.1, n));
                for level in Level::available() {
                    assert_eq!(squeeze(level, &bytes), want, "{level:?} {n}");
                    let mut back = vec![7; n];
                    spread(level, &want.1, &want.0, &mut back);
                    assert_eq!(back, bytes, "{level:?} {n}");
                }
            }
        }
    }
}
