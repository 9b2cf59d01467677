//! Opens an archive for random access.

use super::{base::Attached, digest::file_ends, file::ArchivedFile};
use crate::{
    Error, Result,
    container::{
        BaseRecord, ChunkMeta, EntryKind, HEADER_LEN, Header, Index, Limits, Manifest, Origin,
        Piece, RECORD_HEADER_LEN, RecordHeader, RecordType, TRAILER_LEN, Trailer,
    },
    source::{FileSource, Source},
};
use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::OnceLock,
};

/// Most references of a chunk.
pub(super) const MAX_REFERENCES: usize = 4;
/// Most chunks in a group.
pub(super) const MAX_GROUP: usize = 16;

/// A chunk as the index describes it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ChunkInfo {
    /// What it restores and how.
    pub meta: ChunkMeta,
    /// Offset of its record in the archive.
    pub offset: u64,
    /// Length of its record.
    pub stored_len: u64,
    pub(super) payload_len: u32,
}

/// Where a stretch of the address space is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub piece: Piece,
    pub chunk: u32,
    /// Offset of the piece in the decoded chunk.
    pub at: u64,
}

/// An open archive. Opening reads and checks header, index and manifest; chunks are read and
/// checked when they are needed.
pub struct Archive<'a> {
    pub(super) source: Box<dyn Source + 'a>,
    /// Where it is on disk.
    pub(super) path: Option<PathBuf>,
    /// What its chunks may refer to, where it is a delta.
    pub base_record: Option<BaseRecord>,
    pub(super) base: OnceLock<Attached>,
    /// The files it holds.
    pub manifest: Manifest,
    /// Its chunks, in the order they are stored.
    pub chunks: Vec<ChunkInfo>,
    /// First chunk of every group.
    pub(super) groups: Vec<usize>,
    pub(super) places: Vec<Place>,
    pub(super) ends: Vec<u64>,
    pub(super) digests: Vec<u128>,
    pub(super) limits: Limits,
}

