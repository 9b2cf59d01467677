//! Symbols and words of a chunk with scales, piece by piece.

use super::{
    super::{
        super::{
            pieces::PIECE,
            plane::{self, Coded, Coder},
        },
        fields::Float,
        scale,
    },
    CONTEXTS,
};
use crate::{
    entropy::rans,
    simd::{Level, for_every_level},
    transform::split::{self, Split},
};

/// A coded plane of symbols of which the next piece can be had.
pub struct Pieces<'a> {
    decoder: rans::Decoder<'a>,
    tables: Vec<rans::DecodeTable>,
    scales: scale::Scales<'a>,
    word_bits: u8,
    shifts: [u8; PIECE],
    contexts: [u8; PIECE],
    heads: [u16; PIECE],
}

impl<'a> Pieces<'a> {
    /// The symbols of `n` words, whose scales are known. `None` where they are damaged.
    pub fn new(
        float: &Float,
        fields: &Split,
        rows: &'a [u8],
        columns: Option<&'a [u8]>,
        symbols: Coded<'a>,
        n: usize,
    ) -> Option<Self> {
        let k = u32::from(fields.symbol_bits().checked_sub(float.exponent)?);
        let (&lanes, mut data) = symbols.data.split_first()?;
        if symbols.coder != Coder::Contexts {
            return None;
        }
        let tables = plane::read_tables(CONTEXTS, &mut data)?;
        Some(Pieces {
            decoder: rans::Decoder::new(rans::Lanes::from_log2(lanes)?, n, data)?,
            tables: tables.iter().map(rans::DecodeTable::new).collect(),
            scales: scale::Scales { rows, columns, row: float.row?, k },
            word_bits: float.bits,
            shifts: [0; PIECE],
            contexts: [0; PIECE],
            heads: [0; PIECE],
        })
    }

    /// The symbols from `at` on, where the last piece ended, as many as `out` has room for.
    pub fn next<'b>(&mut self, level: Level, at: usize, out: &'b mut [u8]) -> Option<&'b [u8]> {
        let (shifts, contexts) = (&mut self.shifts[..out.len()], &mut self.contexts[..out.len()]);
        self.scales.shifts_and_contexts(level, at, shifts, contexts);
        let good = self.decoder.decode_contexts(level, contexts, &self.tables, out);
        good.then_some(out)
    }

    /// The words of the last piece from its planes; false where a symbol stands for no `s`, or
    /// escapes are wrong.
    pub fn join(
        &mut self,
        level: Level,
        fields: &Split,
        planes: split::Planes<'_>,
        escapes: &mut &[u16],
        words: &mut [u8],
    ) -> bool {
        let n = planes.symbols.len();
        if !stand_for_s(level, fields, planes.symbols, &self.shifts[..n]) {
            return false;
        }
        let heads = &mut self.heads[..n];
        let of_heads = split::Planes { tails: &[], ..planes };
        let shifts = Some(&self.shifts[..n]);
        let good = split::join_heads(level, fields, of_heads, escapes, shifts, heads);
        split::words_of_heads(level, self.word_bits, heads, planes.tails, words);
        good
    }

    /// Whether the symbols, of which all pieces were taken, ended as they should.
    pub fn finish(self) -> bool {
        self.decoder.finish()
    }
}

/// Whether each symbol in the window stands for an `s` of no more than its bits that is not 0.
fn stand_for_s(level: Level, fields: &Split, symbols: &[u8], shifts: &[u8]) -> bool {
    let (base, n_s) = (u32::from(fields.base), 1 << fields.symbol_bits());
    // Where the whole window does, whatever the shift, which is the rule for wide exponents.
    base > 255 && base + 253 < n_s || within(level, symbols, shifts, fields.base, (n_s - 1) as u16)
}

for_every_level! {
/// Whether symbols in a window, with their shifts, stand for 1 to `most`.
fn within(symbols: &[u8], shifts: &[u8], base: u16, most: u16) -> bool {
    let wrong = |symbol: u8, shift: u8| {
        let up = u16::from(symbol) + u16::from(shift);
        let s = base.wrapping_add(up).wrapping_sub(256);
        u16::from(s.wrapping_sub(1) >= most) & u16::from(symbol.wrapping_sub(1) < 254)
    };
    symbols.iter().zip(shifts).fold(0, |any, (&symbol, &shift)| any | wrong(symbol, shift)) == 0
}
}
