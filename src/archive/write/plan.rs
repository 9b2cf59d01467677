//! Which chunks an input is cut into.
//!
//! A large span becomes chunks of whole rows and nearly equal size. Small spans of one type share
//! a chunk, wherever they lie: 200,000 tiny tensors, or the padding between the members of a zip
//! file, cost a few bytes each. A large span whose bytes stand earlier in the input becomes copies.
//! The weights and moments of a parameter are cut alike, and their chunks stored by turns: a
//! group holds the same range of each.

use super::{
    bundle,
    chunk::ChunkPlan,
    cut::{cut, cut_alike, cut_every},
    derivation::{self, Finder},
    equality::{equal, probe},
    hints,
    siblings::Siblings,
};
use crate::{
    Result,
    archive::{
        access::{
            input::Input,
            relation::{self, Item, Link},
        },
        options::Options,
    },
    codec::{Method, Predictor, Trial},
    container::{Origin, Piece},
    dtype::Dtype,
    format::{self, Span, guess},
    predict::{cast::Narrow, float_state},
    simd::Level,
};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ops::Range,
};

/// Words in a chunk, unless a method asks otherwise.
pub const CHUNK_WORDS: u64 = 256 << 10;
/// Bytes in a chunk of opaque bytes.
const OPAQUE_CHUNK: u64 = 1 << 20;
/// Spans of fewer words share chunks.
pub(in crate::archive) const SMALL_WORDS: u64 = 16 << 10;
/// Elements in a chunk of quantised groups, and below which spans share chunks: a group is a word,
/// and has many.
const QUANTISED_ELEMENTS: u64 = 2 << 20;
const SMALL_QUANTISED: u64 = 128 << 10;
/// Words that may share a scale where rows are not known.
const UNKNOWN_ROW: u64 = 256;
/// The same in chunks of many small spans.
const SHARED_ROW: u64 = 64;
/// Largest number of pieces in one chunk.
const MAX_PIECES: usize = 1 << 14;

/// The chunks of an input, and what its parsers had to say.
pub struct Plan {
    /// Chunks in the order they are stored.
    pub chunks: Vec<ChunkPlan>,
    /// Those that are coded and decoded together.
    pub groups: Vec<Range<usize>>,
    /// Notes of the parsers, each with its file's path.
    pub notes: Vec<String>,
    /// Number of spans in all files.
    pub spans: u64,
}

/// Parses every file and cuts it into chunks.
///
/// # Errors
/// Only where reading fails.
pub fn plan(input: &Input<'_>, options: &Options) -> Result<Plan> {
    // What is looked for and read of an optimizer is arithmetic, whatever rounding is set outside.
    float_state::with_default(|| plan_chunks(input, options))
}

fn plan_chunks(input: &Input<'_>, options: &Options) -> Result<Plan> {
    let method = options.method;
    let mut planner = Planner::new(method);
    let mut notes = Vec::new();
    let mut found = options.optimizer.clone();
    let mut spans = 0;
    let parse = if method.guesses() { format::parse_and_guess } else { format::parse };
    let items = relation::items(input, parse, |i, parsed| {
        let path = &input.manifest.entries[i].path;
        notes.extend(parsed.notes.iter().map(|n| format!("{path}: {n}")));
        notes.extend(guess::summary(&parsed.guesses).map(|n| format!("{path}: {n}")));
        spans += parsed.spans.len() as u64;
        hints::from_groups(parsed, &mut found);
        hints::from_json(input, i, &mut found);
    })?;
    let base = options.base.as_ref().filter(|_| method.uses_base());
    let of_base = base.map_or(Ok(&[][..]), |base| base.items())?;
    let links = relation::links(&items, of_base);
    if method.uses_siblings() {
        planner.sizes = derivation::source_sizes(&items, of_base);
    }
    for (i, (item, link)) in items.iter().zip(&links).enumerate() {
        planner.add_span(item.span.clone(), *link, i);
    }
    planner.find_copies(options.level, input)?;
    let mut siblings = Siblings::default();
    if method.uses_siblings() {
        planner.store_in_families(&items);
        planner.find_siblings(&items, &mut siblings);
        siblings.bundles = bundle::bundles(&planner.small, &items, SHARED_ROW);
        let (base, level) = (base.map(|b| &**b), options.level);
        if let Some(base) = base {
            siblings.pair(input, base, &planner.large)?;
        }
        siblings.prepare(input, base, level, &found, &planner.large)?;
        let (large, trial) = (&planner.large[..], Trial::default());
        let mut finder = Finder { input, base, level, large, items: &items, trial };
        finder.find(&mut siblings)?;
    }
    let chunks = planner.finish(&siblings);
    let starts: Vec<usize> = (0..chunks.len()).filter(|&i| !chunks[i].continues_group).collect();
    let ends = starts.iter().skip(1).copied().chain([chunks.len()]);
    let groups = starts.iter().zip(ends).map(|(&start, end)| start..end).collect();
    Ok(Plan { chunks, groups, notes, spans })
}