impl<'a> Archive<'a> {
    /// Opens an archive on disk.
    ///
    /// # Errors
    /// `Io`, `Truncated`, `Corrupt`, `Unsupported` (a newer version), `LimitExceeded`.
    pub fn open(path: &Path, limits: Limits) -> Result<Archive<'static>> {
        let file = File::open(path).map_err(|e| Error::io("open", path, e))?;
        let source = FileSource::new(file).map_err(|e| Error::io("read", path, e))?;
        let opened = Archive::from_source(Box::new(source), limits);
        let mut archive = opened.map_err(|e| e.at(path.display()))?;
        archive.path = Some(path.to_owned());
        Ok(archive)
    }

    /// Opens an archive in memory.
    ///
    /// # Errors
    /// As for [`Archive::open`].
    pub fn from_bytes(bytes: &'a [u8], limits: Limits) -> Result<Archive<'a>> {
        Archive::from_source(Box::new(super::input::Memory(bytes)), limits)
    }

    /// Opens an archive anywhere.
    ///
    /// # Errors
    /// As for [`Archive::open`].
    pub fn from_source(source: Box<dyn Source + 'a>, limits: Limits) -> Result<Archive<'a>> {
        let len = source.len();
        let header = source.read_vec(0, len.min(HEADER_LEN as u64))?;
        Header::read(&header)?;
        if len < (HEADER_LEN + TRAILER_LEN) as u64 {
            return Err(Error::Truncated("the archive ends after its header".into()));
        }
        let mut trailer = [0; TRAILER_LEN];
        source.read_at(len - TRAILER_LEN as u64, &mut trailer)?;
        let trailer = Trailer::read(&trailer, len)?;
        let end = len - TRAILER_LEN as u64;
        let (record, meta, payload) = read_record(&*source, trailer.index_offset, end)?;
        if record.kind != RecordType::Index || trailer.index_offset + record.record_len() != end {
            return Err(Error::Corrupt("the trailer does not point to an index".into()));
        }
        let index = Index::from_record(&meta, &payload, HEADER_LEN as u64, &limits)?;
        Self::from_index(source, index, trailer.index_offset, limits)
    }

    fn from_index(
        source: Box<dyn Source + 'a>,
        index: Index,
        index_offset: u64,
        limits: Limits,
    ) -> Result<Archive<'a>> {
        let damaged = |what: &str| Error::Corrupt(format!("the index is damaged: {what}"));
        let mut records = index.records.into_iter().peekable();
        let first = records.next().filter(|r| r.kind == RecordType::Manifest);
        let first = first.ok_or_else(|| damaged("it lists no manifest"))?;
        let (_, meta, payload) = read_record(&*source, first.offset, index_offset)?;
        let mut manifest = Manifest::from_record(&meta, &payload, &limits)?;
        if index.lens.len() != manifest.entries.len() {
            return Err(damaged("its number of files is wrong"));
        }
        for (entry, len) in manifest.entries.iter_mut().zip(&index.lens) {
            if entry.kind == EntryKind::Stream {
                entry.len = *len;
            } else if entry.len != *len {
                return Err(damaged("the length of a file is wrong"));
            }
        }
        manifest.total_len().ok_or_else(|| damaged("the files are too long"))?;
        let mut chunks = Vec::new();
        let mut end = HEADER_LEN as u64 + first_len(&meta, &payload);
        let mut base_record = None;
        if let Some(r) = records.next_if(|r| r.kind == RecordType::Base) {
            let (_, meta, payload) = read_record(&*source, r.offset, index_offset)?;
            end += first_len(&meta, &payload);
            base_record = Some(BaseRecord::from_record(&meta, &payload, &limits)?);
        }
        for r in records {
            let len = (RECORD_HEADER_LEN + r.meta.len()) as u64 + u64::from(r.payload_len);
            end = r.offset + len;
            let copy = match r.kind {
                RecordType::Chunk => false,
                RecordType::Copy => true,
                _ => return Err(damaged("it lists a record of an unexpected type")),
            };
            let meta = ChunkMeta::read(&r.meta).filter(|m| m.copy_of.is_some() == copy);
            let meta = meta.ok_or_else(|| damaged("the metadata of a chunk is wrong"))?;
            if meta.len() > limits.chunk_len {
                return Err(Error::LimitExceeded(format!(
                    "a chunk has {} bytes, more than the limit of {}",
                    meta.len(),
                    limits.chunk_len
                )));
            }
            let (offset, payload_len) = (r.offset, r.payload_len);
            chunks.push(ChunkInfo { meta, offset, stored_len: len, payload_len });
        }
        if end != index_offset {
            return Err(damaged("records are missing"));
        }
        let ends = file_ends(manifest.entries.iter().map(|e| e.len));
        let metas = chunks.iter().map(|c| &c.meta);
        let places = tile(metas, ends.last().copied().unwrap_or(0))?;
        let mut groups: Vec<usize> = Vec::new();
        for (i, chunk) in chunks.iter().enumerate() {
            let joins = chunk.meta.continues_group;
            let last = groups.last().copied();
            match last {
                Some(first) if joins && i - first < MAX_GROUP => {}
                _ if joins => return Err(damaged("a group of chunks is too long")),
                _ => groups.push(i),
            }
        }
        let archive = Archive {
            source,
            path: None,
            base_record,
            base: OnceLock::new(),
            manifest,
            chunks,
            groups,
            places,
            ends,
            digests: index.digests,
            limits,
        };
        archive.check_copies()?;
        archive.check_references()?;
        Ok(archive)
    }

    /// Every copy refers to an earlier, equally long chunk that is no copy itself.
    fn check_copies(&self) -> Result<()> {
        for (i, chunk) in self.chunks.iter().enumerate() {
            if let Some(source) = chunk.meta.copy_of {
                let good = self.chunk_at(source).is_some_and(|j| {
                    let meta = &self.chunks[j].meta;
                    j < i
                        && meta.offset() == source
                        && meta.len() == chunk.meta.len()
                        && meta.copy_of.is_none()
                });
                if !good {
                    return Err(Error::Corrupt(
                        "the index is damaged: a copy has no source".into(),
                    ));
                }
            }
        }
        Ok(())
    }

    /// References lie inside the base, or inside pieces of earlier chunks of the same group.
    fn check_references(&self) -> Result<()> {
        let base_len = self.base_record.as_ref().and_then(BaseRecord::total_len);
        for (i, chunk) in self.chunks.iter().enumerate() {
            for r in &chunk.meta.references {
                let good = chunk.meta.references.len() <= MAX_REFERENCES
                    && r.len() <= self.limits.chunk_len
                    && r.pieces.iter().all(|p| match r.origin {
                        Origin::Base { .. } => base_len.is_some_and(|n| p.offset + p.len <= n),
                        Origin::Sibling => self.place_of(*p).is_some_and(|place| {
                            let j = place.chunk as usize;
                            j < i && self.group_of(j) == self.group_of(i)
                        }),
                    });
                if !good {
                    return Err(Error::Corrupt(
                        "the index is damaged: a reference leads nowhere".into(),
                    ));
                }
            }
        }
        Ok(())
    }

    /// First chunk of the group of a chunk.
    pub(super) fn group_of(&self, chunk: usize) -> usize {
        match self.groups.partition_point(|&first| first <= chunk) {
            0 => 0,
            n => self.groups[n - 1],
        }
    }

    /// Whether a chunk is the only one of its group.
    pub(super) fn stands_alone(&self, chunk: usize) -> bool {
        let group = self.group_of(chunk);
        !self.chunks.get(group + 1).is_some_and(|c| c.meta.continues_group)
    }

    /// The chunks of every group.
    pub(super) fn group_ranges(&self) -> Vec<std::ops::Range<usize>> {
        let ends = self.groups.iter().skip(1).copied().chain([self.chunks.len()]);
        self.groups.iter().zip(ends).map(|(&first, end)| first..end).collect()
    }

    /// The place that holds all of a piece.
    pub(super) fn place_of(&self, piece: Piece) -> Option<Place> {
        let i = self.places.partition_point(|p| p.piece.offset <= piece.offset).checked_sub(1)?;
        let place = self.places[i];
        let end = place.piece.offset + place.piece.len;
        (piece.offset + piece.len <= end).then_some(place)
    }

    /// The chunk that restores the byte at `offset`.
    pub(super) fn chunk_at(&self, offset: u64) -> Option<usize> {
        let i = self.places.partition_point(|p| p.piece.offset <= offset).checked_sub(1)?;
        let place = self.places[i];
        (offset < place.piece.offset + place.piece.len).then_some(place.chunk as usize)
    }

    /// First byte of an entry of the manifest in the address space.
    pub(super) fn start_of(&self, entry: usize) -> u64 {
        self.ends[entry] - self.manifest.entries[entry].len
    }

    /// Bytes of all files.
    pub fn total_len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The digest of one entry of the manifest: equal for equal bytes coded with equal options.
    pub fn digest(&self, entry: usize) -> u128 {
        self.digests[entry]
    }

    /// Length of the archive itself.
    pub fn stored_len(&self) -> u64 {
        self.source.len()
    }

    /// The bytes of one entry of the manifest, decoded as they are read.
    pub fn file(&self, entry: usize) -> ArchivedFile<'_, 'a> {
        ArchivedFile::new(self, entry)
    }
}

