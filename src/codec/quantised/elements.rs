//! The plane of elements: a table for each context, or one for all.

use super::{
    super::plane::{self, Coded, Coder, CoderScratch, PREFIX},
    context,
    layout::Layout,
};
use crate::{
    entropy::{
        frequency::{self, Table},
        histogram,
        rans::{self, DecodeTable, EncodeTable, Encoder, Lanes},
    },
    simd::Level,
};

/// Elements that are handled at a time, so that they stay in the cache: whole groups, and a
/// multiple of the lanes.
pub const PIECE: usize = 32 << 10;

/// The contexts of sub-groups.
#[derive(Clone, Copy)]
pub struct Subs<'a> {
    pub layout: &'a Layout,
    /// One each.
    pub contexts: &'a [u8],
}

/// Appends elements, which were counted and are turned round, as a coded plane with contexts. Returns
/// false, and what it appended is then of no use, where that does not pay.
pub fn encode_contexts(
    level: Level,
    subs: Subs<'_>,
    elements: &[u8],
    counts: Counts,
    contexts: &mut [u8],
    coder: &mut CoderScratch,
    out: &mut Vec<u8>,
) -> bool {
    let Subs { layout, contexts: subs } = subs;
    let start = out.len();
    let n = elements.len();
    let lanes = plane::lanes_for(n);
    out.extend_from_slice(&[Coder::Contexts as u8, 0, 0, 0, 0, lanes.log2()]);
    let tables: Option<Vec<Table>> = counts.contexts.iter().map(frequency::normalise).collect();
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

/// Widest elements of which all are taken to occur in every context. One that does not takes
/// 1/4096 of the codes, and a look for those that do takes longer than counting.
const ALL_OCCUR: u8 = 5;

/// Bytes of a table, about.
const TABLE: usize = 12;

/// How often elements occur.
pub struct Counts {
    /// In each context.
    contexts: Vec<[u32; 256]>,
    /// In elements that are not turned round.
    plain: [u32; 256],
    all: bool,
}

impl Counts {
    /// No elements yet; of those to come, `all` or a part will be counted.
    pub fn new(layout: &Layout, all: bool) -> Self {
        let bits = layout.elements.bits;
        let occur = if bits <= ALL_OCCUR { 1 << bits } else { 2 };
        let counts = std::array::from_fn(|e| u32::from(e < occur));
        Counts { contexts: vec![counts; context::count(layout)], plain: [0; 256], all }
    }

    /// Counts elements as they would be coded without contexts.
    pub fn add_plain(&mut self, level: Level, elements: &[u8]) {
        histogram::sample(level, elements, &mut self.plain);
    }

    /// Counts elements of sub-groups with the contexts `subs`.
    pub fn add(
        &mut self,
        level: Level,
        layout: &Layout,
        subs: &[u8],
        contexts: &mut [u8],
        elements: &[u8],
    ) {
        if layout.elements.bits <= ALL_OCCUR {
            let (sub_len, n) = (layout.sub_len(), layout.sub_len() / if self.all { 1 } else { 8 });
            for (i, (sub, elements)) in subs.iter().zip(elements.chunks_exact(sub_len)).enumerate()
            {
                let counts = &mut self.contexts[usize::from(sub & !context::TURNED)];
                // Each eighth in turn.
                let at = if self.all { 0 } else { i % 8 * n };
                for &e in &elements[at..at + n] {
                    counts[usize::from(e)] += 1;
                }
            }
            return;
        }
        context::spread(level, layout, subs, contexts);
        if self.all {
            histogram::count_contexts(level, elements, contexts, &mut self.contexts);
        } else {
            histogram::sample_contexts(level, elements, contexts, &mut self.contexts);
        }
    }

    /// Whether tables for contexts gain more than they take, as far as counts tell.
    pub fn contexts_pay(&self, n: usize) -> bool {
        let total = |counts: &[u32; 256]| counts.iter().map(|&c| u64::from(c)).sum::<u64>();
        let plain = total(&self.plain);
        if plain == 0 {
            return true;
        }
        let of_all = |bits: u64, counted: u64| {
            (u128::from(bits) * n as u128 / u128::from(counted.max(1)) / (8 * 256)) as usize
        };
        let bits = self.contexts.iter().map(frequency::entropy).sum();
        let counted = self.contexts.iter().map(total).sum();
        let tables = self.contexts.len() * TABLE;
        of_all(bits, counted) + tables < of_all(frequency::entropy(&self.plain), plain)
    }
}

/// Decodes elements piece by piece.
pub struct Decoder<'a> {
    tables: Vec<DecodeTable>,
    decoder: rans::Decoder<'a>,
    /// Elements not yet decoded.
    n_left: usize,
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
        let tables = tables.iter().map(DecodeTable::new).collect();
        Some(Decoder { tables, decoder, n_left: n })
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
        // The last elements stand in the states: no table bounds them.
        let n_before = self.n_left.saturating_sub(rans::MOST_IN_STATES).min(out.len());
        self.n_left -= out.len();
        plane::below(&out[n_before..], layout.elements.bits).then_some(())?;
        context::turn(level, layout, subs, out);
        Some(())
    }

    /// Whether the data ended where the elements did.
    pub fn finish(self) -> Option<()> {
        self.decoder.finish().then_some(())
    }
}