/// Chunks of neighbouring spans, cut without looking at the rest of the input.
pub(in crate::archive) fn plan_window(spans: &[Span], method: Method) -> Vec<ChunkPlan> {
    let mut planner = Planner::new(method);
    for span in spans {
        planner.add_span(span.clone(), None, 0);
    }
    planner.finish(&Siblings::default())
}

/// Whether a span shares its chunk with others.
pub(in crate::archive) fn is_small(span: &Span) -> bool {
    span.len / (span.dtype.word_len() as u64) < small_words(span.dtype)
}

/// Spans of this type with fewer words share chunks.
fn small_words(dtype: Dtype) -> u64 {
    match dtype.group_elements() {
        1 => SMALL_WORDS,
        elements => SMALL_QUANTISED / elements,
    }
}

/// Words in a chunk of this type.
pub(in crate::archive) fn chunk_words(method: Method, dtype: Dtype) -> u64 {
    match method.chunk_len() {
        Some(len) => (len / dtype.word_len() as u64).max(1),
        None if dtype == Dtype::BYTES => OPAQUE_CHUNK,
        None if dtype.group_elements() > 1 => QUANTISED_ELEMENTS / dtype.group_elements(),
        None => method.chunk_words(dtype.word_len()).unwrap_or(CHUNK_WORDS),
    }
}

/// A large span in the archive's address space.
pub(in crate::archive) struct Large {
    pub span: Span,
    pub copy_of: Option<usize>,
    /// Where the base has it.
    pub link: Option<Link>,
    /// Which item it is.
    pub item: usize,
}

/// A span that shares its chunk with others.
pub(in crate::archive) struct Small {
    pub span: Span,
    /// Where the base has all of it.
    pub base: Option<u64>,
    /// Which item it is.
    pub item: usize,
}

struct Planner {
    method: Method,
    /// Numbers of elements of what others may follow from.
    sizes: HashSet<u64>,
    large: Vec<Large>,
    small: Vec<Small>,
    chunks: Vec<ChunkPlan>,
    open: HashMap<(Dtype, bool, bool), ChunkPlan>,
}

impl Planner {
    fn new(method: Method) -> Self {
        let (large, small, chunks) = (Vec::new(), Vec::new(), Vec::new());
        Planner { method, sizes: HashSet::new(), large, small, chunks, open: HashMap::new() }
    }

    fn add_span(&mut self, mut span: Span, link: Option<Link>, item: usize) {
        if span.row_words == 0 && span.dtype.is_float() {
            span.row_words = UNKNOWN_ROW;
        }
        if !is_small(&span) || derivation::may_follow(&span, &self.sizes) {
            self.large.push(Large { span, copy_of: None, link, item });
        } else if span.len > 0 {
            // A gathered chunk has a base for all of its bytes or for none.
            let whole = |l: &Link| l.dtype == span.dtype && l.len == span.len;
            let base = link.filter(whole).map(|l| l.offset);
            self.small.push(Small { span, base, item });
        }
    }

