//! Which tensors were made of others: casts, and what quantisers made.
//!
//! ```text
//! floats     of one shape, from the wide ones to the narrow ones: each may be the rounding of one
//!            before it, by name or else by trial
//! quantised  of the same shape: by name, with the rows of heads interleaved or not; else by trial
//!            of all; else by name what is only similar; all that again in the base
//! ```
//!
//! A trial ([`trial`]) predicts a row or a block. What was found joins the family of its source, so
//! that the same rows of all stand in one group.

mod trial;

use super::{
    chunk::ChunkPlan,
    plan::{BASE, CHUNK_WORDS, Large, SMALL_WORDS, add_base},
    siblings::Siblings,
};
use crate::{
    Result,
    archive::access::{
        Input,
        base::Base,
        naming::parameter_name,
        relation::{Family, Item, Role},
    },
    codec::{Predictor, Quantise, Trial},
    container::{Origin, Piece, layout::MAX_GROUP},
    dtype::Dtype,
    format::Span,
    predict::quantise::Source,
    simd::Level,
};
use std::collections::{HashMap, HashSet};

/// Elements in the largest chunk that is made to hold whole heads or blocks.
const LARGEST: u64 = 4 << 20;

/// A tensor that follows from another.
#[derive(Clone, Debug)]
pub(in crate::archive) struct Derived {
    /// What follows: an index into the large spans.
    pub large: usize,
    /// What it follows from.
    pub from: From,
    /// How.
    pub predictor: Predictor,
    /// Rows that chunks hold a multiple of.
    pub rows: u64,
}

impl Derived {
    /// Whether this says that a large span follows from another, or another from it.
    fn follows(&self, large: usize) -> bool {
        self.large == large || matches!(self.from, From::Large(i) if i == large)
    }
}

/// What something follows from.
#[derive(Clone, Debug)]
pub(in crate::archive) enum From {
    /// A large span of the same archive.
    Large(usize),
    /// A span of the base.
    Base(Span),
}

/// Numbers of elements that something of the input or base may be quantised from.
pub(in crate::archive) fn source_sizes(items: &[Item], base: &[Item]) -> HashSet<u64> {
    let all = items.iter().chain(base).map(|i| &i.span);
    all.filter(|s| source_of(s).is_some()).map(elements).collect()
}

/// Whether a source is looked for of a span that is small for its type.
pub(in crate::archive) fn may_follow(span: &Span, sizes: &HashSet<u64>) -> bool {
    let n = elements(span);
    Quantise::predicts(span.dtype) && n >= SMALL_WORDS && sizes.contains(&n)
}

fn elements(span: &Span) -> u64 {
    span.len / span.dtype.word_len() as u64 * span.dtype.group_elements()
}

/// Values in a row; all of them where rows are not known.
fn row_elements(span: &Span) -> u64 {
    match span.row_words * span.dtype.group_elements() {
        0 => elements(span),
        row => row,
    }
}

fn source_of(span: &Span) -> Option<Source> {
    match span.dtype {
        _ if span.big_endian => None,
        Dtype::BF16 => Some(Source::Bf16),
        Dtype::F16 => Some(Source::F16),
        Dtype::F32 => Some(Source::F32),
        _ => None,
    }
}

/// Numbers of values, and of those in a row.
type Shape = (u64, u64);

/// A span that others may follow from.
struct Candidate {
    span: Span,
    source: Source,
    from: From,
    names: Vec<String>,
}

/// Looks for what follows from what.
pub(in crate::archive) struct Finder<'f> {
    pub input: &'f Input<'f>,
    pub base: Option<&'f Base>,
    pub level: Level,
    pub large: &'f [Large],
    pub items: &'f [Item],
    pub trial: Trial,
}

