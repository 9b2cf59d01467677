//! Run lengths: a plane as pairs of a value and how often it follows.
//!
//! ```text
//! [1 byte] value   [1 to 5 bytes] run length − 1, a varint: 7 bits a byte, the lowest first,
//!                                 bit 7 set if more follow, the last byte not 0 if there are two
//! ```
//!
//! The runs' lengths add up to the plane's, which is known from outside. [`encode`] makes each
//! run as long as it can be, up to 2^32 values; decoders do not ask for that.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

#[cfg(target_arch = "x86_64")]
use crate::simd::Isa;
use crate::simd::Level;

/// Writes the runs of `plane` and returns their length; none as soon as they would not fit into
/// `out`.
pub fn encode(level: Level, plane: &[u8], out: &mut [u8]) -> Option<usize> {
    match level.isa() {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a `Level` with this `Isa` is only made after its features were detected.
        Isa::Avx512 => unsafe { avx512::encode(plane, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a `Level` with this `Isa` is only made after its features were detected.
        Isa::Avx2 => unsafe { avx2::encode(plane, out) },
        _ => encode_scalar(plane, out),
    }
}

/// Inverse of [`encode`]; false if `bytes` is not the runs of a plane of this length.
#[must_use]
pub fn decode(bytes: &[u8], plane: &mut [u8]) -> bool {
    let (mut bytes, mut plane) = (bytes, plane);
    while let Some((&value, rest)) = bytes.split_first() {
        let Some((more, rest)) = take_varint(rest) else { return false };
        bytes = rest;
        let Some((run, rest)) = plane.split_at_mut_checked(more as usize + 1) else { return false };
        run.fill(value);
        plane = rest;
    }
    plane.is_empty()
}

fn encode_scalar(plane: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut runs = Runs { out, len: 0, start: 0 };
    for i in 1..plane.len() {
        if plane[i] != plane[i - 1] {
            runs.end(plane, i)?;
        }
    }
    runs.finish(plane)
}

/// [`encode_scalar`] with `ends(i)`, a bit for each of the 64 values from i on that differs from
/// the one after it.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn encode_by_64(
    plane: &[u8],
    out: &mut [u8],
    ends: impl Fn(&[u8; 64], &[u8; 64]) -> u64,
) -> Option<usize> {
    let mut runs = Runs { out, len: 0, start: 0 };
    let mut at = 0;
    while let (Some(values), Some(next)) = (
        plane.get(at..).and_then(|p| p.first_chunk()),
        plane.get(at + 1..).and_then(|p| p.first_chunk()),
    ) {
        let mut mask = ends(values, next);
        while mask != 0 {
            runs.end(plane, at + mask.trailing_zeros() as usize + 1)?;
            mask &= mask - 1;
        }
        at += 64;
    }
    for i in at + 1..plane.len() {
        if plane[i] != plane[i - 1] {
            runs.end(plane, i)?;
        }
    }
    runs.finish(plane)
}

/// Runs written so far.
struct Runs<'a> {
    out: &'a mut [u8],
    len: usize,
    /// Where the run begins that is not yet written.
    start: usize,
}

impl Runs<'_> {
    /// Writes the run that ends before `end`.
    #[inline(always)]
    fn end(&mut self, plane: &[u8], end: usize) -> Option<()> {
        let value = plane[self.start];
        let mut more = end - self.start - 1;
        self.start = end;
        if more < 128
            && let Some(pair) = self.out.get_mut(self.len..self.len + 2)
        {
            pair.copy_from_slice(&[value, more as u8]);
            self.len += 2;
            return Some(());
        }
        while more > u32::MAX as usize {
            self.long(value, u32::MAX)?;
            more -= 1 << 32;
        }
        self.long(value, more as u32)
    }

    #[cold]
    fn long(&mut self, value: u8, mut more: u32) -> Option<()> {
        let mut put = |byte| {
            *self.out.get_mut(self.len)? = byte;
            self.len += 1;
            Some(())
        };
        put(value)?;
        while more >= 128 {
            put(more as u8 | 128)?;
            more >>= 7;
        }
        put(more as u8)
    }

    fn finish(mut self, plane: &[u8]) -> Option<usize> {
        if !plane.is_empty() {
            self.end(plane, plane.len())?;
        }
        Some(self.len)
    }
}

/// The varint that `bytes` begins with, in its only form, and what follows.
fn take_varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut value = 0u64;
    for (i, &byte) in bytes.iter().take(5).enumerate() {
        value |= u64::from(byte & 127) << (7 * i);
        if byte < 128 {
            let canonical = i == 0 || byte != 0;
            let value = u32::try_from(value).ok().filter(|_| canonical)?;
            return Some((value, &bytes[i + 1..]));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs whose lengths double now and then, and neighbours that all differ.
    fn plane(n: usize, kind: u32) -> Vec<u8> {
        let mut x = 12345u32;
        let mut plane = vec![];
        while plane.len() < n {
            x = x.wrapping_mul(0x915F_77F5).wrapping_add(0x3C6E_F35F);
            let run = if kind == 0 { n } else { 1 << ((x >> 20) % kind) };
            plane.resize(plane.len() + run, (x >> 9) as u8);
        }
        plane.truncate(n);
        plane
    }

    #[test]
    fn every_level_equals_scalar_and_decodes() {
        for kind in [0, 1, 2, 4, 9, 18] {
            for n in (0..300).chain([1000, 4096, (1 << 18) - 1, 1 << 18, (1 << 18) + 1]) {
                let plane = plane(n, kind);
                let mut want = vec![0; 2 * n];
                let len = encode_scalar(&plane, &mut want).unwrap();
                want.truncate(len);
                for level in Level::available() {
                    let mut got = vec![0; want.len()];
                    assert_eq!(encode(level, &plane, &mut got), Some(len), "{level:?} n={n}");
                    assert!(got == want, "{level:?} n={n}");
                    if len > 0 {
                        assert_eq!(encode(level, &plane, &mut got[1..]), None, "{level:?} n={n}");
                    }
                }
                let mut back = vec![0xAA; n];
                assert!(decode(&want, &mut back) && back == plane);
            }
        }
    }

    #[test]
    fn what_is_not_the_runs_of_the_plane_is_refused() {
        let decodes = |bytes: &[u8], n: usize| decode(bytes, &mut vec![0; n]);
        assert!(decodes(&[], 0) && decodes(&[7, 0], 1) && decodes(&[7, 0x80, 1], 129));
        assert!(!decodes(&[], 1) && !decodes(&[7], 1) && !decodes(&[7, 0], 0));
        assert!(!decodes(&[7, 1], 1) && !decodes(&[7, 1], 3) && !decodes(&[7, 0, 8], 1));
        assert!(!decodes(&[7, 0x80, 0], 1) && !decodes(&[7, 0x80], 1));
        assert!(!decodes(&[7, 255, 255, 255, 255, 15], 9));
        assert!(!decodes(&[7, 255, 255, 255, 255, 255, 0], 9));
        assert!(!decodes(&[7, 255, 255, 255, 255, 31], 9));
    }
}
