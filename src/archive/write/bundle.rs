//! Small tensors of parameters, as groups of chunks like those of large ones.
//!
//! ```text
//! group    first moments of a, b, c … | second moments of a, b, c … | weights … | narrow copies …
//! ```
//!
//! Alone, a tensor of a layer norm or a low rank takes less than a chunk costs; among other small
//! tensors nothing is known of it but its base. So what the same roles of several parameters hold
//! stands side by side in one chunk each, in the same order, and is predicted like a large tensor.
//!
//! Pieces of a chunk ascend, so parameters that stand in another order in one of the files begin
//! another bundle. A bundle in which nothing was found that leads on from the base is dissolved:
//! its tensors share chunks with all others.

use super::{
    chunk::ChunkPlan,
    plan::{BASE, CHUNK_WORDS, Small},
};
use crate::{
    archive::access::relation::{self, Item, ROLES, Role},
    codec::Predictor,
    container::Piece,
    dtype::Dtype,
    format::Span,
};

/// Words below which parameters get no chunks of their own.
const LEAST_WORDS: u64 = 512;
/// Most parameters in a bundle.
const MOST: usize = 1 << 12;

/// Small tensors of the same roles of several parameters.
#[derive(Default)]
pub(in crate::archive) struct Bundle {
    /// What each role has.
    pub members: [Option<Member>; ROLES],
    /// Indices of its spans among the small ones.
    pub spans: Vec<usize>,
    words: u64,
}

/// Tensors of one role.
#[derive(Clone)]
pub(in crate::archive) struct Member {
    /// Where they stand.
    pub pieces: Vec<Piece>,
    /// Where the base has them.
    pub base: Vec<Piece>,
    /// Like which they are.
    pub span: Span,
}

impl Member {
    /// The chunk of all of them, and the index of the base among what is known of it.
    pub fn chunk(&self) -> (ChunkPlan, u8) {
        let mut chunk = ChunkPlan::new(joined(&self.pieces), &self.span);
        let base = chunk.know(BASE, joined(&self.base));
        chunk.offer(Predictor::Base, &[base]);
        (chunk, base)
    }
}

/// Pieces, of which those that follow one another are one.
pub(super) fn joined(pieces: &[Piece]) -> Vec<Piece> {
    let mut all = Vec::new();
    pieces.iter().for_each(|piece| super::plan::append(&mut all, *piece));
    all
}

/// The bundles among small spans: of parameters that have a moment or an averaged copy, each role
/// of which the base has.
pub(in crate::archive) fn bundles(small: &[Small], items: &[Item], row_words: u64) -> Vec<Bundle> {
    let of_base = |i: &usize| small[*i].base.is_some();
    let mut kinds: Vec<([Option<Dtype>; ROLES], bool, Vec<Bundle>)> = Vec::new();
    let mut families: Vec<_> =
        relation::families(small.iter().enumerate().map(|(i, s)| (i, &items[s.item])))
            .into_iter()
            .map(|family| family.map(|member| member.filter(of_base)))
            .filter(|f| f[Role::First as usize].or(f[Role::Average as usize]).is_some())
            .collect();
    let offset = |i: &usize| small[*i].span.offset;
    families.sort_by_key(|family| family.iter().flatten().map(offset).min());
    for family in families {
        let Some(any) = family.iter().flatten().next() else { continue };
        let dtypes = family.map(|member| member.map(|i| small[i].span.dtype));
        let big_endian = small[*any].span.big_endian;
        let words = small[*any].span.len / small[*any].span.dtype.word_len() as u64;
        let at = kinds.iter().position(|k| k.0 == dtypes && k.1 == big_endian);
        let at = at.unwrap_or_else(|| {
            kinds.push((dtypes, big_endian, Vec::new()));
            kinds.len() - 1
        });
        let open = &mut kinds[at].2;
        let follows = |bundle: &Bundle| {
            let behind = |(member, i): (&Option<Member>, &Option<usize>)| {
                let last = member.as_ref().and_then(|m| m.pieces.last());
                let span = i.map(|i| &small[i].span);
                last.zip(span).is_none_or(|(last, span)| last.offset + last.len <= span.offset)
            };
            bundle.words + words <= CHUNK_WORDS
                && bundle.spans.len() < MOST
                && bundle.members.iter().zip(&family).all(behind)
        };
        if !open.last().is_some_and(follows) {
            open.push(Bundle::default());
        }
        let Some(bundle) = open.last_mut() else { continue };
        bundle.words += words;
        for (member, i) in bundle.members.iter_mut().zip(family) {
            let Some(i) = i else { continue };
            let Small { span, base, .. } = &small[i];
            let Some(base) = *base else { continue };
            let empty = || Member {
                pieces: Vec::new(),
                base: Vec::new(),
                span: Span { row_words, ..span.clone() },
            };
            let member = member.get_or_insert_with(empty);
            member.pieces.push(Piece { offset: span.offset, len: span.len });
            member.base.push(Piece { offset: base, len: span.len });
            bundle.spans.push(i);
        }
    }
    let all = kinds.into_iter().flat_map(|kind| kind.2);
    all.filter(|bundle| bundle.words >= LEAST_WORDS).collect()
}