    fn add_small(&mut self, span: &Span, base: Option<u64>) {
        let key = (span.dtype, span.big_endian, base.is_some());
        let limit = chunk_words(self.method, span.dtype).max(small_words(span.dtype))
            * span.dtype.word_len() as u64;
        let row_words = if span.dtype.is_float() { SHARED_ROW } else { 0 };
        let empty = || ChunkPlan::new(Vec::new(), &Span { row_words, ..span.clone() });
        let open = self.open.entry(key).or_insert_with(empty);
        if open.len() + span.len > limit || open.pieces.len() >= MAX_PIECES {
            self.chunks.push(std::mem::replace(open, empty()));
        }
        append(&mut open.pieces, Piece { offset: span.offset, len: span.len });
        if let Some(offset) = base {
            let piece = Piece { offset, len: span.len };
            match open.known.first_mut() {
                Some(known) => append(&mut known.pieces, piece),
                None => {
                    let base = open.know(BASE, vec![piece]);
                    open.offer(Predictor::Base, &[base]);
                }
            }
        }
    }

    /// Of spans with the same bytes, stores the one that has the most siblings: they tell most
    /// about it, and it about them.
    fn store_in_families(&mut self, items: &[Item]) {
        let all = self.large.iter().enumerate().map(|(i, l)| (i, &items[l.item]));
        let mut siblings = vec![0; self.large.len()];
        for family in relation::families(all) {
            let members: Vec<usize> = family.iter().flatten().copied().collect();
            members.iter().for_each(|&i| siblings[i] = members.len());
        }
        let mut same: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (i, l) in self.large.iter().enumerate() {
            if let Some(j) = l.copy_of {
                same.entry(j).or_insert_with(|| vec![j]).push(i);
            }
        }
        for members in same.into_values() {
            let most = members.iter().map(|&i| siblings[i]).max();
            let stored = members.iter().copied().find(|&i| Some(siblings[i]) == most);
            for i in members {
                self.large[i].copy_of = stored.filter(|&j| j != i);
            }
        }
    }

    /// Finds the families of large spans that are no copies.
    fn find_siblings(&self, items: &[Item], siblings: &mut Siblings) {
        let large = self.large.iter().enumerate().filter(|(_, l)| l.copy_of.is_none());
        siblings.families = relation::families(large.map(|(i, l)| (i, &items[l.item])));
    }

