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
//!
//! ## Division by multiplication
//! The encoder's step is `x' = 4096 · q + r + cum` with `q = x / f`, `r = x % f`, that is
//! `x + cum + q · (4096 - f)`, and `x < f · 2²⁰`. With `s = floor(log2 f)`, `k = 32 + s`,
//! `q = (x + inc) · m >> k` where either `m = floor((2ᵏ - 1) / f)` and `inc = 1`, or `m` is one
//! more and `inc = 0`. Let `e = |2ᵏ - m · f|`: the first is exact if `e · f · 2²⁰ <= 2ᵏ`, and so is
//! the second. As the two `e` sum to `f < 4096`, the smaller always is; the first is preferred
//! because it alone has an `m` below 2³² for powers of two.

use super::frequency::{SCALE_BITS, Table};
use crate::simd::{Isa, Level};

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;
#[cfg(test)]
mod tests;

/// The lower end of the states' interval.
const LOW: u32 = 1 << 16;
/// Bytes that vector stores may write below the stream.
const SLACK: usize = 64;

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

/// What the encoder needs to know of each symbol: 64 bits, so that one gather fetches it.
///
/// ```text
/// bit 63 … 52   51 … 49   48    47 … 44   43 … 32   31 … 0
///     freq      0         inc   s         cum       m          all zero for an absent symbol
/// ```
#[derive(Clone, Debug)]
#[repr(transparent)]
pub struct EncodeTable {
    entries: [u64; 256],
}

impl EncodeTable {
    /// The encoder's view of `table`.
    pub fn new(table: &Table) -> Self {
        let mut cum = 0;
        let entries = table.freq().map(|freq| {
            let f = u64::from(freq);
            if f == 0 {
                return 0;
            }
            let s = u64::from(f.ilog2());
            let k = 32 + s;
            let mut m = ((1 << k) - 1) / f;
            let mut inc = 1;
            if ((1 << k) - m * f) * f > 1 << (k - 20) {
                m += 1;
                inc = 0;
            }
            let entry = f << 52 | inc << 48 | s << 44 | cum << 32 | m;
            cum += f;
            entry
        });
        EncodeTable { entries }
    }
}

/// What a slot, the low 12 bits of a state, decodes to.
///
/// ```text
/// bit 31 … 20   19 … 8       7 … 0
///     freq      slot - cum   symbol
/// ```
#[derive(Clone, Debug)]
#[repr(transparent)]
pub struct DecodeTable {
    entries: [u32; 1 << SCALE_BITS],
}

impl DecodeTable {
    /// The decoder's view of `table`.
    pub fn new(table: &Table) -> Self {
        let mut entries = [0; 1 << SCALE_BITS];
        let mut rest = &mut entries[..];
        for (symbol, &freq) in table.freq().iter().enumerate() {
            let (slots, after) = rest.split_at_mut(usize::from(freq));
            let first = u32::from(freq) << 20 | symbol as u32;
            for (bias, slot) in slots.iter_mut().enumerate() {
                *slot = first | (bias as u32) << 8;
            }
            rest = after;
        }
        DecodeTable { entries }
    }
}

/// Size of the buffer that encoding `n` symbols needs; the stream itself is shorter by at least
/// 64 bytes.
pub fn bound(n: usize, lanes: Lanes) -> usize {
    SLACK + 4 * lanes.count() + 2 * n
}

/// Encodes `symbols`. The stream is `out[start..]` of the returned `start`; the rest of `out` is
/// scratch. `None` where a symbol is absent from the table.
///
/// `out` holds at least [`bound`] bytes.
pub fn encode(
    level: Level,
    lanes: Lanes,
    symbols: &[u8],
    table: &EncodeTable,
    out: &mut [u8],
) -> Option<usize> {
    let tables = std::slice::from_ref(table);
    encode_with::<false>(level, lanes, Input { symbols, contexts: &[], tables }, out)
}

