//! Opens an archive for random access.

use super::{
    Base, base::Attached, digest::file_ends, file::ArchivedFile, headers::Headers, tensor::Tensors,
};
use crate::{
    Error, Result,
    container::{
        BaseRecord, ChunkMeta, Entry, EntryKind, HEADER_LEN, Header, Index, Layout, Limits,
        Manifest, Piece, Place, RECORD_HEADER_LEN, RecordHeader, RecordType, TRAILER_LEN, Trailer,
        index::IndexedRecord,
    },
    pipeline::Threads,
    simd::Level,
    source::{Expected, Source},
};
use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

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
    pub(in crate::archive) payload_len: u32,
}

/// An open archive. Opening reads and checks header, index and manifest; chunks are read and
/// checked when they are needed.
///
/// ```
/// use lmc_gpu::{Archive, CompressOptions, RestoreOptions, compress};
/// let bytes = compress(&[7; 5000], &CompressOptions::default())?;
/// let archive = Archive::from_bytes(&bytes, &RestoreOptions::default())?;
/// assert_eq!(archive.entries()[0].len, 5000);
/// archive.verify(&RestoreOptions::default())?;
/// # Ok::<(), lmc_gpu::Error>(())
/// ```
pub struct Archive<'a> {
    pub(in crate::archive) source: Box<dyn Source + 'a>,
    /// Where it is on disk.
    pub(in crate::archive) path: Option<PathBuf>,
    /// What its chunks may refer to, where it is a delta.
    pub(crate) base_record: Option<BaseRecord>,
    pub(in crate::archive) base: OnceLock<Attached>,
    /// The base that it was opened with, to be attached when it is needed.
    pub(in crate::archive) given: Option<Arc<Base>>,
    /// How many threads decode what is read here and there; 0 is one a core.
    pub(in crate::archive) threads: usize,
    /// Those of the last call.
    pub(in crate::archive) kept: Threads,
    /// The tensors of all files, once somebody asked for them.
    pub(in crate::archive) tensors: OnceLock<Tensors>,
    /// The files it holds.
    pub(crate) manifest: Manifest,
    /// Its chunks, in the order they are stored.
    pub(crate) chunks: Vec<ChunkInfo>,
    /// First chunk of every group.
    pub(in crate::archive) groups: Vec<usize>,
    pub(in crate::archive) places: Vec<Place>,
    pub(in crate::archive) ends: Vec<u64>,
    pub(in crate::archive) digests: Vec<u128>,
    pub(in crate::archive) limits: Limits,
    /// For what is read of it without options.
    pub(in crate::archive) level: Level,
    /// What is known of the file in which damage was found.
    pub(in crate::archive) headers: Headers,
}

impl<'a> Archive<'a> {
    /// Opens an archive in memory, by itself.
    pub(in crate::archive) fn of_bytes(bytes: &'a [u8], limits: Limits) -> Result<Archive<'a>> {
        Archive::of_source(Box::new(super::input::Memory(bytes)), limits)
    }

    /// Opens an archive anywhere, by itself.
    pub(in crate::archive) fn of_source(
        source: Box<dyn Source + 'a>,
        limits: Limits,
    ) -> Result<Archive<'a>> {
        let len = source.len();
        let header = source.read_vec(0, len.min(HEADER_LEN as u64))?;
        let header = Header::read(&header)?;
        if len < (HEADER_LEN + TRAILER_LEN) as u64 {
            return Err(Error::Truncated("the archive ends after its header".into()));
        }
        let mut trailer = [0; TRAILER_LEN];
        source.read_at(len - TRAILER_LEN as u64, &mut trailer)?;
        let trailer = Trailer::read(&trailer, len)?;
        let end = len - TRAILER_LEN as u64;
        let expected = Expected::of(&*source, trailer.index_offset..end);
        let (record, meta, payload) = read_record(&*source, trailer.index_offset, end)?;
        drop(expected);
        if record.kind != RecordType::Index || trailer.index_offset + record.record_len() != end {
            return Err(Error::Corrupt("the trailer does not point to an index".into()));
        }
        trailer.check_index(&meta, &payload)?;
        let index_offset = trailer.index_offset;
        let first = read_record(&*source, HEADER_LEN as u64, index_offset)?;
        if first.0.kind != RecordType::Manifest {
            return Err(Error::Corrupt("the archive does not begin with a manifest".into()));
        }
        let manifest = Manifest::from_record(&first.1, &first.2, &limits)?;
        let entries = manifest.entries.len();
        let index = Index::from_record(&meta, &payload, index_offset, entries, &limits)?;
        let mut records = index.records.into_iter().peekable();
        check_listed(records.next(), &first)?;
        let mut base_record = None;
        if let Some(r) = records.next_if(|r| r.kind == RecordType::Base) {
            let base = read_record(&*source, r.offset, index_offset)?;
            check_listed(Some(r), &base)?;
            base_record = Some(BaseRecord::from_record(&base.1, &base.2, &limits)?);
        }
        header.check_base(base_record.is_some())?;
        let (lens, digests) = (index.lens, index.digests);
        Self::from_parts(source, manifest, base_record, records, lens, digests, limits)
    }

