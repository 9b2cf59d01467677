//! Which chunks an input is cut into.
//!
//! A large span becomes chunks of whole rows and nearly equal size. Small spans of one type share
//! a chunk, wherever they lie: 200,000 tiny tensors, or the padding between the members of a zip
//! file, cost a few bytes each. A large span whose bytes stand earlier in the input becomes copies.

use super::input::Input;
use crate::{
    Result,
    codec::Method,
    container::Piece,
    dtype::Dtype,
    format::{self, Parsed, Span},
};
use std::collections::HashMap;

/// Words in a chunk, unless a method asks otherwise.
pub const CHUNK_WORDS: u64 = 256 << 10;
/// Bytes in a chunk of opaque bytes.
const OPAQUE_CHUNK: u64 = 1 << 20;
/// Spans of fewer words share chunks.
const SMALL_WORDS: u64 = 16 << 10;
/// Words that `max` gives one scale where rows are not known.
const UNKNOWN_ROW: u64 = 256;
/// Largest number of pieces in one chunk.
const MAX_PIECES: usize = 1 << 14;

/// One chunk to be coded.
#[derive(Clone, Debug)]
pub struct ChunkPlan {
    /// Its bytes, in ascending order.
    pub pieces: Vec<Piece>,
    /// Type of its words.
    pub dtype: Dtype,
    /// Whether words are stored most significant byte first.
    pub big_endian: bool,
    /// Words in a row, 0 where unknown.
    pub row_words: u64,
    /// First byte of an earlier chunk with the same bytes.
    pub copy_of: Option<u64>,
}

impl ChunkPlan {
    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(|p| p.len).sum()
    }
}

/// The chunks of an input, and what its parsers had to say.
pub struct Plan {
    /// Chunks in the order they are stored.
    pub chunks: Vec<ChunkPlan>,
    /// Notes of the parsers, each with its file's path.
    pub notes: Vec<String>,
    /// Number of spans in all files.
    pub spans: u64,
}

/// Parses every file and cuts it into chunks.
///
/// # Errors
/// Only where reading fails.
pub fn plan(input: &Input<'_>, method: Method) -> Result<Plan> {
    let mut planner = Planner::new(method);
    let mut notes = Vec::new();
    let mut spans = 0;
    for (entry, start, source) in input.files() {
        let parsed = match entry.flat {
            Some(dtype) => format::parse_flat(source.len(), dtype),
            None => format::parse(source).map_err(|e| e.at(&entry.path))?,
        };
        notes.extend(parsed.notes.iter().map(|n| format!("{}: {n}", entry.path)));
        spans += parsed.spans.len() as u64;
        planner.add_file(&parsed, start);
    }
    planner.find_copies(input)?;
    Ok(Plan { chunks: planner.finish(), notes, spans })
}

/// Chunks of neighbouring spans, cut without looking at the rest of the input.
pub(super) fn plan_window(spans: &[Span], method: Method) -> Vec<ChunkPlan> {
    let mut planner = Planner::new(method);
    for span in spans {
        planner.add_span(span.clone());
    }
    planner.finish()
}

/// Whether a span shares its chunk with others.
pub(super) fn is_small(span: &Span) -> bool {
    span.len / (span.dtype.word_len() as u64) < SMALL_WORDS
}

/// Words in a chunk of this type.
pub(super) fn chunk_words(method: Method, dtype: Dtype) -> u64 {
    match method.chunk_len() {
        Some(len) => (len / dtype.word_len() as u64).max(1),
        None if dtype == Dtype::BYTES => OPAQUE_CHUNK,
        None => method.chunk_words(dtype.word_len()).unwrap_or(CHUNK_WORDS),
    }
}

/// A large span in the archive's address space.
struct Large {
    span: Span,
    copy_of: Option<usize>,
}

struct Planner {
    method: Method,
    large: Vec<Large>,
    chunks: Vec<ChunkPlan>,
    open: HashMap<(Dtype, bool), ChunkPlan>,
}

impl Planner {
    fn new(method: Method) -> Self {
        Planner { method, large: Vec::new(), chunks: Vec::new(), open: HashMap::new() }
    }

    fn add_file(&mut self, parsed: &Parsed, start: u64) {
        for span in &parsed.spans {
            self.add_span(Span { offset: span.offset + start, ..span.clone() });
        }
    }

