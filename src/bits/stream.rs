//! Bit streams and variable-length integers.
//!
//! Bits fill a byte from its least significant end, and a field of several bits starts with its
//! own least significant bit:
//!
//! ```text
//! write(0b101, 3), write(0b01, 2), write(0b1110, 4)     byte 0 = 110 01 101, byte 1 = 0000000 1
//! ```
//!
//! A stream ends with zero bits up to a whole byte, which [`BitReader::finish`] checks, so a value
//! has exactly one encoding.
//!
//! Codes of an unsigned integer `v`:
//!
//! ```text
//! rice(k)    v >> k zero bits, a one bit, the low k bits of v
//! varint     bytes of seven bits, least significant first, bit 7 set on all but the last
//! ```

/// Appends bits to a byte vector.
#[derive(Debug)]
pub struct BitWriter<'a> {
    out: &'a mut Vec<u8>,
    /// Pending bits, fewer than eight between calls.
    pending: u64,
    n_pending: u32,
}

impl<'a> BitWriter<'a> {
    /// A writer that starts at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        BitWriter { out, pending: 0, n_pending: 0 }
    }

    /// Writes the low `bits` (at most 32) bits of `value`.
    pub fn write(&mut self, value: u32, bits: u32) {
        assert!(bits <= 32);
        let value = u64::from(value) & ((1 << bits) - 1);
        self.pending |= value << self.n_pending;
        self.n_pending += bits;
        while self.n_pending >= 8 {
            self.out.push(self.pending as u8);
            self.pending >>= 8;
            self.n_pending -= 8;
        }
    }

    /// Writes `v` in the Rice code of parameter `k` (at most 31). Takes `v >> k` bits: for small
    /// quotients only.
    pub fn write_rice(&mut self, v: u32, k: u32) {
        for _ in 0..v >> k {
            self.write(0, 1);
        }
        self.write(1, 1);
        self.write(v, k);
    }

    /// Pads the last byte with zero bits.
    pub fn finish(self) {
        if self.n_pending > 0 {
            self.out.push(self.pending as u8);
        }
    }
}

/// Reads bits from a byte slice; every read past its end is `None`.
#[derive(Clone, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    /// Index of the next bit.
    at: usize,
}

impl<'a> BitReader<'a> {
    /// A reader at the first bit of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        BitReader { bytes, at: 0 }
    }

    /// The next `bits` (at most 32) bits.
    pub fn read(&mut self, bits: u32) -> Option<u32> {
        debug_assert!(bits <= 32);
        let end = self.at + bits as usize;
        let bytes = self.bytes.get(self.at / 8..end.div_ceil(8))?;
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        let value = u64::from_le_bytes(word) >> (self.at % 8) & ((1 << bits) - 1);
        self.at = end;
        Some(value as u32)
    }

    /// Zero bits, at most `max`, then a one bit; how many zero bits.
    pub(crate) fn read_zeros(&mut self, max: u32) -> Option<u32> {
        for n in 0..=max {
            if self.read(1)? == 1 {
                return Some(n);
            }
        }
        None
    }

    /// Checks that the rest of the current byte is zero; how many bytes were read.
    pub fn finish(mut self) -> Option<usize> {
        let len = self.at.div_ceil(8);
        let padding = self.read((len * 8 - self.at) as u32)?;
        (padding == 0).then_some(len)
    }
}

/// Appends `v` as a varint of one to ten bytes.
pub fn write_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(v as u8 | 0x80);
        v >>= 7;
    }
    out.push(v as u8);
}

/// Takes a varint off the front of `bytes`. `None`, and `bytes` unchanged, where it is cut short,
/// exceeds 64 bits, or is longer than it needs to be.
pub fn read_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut v = 0;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        let part = u64::from(byte & 0x7f);
        if i == 9 && byte > 1 {
            return None;
        }
        v |= part << (7 * i);
        if byte < 0x80 {
            if byte == 0 && i > 0 {
                return None;
            }
            *bytes = &bytes[i + 1..];
            return Some(v);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bits_fill_bytes_from_the_low_end() {
        let mut out = vec![0xee];
        let mut w = BitWriter::new(&mut out);
        w.write(0b101, 3);
        w.write(0b01, 2);
        w.write(0b1110, 4);
        w.finish();
        assert_eq!(out, [0xee, 0b1100_1101, 0b1]);
    }

    #[test]
    fn reading_past_the_end_is_none() {
        let mut r = BitReader::new(&[0xff]);
        assert_eq!(r.read(5), Some(31));
        assert_eq!(r.read(4), None);
        assert_eq!(r.read(3), Some(7));
        assert_eq!(r.read(0), Some(0));
        assert_eq!(r.read(1), None);
        assert_eq!(BitReader::new(&[0; 9]).read_zeros(71), None);
        assert_eq!(BitReader::new(&[0; 9]).read_zeros(100), None);
        assert_eq!(BitReader::new(&[0x02]).finish(), Some(0));
        let mut r = BitReader::new(&[0x02]);
        r.read(1);
        assert_eq!(r.finish(), None, "padding is zero");
    }

    #[test]
    fn varints_are_canonical() {
        for (v, bytes) in [(0, &[0][..]), (127, &[127]), (128, &[128, 1]), (300, &[0xac, 2])] {
            let mut out = Vec::new();
            write_varint(&mut out, v);
            assert_eq!(out, bytes);
        }
        for bad in [
            &[][..],
            &[0x80],
            &[0x80, 0],
            &[0xff, 0x80, 0],
            &[0xff; 10],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2],
        ] {
            let mut rest = bad;
            assert_eq!(read_varint(&mut rest), None, "{bad:x?}");
            assert_eq!(rest, bad);
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(fields in prop::collection::vec((any::<u32>(), 0u32..=32, 0u32..3), 0..200)) {
            let mut out = Vec::new();
            let mut w = BitWriter::new(&mut out);
            for &(v, bits, kind) in &fields {
                match kind {
                    0 | 1 => w.write(v, bits),
                    _ => w.write_rice(v % 100, bits.min(31)),
                }
            }
            w.finish();
            let mut r = BitReader::new(&out);
            for &(v, bits, kind) in &fields {
                let mask = ((1u64 << bits) - 1) as u32;
                let want = [v & mask, v & mask, v % 100][kind as usize];
                let got = match kind {
                    0 | 1 => r.read(bits),
                    _ => r.read_zeros(99).and_then(|high| {
                        let k = bits.min(31);
                        Some(high << k | r.read(k)?)
                    }),
                };
                prop_assert_eq!(got, Some(want));
            }
            prop_assert_eq!(r.finish(), Some(out.len()));
        }

        #[test]
        fn every_varint_round_trips(v: u64, shift in 0u32..64) {
            let (v, mut out) = (v >> shift, Vec::new());
            write_varint(&mut out, v);
            out.push(7);
            let mut rest = &out[..];
            prop_assert_eq!(read_varint(&mut rest), Some(v));
            prop_assert_eq!(rest, &[7]);
        }

        #[test]
        fn reading_random_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..40), ks in prop::collection::vec(0u32..32, 0..60)) {
            let mut r = BitReader::new(&bytes);
            for k in ks {
                let _ = (r.read(k), r.read_zeros(k));
            }
            let _ = (r.finish(), read_varint(&mut &bytes[..]));
        }
    }
}
