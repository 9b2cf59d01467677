//! Interleaved range asymmetric numeral systems: symbols ↔ close to their entropy.
//!
//! A state `x` in [2¹⁶, 2³²) holds the symbols coded so far. Coding a symbol of frequency `f`
//! multiplies the state by 4096 / f; a state that would overflow first hands its low 16 bits, a
//! word, to the stream. `N` states, the lanes, take turns: symbol `i` belongs to lane `i % N`.
//!
//! ```text
//! stream   states   N × u32, little endian, each in [2^16, 2^32)
//!          words    u16, little endian, read forward to the end of the stream
//! ```
//!
//! `n` symbols decode so, with `freq` and `cum` the frequency of a symbol and the sum of the
//! frequencies of the symbols below it (in the table of the symbol's context, where contexts are
//! used), and `m = max(n - 2N, 0)`:
//!
//! ```text
//! for each group of N symbols below m (the last one may be shorter)
//!     for each symbol i of it, j = i % N
//!         slot = x[j] % 4096
//!         symbol[i] = the one with cum <= slot < cum + freq
//!         x[j] = freq · (x[j] / 4096) + slot - cum
//!     for each lane j of it, ascending
//!         if x[j] < 2^16:  x[j] = 2^16 · x[j] + next word
//! every x[j] / 2^16 is now 1, and no word is left
//! for t in 0 .. n - m      symbol[m + t] = byte t / N of x[t % N]      (the lower two bytes)
//! ```
//!
//! So the last `2N` symbols stand in the states that coding starts from, which would otherwise
//! carry nothing; bytes without a symbol are zero. The encoder runs all of this backward.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod decode;
mod encode;
mod scalar;
mod table;
#[cfg(test)]
mod tests;

pub use decode::Decoder;
pub use encode::{Encoder, bound, encode, encode_contexts};
pub use table::{DecodeTable, EncodeTable};

use crate::simd::{self, Level};

/// The lower end of the states' interval.
const LOW: u32 = 1 << 16;

/// Most symbols of a stream that stand in the states that coding starts from: the last ones, which
/// need no frequency in a table.
pub const MOST_IN_STATES: usize = 2 << Lanes::SixtyFour as usize;

/// Number of interleaved states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// For planes too small to pay for 64 states.
    Four = 2,
    /// As many as fill the vectors of a CPU.
    SixtyFour = 6,
}

impl Lanes {
    /// Number of lanes.
    pub fn count(self) -> usize {
        1 << self.log2()
    }

    /// Binary logarithm of the number of lanes, as it is stored.
    pub fn log2(self) -> u8 {
        self as u8
    }

    /// Inverse of [`Lanes::log2`].
    pub fn from_log2(log2: u8) -> Option<Lanes> {
        [Lanes::Four, Lanes::SixtyFour].into_iter().find(|lanes| lanes.log2() == log2)
    }
}

fn check_contexts(level: Level, contexts: &[u8], n: usize, n_tables: usize) {
    assert_eq!(contexts.len(), n, "a context for each symbol");
    let largest = simd::largest(level, contexts);
    assert!(usize::from(largest) < n_tables, "a table for each context");
}