    fn add_span(&mut self, mut span: Span) {
        if span.row_words == 0 && self.method == Method::Max && span.dtype.is_float() {
            span.row_words = UNKNOWN_ROW;
        }
        if !is_small(&span) {
            self.large.push(Large { span, copy_of: None });
        } else if span.len > 0 {
            self.add_small(&span);
        }
    }

    fn add_small(&mut self, span: &Span) {
        let key = (span.dtype, span.big_endian);
        let limit =
            chunk_words(self.method, span.dtype).max(SMALL_WORDS) * span.dtype.word_len() as u64;
        let open = self.open.entry(key).or_insert_with(|| ChunkPlan {
            pieces: Vec::new(),
            dtype: span.dtype,
            big_endian: span.big_endian,
            row_words: 0,
            copy_of: None,
        });
        if open.len() + span.len > limit || open.pieces.len() >= MAX_PIECES {
            let full = ChunkPlan { pieces: std::mem::take(&mut open.pieces), ..open.clone() };
            self.chunks.push(full);
        }
        match open.pieces.last_mut() {
            Some(last) if last.offset + last.len == span.offset => last.len += span.len,
            _ => open.pieces.push(Piece { offset: span.offset, len: span.len }),
        }
    }

    /// Finds large spans that equal an earlier one: same type and length, same bytes at a few
    /// fixed places, then same bytes everywhere.
    fn find_copies(&mut self, input: &Input<'_>) -> Result<()> {
        let mut seen: HashMap<(Dtype, bool, u64, u64), Vec<usize>> = HashMap::new();
        for i in 0..self.large.len() {
            let span = &self.large[i].span;
            let key = (span.dtype, span.big_endian, span.len, probe(input, span)?);
            let same = seen.entry(key).or_default();
            let mut found = None;
            for &j in same.iter() {
                if equal(input, span, &self.large[j].span)? {
                    found = Some(j);
                    break;
                }
            }
            match found {
                Some(j) => self.large[i].copy_of = Some(j),
                None => same.push(i),
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Vec<ChunkPlan> {
        let large = std::mem::take(&mut self.large);
        for l in &large {
            let source = l.copy_of.map(|j| &large[j].span);
            self.cut(&l.span, source);
        }
        let open = std::mem::take(&mut self.open);
        self.chunks.extend(open.into_values().filter(|c| !c.pieces.is_empty()));
        self.chunks.sort_by_key(|c| c.pieces.first().map(|p| p.offset));
        self.chunks
    }

    fn cut(&mut self, span: &Span, source: Option<&Span>) {
        let word = span.dtype.word_len() as u64;
        let row = source.unwrap_or(span).row_words.max(1);
        let most = chunk_words(self.method, span.dtype);
        let unit = if row <= most { row } else { 1 };
        let units = (span.len / word).div_ceil(unit);
        let per_chunk = units.div_ceil(units.div_ceil(most / unit)) * unit * word;
        let mut at = 0;
        while at < span.len {
            let len = per_chunk.min(span.len - at);
            self.chunks.push(ChunkPlan {
                pieces: vec![Piece { offset: span.offset + at, len }],
                dtype: span.dtype,
                big_endian: span.big_endian,
                row_words: span.row_words,
                copy_of: source.map(|s| s.offset + at),
            });
            at += len;
        }
    }
}

const PROBE: u64 = 2048;

fn probe(input: &Input<'_>, span: &Span) -> Result<u64> {
    let len = PROBE.min(span.len);
    let at = |offset| Piece { offset, len };
    let middle = span.offset + (span.len - len) / 2;
    let pieces = [at(span.offset), at(middle), at(span.offset + span.len - len)];
    let mut bytes = vec![0; 3 * len as usize];
    input.read(&pieces, &mut bytes)?;
    Ok(crate::container::hash64(&bytes))
}

fn equal(input: &Input<'_>, a: &Span, b: &Span) -> Result<bool> {
    const STEP: u64 = 1 << 20;
    let (mut x, mut y) = (vec![0; STEP as usize], vec![0; STEP as usize]);
    let mut at = 0;
    while at < a.len {
        let len = STEP.min(a.len - at);
        let (x, y) = (&mut x[..len as usize], &mut y[..len as usize]);
        input.read(&[Piece { offset: a.offset + at, len }], x)?;
        input.read(&[Piece { offset: b.offset + at, len }], y)?;
        if x != y {
            return Ok(false);
        }
        at += len;
    }
    Ok(true)
}
