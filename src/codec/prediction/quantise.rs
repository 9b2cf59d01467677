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

mod part;
mod recipe;
mod trial;

use super::{KnownScratch, Offer, Predictor, Words};
use crate::{
    bits::write_varint,
    codec::{
        ChunkSpec, Input, Method,
        plane::CoderScratch,
        quantised::{self, Layout, gather, layout},
    },
    predict::{
        cast,
        quantise::{blocks, given},
    },
    simd::Level,
};
use part::{HALF, Sizes, put_part, take_part};
use recipe::Target;

pub use recipe::{Quantise, Recipe};
pub use trial::{Agreement, Trial};

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

/// What a chunk was made of, and how.
pub struct Given<'a> {
    how: &'a Quantise,
    floats: &'a [u8],
}

impl<'a> Given<'a> {
    /// What of the offers says it, and its place among what is known.
    pub fn among(offers: &[&'a Offer], known: &[&'a [u8]]) -> Option<(Self, Vec<Input>)> {
        offers.iter().find_map(|offer| match &offer.predictor {
            Predictor::Quantise(how) => {
                let floats = known.get(usize::from(*offer.inputs.first()?))?;
                Some((Given { how, floats }, offer.taken()))
            }
            _ => None,
        })
    }
}

/// Appends the payload; `None` where the type is none that can be predicted.
pub fn encode(
    level: Level,
    method: Method,
    words: Words<'_>,
    given: &Given<'_>,
    buffers: &mut KnownScratch,
    coder: &mut CoderScratch,
    out: &mut Vec<u8>,
) -> Option<()> {
    let (spec, words) = (words.spec, words.bytes);
    let Given { how, floats: known } = *given;
    let target = Target::of(spec.dtype)?;
    let mut q = std::mem::take(&mut buffers.quantised);
    how.write(out);
    how.widen(level, spec, known, &mut q.wide);
    let Quantised { wide, ranges, found, real, subs, fields, part } = &mut q;
    let mut put = |word, sizes: Sizes<'_>, real: &[u8], found: &[u8], out: &mut Vec<u8>| {
        part.clear();
        put_part(level, word, sizes, (real, found), buffers, part);
        write_varint(out, part.len() as u64);
        out.extend_from_slice(part);
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
