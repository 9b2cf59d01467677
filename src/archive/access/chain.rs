//! Decoding through a chain of deltas with the memory of one link.
//!
//! On demand every link would recurse into the next one, with buffers and decoded chunks of its
//! own for as long as the work goes on. Instead, before a group of chunks is decoded, the chunks
//! that it needs are listed link by link down the chain, and then decoded from the bottom up:
//!
//! ```text
//! needs[0] = chunks of the base that the group refers to, and those that these refer to in it
//! needs[1] = the same for needs[0] and the base's own base, and so on
//! for link in deepest..=0: decode needs[link], reading needs[link + 1]; forget needs[link + 1]
//! ```
//!
//! So every chunk of a link is decoded once a group, and only two links are in memory. Where a
//! group needs more than a multiple of its own size (chunks that are cut very differently), or
//! something is damaged, nothing is prepared and reading on demand finds out the rest.

use super::{Archive, Base, base::Attached, decode::Buffers};
use crate::{
    Result,
    container::{Origin, Piece},
    simd::Level,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

/// Most bytes that are prepared in one link, beside [`TIMES`] the size of what needs them.
const LEAST: u64 = 16 << 20;
/// See [`LEAST`].
const TIMES: u64 = 8;

/// Decoded chunks of one archive.
#[derive(Default)]
pub(in crate::archive) struct Below {
    chunks: BTreeMap<usize, Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Below {
    fn replace(&mut self, chunks: BTreeMap<usize, Vec<u8>>) {
        let old = std::mem::replace(&mut self.chunks, chunks);
        self.spare.extend(old.into_values());
    }

    fn buffer(&mut self, len: u64) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer.resize(len as usize, 0);
        buffer
    }

    /// Fills `out` with pieces of the archive whose chunks these are, if all are there.
    fn read(&self, archive: &Archive<'_>, pieces: &[Piece], mut out: &mut [u8]) -> bool {
        for piece in pieces {
            let (mut from, end) = (piece.offset, piece.offset + piece.len);
            let mut i = archive.places.partition_point(|p| p.piece.offset + p.piece.len <= from);
            while from < end {
                let Some(place) = archive.places.get(i) else { return false };
                let Some(bytes) = self.chunks.get(&(place.chunk as usize)) else { return false };
                let skip = from - place.piece.offset;
                let n = (place.piece.len - skip).min(end - from);
                let (head, tail) = out.split_at_mut(n as usize);
                head.copy_from_slice(&bytes[(place.at + skip) as usize..][..n as usize]);
                out = tail;
                from += n;
                i += 1;
            }
        }
        true
    }
}

impl Base {
    /// Lets go of memory after reading here and there.
    pub(in crate::archive) fn rest(&self) {
        if let Some(shared) = &self.archive {
            shared.rest();
        }
    }

    /// Prepares pieces of the base for [`Base::read_near`].
    pub(in crate::archive) fn prepare(
        &self,
        pieces: &[Piece],
        level: Level,
        buffers: &mut Buffers,
    ) {
        buffers.below.replace(BTreeMap::new());
        let Some(needs) = self.needs(pieces) else { return };
        for (archive, chunks) in needs.into_iter().rev() {
            buffers.forget_group();
            let mut decoded = BTreeMap::new();
            for chunk in chunks {
                let mut bytes = buffers.below.buffer(archive.chunks[chunk].meta.len());
                if archive.decode_chunk(chunk, level, buffers, &mut bytes).is_err() {
                    // Read on demand it will fail again, and be reported.
                    buffers.below.replace(BTreeMap::new());
                    buffers.forget_group();
                    return;
                }
                decoded.insert(chunk, bytes);
            }
            buffers.below.replace(decoded);
        }
        buffers.forget_group();
    }

    /// Fills `out` with pieces of the base, from what is prepared where all of it is.
    pub(in crate::archive) fn read_near(
        &self,
        pieces: &[Piece],
        buffers: &Buffers,
        out: &mut [u8],
    ) -> Result<()> {
        match self.archive() {
            Some(archive) if buffers.below.read(archive, pieces, out) => Ok(()),
            _ => self.read(pieces, out),
        }
    }

    /// The chunks that reading these pieces needs in every archive of the chain, or `None` where
    /// they are too many.
    fn needs(&self, pieces: &[Piece]) -> Option<Vec<(&Archive<'static>, BTreeSet<usize>)>> {
        let mut found = Vec::new();
        let mut pieces = pieces.to_vec();
        let mut next = Some(self);
        while let Some(archive) = next.and_then(Base::archive).filter(|_| !pieces.is_empty()) {
            let limit = LEAST + TIMES * pieces.iter().map(|p| p.len).sum::<u64>();
            let chunks = archive.closure(&pieces, limit)?;
            let attached = archive.attached();
            pieces = match &attached {
                Some(attached) => attached.own_pieces(&archive.base_pieces(&chunks)).ok()?,
                None => Vec::new(),
            };
            next = attached.map(|a| &**a.base());
            found.push((archive, chunks));
        }
        Some(found)
    }
}

impl Archive<'_> {
    /// As [`Archive::attach_base`], reading nothing: digests are checked only where they are
    /// used. For callers who know what the base is.
    ///
    /// # Errors
    /// `BaseMismatch` where names or lengths differ.
    #[doc(hidden)]
    pub fn attach_known_base(&self, base: &Arc<Base>) -> Result<()> {
        if let Some(record) = self.base_record.as_ref().filter(|_| self.base.get().is_none()) {
            let _ = self.base.set(Attached::new(record, base)?);
        }
        Ok(())
    }

    /// The base, where there is one.
    pub(in crate::archive) fn attached(&self) -> Option<&Attached> {
        self.base.get()
    }

    /// Prepares what a group of chunks refers to in the base.
    pub(in crate::archive) fn prepare_group(
        &self,
        group: Range<usize>,
        level: Level,
        buffers: &mut Buffers,
    ) {
        let Some(attached) = self.attached() else { return };
        let is_group = self.groups.binary_search(&group.start).is_ok()
            && !self.chunks.get(group.end).is_some_and(|c| c.meta.continues_group);
        if !is_group {
            return;
        }
        let chunks: BTreeSet<usize> = group.map(|i| self.coded(i)).collect();
        if let Ok(pieces) = attached.own_pieces(&self.base_pieces(&chunks)) {
            attached.base().prepare(&pieces, level, buffers);
        }
    }

    /// Prepares what decoding one chunk needs of the base, its siblings included.
    pub(in crate::archive) fn prepare_chunk(
        &self,
        chunk: usize,
        level: Level,
        buffers: &mut Buffers,
    ) {
        let Some(attached) = self.attached() else { return };
        let Some(chunks) = self.closure(&self.chunks[chunk].meta.pieces, u64::MAX) else { return };
        if let Ok(pieces) = attached.own_pieces(&self.base_pieces(&chunks)) {
            attached.base().prepare(&pieces, level, buffers);
        }
    }

    /// The chunk that holds the payload of chunk `i`: another one for copies.
    fn coded(&self, i: usize) -> usize {
        self.chunks[i].meta.copy_of.and_then(|source| self.chunk_at(source)).unwrap_or(i)
    }

    /// What the chunks refer to in the address space of the base record, each piece once.
    fn base_pieces(&self, chunks: &BTreeSet<usize>) -> Vec<Piece> {
        let references = chunks.iter().flat_map(|&i| &self.chunks[self.coded(i)].meta.references);
        let of_base = references.filter(|r| r.origin != Origin::Sibling);
        let pieces: BTreeSet<Piece> = of_base.flat_map(|r| r.pieces.iter().copied()).collect();
        pieces.into_iter().collect()
    }

    /// The chunks that hold these pieces, and those that they refer to in this archive; `None`
    /// where they have more bytes than the limit.
    fn closure(&self, pieces: &[Piece], limit: u64) -> Option<BTreeSet<usize>> {
        let mut found = BTreeSet::new();
        let mut todo = pieces.to_vec();
        let mut len = 0;
        while let Some(piece) = todo.pop() {
            let mut i =
                self.places.partition_point(|p| p.piece.offset + p.piece.len <= piece.offset);
            while self.places.get(i).is_some_and(|p| p.piece.offset < piece.offset + piece.len) {
                let chunk = self.places[i].chunk as usize;
                i += 1;
                if !found.insert(chunk) {
                    continue;
                }
                len += self.chunks[chunk].meta.len();
                if len > limit {
                    return None;
                }
                let references = &self.chunks[self.coded(chunk)].meta.references;
                let siblings = references.iter().filter(|r| r.origin == Origin::Sibling);
                todo.extend(siblings.flat_map(|r| r.pieces.iter().copied()));
            }
        }
        Some(found)
    }
}