fn first_len(meta: &[u8], payload: &[u8]) -> u64 {
    (RECORD_HEADER_LEN + meta.len() + payload.len()) as u64
}

/// Reads and checks the record at `offset`, which ends at `end` or before.
fn read_record(
    source: &dyn Source,
    offset: u64,
    end: u64,
) -> Result<(RecordHeader, Vec<u8>, Vec<u8>)> {
    let outside = || Error::Corrupt("a record reaches beyond its place".into());
    if offset + RECORD_HEADER_LEN as u64 > end {
        return Err(outside());
    }
    let mut header = [0; RECORD_HEADER_LEN];
    source.read_at(offset, &mut header)?;
    let header = RecordHeader::read(&header)?;
    if header.record_len() > end - offset {
        return Err(outside());
    }
    let meta_at = offset + RECORD_HEADER_LEN as u64;
    let meta = source.read_vec(meta_at, u64::from(header.meta_len))?;
    header.check_meta(&meta)?;
    let payload_at = meta_at + u64::from(header.meta_len);
    let payload = source.read_vec(payload_at, u64::from(header.payload_len))?;
    Ok((header, meta, payload))
}

/// Sorts the pieces of all chunks and checks that they cover `0..total` once.
pub(super) fn tile<'m>(
    metas: impl Iterator<Item = &'m ChunkMeta>,
    total: u64,
) -> Result<Vec<Place>> {
    let mut places = Vec::new();
    for (i, meta) in metas.enumerate() {
        let mut at = 0;
        for &piece in &meta.pieces {
            places.push(Place { piece, chunk: i as u32, at });
            at += piece.len;
        }
    }
    places.sort_by_key(|p| p.piece);
    let mut end = 0;
    for p in &places {
        if p.piece.offset != end {
            return Err(Error::Corrupt(
                "the index is damaged: chunks leave holes or overlap".into(),
            ));
        }
        end += p.piece.len;
    }
    if end != total {
        return Err(Error::Corrupt("the index is damaged: chunks do not cover the files".into()));
    }
    Ok(places)
}
