//! One file of an archive, readable anywhere: only the chunks that are needed are decoded.

use super::{
    Archive,
    decode::Buffers,
    memory::{Budget, LARGEST_KEPT, shed},
    open::no_entry,
};
use crate::{Error, Result, container::Place, simd::Level, source::Source};
use std::{
    io,
    sync::{Arc, Mutex, PoisonError},
};

/// Decoded chunks kept for the next read.
const CACHED: usize = 4;

/// The bytes of a file inside an archive.
pub struct ArchivedFile<'b, 'a> {
    archive: &'b Archive<'a>,
    entry: usize,
    reader: Reader,
}

impl<'b, 'a> ArchivedFile<'b, 'a> {
    pub(in crate::archive) fn new(archive: &'b Archive<'a>, entry: usize) -> Self {
        ArchivedFile { archive, entry, reader: Reader::default() }
    }
}

impl Source for ArchivedFile<'_, '_> {
    fn len(&self) -> u64 {
        self.archive.len_of(self.entry)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.reader.read(self.archive, self.entry, offset, buf)
    }
}

/// An archive whose files share what is kept of it.
pub(in crate::archive) struct Shared {
    pub archive: Archive<'static>,
    reader: Reader,
}

impl Shared {
    pub fn new(archive: Archive<'static>) -> Arc<Self> {
        Arc::new(Shared { archive, reader: Reader::default() })
    }

    /// Lets go of what is kept for the next reads.
    pub fn rest(&self) {
        self.reader.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A file of an archive that it keeps open.
pub(in crate::archive) struct SharedFile {
    pub shared: Arc<Shared>,
    pub entry: usize,
}

impl Source for SharedFile {
    fn len(&self) -> u64 {
        self.shared.archive.len_of(self.entry)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        self.shared.reader.read(&self.shared.archive, self.entry, offset, buf)
    }
}

/// What readers keep: as many states as there are reads at the same time.
#[derive(Default)]
struct Reader {
    idle: Mutex<Vec<State>>,
}

#[derive(Default)]
struct State {
    buffers: Buffers,
    /// Chunks and their bytes, least recently used first.
    cache: Vec<(usize, Vec<u8>)>,
}

impl State {
    /// Whether a chunk of `len` bytes can be kept beside those that are, in `most` bytes.
    fn has_room(&self, len: u64, most: u64) -> bool {
        let kept: u64 = self.cache.iter().map(|(_, bytes)| bytes.len() as u64).sum();
        self.cache.is_empty() || (self.cache.len() < CACHED && kept.saturating_add(len) <= most)
    }

    fn chunk(&mut self, archive: &Archive<'_>, chunk: usize) -> Result<&[u8]> {
        let at = match self.cache.iter().position(|(c, _)| *c == chunk) {
            Some(at) => at,
            None => {
                let budget = Budget::new(&archive.limits, 1);
                let memory = archive.check_memory(chunk, &budget)?;
                self.buffers.below.limit(budget.link(memory));
                let len = archive.chunks[chunk].meta.len();
                let mut bytes = Vec::new();
                while !self.has_room(len, archive.limits.memory / 2) {
                    bytes = self.cache.remove(0).1;
                }
                shed(&mut bytes, LARGEST_KEPT);
                bytes.clear();
                bytes.resize(len as usize, 0);
                archive.prepare_chunk(chunk, Level::best(), &mut self.buffers);
                archive.decode_chunk(chunk, Level::best(), &mut self.buffers, &mut bytes)?;
                self.buffers.shed(LARGEST_KEPT);
                self.cache.push((chunk, bytes));
                self.cache.len() - 1
            }
        };
        let hit = self.cache.remove(at);
        self.cache.push(hit);
        Ok(&self.cache[self.cache.len() - 1].1)
    }
}

impl Reader {
    fn read(
        &self,
        archive: &Archive<'_>,
        entry: usize,
        offset: u64,
        buf: &mut [u8],
    ) -> io::Result<()> {
        let n = archive.manifest.entries.len();
        if entry >= n {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, no_entry(entry, n)));
        }
        match offset.checked_add(buf.len() as u64) {
            Some(end) if end <= archive.len_of(entry) => {}
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        let lock = || self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = lock().pop().unwrap_or_default();
        let done = state.read(archive, archive.start_of(entry) + offset, buf);
        lock().push(state);
        done
    }
}

impl State {
    fn read(&mut self, archive: &Archive<'_>, mut from: u64, mut buf: &mut [u8]) -> io::Result<()> {
        let places = &archive.places;
        let mut i = places.partition_point(|p| p.piece.offset + p.piece.len <= from);
        while !buf.is_empty() {
            let Place { piece, chunk, at } = places[i];
            let skip = from - piece.offset;
            let n = (piece.len - skip).min(buf.len() as u64) as usize;
            let bytes = self.chunk(archive, chunk as usize).map_err(|e| match e {
                Error::Io { .. } => io::Error::other(e.at(format_args!("chunk {chunk}"))),
                e => {
                    io::Error::new(io::ErrorKind::InvalidData, e.at(format_args!("chunk {chunk}")))
                }
            })?;
            let (head, tail) = buf.split_at_mut(n);
            head.copy_from_slice(&bytes[(at + skip) as usize..][..n]);
            buf = tail;
            from += n as u64;
            i += 1;
        }
        Ok(())
    }
}
