//! The encoder: dispatch, and what surrounds the kernels.

use super::{EncodeTable, LOW, Lanes, check_contexts, scalar};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::simd::{Ahead, Level, dispatch};

/// Bytes that vector stores may write below the stream.
const SLACK: usize = 64;

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
    let mut encoder = Encoder::new(lanes, symbols.len(), out);
    encoder.encode(level, table, symbols).then(|| encoder.finish())
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
    let mut encoder = Encoder::new(lanes, symbols.len(), out);
    encoder.encode_contexts(level, contexts, tables, symbols).then(|| encoder.finish())
}

/// Encodes symbols in pieces, the last piece first. Where a context holds for a whole piece, this
/// is faster than a context for each symbol; a [`Decoder`](super::Decoder) in the same pieces is
/// the inverse.
#[derive(Debug)]
pub struct Encoder<'a> {
    states: [u32; 64],
    lanes: Lanes,
    out: &'a mut [u8],
    /// Where the words written so far start.
    start: usize,
    /// Symbols not yet encoded, and how many of all go into words.
    n_left: usize,
    n_coded: usize,
    ahead: Ahead,
}

impl<'a> Encoder<'a> {
    /// An encoder of `n` symbols into the end of `out`, which holds at least [`bound`] bytes.
    pub fn new(lanes: Lanes, n: usize, out: &'a mut [u8]) -> Self {
        assert!(out.len() >= bound(n, lanes));
        let n_coded = n.saturating_sub(2 * lanes.count());
        let (states, start, ahead) = ([LOW; 64], out.len(), Ahead::default());
        Encoder { states, lanes, start, out, n_left: n, n_coded, ahead }
    }

    /// The same, which fetches what is read next meanwhile, where it has many lanes.
    pub(crate) fn fetching(self, ahead: Ahead) -> Self {
        Encoder { ahead, ..self }
    }

    /// Encodes the last `symbols.len()` symbols of those that are left; how many symbols then are
    /// left is a multiple of the number of lanes. Returns false where one is absent from the
    /// table; the encoder is then of no more use.
    #[must_use]
    pub fn encode(&mut self, level: Level, table: &EncodeTable, symbols: &[u8]) -> bool {
        let tables = std::slice::from_ref(table);
        self.encode_with::<false>(level, Input { symbols, contexts: &[], tables })
    }

    /// Like [`Encoder::encode`], with symbol `i` of the piece coded by `tables[contexts[i]]`.
    /// Contexts are as many as symbols, all below the number of tables.
    #[must_use]
    pub fn encode_contexts(
        &mut self,
        level: Level,
        contexts: &[u8],
        tables: &[EncodeTable],
        symbols: &[u8],
    ) -> bool {
        check_contexts(level, contexts, symbols.len(), tables.len());
        self.encode_with::<true>(level, Input { symbols, contexts, tables })
    }

    /// Where in `out` the stream starts; it reaches to the end. All symbols were encoded.
    pub fn finish(self) -> usize {
        assert_eq!(self.n_left, 0, "symbols are missing");
        let head = self.start - 4 * self.lanes.count();
        for (bytes, state) in self.out[head..self.start].chunks_exact_mut(4).zip(self.states) {
            bytes.copy_from_slice(&state.to_le_bytes());
        }
        head
    }

    fn encode_with<const CTX: bool>(&mut self, level: Level, input: Input) -> bool {
        let n_lanes = self.lanes.count();
        assert!(input.symbols.len() <= self.n_left);
        self.n_left -= input.symbols.len();
        assert!(self.n_left.is_multiple_of(n_lanes), "a piece starts with lane 0");
        let n_coded = self.n_coded.saturating_sub(self.n_left).min(input.symbols.len());
        let (coded, tail) = input.split_at(n_coded);
        let first = (self.n_left + n_coded).saturating_sub(self.n_coded);
        for (i, &symbol) in tail.symbols.iter().enumerate() {
            let context = if CTX { usize::from(tail.contexts[i]) } else { 0 };
            if tail.tables[context].lacks(symbol) {
                return false;
            }
            let t = first + i;
            self.states[t % n_lanes] |= u32::from(symbol) << (8 * (t / n_lanes));
        }
        let start = match self.lanes {
            Lanes::Four => self.words_of_4::<CTX>(coded),
            Lanes::SixtyFour => self.words_of_64::<CTX>(level, coded),
        };
        self.start = start.unwrap_or(self.start);
        start.is_some()
    }

    fn words_of_4<const CTX: bool>(&mut self, input: Input) -> Option<usize> {
        let states = self.states.first_chunk_mut()?;
        scalar::encode::<4, CTX>(input, states, self.out, self.start, Ahead::default())
    }

    fn words_of_64<const CTX: bool>(&mut self, level: Level, input: Input) -> Option<usize> {
        let (groups, last) = input.split_at(input.symbols.len() / 64 * 64);
        let (states, out) = (&mut self.states, &mut *self.out);
        let end = scalar::encode::<64, CTX>(last, states, out, self.start, Ahead::default())?;
        // Contexts were checked before they came here (`check_contexts`), as kernels need them.
        dispatch!(level,
            Avx512 => avx512::encode::<CTX>(groups, states, out, end, self.ahead),
            Avx2 => avx2::encode::<CTX>(groups, states, out, end, self.ahead),
            _ => scalar::encode::<64, CTX>(groups, states, out, end, self.ahead),
        )
    }
}

/// Symbols to encode. `contexts` is empty, and `tables` has one element, where there are none.
#[derive(Clone, Copy)]
pub(super) struct Input<'a> {
    pub(super) symbols: &'a [u8],
    pub(super) contexts: &'a [u8],
    pub(super) tables: &'a [EncodeTable],
}

impl<'a> Input<'a> {
    /// Whether a symbol of some table needs an increment, which takes slower kernels.
    pub(super) fn any_inc(self) -> bool {
        self.tables.iter().any(EncodeTable::any_inc)
    }

    fn split_at(self, at: usize) -> (Self, Self) {
        let (a, b) = self.symbols.split_at(at);
        let (c, d) = self.contexts.split_at(at.min(self.contexts.len()));
        (Input { symbols: a, contexts: c, ..self }, Input { symbols: b, contexts: d, ..self })
    }
}