/// Like [`encode`], with symbol `i` coded by `tables[contexts[i]]`. Contexts are as many as
/// symbols, all below the number of tables.
pub fn encode_contexts(
    level: Level,
    lanes: Lanes,
    symbols: &[u8],
    contexts: &[u8],
    tables: &[EncodeTable],
    out: &mut [u8],
) -> Option<usize> {
    check_contexts(contexts, symbols.len(), tables.len());
    encode_with::<true>(level, lanes, Input { symbols, contexts, tables }, out)
}

fn check_contexts(contexts: &[u8], n: usize, n_tables: usize) {
    assert_eq!(contexts.len(), n, "a context for each symbol");
    let largest = contexts.iter().fold(0, |a, &b| a.max(b));
    assert!(usize::from(largest) < n_tables, "a table for each context");
}

/// Symbols to encode. `contexts` is empty, and `tables` has one element, where there are none.
#[derive(Clone, Copy)]
struct Input<'a> {
    symbols: &'a [u8],
    contexts: &'a [u8],
    tables: &'a [EncodeTable],
}

impl<'a> Input<'a> {
    fn split_at(self, at: usize) -> (Self, Self) {
        let (a, b) = self.symbols.split_at(at);
        let (c, d) = self.contexts.split_at(at.min(self.contexts.len()));
        (Input { symbols: a, contexts: c, ..self }, Input { symbols: b, contexts: d, ..self })
    }
}

fn encode_with<const CTX: bool>(
    level: Level,
    lanes: Lanes,
    input: Input,
    out: &mut [u8],
) -> Option<usize> {
    let n = input.symbols.len();
    assert!(out.len() >= bound(n, lanes));
    let n_lanes = lanes.count();
    let (coded, tail) = input.split_at(n.saturating_sub(2 * n_lanes));
    let mut states = [LOW; 64];
    for (t, &symbol) in tail.symbols.iter().enumerate() {
        let context = if CTX { usize::from(tail.contexts[t]) } else { 0 };
        if tail.tables[context].entries[usize::from(symbol)] == 0 {
            return None;
        }
        states[t % n_lanes] |= u32::from(symbol) << (8 * (t / n_lanes));
    }
    let end = out.len();
    let start = match lanes {
        Lanes::Four => {
            let (states, _) = states.split_first_chunk_mut::<4>()?;
            scalar::encode::<4, CTX>(coded, states, out, end)?
        }
        Lanes::SixtyFour => {
            let (groups, last) = coded.split_at(coded.symbols.len() / 64 * 64);
            let end = scalar::encode::<64, CTX>(last, &mut states, out, end)?;
            match level.isa() {
                Isa::Scalar => scalar::encode::<64, CTX>(groups, &mut states, out, end)?,
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a `Level` with this `Isa` is only made after its features were detected.
                Isa::Avx2 => unsafe { avx2::encode::<CTX>(groups, &mut states, out, end)? },
                #[cfg(target_arch = "x86_64")]
                // SAFETY: a `Level` with this `Isa` is only made after its features were detected.
                Isa::Avx512 => unsafe { avx512::encode::<CTX>(groups, &mut states, out, end)? },
            }
        }
    };
    let head = start - 4 * n_lanes;
    for (bytes, state) in out[head..start].chunks_exact_mut(4).zip(states) {
        bytes.copy_from_slice(&state.to_le_bytes());
    }
    Some(head)
}

/// Decodes a stream in pieces, so that what joins them finds them in the cache.
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    states: [u32; 64],
    lanes: Lanes,
    /// Words not yet read.
    words: &'a [u8],
    /// Symbols not yet decoded; the last `n_tail` of them stand in the final states.
    n_left: usize,
    n_tail: usize,
}

impl<'a> Decoder<'a> {
    /// A decoder of the `n` symbols in `stream`; `None` where the states are cut short or out of
    /// range.
    pub fn new(lanes: Lanes, n: usize, stream: &'a [u8]) -> Option<Self> {
        let (head, words) = stream.split_at_checked(4 * lanes.count())?;
        let mut states = [LOW; 64];
        for (state, bytes) in states.iter_mut().zip(head.as_chunks::<4>().0) {
            *state = u32::from_le_bytes(*bytes);
        }
        let valid = states.iter().all(|&x| x >= LOW) && words.len() % 2 == 0;
        let n_tail = n.min(2 * lanes.count());
        valid.then_some(Decoder { states, lanes, words, n_left: n, n_tail })
    }

