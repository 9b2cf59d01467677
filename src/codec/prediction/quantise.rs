//! Quantised words as what the floats they were made of give (`predict::quantise`).
//!
//! ```text
//! payload   recipe (1 byte): 0, 1 order of the layout; 2 scales of blocks; 3 one scale
//!           type of the floats (1 byte): 0 bf16, 1 f16, 2 f32
//!           varint rows of half a head, 0 where rows stand in the order of the floats
//!           recipe 2: formula, rounds (1 byte each), varint rows, varint columns
//!           recipe 3: formula, rounds (1 byte each), factor (f32)
//!           parts
//! parts     Q4_0 … Q8_0   d, then m where there is one, codes
//!           Q2_K … Q6_K   the fields but the codes as in the `QUANTISED` form, codes
//!           F8, I8        words
//! part      varint length of what follows, mode (1 byte), what the mode says: as in `DELTA`
//! ```
//!
//! Codes are predicted with the scales that the file has, so what is left of them is little even
//! where the scales are others than the floats tell.

mod trial;

use super::{
    DENSE, EQUAL, KnownScratch, SPARSE, SPARSE_ONE_IN, encode_changed, few_changes,
    predictor::{sizes, take},
    residual, sparse,
};
use crate::{
    bits::{read_varint, write_varint},
    codec::{
        ChunkSpec, Method,
        plane::CoderScratch,
        quantised::{self, Layout, gather, layout},
    },
    dtype::Dtype,
    predict::{
        cast,
        quantise::{
            Source, blocks, given,
            scaled::{self, Scaled, Share},
            widen,
        },
    },
    simd::Level,
};

pub use trial::{Agreement, Trial};

/// How a chunk's words were made of floats.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantise {
    /// Type of the floats.
    pub source: Source,
    /// Rows of half a head whose rows are interleaved, else 0.
    pub half: u32,
    /// The quantiser.
    pub recipe: Recipe,
}

/// A quantiser.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recipe {
    /// That of the layout, with this order of operations.
    Layout(u8),
    /// A scale for each block, or one.
    Scaled(Scaled),
}

/// Buffers for quantised chunks.
#[derive(Default)]
pub struct Quantised {
    wide: Vec<u8>,
    ranges: blocks::Ranges,
    /// What the floats give: d, m, codes.
    found: [Vec<u8>; 3],
    /// What the words have.
    real: [Vec<u8>; 3],
    subs: Vec<given::Sub>,
    fields: quantised::Scratch,
    part: Vec<u8>,
}

