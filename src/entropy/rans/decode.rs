//! The decoder: dispatch, and what surrounds the kernels.

use super::{DecodeTable, LOW, Lanes, check_contexts, scalar};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::simd::{Level, dispatch};

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
        check_contexts(level, contexts, out.len(), tables.len());
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
                // Contexts were checked before they came here, as kernels need them.
                let ok = dispatch!(level,
                    Avx512 => avx512::decode::<CTX>(source, states, words, groups),
                    Avx2 => avx2::decode::<CTX>(source, states, words, groups),
                    _ => scalar::decode::<64, CTX>(source, states, words, groups),
                );
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
pub(super) struct Source<'a> {
    pub(super) contexts: &'a [u8],
    pub(super) tables: &'a [DecodeTable],
}

impl Source<'_> {
    pub(super) fn skip(self, n: usize) -> Self {
        Source { contexts: &self.contexts[n.min(self.contexts.len())..], ..self }
    }
}
