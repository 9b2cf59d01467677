//! Bits of varying number, one after another.
//!
//! They fill bytes from the lowest bit up, as those of [`crate::bits`] do, which these are the
//! fast twins of: whole words are stored and loaded.

/// Appends bits of varying number to a byte vector.
pub struct Bits<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    n_pending: u32,
}

impl<'a> Bits<'a> {
    /// Starts at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Bits { out, pending: 0, n_pending: 0 }
    }

    /// Appends the low `n` bits (at most 63) of `value`, which has no others.
    #[inline(always)]
    pub fn push(&mut self, value: u64, n: u32) {
        if n > 32 {
            self.push_few(value & 0xffff_ffff, 32);
            return self.push_few(value >> 32, n - 32);
        }
        self.push_few(value, n);
    }

    #[inline(always)]
    fn push_few(&mut self, value: u64, n: u32) {
        self.pending |= value << self.n_pending;
        self.n_pending += n;
        if self.n_pending >= 32 {
            self.out.extend_from_slice(&(self.pending as u32).to_le_bytes());
            self.pending >>= 32;
            self.n_pending -= 32;
        }
    }

    /// Fills the last byte with zeros.
    pub fn finish(self) {
        let n = self.n_pending.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.pending.to_le_bytes()[..n]);
    }
}

/// Takes bits of varying number off a byte string. Past its end they are zero, which
/// [`BitSource::finish`] reports.
pub struct BitSource<'a> {
    bytes: &'a [u8],
    /// Index of the next bit.
    at: usize,
}

impl<'a> BitSource<'a> {
    /// Starts at the first bit of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        BitSource { bytes, at: 0 }
    }

    /// The next `n` bits, at most 63.
    #[inline(always)]
    pub fn take(&mut self, n: u32) -> u64 {
        if n > 56 {
            return self.take_few(32) | self.take_few(n - 32) << 32;
        }
        self.take_few(n)
    }

    #[inline(always)]
    fn take_few(&mut self, n: u32) -> u64 {
        let byte = self.at / 8;
        let word = match self.bytes.get(byte..byte + 8) {
            Some(bytes) => {
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                u64::from_le_bytes(word)
            }
            None => self.last(byte),
        };
        let value = word >> (self.at % 8) & ((1 << n) - 1);
        self.at += n as usize;
        value
    }

    #[cold]
    fn last(&self, byte: usize) -> u64 {
        let rest = self.bytes.get(byte..).unwrap_or(&[]);
        let mut word = [0; 8];
        word[..rest.len().min(8)].copy_from_slice(&rest[..rest.len().min(8)]);
        u64::from_le_bytes(word)
    }

    /// Whether exactly all bytes were taken and the rest of the last one is zero.
    pub fn finish(mut self) -> bool {
        let padding = (8 - self.at % 8) % 8;
        self.at.div_ceil(8) == self.bytes.len() && self.take(padding as u32) == 0
    }
}
