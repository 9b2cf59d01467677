//! The `QUANTISED` form: groups of scales and small integers as a plane for each kind of field.
//!
//! ```text
//! payload   the 16-bit floats: d, then m or dmin        half.rs
//!           other bytes · scales · mins                 coded planes
//!           elements                                    coded plane, or one with contexts
//! ```
//!
//! The layouts are tables ([`layout`]), and one splitter ([`gather`]) serves all of them. An element
//! is one symbol, wherever in the group its bits are; the bits that ggml keeps apart depend on each
//! other. Elements have a table for each context of their sub-group ([`context`]), whose fields
//! are coded before them.

mod context;
mod elements;
mod gather;
mod half;
mod layout;
#[cfg(test)]
mod tests;

use super::{
    Form, Method, bytes,
    plane::{self, Coded, Coder, CoderScratch, Policy},
};
use crate::{Result, dtype::Dtype, simd::Level};
use context::Known;
use elements::{Counts, PIECE, Subs};
use layout::Layout;

/// Memory that is reused from chunk to chunk.
#[derive(Default)]
pub struct Scratch {
    halves: [Vec<u16>; 2],
    bytes: [Vec<u8>; 3],
    scales: Vec<u8>,
    mins: Vec<u8>,
    elements: Vec<u8>,
    found: context::Scratch,
    subs: Vec<u8>,
    contexts: Vec<u8>,
    half: half::Scratch,
}

impl Scratch {
    fn known(&self) -> Known<'_> {
        let [d, m] = &self.halves;
        Known { d, m, scales: &self.scales, mins: &self.mins }
    }

    /// Finds the contexts of all sub-groups.
    fn find_contexts(&mut self, level: Level, layout: &Layout) {
        let mut found = std::mem::take(&mut self.found);
        let mut subs = std::mem::take(&mut self.subs);
        context::contexts(level, layout, self.known(), &mut found, &mut subs);
        (self.found, self.subs) = (found, subs);
        self.contexts.resize(PIECE, 0);
    }
}

/// Coders for a method.
struct Policies {
    scales: Policy,
    elements: Policy,
    /// Whether elements may have contexts.
    contexts: bool,
    /// Whether all elements are counted for them, not a part.
    count_all: bool,
}

impl Policies {
    fn of(method: Method) -> Self {
        let all = |coder| (Policy::Coder(coder), Policy::Coder(coder), false);
        let (scales, elements, contexts) = match method {
            Method::Cascade => all(Coder::Cascade),
            Method::Fast => (Policy::Smallest, Policy::Sampled, false),
            Method::Max => (Policy::Smallest, Policy::Smallest, true),
            _ => (Policy::Smallest, Policy::Sampled, true),
        };
        Policies { scales, elements, contexts, count_all: method == Method::Max }
    }
}

/// Elements from which on the tables of contexts surely pay.
const LARGE: usize = 512 << 10;

/// Appends the payload of a chunk of whole groups. Returns its form.
pub fn encode(
    level: Level,
    method: Method,
    dtype: Dtype,
    groups: &[u8],
    scratch: &mut Scratch,
    coder: &mut CoderScratch,
    out: &mut Vec<u8>,
) -> Result<Form> {
    let Some(layout) = layout::of(dtype) else { return Ok(Form::Stored) };
    let start = out.len();
    let policies = Policies::of(method);
    encode_fields(level, layout, &policies, groups, scratch, coder, out);
    encode_elements(level, layout, &policies, groups, scratch, coder, out);
    if matches!(method, Method::Auto | Method::Max)
        && let Some(coded) = bytes::rival(level, method, groups, out.len() - start)?
    {
        out.truncate(start);
        out.extend_from_slice(&coded);
        return Ok(Form::Zstd);
    }
    Ok(Form::Quantised)
}

/// Splits off and appends all but the elements.
fn encode_fields(
    level: Level,
    layout: &Layout,
    policies: &Policies,
    groups: &[u8],
    scratch: &mut Scratch,
    coder: &mut CoderScratch,
    out: &mut Vec<u8>,
) {
    let len = layout.len;
    scratch.halves.iter_mut().for_each(Vec::clear);
    for (half, &at) in scratch.halves.iter_mut().zip(layout.halves) {
        gather::split_halves(len, at, groups, half);
    }
    let [d, m] = &scratch.halves;
    half::encode(level, policies, d, None, &mut scratch.half, coder, out);
    if layout.halves.len() > 1 {
        half::encode(level, policies, m, Some(d), &mut scratch.half, coder, out);
    }
    for (plane, bytes) in scratch.bytes.iter_mut().zip(layout.bytes) {
        gather::split_bytes(len, bytes, groups, plane);
        plane::encode(level, policies.scales, plane, 8, coder, out);
    }
    let planes = [(&layout.scales, &mut scratch.scales), (&layout.mins, &mut scratch.mins)];
    for (values, plane) in planes {
        plane.clear();
        if let Some(values) = values {
            plane.resize(groups.len() / len * values.count, 0);
            gather::split(level, len, values, groups, plane);
            plane::encode(level, policies.scales, plane, values.bits, coder, out);
        }
    }
}

