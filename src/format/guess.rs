//! Floats in bytes that no parser knows: ONNX data, HDF5, msgpack, pickles, tar files, core dumps.
//!
//! A span of opaque bytes is looked at through small windows, and becomes spans of floats where it
//! shows them, at whatever offset they begin; the rest of it stays opaque.
//!
//! ```text
//! opaque   ░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░░
//! probe    ·       ·       F       F       F       ·       ·      windows, a step apart (probe)
//! kind                     F32, words begin at byte 3 of 4        what they hold (kind)
//! extent            [──────────────────────────)                  where that begins and ends (extent)
//! worth             what samples take, as floats and by zstd      whether it pays (worth)
//! spans    ░░░░░░░░░[ F32                      ]░░░░░░░░░░░░
//! ```
//!
//! Everything is decided in integers from bytes at places that depend on lengths and offsets alone,
//! so that a file always falls into the same spans. The spans stand in the metadata of chunks as
//! those of parsers do; a reader guesses nothing.

mod extent;
mod kind;
mod probe;
mod worth;

use super::{Parsed, Span};
use crate::{Result, dtype::Dtype, source::Source};
use kind::Kind;

/// Opaque spans shorter than this are left as they are.
const LEAST_SPAN: u64 = 8 << 10;
/// The shortest stretch of floats that becomes a span, in files of up to a gigabyte.
const LEAST_FLOATS: u64 = 4 << 10;
/// The most stretches in a file, by their least length.
const MOST_STRETCHES: u64 = 1 << 18;

/// Bytes that a stretch must save in a long span where no other is near.
const LEAST_SAVING: u64 = 4 << 10;
/// How far apart stretches are near each other.
const NEIGHBOURHOOD: u64 = 64 << 10;

/// A stretch of bytes taken for floats, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guess {
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// What the bytes are taken for.
    pub dtype: Dtype,
    /// Whether words are taken to be stored most significant byte first.
    pub big_endian: bool,
    /// Bytes of the samples that were coded in both ways.
    pub sampled: u64,
    /// What they take as floats.
    pub as_floats: u64,
    /// What they take as bytes, coded by zstd.
    pub as_bytes: u64,
}

impl Guess {
    /// Why the bytes are taken for floats.
    pub fn why(&self) -> String {
        let ratio = |n: u64| n as f64 / self.sampled.max(1) as f64;
        format!(
            "looks like {}{}: samples take {:.3} of their size, {:.3} as bytes",
            if self.big_endian { "big-endian " } else { "" },
            self.dtype,
            ratio(self.as_floats),
            ratio(self.as_bytes),
        )
    }
}

/// What was guessed of a file, as a sentence for the user; nothing where nothing was.
pub fn summary(guesses: &[Guess]) -> Option<String> {
    let mut types: Vec<Dtype> = guesses.iter().map(|g| g.dtype).collect();
    types.sort_unstable();
    types.dedup();
    let types: Vec<&str> = types.into_iter().map(Dtype::name).collect();
    let bytes: u64 = guesses.iter().map(|g| g.len).sum();
    (!guesses.is_empty()).then(|| {
        format!(
            "{bytes} bytes that no parser knows look like {} and are coded as such",
            types.join(" and ")
        )
    })
}

/// As [`parse`](super::parse); then bytes that no parser knows are looked at for floats.
///
/// # Errors
/// Where reading fails.
pub fn parse_and_guess(source: &dyn Source) -> Result<Parsed> {
    let mut parsed = super::parse(source)?;
    refine(source, &mut parsed)?;
    Ok(parsed)
}

/// Looks at bytes for floats that no parser was asked about.
///
/// # Errors
/// Where reading fails.
pub fn bytes(source: &dyn Source) -> Result<Parsed> {
    let mut parsed = Parsed::opaque(source.len());
    refine(source, &mut parsed)?;
    Ok(parsed)
}

/// Puts spans of floats in the place of opaque bytes that look like floats.
fn refine(source: &dyn Source, parsed: &mut Parsed) -> Result<()> {
    let mut spans = Vec::with_capacity(parsed.spans.len());
    for span in std::mem::take(&mut parsed.spans) {
        if span.dtype != Dtype::BYTES || span.len < LEAST_SPAN {
            spans.push(span);
            continue;
        }
        let guesses = floats_in(source, span.offset, span.len)?;
        let mut at = span.offset;
        for g in &guesses {
            if g.offset > at {
                spans.push(Span::opaque(at, g.offset - at));
            }
            let Guess { offset, len, dtype, big_endian, .. } = *g;
            spans.push(Span { offset, len, dtype, row_words: 0, big_endian });
            at = offset + len;
        }
        if at < span.offset + span.len {
            spans.push(Span::opaque(at, span.offset + span.len - at));
        }
        parsed.guesses.extend(guesses);
    }
    parsed.spans = spans;
    Ok(())
}

/// The stretches of floats among `len` bytes from `offset` on, in order, apart from each other.
pub(crate) fn floats_in(source: &dyn Source, offset: u64, len: u64) -> Result<Vec<Guess>> {
    let least = LEAST_FLOATS.max(source.len() / MOST_STRETCHES);
    let stretches = extent::stretches(source, offset, offset + len, least)?;
    let mut judge = worth::Judge::default();
    let mut guesses = Vec::with_capacity(stretches.len());
    for stretch in stretches {
        guesses.extend(judge.judge(source, &stretch)?);
    }
    Ok(without_islands(guesses, LEAST_SAVING.min(len / 64)))
}

/// The guesses that save something, or that lie near such: a cut costs what bytes on its two sides
/// would have told about each other.
fn without_islands(guesses: Vec<Guess>, least: u64) -> Vec<Guess> {
    let saves = |g: &Guess| {
        let saved = u128::from(g.as_bytes - g.as_floats) * u128::from(g.len);
        saved / u128::from(g.sampled) >= u128::from(least)
    };
    let near = |a: &Guess, b: &Guess| b.offset - (a.offset + a.len) <= NEIGHBOURHOOD;
    let keep = |i: usize| {
        let before = i > 0 && near(&guesses[i - 1], &guesses[i]) && saves(&guesses[i - 1]);
        let after = guesses.get(i + 1).is_some_and(|g| near(&guesses[i], g) && saves(g));
        before || after || saves(&guesses[i])
    };
    let kept: Vec<bool> = (0..guesses.len()).map(keep).collect();
    guesses.into_iter().zip(kept).filter(|(_, kept)| *kept).map(|(g, _)| g).collect()
}

/// A stretch of words of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stretch {
    from: u64,
    to: u64,
    kind: Kind,
}
