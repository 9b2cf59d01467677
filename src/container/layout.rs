//! What the chunks of an archive may be, whichever way it is read.
//!
//! A reader shows every chunk's metadata, in order, to a [`Layout`], and at the end has it checked
//! that together they restore all bytes once. The reader that seeks and the one that reads forward
//! so refuse the same archives.

use super::{BaseRecord, ChunkMeta, Limits, Origin, Piece, RecordType, Reference};
use crate::{Error, Result, codec::Form, dtype::Dtype};
use std::{collections::HashMap, ops::Range};

/// Most references of a chunk.
pub const MAX_REFERENCES: usize = 4;
/// Most chunks in a group.
pub const MAX_GROUP: usize = 16;

/// Where a stretch of the address space is stored.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The stretch.
    pub piece: Piece,
    /// Number of the chunk.
    pub chunk: u32,
    /// Offset of the piece in the decoded chunk.
    pub at: u64,
}

/// What a copy says too of the chunk that it equals.
#[derive(PartialEq, Eq)]
struct Source {
    len: u64,
    digest: u64,
    dtype: Dtype,
    big_endian: bool,
}

impl Source {
    fn of(meta: &ChunkMeta) -> Source {
        let ChunkMeta { digest, dtype, big_endian, .. } = *meta;
        Source { len: meta.len(), digest, dtype, big_endian }
    }
}

/// Checks metadata of chunks against those before, the files and the base.
pub struct Layout {
    limits: Limits,
    /// Ends of the files in the address space.
    ends: Vec<u64>,
    base_len: Option<u64>,
    /// Pieces of all chunks so far.
    places: Vec<Place>,
    chunks: u32,
    /// The chunks that copies may repeat, by first byte.
    sources: HashMap<u64, Source>,
    /// For every chunk of the group at hand, where its pieces are in `places`.
    group: Vec<Range<usize>>,
    /// Whether the chunk before is a copy, which no other chunk joins.
    after_copy: bool,
}

impl Layout {
    /// For an archive of files that end here in its address space. One whose length is not known
    /// ends at `u64::MAX`.
    pub fn new(limits: &Limits, ends: Vec<u64>) -> Layout {
        Layout {
            limits: *limits,
            ends,
            base_len: None,
            places: Vec::new(),
            chunks: 0,
            sources: HashMap::new(),
            group: Vec::new(),
            after_copy: false,
        }
    }

    /// Lets chunks refer to a base.
    pub fn set_base(&mut self, base: &BaseRecord) {
        self.base_len = base.total_len();
    }

    /// Checks the next chunk or copy.
    ///
    /// # Errors
    /// `Corrupt` where it contradicts itself or what came before; `LimitExceeded`.
    pub fn add(&mut self, kind: RecordType, payload_len: u32, meta: &ChunkMeta) -> Result<()> {
        let corrupt = |why: &str| Err(Error::Corrupt(why.into()));
        let is_copy = match kind {
            RecordType::Chunk => false,
            RecordType::Copy => true,
            _ => return corrupt("a record has a type that is unexpected here"),
        };
        if is_copy != meta.copy_of.is_some() || meta.is_empty() {
            return corrupt("its metadata does not fit its type");
        }
        if meta.len() > self.limits.chunk_len {
            return Err(Error::LimitExceeded(
                format!(
                    "it has {} bytes, more than the limit of {}",
                    meta.len(),
                    self.limits.chunk_len
                )
                .into(),
            ));
        }
        let end = self.ends.last().copied().unwrap_or(0);
        if meta.pieces.last().is_some_and(|p| p.end() > end) {
            return corrupt("it reaches beyond the files");
        }
        match meta.copy_of {
            Some(source) => self.check_copy(payload_len, meta, source)?,
            None if meta.form == Form::Copy => return corrupt("it has no form"),
            None => {}
        }
        self.start(meta)?;
        self.check_references(meta)?;
        self.push(meta)
    }

    fn check_copy(&self, payload_len: u32, meta: &ChunkMeta, source: u64) -> Result<()> {
        let is_plain = payload_len == 0
            && meta.form == Form::Copy
            && meta.references.is_empty()
            && !meta.continues_group
            && meta.pieces.len() == 1;
        let crosses = |p: &Piece| {
            let file = self.ends.partition_point(|&end| end <= p.offset);
            self.ends.get(file).is_none_or(|&end| end < p.end())
        };
        if !is_plain || meta.pieces.iter().any(crosses) {
            return Err(Error::Corrupt("a copy is more than one stretch of a file".into()));
        }
        match self.sources.get(&source) == Some(&Source::of(meta)) {
            true => Ok(()),
            false => Err(Error::Corrupt("a copy has no source".into())),
        }
    }