    fn from_parts(
        source: Box<dyn Source + 'a>,
        mut manifest: Manifest,
        base_record: Option<BaseRecord>,
        records: impl Iterator<Item = IndexedRecord>,
        lens: Vec<u64>,
        digests: Vec<u128>,
        limits: Limits,
    ) -> Result<Archive<'a>> {
        let damaged = |what: &str| Error::Corrupt(format!("the index is damaged: {what}").into());
        for (entry, len) in manifest.entries.iter_mut().zip(&lens) {
            if entry.kind == EntryKind::Stream {
                entry.len = *len;
            } else if entry.len != *len {
                return Err(damaged("the length of a file is wrong"));
            }
        }
        let total = manifest.total_len().ok_or_else(|| damaged("the files are too long"))?;
        let ends = file_ends(manifest.entries.iter().map(|e| e.len));
        let mut layout = Layout::new(&limits, ends.clone());
        if let Some(base) = &base_record {
            layout.set_base(base);
        }
        let mut chunks: Vec<ChunkInfo> = Vec::new();
        let mut groups = Vec::new();
        for IndexedRecord { kind, offset, meta, payload_len } in records {
            let i = chunks.len();
            let stored_len = (RECORD_HEADER_LEN + meta.len()) as u64 + u64::from(payload_len);
            let meta = ChunkMeta::read(&meta).ok_or_else(|| damaged("metadata of a chunk"))?;
            layout.add(kind, payload_len, &meta).map_err(|e| e.in_chunk(i))?;
            if !meta.continues_group {
                groups.push(i);
            }
            chunks.push(ChunkInfo { meta, offset, stored_len, payload_len });
        }
        let places = layout.finish(total)?;
        Ok(Archive {
            source,
            path: None,
            base_record,
            base: OnceLock::new(),
            given: None,
            threads: 0,
            kept: Threads::default(),
            tensors: OnceLock::new(),
            manifest,
            chunks,
            groups,
            places,
            ends,
            digests,
            limits,
            level: Level::best(),
            headers: Headers::default(),
        })
    }

    /// The same archive, read at this level.
    #[must_use]
    pub(in crate::archive) fn at_level(self, level: Level) -> Self {
        Archive { level, ..self }
    }

    /// Tells where the archive lies that these chunks are about to be decoded, in about this
    /// order, if they lie together.
    pub(in crate::archive) fn expect(&self, chunks: impl Iterator<Item = usize>) -> Expected<'_> {
        let (mut start, mut end, mut sum) = (u64::MAX, 0, 0);
        for i in chunks {
            let ChunkInfo { offset, stored_len, .. } = self.chunks[i];
            (start, end) = (start.min(offset), end.max(offset + stored_len));
            sum += stored_len;
        }
        let together = sum > end.saturating_sub(start) / 4 * 3;
        Expected::of(&*self.source, if together { start..end } else { 0..0 })
    }

    /// First chunk of the group of a chunk.
    pub(in crate::archive) fn group_of(&self, chunk: usize) -> usize {
        match self.groups.partition_point(|&first| first <= chunk) {
            0 => 0,
            n => self.groups[n - 1],
        }
    }

    /// Whether a chunk is the only one of its group.
    pub(in crate::archive) fn stands_alone(&self, chunk: usize) -> bool {
        let group = self.group_of(chunk);
        !self.chunks.get(group + 1).is_some_and(|c| c.meta.continues_group)
    }

    /// The chunks of every group.
    pub(in crate::archive) fn group_ranges(&self) -> Vec<std::ops::Range<usize>> {
        let ends = self.groups.iter().skip(1).copied().chain([self.chunks.len()]);
        self.groups.iter().zip(ends).map(|(&first, end)| first..end).collect()
    }

    /// The place that holds all of a piece.
    pub(in crate::archive) fn place_of(&self, piece: Piece) -> Option<Place> {
        let i = self.places.partition_point(|p| p.piece.offset <= piece.offset).checked_sub(1)?;
        let place = self.places[i];
        (piece.end() <= place.piece.end()).then_some(place)
    }

    /// The chunk that restores the byte at `offset`.
    pub(in crate::archive) fn chunk_at(&self, offset: u64) -> Option<usize> {
        let i = self.places.partition_point(|p| p.piece.offset <= offset).checked_sub(1)?;
        let place = self.places[i];
        (offset < place.piece.offset + place.piece.len).then_some(place.chunk as usize)
    }

    /// First byte of an entry of the manifest in the address space.
    pub(in crate::archive) fn start_of(&self, entry: usize) -> u64 {
        self.ends[entry] - self.len_of(entry)
    }

    /// Length of an entry of the manifest; 0 where there is no such entry.
    pub(in crate::archive) fn len_of(&self, entry: usize) -> u64 {
        self.manifest.entries.get(entry).map_or(0, |e| e.len)
    }

    /// Bytes of all files.
    pub fn total_len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The digest of one entry of the manifest: equal for equal bytes coded with equal options.
    ///
    /// # Errors
    /// `InvalidArgument` where there is no such entry.
    pub fn digest(&self, entry: usize) -> Result<u128> {
        let found = self.digests.get(entry).copied();
        found.ok_or_else(|| no_entry(entry, self.digests.len()))
    }

    /// Length of the archive itself.
    pub fn stored_len(&self) -> u64 {
        self.source.len()
    }

    /// The bytes of one entry of the manifest, decoded as they are read. Where there is no such
    /// entry, it has no bytes, and reading it fails.
    pub(in crate::archive) fn bytes_of(&self, entry: usize) -> ArchivedFile<'_, 'a> {
        ArchivedFile::new(self, entry)
    }

    /// Its files and directories, in the order of their paths.
    pub fn entries(&self) -> &[Entry] {
        &self.manifest.entries
    }

    /// Whether it holds a directory, even if that is of one file.
    pub fn is_directory(&self) -> bool {
        self.manifest.is_directory
    }

    /// Whether it is a delta to a base, which reading from it takes.
    pub fn is_delta(&self) -> bool {
        self.base_record.is_some()
    }

    /// Its files.
    #[doc(hidden)]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Its chunks, in the order they are stored.
    #[doc(hidden)]
    pub fn chunks(&self) -> &[ChunkInfo] {
        &self.chunks
    }
}