    /// Finds large spans that equal an earlier one: same type and length, same bytes at a few
    /// fixed places, then same bytes everywhere.
    fn find_copies(&mut self, level: Level, input: &Input<'_>) -> Result<()> {
        let mut seen: HashMap<(Dtype, bool, u64, u64), Vec<usize>> = HashMap::new();
        for i in 0..self.large.len() {
            let span = &self.large[i].span;
            let key = (span.dtype, span.big_endian, span.len, probe(level, input, span)?);
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

    fn finish(mut self, siblings: &Siblings) -> Vec<ChunkPlan> {
        let large = std::mem::take(&mut self.large);
        let mut groups: Vec<Vec<ChunkPlan>> = Vec::new();
        // Bytes of the chunks of what is cut as others are: copies are cut like what they repeat.
        let mut chunk_len = vec![None; large.len()];
        for (f, family) in siblings.families.iter().enumerate() {
            let derived = siblings.derived_of(f);
            // Cut alike, whatever the widths of their words.
            let mut cut = |i: usize| {
                let chunks = match derived {
                    [] => cut(&large[i].span, None, CHUNK_WORDS),
                    _ => cut_alike(&large[i].span, derived),
                };
                chunk_len[i] = chunks.first().map(ChunkPlan::len);
                chunks
            };
            let members = family.map(|member| member.map(&mut cut));
            let derived = derived.iter().map(|d| cut(d.large)).collect();
            groups.extend(siblings.interleave(f, &large, members, derived));
        }
        for d in &siblings.from_base {
            let mut chunks = cut_alike(&large[d.large].span, std::slice::from_ref(d));
            chunk_len[d.large] = chunks.first().map(ChunkPlan::len);
            chunks.iter_mut().for_each(|c| derivation::offer(d, c, &large, None));
            groups.extend(chunks.into_iter().map(|c| vec![c]));
        }
        for (l, _) in large.iter().zip(&chunk_len).filter(|(_, len)| len.is_none()) {
            let source = l.copy_of.map(|j| &large[j].span);
            let most = chunk_words(self.method, l.span.dtype);
            let mut chunks = match l.copy_of.and_then(|j| chunk_len[j]) {
                Some(len) => cut_every(&l.span, source, len),
                None => cut(&l.span, source, most),
            };
            if l.copy_of.is_none() {
                for chunk in chunks.iter_mut() {
                    add_base(chunk, l);
                }
            }
            groups.extend(chunks.into_iter().map(|c| vec![c]));
        }
        for chunks in siblings.of_bundles() {
            groups.push(chunks);
        }
        let bundled = siblings.bundled();
        for (i, s) in std::mem::take(&mut self.small).into_iter().enumerate() {
            if !bundled.contains(&i) {
                self.add_small(&s.span, s.base);
            }
        }
        let open = std::mem::take(&mut self.open);
        let gathered = self.chunks.into_iter().chain(open.into_values());
        groups.extend(gathered.filter(|c| !c.pieces.is_empty()).map(|c| vec![c]));
        // Copies stand at their own place, but after the group of what they repeat.
        let offset = |c: &ChunkPlan| c.pieces.first().map_or(0, |p| p.offset);
        let start = |group: &Vec<ChunkPlan>| group.iter().map(offset).min().unwrap_or(0);
        let mut starts: HashMap<u64, u64> = HashMap::new();
        for group in &groups {
            starts.extend(group.iter().map(|c| (offset(c), start(group))));
        }
        groups.sort_by_cached_key(|group| {
            let source = group.first().and_then(|c| c.copy_of);
            let after = source.and_then(|s| starts.get(&s)).copied();
            (start(group).max(after.unwrap_or(0)), after.is_some(), start(group))
        });
        groups.into_iter().flatten().collect()
    }
}

/// A base whose bytes have not been hashed yet.
pub(in crate::archive) const BASE: Origin = Origin::Base { digest: 0 };

/// Adds a piece to a list, joined to the last one where it continues it.
pub(super) fn append(pieces: &mut Vec<Piece>, piece: Piece) {
    match pieces.last_mut() {
        Some(last) if last.offset + last.len == piece.offset => last.len += piece.len,
        _ => pieces.push(piece),
    }
}

/// The base's bytes for a chunk of a large span.
pub(in crate::archive) fn base_piece(chunk: &ChunkPlan, large: &Large) -> Option<(Piece, Dtype)> {
    let (link, piece) = (large.link?, chunk.pieces.first()?);
    let words = |bytes: u64| bytes / large.span.dtype.word_len() as u64;
    let word = link.dtype.word_len() as u64;
    let at = words(piece.offset - large.span.offset) * word;
    let len = words(piece.len) * word;
    (at + len <= link.len).then_some((Piece { offset: link.offset + at, len }, link.dtype))
}

/// Offers the base's bytes where it has them. Their index among what is known.
pub(in crate::archive) fn add_base(chunk: &mut ChunkPlan, large: &Large) -> Option<u8> {
    let (piece, dtype) = base_piece(chunk, large)?;
    let base = chunk.know(BASE, vec![piece]);
    let predictor = match (chunk.dtype, dtype) {
        (a, b) if a == b => Predictor::Base,
        (Dtype::F32, Dtype::F16) => Predictor::Widen(Narrow::F16),
        (Dtype::F32, _) => Predictor::Widen(Narrow::Bf16),
        _ => Predictor::Narrow,
    };
    chunk.offer(predictor, &[base]);
    Some(base)
}
