//! Look-up tables of the decoder, indexed by the next 11 bits of a stream.
//!
//! ```text
//! entry   bits 0..8    bits taken by the code words
//!         bits 8..16   how many code words, 1 to 4
//!         bits 32..64  their symbols, the first lowest
//! ```
//!
//! `one` knows one symbol a window, `two` up to two, `four` up to four: as many as lie in the
//! window whole. Since the code is complete, every window holds at least one.

use super::{MAX_BITS, codebook::Codebook};

pub(super) const SIZE: usize = 1 << MAX_BITS;

pub(super) struct Table {
    pub one: [u64; SIZE],
    #[cfg(target_arch = "x86_64")]
    pub two: [u64; SIZE],
    #[cfg(target_arch = "x86_64")]
    pub four: [u64; SIZE],
}

impl Table {
    pub fn new() -> Self {
        Table {
            one: [0; SIZE],
            #[cfg(target_arch = "x86_64")]
            two: [0; SIZE],
            #[cfg(target_arch = "x86_64")]
            four: [0; SIZE],
        }
    }

    /// Fills `one`. Every entry is written, the code being complete.
    pub fn fill_single(&mut self, book: &Codebook) {
        for symbol in usize::from(book.first)..=usize::from(book.last) {
            let len = book.lens[symbol];
            if len == 0 {
                continue;
            }
            let entry = (symbol as u64) << 32 | 1 << 8 | u64::from(len);
            let mut at = usize::from(book.codes[symbol]);
            while at < SIZE {
                self.one[at] = entry;
                at += 1 << len;
            }
        }
    }

    /// Symbol and length of the code word that `window` begins with.
    #[inline(always)]
    pub fn single(&self, window: u64) -> (u8, usize) {
        let entry = self.one[window as usize % SIZE];
        ((entry >> 32) as u8, (entry & 63) as usize)
    }

    /// Fills `two` and `four` from `one`.
    #[cfg(target_arch = "x86_64")]
    pub fn fill_multiple(&mut self) {
        for i in 0..SIZE {
            let a = self.one[i];
            let b = self.one[i >> (a & 63)];
            self.two[i] = if fits(a, b) { join(a, b) } else { a };
        }
        for i in 0..SIZE {
            let a = self.two[i];
            let rest = i >> (a & 63);
            let (b, c) = (self.two[rest], self.one[rest]);
            // After a single symbol no other fitted, so it is only pairs that grow here.
            self.four[i] = if fits(a, b) {
                join(a, b)
            } else if fits(a, c) {
                join(a, c)
            } else {
                a
            };
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn fits(a: u64, b: u64) -> bool {
    (a & 63) + (b & 63) <= MAX_BITS as u64
}

#[cfg(target_arch = "x86_64")]
fn join(a: u64, b: u64) -> u64 {
    let symbols = (b >> 32) << (32 + 8 * (a >> 8 & 7));
    a + (b & 0xffff) + symbols
}
