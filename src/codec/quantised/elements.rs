//! The plane of elements: a table for each context, or one for all.

use super::{
    super::plane::{self, CONTEXTS, Coded, CoderScratch, PREFIX},
    context,
    layout::Layout,
};
use crate::{
    entropy::{
        frequency::{self, Table},
        rans::{self, DecodeTable, EncodeTable, Encoder, Lanes},
    },
    simd::Level,
};

/// Elements that are handled at a time, so that they stay in the cache: whole groups, and a
/// multiple of the lanes.
pub const PIECE: usize = 32 << 10;

/// Appends elements, which were counted and are turned round, as a coded plane with contexts. Returns false, and what
/// it appended is then of no use, where that does not pay.
#[allow(clippy::too_many_arguments, reason = "one caller")]
pub fn encode_contexts(
    level: Level,
    layout: &Layout,
    subs: &[u8],
    elements: &[u8],
    counts: &mut [[u32; 256]],
    contexts: &mut [u8],
    coder: &mut CoderScratch,
    out: &mut Vec<u8>,
) -> bool {
    let start = out.len();
    let n = elements.len();
    let lanes = plane::lanes_for(n);
    out.extend_from_slice(&[CONTEXTS, 0, 0, 0, 0, lanes.log2()]);
    let tables: Option<Vec<Table>> = counts.iter_mut().map(table_of).collect();
    let Some(tables) = tables else { return false };
    plane::write_tables(&tables, out);
    let tables: Vec<_> = tables.iter().map(EncodeTable::new).collect();
    let room = rans::bound(n, lanes);
    coder.stream.resize(coder.stream.len().max(room), 0);
    let stream = &mut coder.stream[..room];
    let mut encoder = Encoder::new(lanes, n, stream);
    let subs_a_piece = PIECE / layout.sub_len();
    for (elements, subs) in elements.chunks(PIECE).zip(subs.chunks(subs_a_piece)).rev() {
        let contexts = &mut contexts[..elements.len()];
        context::spread(level, layout, subs, contexts);
        if !encoder.encode_contexts(level, contexts, &tables, elements) {
            return false;
        }
    }
    let at = encoder.finish();
    out.extend_from_slice(&stream[at..]);
    let len = out.len() - start - PREFIX;
    out[start + 1..start + PREFIX].copy_from_slice(&(len as u32).to_le_bytes());
    len < (n * usize::from(layout.elements.bits)).div_ceil(8)
}

/// A table for counts of any kind: contexts that do not occur get one too.
fn table_of(counts: &mut [u32; 256]) -> Option<Table> {
    if counts.iter().filter(|&&c| c > 0).count() < 2 {
        counts[0] += 1;
        counts[1] += 1;
    }
    frequency::normalise(counts)
}

/// Decodes elements piece by piece.
pub struct Decoder<'a> {
    tables: Vec<DecodeTable>,
    decoder: rans::Decoder<'a>,
}

impl<'a> Decoder<'a> {
    /// A decoder of the `n` elements of a plane with contexts.
    pub fn new(layout: &Layout, coded: Coded<'a>, n: usize) -> Option<Self> {
        let (&lanes, mut data) = coded.data.split_first()?;
        let tables = plane::read_tables(context::count(layout), &mut data)?;
        if !tables.iter().all(|t| plane::fits(t, layout.elements.bits)) {
            return None;
        }
        let decoder = rans::Decoder::new(Lanes::from_log2(lanes)?, n, data)?;
        Some(Decoder { tables: tables.iter().map(DecodeTable::new).collect(), decoder })
    }

    /// Decodes the next piece, of sub-groups with the contexts `subs`.
    pub fn piece(
        &mut self,
        level: Level,
        layout: &Layout,
        subs: &[u8],
        contexts: &mut [u8],
        out: &mut [u8],
    ) -> Option<()> {
        context::spread(level, layout, subs, contexts);
        self.decoder.decode_contexts(level, contexts, &self.tables, out).then_some(())?;
        context::turn(level, layout, subs, out);
        Some(())
    }

    /// Whether the data ended where the elements did.
    pub fn finish(self) -> Option<()> {
        self.decoder.finish().then_some(())
    }
}