impl Finder<'_> {
    /// Finds everything, and puts it into the families of its sources.
    pub fn find(&mut self, siblings: &mut Siblings) -> Result<()> {
        let names = self.names();
        let mut family_of: HashMap<usize, usize> = HashMap::new();
        for (f, family) in siblings.families.iter().enumerate() {
            family_of.extend(family.iter().flatten().map(|&i| (i, f)));
        }
        let mut found: Vec<Derived> = Vec::new();
        let sources = self.casts(&names, &family_of, &mut found)?;
        let cast: HashSet<usize> = found.iter().map(|d| d.large).collect();
        let mut base = None;
        for i in 0..self.large.len() {
            let (span, shape) = (self.span(i), self.shape(i));
            let is_source = source_of(&span).is_some();
            if !Quantise::predicts(span.dtype)
                || is_source
                || span.big_endian
                || self.large[i].copy_of.is_some()
                || family_of.contains_key(&i)
                || cast.contains(&i)
            {
                continue;
            }
            let none = Vec::new();
            let of = names.get(&i).unwrap_or(&none);
            let mut derived = match sources.get(&shape) {
                Some(known) => self.find_source(i, known, of)?,
                None => None,
            };
            if derived.is_none() {
                let base = match &mut base {
                    Some(base) => base,
                    base => base.insert(self.base_sources()?),
                };
                if let Some(known) = base.get(&shape) {
                    derived = self.find_source(i, known, of)?;
                }
            }
            found.extend(derived);
        }
        self.join(found, siblings, family_of);
        Ok(())
    }

    /// A large span as the file has it.
    fn span(&self, i: usize) -> Span {
        self.items[self.large[i].item].span.clone()
    }

    fn shape(&self, i: usize) -> Shape {
        let span = &self.items[self.large[i].item].span;
        (elements(span), row_elements(span))
    }

    /// The names of every large span, and of its copies.
    fn names(&self) -> HashMap<usize, Vec<String>> {
        let mut all: HashMap<usize, Vec<String>> = HashMap::new();
        for (i, l) in self.large.iter().enumerate() {
            let name = self.items[l.item].name.as_deref().filter(|n| !n.is_empty());
            if let Some(name) = name.map(parameter_name) {
                let names = all.entry(l.copy_of.unwrap_or(i)).or_default();
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        all
    }

    /// Finds floats that are roundings of others. Returns all floats, by shape.
    fn casts(
        &mut self,
        names: &HashMap<usize, Vec<String>>,
        family_of: &HashMap<usize, usize>,
        found: &mut Vec<Derived>,
    ) -> Result<HashMap<Shape, Vec<Candidate>>> {
        let is_float = |i: &usize| source_of(&self.span(*i)).is_some();
        let original = |i: &usize| self.large[*i].copy_of.is_none() && names.contains_key(i);
        let mut floats: Vec<usize> =
            (0..self.large.len()).filter(original).filter(is_float).collect();
        let is_wide = |i: usize| self.large[i].span.dtype == Dtype::F32;
        let is_half = |i: usize| self.large[i].span.dtype == Dtype::F16;
        floats.sort_by_key(|&i| (!is_wide(i), !family_of.contains_key(&i), is_half(i)));
        let mut sources: HashMap<Shape, Vec<Candidate>> = HashMap::new();
        for i in floats {
            let span = self.span(i);
            let Some(source) = source_of(&span) else { continue };
            let known = sources.entry(self.shape(i)).or_default();
            let names = names.get(&i).cloned().unwrap_or_default();
            let mut cast = None;
            if !family_of.contains_key(&i) {
                cast = self.find_cast(i, known, &names)?;
            }
            let this = Candidate { span, source, from: From::Large(i), names };
            let taken = |j: &usize| {
                family_of.contains_key(j) || found.iter().any(|d: &Derived| d.follows(*j))
            };
            if cast.is_none() && this.source == Source::F16 {
                // The other way round: bf16 words may be roundings of these.
                for c in known.iter().filter(|c| c.names.iter().any(|n| this.names.contains(n))) {
                    if let From::Large(j) = c.from
                        && c.source == Source::Bf16
                        && !taken(&j)
                    {
                        cast = self.find_cast(j, std::slice::from_ref(&this), &c.names)?;
                    }
                }
            }
            found.extend(cast);
            known.push(this);
        }
        Ok(sources)
    }

    /// Floats of the base, by shape.
    fn base_sources(&self) -> Result<HashMap<Shape, Vec<Candidate>>> {
        let mut all: HashMap<Shape, Vec<Candidate>> = HashMap::new();
        let items = self.base.map_or(Ok(&[][..]), |base| base.items())?;
        for item in items {
            let (Some(source), Some(name)) = (source_of(&item.span), &item.name) else { continue };
            if elements(&item.span) >= SMALL_WORDS {
                let shape = (elements(&item.span), row_elements(&item.span));
                let (span, names) = (item.span.clone(), vec![parameter_name(name)]);
                let from = From::Base(span.clone());
                all.entry(shape).or_default().push(Candidate { span, source, from, names });
            }
        }
        Ok(all)
    }

    fn read(&self, from: &From, pieces: &[Piece]) -> Result<Vec<u8>> {
        let mut bytes = vec![0; pieces.iter().map(|p| p.len).sum::<u64>() as usize];
        match (from, self.base) {
            (From::Base(_), Some(base)) => base.read(pieces, &mut bytes)?,
            _ => self.input.read(pieces, &mut bytes)?,
        }
        Ok(bytes)
    }

    /// Puts what was found into families, as long as groups have room and chunks stay bounded.
    fn join(
        &self,
        found: Vec<Derived>,
        siblings: &mut Siblings,
        mut family_of: HashMap<usize, usize>,
    ) {
        for d in found {
            let From::Large(source) = d.from else {
                siblings.from_base.push(d);
                continue;
            };
            let f = *family_of.entry(source).or_insert_with(|| {
                let mut family = Family::default();
                family[Role::Model as usize] = Some(source);
                siblings.families.push(family);
                siblings.families.len() - 1
            });
            siblings.derived.resize_with(siblings.families.len(), Vec::new);
            let members = siblings.families[f].iter().flatten().count();
            let derived = &mut siblings.derived[f];
            let rows = derived.iter().map(|d| d.rows).fold(d.rows, common_multiple);
            let (_, row) = self.shape(d.large);
            let fits = rows == 1 || rows.saturating_mul(row) <= LARGEST;
            if members + derived.len() < MAX_GROUP && fits {
                family_of.insert(d.large, f);
                derived.push(d);
            }
        }
        siblings.derived.resize_with(siblings.families.len(), Vec::new);
    }
}

fn common_multiple(a: u64, b: u64) -> u64 {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    (a / x.max(1)).saturating_mul(b)
}

/// Elements in the chunks of a span, which hold as many rows as all of these need.
pub(in crate::archive) fn elements_in_chunk(span: &Span, derived: &[Derived]) -> u64 {
    let rows = derived.iter().map(|d| d.rows).fold(1, common_multiple);
    let unit = match row_elements(span).saturating_mul(rows) {
        // Groups of all layouts are whole.
        unit if rows == 1 && unit > CHUNK_WORDS => 256,
        unit => unit.max(1),
    };
    let units = elements(span).div_ceil(unit);
    units.div_ceil(units.div_ceil((CHUNK_WORDS / unit).max(1)).max(1)).max(1) * unit
}

/// Bytes that hold so many elements.
pub(in crate::archive) fn bytes_of(span: &Span, elements: u64) -> u64 {
    elements / span.dtype.group_elements() * span.dtype.word_len() as u64
}

/// Says what a chunk follows from, the same chunk of its source having these pieces.
pub(in crate::archive) fn offer(
    d: &Derived,
    chunk: &mut ChunkPlan,
    large: &[Large],
    source: Option<Piece>,
) {
    add_base(chunk, &large[d.large]);
    let (origin, piece) = match &d.from {
        From::Large(_) => (Origin::Sibling, source),
        From::Base(span) => {
            let at = |bytes: u64| {
                let target = &large[d.large].span;
                let elements = bytes / target.dtype.word_len() as u64;
                bytes_of(span, elements * target.dtype.group_elements())
            };
            let piece = chunk.pieces.first().map(|p| Piece {
                offset: span.offset + at(p.offset - large[d.large].span.offset),
                len: at(p.len),
            });
            (BASE, piece)
        }
    };
    if let Some(piece) = piece {
        let source = chunk.know(origin, vec![piece]);
        chunk.offer(d.predictor.clone(), &[source]);
    }
}