    /// Begins a group, or goes on with the one at hand.
    fn start(&mut self, meta: &ChunkMeta) -> Result<()> {
        if !meta.continues_group {
            self.group.clear();
        } else if self.group.is_empty() || self.after_copy {
            return Err(Error::Corrupt("it continues a group that there is not".into()));
        } else if self.group.len() >= MAX_GROUP {
            return Err(Error::Corrupt("a group of chunks is too long".into()));
        }
        self.after_copy = meta.copy_of.is_some();
        Ok(())
    }

    /// References lie inside the base, or each piece of them inside one of an earlier chunk of the
    /// group.
    fn check_references(&self, meta: &ChunkMeta) -> Result<()> {
        let is_there = |r: &Reference| {
            r.pieces.iter().all(|p| match r.origin {
                Origin::Base { .. } => self.base_len.is_some_and(|n| p.end() <= n),
                Origin::Sibling => self.group.iter().any(|chunk| {
                    let places = &self.places[chunk.clone()];
                    let after = places.partition_point(|q| q.piece.offset <= p.offset);
                    after > 0 && p.end() <= places[after - 1].piece.end()
                }),
            })
        };
        if meta.references.len() > MAX_REFERENCES {
            return Err(Error::Corrupt("it has too many references".into()));
        }
        for r in &meta.references {
            if r.is_empty() || !is_there(r) {
                return Err(Error::Corrupt("it refers to bytes that are not there".into()));
            }
            if r.len() > self.limits.chunk_len {
                return Err(Error::LimitExceeded(
                    format!(
                        "it refers to {} bytes, more than the limit of {}",
                        r.len(),
                        self.limits.chunk_len
                    )
                    .into(),
                ));
            }
        }
        Ok(())
    }

    fn push(&mut self, meta: &ChunkMeta) -> Result<()> {
        let first = self.places.len();
        let mut at = 0;
        for &piece in &meta.pieces {
            self.places.push(Place { piece, chunk: self.chunks, at });
            at += piece.len;
        }
        self.group.push(first..self.places.len());
        let taken = self.sources.insert(meta.offset(), Source::of(meta));
        if meta.copy_of.is_some() {
            self.sources.remove(&meta.offset());
        }
        if taken.is_some() {
            return Err(Error::Corrupt("chunks overlap".into()));
        }
        self.chunks = self
            .chunks
            .checked_add(1)
            .ok_or_else(|| Error::LimitExceeded("the archive has too many chunks".into()))?;
        Ok(())
    }

