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
    simd::Level,
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

    /// The words of the last piece from its planes; false where their escapes are wrong.
    pub fn join(
        &mut self,
        level: Level,
        fields: &Split,
        planes: split::Planes<'_>,
        escapes: &mut &[u16],
        words: &mut [u8],
    ) -> bool {
        let n = planes.symbols.len();
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