/// Splits off and appends the elements.
fn encode_elements(
    level: Level,
    layout: &Layout,
    policies: &Policies,
    groups: &[u8],
    scratch: &mut Scratch,
    coder: &mut CoderScratch,
    out: &mut Vec<u8>,
) {
    let values = &layout.elements;
    let start = out.len();
    let n = groups.len() / layout.len * values.count;
    scratch.elements.resize(n, 0);
    if policies.contexts {
        scratch.find_contexts(level, layout);
        let (subs, contexts) = (&scratch.subs[..], &mut scratch.contexts);
        let mut counts = Counts::new(layout, policies.count_all);
        let pieces = scratch.elements.chunks_mut(PIECE).zip(subs.chunks(PIECE / layout.sub_len()));
        let groups_a_piece = PIECE / values.count * layout.len;
        for ((piece, subs), groups) in pieces.zip(groups.chunks(groups_a_piece)) {
            gather::split(level, layout.len, values, groups, piece);
            if n < LARGE {
                counts.add_plain(level, piece);
            }
            context::turn(level, layout, subs, piece);
            counts.add(level, layout, subs, &mut contexts[..piece.len()], piece);
        }
        let elements = &scratch.elements;
        let subs = Subs { layout, contexts: subs };
        if counts.contexts_pay(n)
            && elements::encode_contexts(level, subs, elements, counts, contexts, coder, out)
        {
            return;
        }
        out.truncate(start);
        context::turn(level, layout, subs.contexts, &mut scratch.elements);
    } else {
        gather::split(level, layout.len, values, groups, &mut scratch.elements);
    }
    plane::encode(level, policies.elements, &scratch.elements, values.bits, coder, out);
}

/// Inverse of [`encode`] for the `QUANTISED` form; `None` where the payload is damaged.
pub fn decode(
    level: Level,
    dtype: Dtype,
    mut payload: &[u8],
    scratch: &mut Scratch,
    coder: &mut CoderScratch,
    out: &mut [u8],
) -> Option<()> {
    let layout = layout::of(dtype)?;
    let payload = &mut payload;
    decode_fields(level, layout, out.len() / layout.len, payload, scratch, coder)?;
    let coded = plane::take(payload)?;
    if !payload.is_empty() {
        return None;
    }
    decode_elements(level, layout, coded, scratch, coder, out)
}

/// Decodes all but the elements of `n` groups into the scratch.
fn decode_fields(
    level: Level,
    layout: &Layout,
    n: usize,
    payload: &mut &[u8],
    scratch: &mut Scratch,
    coder: &mut CoderScratch,
) -> Option<()> {
    let [d, m] = &mut scratch.halves;
    d.resize(n, 0);
    half::decode(level, payload, None, &mut scratch.half, coder, d)?;
    m.clear();
    if layout.halves.len() > 1 {
        m.resize(n, 0);
        half::decode(level, payload, Some(d), &mut scratch.half, coder, m)?;
    }
    for (plane, bytes) in scratch.bytes.iter_mut().zip(layout.bytes) {
        plane.resize(n * bytes.count, 0);
        plane::take(payload)?.decode(level, 8, coder, plane)?;
    }
    let planes = [(&layout.scales, &mut scratch.scales), (&layout.mins, &mut scratch.mins)];
    for (values, plane) in planes {
        plane.clear();
        if let Some(values) = values {
            plane.resize(n * values.count, 0);
            plane::take(payload)?.decode(level, values.bits, coder, plane)?;
        }
    }
    Some(())
}

/// Decodes the elements and joins the groups, piece by piece.
fn decode_elements(
    level: Level,
    layout: &Layout,
    coded: Coded<'_>,
    scratch: &mut Scratch,
    coder: &mut CoderScratch,
    out: &mut [u8],
) -> Option<()> {
    let values = &layout.elements;
    let n = out.len() / layout.len * values.count;
    let mut decoder = None;
    if coded.coder == Coder::Contexts {
        scratch.find_contexts(level, layout);
        decoder = Some(elements::Decoder::new(layout, coded, n)?);
        scratch.elements.resize(scratch.elements.len().max(PIECE.min(n)), 0);
    } else {
        scratch.elements.resize(n, 0);
        coded.decode(level, values.bits, coder, &mut scratch.elements)?;
    }
    let groups_a_piece = PIECE / values.count;
    for (i, out) in out.chunks_mut(groups_a_piece * layout.len).enumerate() {
        let groups = i * groups_a_piece..i * groups_a_piece + out.len() / layout.len;
        let scaled = |k: usize| groups.start * k..groups.end * k;
        let piece = if let Some(decoder) = &mut decoder {
            let piece = &mut scratch.elements[..groups.len() * values.count];
            let contexts = &mut scratch.contexts[..piece.len()];
            decoder.piece(level, layout, &scratch.subs[scaled(layout.subs())], contexts, piece)?;
            &*piece
        } else {
            &scratch.elements[scaled(values.count)]
        };
        out.fill(0);
        gather::join(level, layout.len, values, piece, out);
        for (values, plane) in [(&layout.scales, &scratch.scales), (&layout.mins, &scratch.mins)] {
            if let Some(values) = values {
                gather::join(level, layout.len, values, &plane[scaled(values.count)], out);
            }
        }
        for (half, &at) in scratch.halves.iter().zip(layout.halves) {
            gather::join_halves(layout.len, at, &half[groups.clone()], out);
        }
        for (plane, bytes) in scratch.bytes.iter().zip(layout.bytes) {
            gather::join_bytes(layout.len, bytes, &plane[scaled(bytes.count)], out);
        }
    }
    match decoder {
        Some(decoder) => decoder.finish(),
        None => Some(()),
    }
}
