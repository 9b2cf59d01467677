//! How words were made, at the head of a payload.

use crate::{
    bits::{read_varint, write_varint},
    codec::{
        ChunkSpec,
        prediction::predictor::take,
        quantised::{Layout, layout},
    },
    dtype::Dtype,
    predict::quantise::{
        Source, blocks, given,
        scaled::{self, Scaled, Share},
        widen,
    },
    simd::Level,
};

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

/// What is predicted of a type.
#[derive(Clone, Copy)]
pub(super) enum Target {
    Blocks(blocks::Kind, &'static Layout),
    Given(&'static Layout, u8),
    Words(scaled::Kind),
}

impl Target {
    pub(super) fn of(dtype: Dtype) -> Option<Target> {
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
    pub(in crate::codec::prediction) fn fits(
        &self,
        spec: &ChunkSpec,
        len: usize,
        known: usize,
    ) -> bool {
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

    pub(super) fn write(&self, out: &mut Vec<u8>) {
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
    pub(super) fn read(payload: &mut &[u8]) -> Option<Quantise> {
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
    pub(super) fn widen(&self, level: Level, spec: &ChunkSpec, known: &[u8], wide: &mut Vec<u8>) {
        let row = self.row(spec).unwrap_or(0);
        widen(level, self.source, known, (row, self.half as usize), wide);
    }

    /// Computes words of eight bits.
    pub(super) fn words(
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

    pub(super) fn order(&self) -> u8 {
        match self.recipe {
            Recipe::Layout(order) => order,
            Recipe::Scaled(_) => 0,
        }
    }
}