    /// Checks that all chunks together cover `0..total` once. Returns their pieces in the order of
    /// the address space.
    ///
    /// # Errors
    /// `Corrupt` where they do not.
    pub fn finish(mut self, total: u64) -> Result<Vec<Place>> {
        self.places.sort_by_key(|p| p.piece);
        let mut end = 0;
        for p in &self.places {
            if p.piece.offset != end {
                return Err(Error::Corrupt("chunks leave holes or overlap".into()));
            }
            end = p.piece.end();
        }
        match end == total {
            true => Ok(self.places),
            false => Err(Error::Corrupt("chunks do not cover the files".into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::meta::tests::plain as chunk, *};

    fn copy(offset: u64, len: u64, of: u64) -> ChunkMeta {
        ChunkMeta { form: Form::Copy, copy_of: Some(of), ..chunk(&[(offset, len)]) }
    }

    fn joined(meta: ChunkMeta, of: &[(u64, u64)]) -> ChunkMeta {
        let references = match of {
            [] => Vec::new(),
            of => vec![Reference { origin: Origin::Sibling, pieces: chunk(of).pieces }],
        };
        ChunkMeta { continues_group: true, references, ..meta }
    }

    /// Two files of 10 bytes.
    fn check(metas: &[ChunkMeta]) -> Result<Vec<Place>> {
        let limits = Limits { chunk_len: 100, ..Limits::default() };
        let mut layout = Layout::new(&limits, vec![10, 20]);
        for meta in metas {
            let is_copy = meta.copy_of.is_some();
            let kind = if is_copy { RecordType::Copy } else { RecordType::Chunk };
            layout.add(kind, u32::from(!is_copy), meta)?;
        }
        layout.finish(20)
    }

    #[test]
    fn chunks_cover_all_files_once() {
        let places = check(&[chunk(&[(15, 5)]), chunk(&[(0, 3), (10, 5)]), chunk(&[(3, 7)])]);
        let places: Vec<_> = places.unwrap().iter().map(|p| (p.piece.offset, p.chunk)).collect();
        assert_eq!(places, [(0, 1), (3, 2), (10, 1), (15, 0)]);
        let bad = [
            vec![],
            vec![chunk(&[(0, 19)])],
            vec![chunk(&[(0, 21)])],
            vec![chunk(&[(1, 19)])],
            vec![chunk(&[(0, 11)]), chunk(&[(10, 10)])],
            vec![chunk(&[(0, 9)]), chunk(&[(10, 10)])],
            vec![chunk(&[(0, 20)]), chunk(&[(0, 20)])],
            vec![ChunkMeta { form: Form::Copy, ..chunk(&[(0, 20)]) }],
        ];
        for metas in bad {
            assert!(matches!(check(&metas), Err(Error::Corrupt(_))), "{metas:?}");
        }
    }

    #[test]
    fn copies_repeat_an_earlier_chunk_that_is_none_within_one_file() {
        let first = chunk(&[(0, 5)]);
        let last = chunk(&[(10, 10)]);
        assert!(check(&[first.clone(), copy(5, 5, 0), last.clone()]).is_ok());
        let bad = [
            vec![copy(5, 5, 0), first.clone(), last.clone()],
            vec![first.clone(), copy(5, 5, 1), last.clone()],
            vec![first.clone(), copy(5, 4, 0), chunk(&[(9, 11)])],
            vec![first.clone(), ChunkMeta { digest: 2, ..copy(5, 5, 0) }, last.clone()],
            vec![first.clone(), ChunkMeta { form: Form::Stored, ..copy(5, 5, 0) }, last.clone()],
            vec![first.clone(), ChunkMeta { dtype: Dtype::I8, ..copy(5, 5, 0) }, last.clone()],
            vec![first.clone(), joined(copy(5, 5, 0), &[]), last.clone()],
            vec![first.clone(), copy(5, 5, 0), joined(last.clone(), &[])],
            vec![first, copy(5, 5, 0), copy(10, 5, 5), chunk(&[(15, 5)])],
            vec![chunk(&[(0, 4)]), copy(8, 4, 0), chunk(&[(4, 4), (12, 8)])],
        ];
        for metas in bad {
            assert!(matches!(check(&metas), Err(Error::Corrupt(_))), "{metas:?}");
        }
    }

    #[test]
    fn copies_have_words_in_the_order_of_what_they_repeat() {
        let words = |big_endian, meta| ChunkMeta { dtype: Dtype::BF16, big_endian, ..meta };
        for (of, by) in [(false, false), (true, true), (true, false), (false, true)] {
            let metas = [words(of, chunk(&[(0, 10)])), words(by, copy(10, 10, 0))];
            assert_eq!(check(&metas).is_ok(), of == by);
        }
    }

    #[test]
    fn siblings_lie_in_one_piece_of_an_earlier_chunk_of_the_group() {
        let first = chunk(&[(0, 5), (10, 5)]);
        let rest = chunk(&[(5, 5), (15, 5)]);
        for of in [&[(0, 5)][..], &[(11, 4)], &[(10, 5), (0, 2)]] {
            assert!(check(&[first.clone(), joined(rest.clone(), of)]).is_ok(), "{of:?}");
        }
        for of in [&[(4, 2)][..], &[(5, 1)], &[(9, 2)], &[(15, 5)], &[(14, 2)]] {
            let made = check(&[first.clone(), joined(rest.clone(), of)]);
            assert!(matches!(made, Err(Error::Corrupt(_))), "{of:?}");
        }
        let alone = ChunkMeta { continues_group: false, ..joined(rest.clone(), &[(0, 5)]) };
        let base = Reference { origin: Origin::Base { digest: 0 }, pieces: vec![rest.pieces[0]] };
        let bad = [
            vec![first.clone(), alone],
            vec![joined(first.clone(), &[]), rest.clone()],
            vec![first, ChunkMeta { references: vec![base], ..rest }],
        ];
        for metas in bad {
            assert!(matches!(check(&metas), Err(Error::Corrupt(_))), "{metas:?}");
        }
    }

    #[test]
    fn groups_and_references_have_a_largest_number() {
        let group = |n: u64| -> Vec<ChunkMeta> {
            let one = |i| ChunkMeta { continues_group: i > 0, ..chunk(&[(i, 1)]) };
            (0..n).map(one).chain([chunk(&[(n, 20 - n)])]).collect()
        };
        assert!(check(&group(MAX_GROUP as u64)).is_ok());
        assert!(check(&group(MAX_GROUP as u64 + 1)).is_err());
        for n in [MAX_REFERENCES, MAX_REFERENCES + 1] {
            let mut metas = vec![chunk(&[(0, 10)]), joined(chunk(&[(10, 10)]), &[(0, 1)])];
            metas[1].references = vec![metas[1].references[0].clone(); n];
            assert_eq!(check(&metas).is_ok(), n == MAX_REFERENCES);
        }
    }
}