impl std::fmt::Debug for Archive<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Archive")
            .field("path", &self.path)
            .field("entries", &self.manifest.entries.len())
            .field("chunks", &self.chunks.len())
            .field("bytes", &self.total_len())
            .field("is_delta", &self.is_delta())
            .finish_non_exhaustive()
    }
}

/// The error for an entry of a manifest that there is not.
pub(in crate::archive) fn no_entry(entry: usize, n: usize) -> Error {
    Error::InvalidArgument(format!("there is no entry {entry}: there are {n}").into())
}

/// A record that was read: header, metadata, payload.
type Record = (RecordHeader, Vec<u8>, Vec<u8>);

/// Checks that the index lists a record as it is.
fn check_listed(listed: Option<IndexedRecord>, (header, meta, _): &Record) -> Result<()> {
    let same = |r: &IndexedRecord| {
        r.kind == header.kind && r.meta == *meta && r.payload_len == header.payload_len
    };
    match listed.as_ref().is_some_and(same) {
        true => Ok(()),
        false => Err(Error::Corrupt("the index lists other files than the archive has".into())),
    }
}

/// Reads and checks the record at `offset`, which ends at `end` or before.
fn read_record(source: &dyn Source, offset: u64, end: u64) -> Result<Record> {
    let outside = || Error::Corrupt("a record reaches beyond its place".into());
    if end.saturating_sub(offset) < RECORD_HEADER_LEN as u64 {
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