/// What is predicted of a type.
#[derive(Clone, Copy)]
enum Target {
    Blocks(blocks::Kind, &'static Layout),
    Given(&'static Layout, u8),
    Words(scaled::Kind),
}

impl Target {
    fn of(dtype: Dtype) -> Option<Target> {
        let layout = layout::of(dtype);
        let kind = match dtype {
            Dtype::F8_E4M3 => return Some(Target::Words(scaled::Kind::E4m3)),
            Dtype::F8_E5M2 => return Some(Target::Words(scaled::Kind::E5m2)),
            Dtype::I8 => return Some(Target::Words(scaled::Kind::I8)),
            Dtype::Q2_K | Dtype::Q4_K | Dtype::Q5_K => return Some(Target::Given(layout?, 0)),
            Dtype::Q3_K => return Some(Target::Given(layout?, 4)),
            Dtype::Q6_K => return Some(Target::Given(layout?, 32)),
            Dtype::Q4_0 => blocks::Kind::Q4_0,
            Dtype::Q4_1 => blocks::Kind::Q4_1,
            Dtype::Q5_0 => blocks::Kind::Q5_0,
            Dtype::Q5_1 => blocks::Kind::Q5_1,
            Dtype::Q8_0 => blocks::Kind::Q8_0,
            _ => return None,
        };
        Some(Target::Blocks(kind, layout?))
    }
}

impl Quantise {
    /// Whether words of this type can be predicted.
    pub fn predicts(dtype: Dtype) -> bool {
        Target::of(dtype).is_some()
    }

    /// Whether a chunk of `len` bytes can be predicted from this many bytes.
    pub(super) fn fits(&self, spec: &ChunkSpec, len: usize, known: usize) -> bool {
        let elements = len / spec.dtype.word_len() * spec.dtype.group_elements() as usize;
        let rows = self.row(spec).filter(|row| elements.is_multiple_of(*row));
        let half = self.half as usize;
        let permutes = half == 0
            || rows.is_some_and(|row| (elements / row).is_multiple_of(2 * half.min(elements)));
        let suits = match (Target::of(spec.dtype), self.recipe) {
            (Some(Target::Blocks(..)), Recipe::Layout(order)) => order < blocks::ORDERS,
            (Some(Target::Given(..)), Recipe::Layout(order)) => order < given::ORDERS,
            (Some(Target::Words(_)), Recipe::Scaled(_)) => true,
            _ => false,
        };
        suits
            && permutes
            && len > 0
            && len.is_multiple_of(spec.dtype.word_len())
            && elements.checked_mul(self.source.word_len()) == Some(known)
            && !spec.big_endian
    }

    /// Values in a row, where it is known.
    fn row(&self, spec: &ChunkSpec) -> Option<usize> {
        let row = usize::try_from(spec.row_words).ok()?;
        row.checked_mul(spec.dtype.group_elements() as usize).filter(|row| *row > 0)
    }

    fn write(&self, out: &mut Vec<u8>) {
        let (source, half) = (self.source as u8, u64::from(self.half));
        let number = match self.recipe {
            Recipe::Layout(order) => order,
            Recipe::Scaled(Scaled { share: Share::Block { .. }, .. }) => 2,
            Recipe::Scaled(_) => 3,
        };
        out.extend_from_slice(&[number, source]);
        write_varint(out, half);
        if let Recipe::Scaled(s) = self.recipe {
            out.extend_from_slice(&[s.formula, s.rounds]);
            match s.share {
                Share::Block { rows, columns } => {
                    write_varint(out, rows.into());
                    write_varint(out, columns.into());
                }
                Share::All(factor) => out.extend_from_slice(&factor.to_le_bytes()),
            }
        }
    }

    /// Reads what [`Quantise::write`] wrote.
    fn read(payload: &mut &[u8]) -> Option<Quantise> {
        let [number, source] = take(payload)?;
        let source = Source::ALL.into_iter().find(|s| *s as u8 == source)?;
        let half = read_varint(payload)?.try_into().ok()?;
        let recipe = match number {
            0 | 1 => Recipe::Layout(number),
            2 | 3 => {
                let [formula, rounds] = take(payload)?;
                if formula >= scaled::FORMULAS || rounds > 3 {
                    return None;
                }
                let share = if number == 2 {
                    let rows = read_varint(payload)?.try_into().ok().filter(|rows| *rows > 0)?;
                    Share::Block { rows, columns: read_varint(payload)?.try_into().ok()? }
                } else {
                    Share::All(f32::from_le_bytes(take(payload)?))
                };
                Recipe::Scaled(Scaled { formula, rounds, share })
            }
            _ => return None,
        };
        Some(Quantise { source, half, recipe })
    }

    /// Makes 32-bit floats of the source's words, in the order of the chunk's values.
    fn widen(&self, level: Level, spec: &ChunkSpec, known: &[u8], wide: &mut Vec<u8>) {
        let row = self.row(spec).unwrap_or(0);
        widen(level, self.source, known, (row, self.half as usize), wide);
    }

    /// Computes words of eight bits.
    fn words(
        &self,
        level: Level,
        kind: scaled::Kind,
        spec: &ChunkSpec,
        wide: &[u8],
        out: &mut Vec<u8>,
    ) {
        let n = wide.len() / 4;
        out.resize(n, 0);
        if let Recipe::Scaled(s) = self.recipe {
            s.words(level, kind, self.source, self.row(spec).unwrap_or(n), wide, out);
        }
    }

    fn order(&self) -> u8 {
        match self.recipe {
            Recipe::Layout(order) => order,
            Recipe::Scaled(_) => 0,
        }
    }
}

/// Appends the payload; `None` where the type is none that can be predicted.
#[allow(clippy::too_many_arguments, reason = "as encode, and buffers")]
pub fn encode(
    level: Level,
    method: Method,
    spec: &ChunkSpec,
    how: &Quantise,
    words: &[u8],
    known: &[u8],
    buffers: &mut KnownScratch,
    coder: &mut CoderScratch,
    out: &mut Vec<u8>,
) -> Option<()> {
    let target = Target::of(spec.dtype)?;
    let mut q = std::mem::take(&mut buffers.quantised);
    how.write(out);
    how.widen(level, spec, known, &mut q.wide);
    let Quantised { wide, ranges, found, real, subs, fields, part } = &mut q;
    let mut put = |word, sizes: Sizes<'_>, real: &[u8], found: &[u8], out: &mut Vec<u8>| {
        put_part(level, word, sizes, real, found, buffers, part, out);
    };
    match target {
        Target::Words(kind) => {
            how.words(level, kind, spec, wide, &mut found[2]);
            put(1, Sizes::Of(spec), words, &found[2], out);
        }
        Target::Blocks(kind, layout) => {
            split_blocks(level, layout, words, real);
            let [d, m, codes] = found;
            ranges.find(level, kind, wide, d, m);
            put(2, Sizes::Of(&HALF), &real[0], d, out);
            if kind.has_least() {
                put(2, Sizes::Of(&HALF), &real[1], m, out);
            }
            ranges.settle(kind, [d, m], [&real[0], &real[1]]);
            codes.resize(wide.len() / 4, 0);
            ranges.codes(level, kind, how.order(), wide, codes);
            let near = |c: &mut [u8]| ranges.contexts(level, kind, how.order(), wide, c);
            put(1, Sizes::Found(&near), &real[2], codes, out);
        }
        Target::Given(layout, centre) => {
            quantised::encode_given(level, layout, method, words, fields, coder, out);
            codes_of(layout, words, level, &mut real[2]);
            known_subs(layout, fields, subs);
            let c = given_codes(layout, centre, how.order());
            found[2].resize(wide.len() / 4, 0);
            given::codes(level, c, false, wide, subs, &mut found[2]);
            let near = |out: &mut [u8]| given::codes(level, c, true, wide, subs, out);
            put(1, Sizes::Found(&near), &real[2], &found[2], out);
        }
    }
    buffers.quantised = q;
    Some(())
}

/// Decodes the payload into `out`.
#[allow(clippy::too_many_arguments, reason = "one caller")]
pub fn decode(
    level: Level,
    spec: &ChunkSpec,
    mut payload: &[u8],
    known: &[u8],
    buffers: &mut KnownScratch,
    coder: &mut CoderScratch,
    out: &mut [u8],
) -> Option<()> {
    let target = Target::of(spec.dtype)?;
    let payload = &mut payload;
    let how = Quantise::read(payload)?;
    if !how.fits(spec, out.len(), known.len()) {
        return None;
    }
    let mut q = std::mem::take(&mut buffers.quantised);
    how.widen(level, spec, known, &mut q.wide);
    let Quantised { wide, ranges, found, real, subs, fields, .. } = &mut q;
    match target {
        Target::Words(kind) => {
            how.words(level, kind, spec, wide, &mut found[2]);
            take_part(level, 1, Sizes::Of(spec), payload, &found[2], buffers, out)?;
        }
        Target::Blocks(kind, layout) => {
            let [d, m, codes] = found;
            ranges.find(level, kind, wide, d, m);
            real[0].resize(d.len(), 0);
            real[1].resize(m.len(), 0);
            take_part(level, 2, Sizes::Of(&HALF), payload, d, buffers, &mut real[0])?;
            if kind.has_least() {
                take_part(level, 2, Sizes::Of(&HALF), payload, m, buffers, &mut real[1])?;
            }
            ranges.settle(kind, [d, m], [&real[0], &real[1]]);
            codes.resize(wide.len() / 4, 0);
            ranges.codes(level, kind, how.order(), wide, codes);
            real[2].resize(codes.len(), 0);
            let near = |c: &mut [u8]| ranges.contexts(level, kind, how.order(), wide, c);
            let sizes = Sizes::Found(&near);
            take_part(level, 1, sizes, payload, codes, buffers, &mut real[2])?;
            check_codes(level, layout, &real[2])?;
            join_blocks(level, layout, real, out);
        }
        Target::Given(layout, centre) => {
            quantised::decode_given(level, layout, out, payload, fields, coder)?;
            known_subs(layout, fields, subs);
            let c = given_codes(layout, centre, how.order());
            found[2].resize(wide.len() / 4, 0);
            given::codes(level, c, false, wide, subs, &mut found[2]);
            real[2].resize(found[2].len(), 0);
            let near = |out: &mut [u8]| given::codes(level, c, true, wide, subs, out);
            let sizes = Sizes::Found(&near);
            take_part(level, 1, sizes, payload, &found[2], buffers, &mut real[2])?;
            check_codes(level, layout, &real[2])?;
            gather::join(level, layout.len, &layout.elements, &real[2], out);
        }
    }
    buffers.quantised = q;
    payload.is_empty().then_some(())
}

/// 16-bit fields are floats.
const HALF: ChunkSpec = ChunkSpec { dtype: Dtype::F16, big_endian: false, row_words: 0 };

/// Where contexts come from.
enum Sizes<'a> {
    /// From what was predicted.
    Of(&'a ChunkSpec),
    /// From what it was predicted from.
    Found(&'a dyn Fn(&mut [u8])),
}

impl Sizes<'_> {
    fn find(&self, level: Level, predicted: &[u8], word: usize, contexts: &mut Vec<u8>) {
        contexts.resize(predicted.len() / word, 0);
        match self {
            Sizes::Of(spec) => sizes(level, **spec, predicted, contexts),
            Sizes::Found(find) => find(contexts),
        }
    }
}

/// Appends words, predicted to be others.
#[allow(clippy::too_many_arguments, reason = "one caller")]
fn put_part(
    level: Level,
    word: usize,
    sizes: Sizes<'_>,
    words: &[u8],
    predicted: &[u8],
    buffers: &mut KnownScratch,
    part: &mut Vec<u8>,
    out: &mut Vec<u8>,
) {
    let KnownScratch { contexts, masks, residual, .. } = buffers;
    part.clear();
    match few_changes(level, word, words, predicted, SPARSE_ONE_IN, masks, None) {
        Some(n) => encode_changed(level, word, words, predicted, n, masks, residual, part),
        None => {
            sizes.find(level, predicted, word, contexts);
            let n = contexts.len();
            residual.resize(n, word);
            residual.form(level, word, words, predicted, 0..n);
            part.push(DENSE);
            residual::encode(level, word, contexts, residual, part);
        }
    }
    write_varint(out, part.len() as u64);
    out.extend_from_slice(part);
}

/// Inverse of [`put_part`].
fn take_part(
    level: Level,
    word: usize,
    sizes: Sizes<'_>,
    payload: &mut &[u8],
    predicted: &[u8],
    buffers: &mut KnownScratch,
    words: &mut [u8],
) -> Option<()> {
    let len = usize::try_from(read_varint(payload)?).ok()?;
    let (part, rest) = payload.split_at_checked(len)?;
    *payload = rest;
    let (&mode, body) = part.split_first()?;
    let KnownScratch { contexts, residual, .. } = buffers;
    if mode == DENSE {
        sizes.find(level, predicted, word, contexts);
        return residual::decode(level, word, body, predicted, contexts, residual, words);
    }
    words.copy_from_slice(predicted);
    match mode {
        EQUAL => body.is_empty().then_some(()),
        SPARSE => sparse::decode(level, word, body, residual, words),
        _ => None,
    }
}

/// Splits blocks into d, m and codes.
fn split_blocks(level: Level, layout: &Layout, groups: &[u8], real: &mut [Vec<u8>; 3]) {
    for (half, &at) in real.iter_mut().zip(layout.halves) {
        half.clear();
        half.extend(groups.chunks_exact(layout.len).flat_map(|g| [g[at], g[at + 1]]));
    }
    codes_of(layout, groups, level, &mut real[2]);
}

fn codes_of(layout: &Layout, groups: &[u8], level: Level, codes: &mut Vec<u8>) {
    codes.resize(groups.len() / layout.len * layout.elements.count, 0);
    gather::split(level, layout.len, &layout.elements, groups, codes);
}

fn join_blocks(level: Level, layout: &Layout, real: &[Vec<u8>; 3], groups: &mut [u8]) {
    groups.fill(0);
    gather::join(level, layout.len, &layout.elements, &real[2], groups);
    for (half, &at) in real.iter().zip(layout.halves) {
        for (group, half) in groups.chunks_exact_mut(layout.len).zip(half.as_chunks::<2>().0) {
            group[at..at + 2].copy_from_slice(half);
        }
    }
}

/// Codes have the bits of the layout.
fn check_codes(level: Level, layout: &Layout, codes: &[u8]) -> Option<()> {
    (crate::simd::largest(level, codes) <= layout.elements.most()).then_some(())
}

fn given_codes(layout: &Layout, centre: u8, order: u8) -> given::Codes {
    given::Codes { sub_len: layout.sub_len(), centre, most: layout.elements.most(), order }
}

/// The scales of all sub-groups, from the fields.
fn known_subs(layout: &Layout, fields: &quantised::Scratch, subs: &mut Vec<given::Sub>) {
    let known = fields.known();
    let half = |x: u16| cast::f16_to_f32(x.to_le_bytes());
    let count = layout.subs();
    subs.clear();
    subs.extend(known.scales.iter().enumerate().map(|(i, &scale)| {
        let group = i / count;
        let scale = match layout.scale {
            layout::Scale::Plain => f32::from(scale),
            layout::Scale::Offset32 => f32::from(i16::from(scale) - 32),
            layout::Scale::Signed => f32::from(scale as i8),
        };
        let min = known.mins.get(i).map_or(0.0, |m| f32::from(*m));
        let dmin = known.m.get(group).map_or(0.0, |m| half(*m));
        given::Sub { step: half(known.d[group]) * scale, dmin, min }
    }));
}