    /// Decodes the next `out.len()` symbols: a multiple of the number of lanes, or all that are
    /// left. Returns false where the stream is corrupt.
    #[must_use]
    pub fn decode(&mut self, level: Level, table: &DecodeTable, out: &mut [u8]) -> bool {
        self.decode_with::<false>(level, &[], std::slice::from_ref(table), out)
    }

    /// Like [`Decoder::decode`], with symbol `i` of the piece coded by `tables[contexts[i]]`.
    /// Contexts are as many as symbols, all below the number of tables.
    #[must_use]
    pub fn decode_contexts(
        &mut self,
        level: Level,
        contexts: &[u8],
        tables: &[DecodeTable],
        out: &mut [u8],
    ) -> bool {
        check_contexts(contexts, out.len(), tables.len());
        self.decode_with::<true>(level, contexts, tables, out)
    }

    fn decode_with<const CTX: bool>(
        &mut self,
        level: Level,
        contexts: &[u8],
        tables: &[DecodeTable],
        out: &mut [u8],
    ) -> bool {
        let n = out.len();
        let n_lanes = self.lanes.count();
        assert!(n == self.n_left || n < self.n_left && n.is_multiple_of(n_lanes));
        let n_coded = self.n_left.saturating_sub(self.n_tail);
        self.n_left -= n;
        let (coded, tail) = out.split_at_mut(n.min(n_coded));
        let source = Source { contexts, tables };
        let ok = match self.lanes {
            Lanes::Four => match self.states.first_chunk_mut::<4>() {
                Some(states) => scalar::decode::<4, CTX>(source, states, &mut self.words, coded),
                None => false,
            },
            Lanes::SixtyFour => {
                let n_full = coded.len() / 64 * 64;
                let (groups, last) = coded.split_at_mut(n_full);
                let (states, words) = (&mut self.states, &mut self.words);
                let ok = match level.isa() {
                    Isa::Scalar => scalar::decode::<64, CTX>(source, states, words, groups),
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: a `Level` with this `Isa` is only made after its features were
                    // detected.
                    Isa::Avx2 => unsafe { avx2::decode::<CTX>(source, states, words, groups) },
                    #[cfg(target_arch = "x86_64")]
                    // SAFETY: as above.
                    Isa::Avx512 => unsafe { avx512::decode::<CTX>(source, states, words, groups) },
                };
                let source = source.skip(n_full);
                ok && scalar::decode::<64, CTX>(source, states, words, last)
            }
        };
        if !ok {
            return false;
        }
        // Where in the tail this piece starts: a piece may end inside it.
        let first = self.n_tail.saturating_sub(self.n_left + tail.len());
        for (t, symbol) in (first..).zip(tail) {
            *symbol = (self.states[t % n_lanes] >> (8 * (t / n_lanes))) as u8;
        }
        true
    }

    /// Whether all symbols were decoded, all words read, and the states are those the encoder
    /// started from: false where the stream is corrupt.
    #[must_use]
    pub fn finish(self) -> bool {
        let unused = |j: usize| {
            let used = (self.n_tail + self.lanes.count() - 1 - j) / self.lanes.count();
            self.states[j] >> (8 * used) == LOW >> (8 * used)
        };
        self.n_left == 0 && self.words.is_empty() && (0..self.lanes.count()).all(unused)
    }
}

/// Contexts (empty where there are none) and tables to decode with.
#[derive(Clone, Copy)]
struct Source<'a> {
    contexts: &'a [u8],
    tables: &'a [DecodeTable],
}

impl Source<'_> {
    fn skip(self, n: usize) -> Self {
        Source { contexts: &self.contexts[n.min(self.contexts.len())..], ..self }
    }
}
