//! One file of an archive, readable anywhere: only the chunks that are needed are decoded.

use super::{
    Archive, Input,
    decode::Buffers,
    memory::{Budget, LARGEST_KEPT, shed},
    open::no_entry,
};
use crate::{
    Error, Result,
    container::Place,
    pipeline::{self, Cancel, numbered},
    source::Source,
};
use std::{
    io::{self, Read, Seek, SeekFrom},
    sync::{Arc, Mutex, PoisonError},
};

/// Decoded chunks kept for the next read.
const CACHED: usize = 4;

/// A file inside an archive, decoded as it is read: one of [`Read`] and [`Seek`].
pub struct ArchivedFile<'b, 'a> {
    archive: &'b Archive<'a>,
    entry: usize,
    reader: Reader,
    /// Where the next [`Read::read`] begins.
    at: u64,
}

impl<'b, 'a> ArchivedFile<'b, 'a> {
    pub(in crate::archive) fn new(archive: &'b Archive<'a>, entry: usize) -> Self {
        ArchivedFile { archive, entry, reader: Reader::default(), at: 0 }
    }

    /// Its length.
    pub fn byte_len(&self) -> u64 {
        self.archive.len_of(self.entry)
    }
}

impl std::fmt::Debug for ArchivedFile<'_, '_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ArchivedFile")
            .field("path", &self.archive.manifest.entries.get(self.entry).map(|e| &e.path))
            .field("bytes", &self.byte_len())
            .field("at", &self.at)
            .finish_non_exhaustive()
    }
}

impl Read for ArchivedFile<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.byte_len().saturating_sub(self.at).min(buf.len() as u64) as usize;
        if n > 0 {
            self.read_at(self.at, &mut buf[..n])?;
            self.at += n as u64;
        }
        Ok(n)
    }
}

impl Seek for ArchivedFile<'_, '_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.byte_len().checked_add_signed(by),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
        };
        self.at = to.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}

/// Places of one chunk that follow each other, and the output that they fill.
struct Stretch<'o> {
    chunk: usize,
    /// First byte in the decoded chunk, and memory, of each.
    parts: Vec<(usize, &'o mut [u8])>,
}

impl Archive<'_> {
    /// Fills `out` with bytes of an entry, each chunk decoded once, on several threads.
    pub(in crate::archive) fn read_range(
        &self,
        entry: usize,
        offset: u64,
        out: &mut [u8],
        cancel: &Cancel,
    ) -> Result<()> {
        match offset.checked_add(out.len() as u64) {
            Some(end) if end <= self.len_of(entry) => {}
            _ => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
        }
        let mut from = self.start_of(entry) + offset;
        let mut i = self.places.partition_point(|p| p.piece.end() <= from);
        let mut stretches: Vec<Mutex<Stretch<'_>>> = Vec::new();
        let mut rest = out;
        while !rest.is_empty() {
            let Place { piece, chunk, at } = self.places[i];
            let skip = from - piece.offset;
            let n = (piece.len - skip).min(rest.len() as u64) as usize;
            let (head, tail) = rest.split_at_mut(n);
            let part = ((at + skip) as usize, head);
            match stretches.last_mut().map(Mutex::get_mut) {
                Some(Ok(last)) if last.chunk == chunk as usize => last.parts.push(part),
                _ => {
                    stretches.push(Mutex::new(Stretch { chunk: chunk as usize, parts: vec![part] }))
                }
            }
            rest = tail;
            from += n as u64;
            i += 1;
        }
        let chunks = stretches.iter_mut().flat_map(Mutex::get_mut).map(|s| s.chunk);
        let _expected = self.expect(chunks);
        let workers = pipeline::worker_count(self.threads).min(stretches.len().max(1));
        let budget = Budget::new(&self.limits, workers);
        let memory = |(_, job): &(State, usize)| {
            let chunk = stretches[*job].lock().unwrap_or_else(PoisonError::into_inner).chunk;
            Ok(self.memory_of_chunks(chunk..chunk + 1, &budget))
        };
        pipeline::run_within(
            self.kept.workers(workers),
            cancel,
            pipeline::Memory {
                limit: budget.at_work(),
                of: memory,
                read: |_: &mut (State, usize)| Ok(()),
            },
            || (State::default(), 0),
            numbered(stretches.len(), |(_, job): &mut (State, usize), i| *job = i),
            |(state, job)| {
                let mut stretch = stretches[*job].lock().unwrap_or_else(PoisonError::into_inner);
                let chunk = stretch.chunk;
                let bytes = state.chunk(self, chunk, &budget).map_err(|e| e.in_chunk(chunk))?;
                for (at, out) in &mut stretch.parts {
                    out.copy_from_slice(&bytes[*at..][..out.len()]);
                }
                Ok(())
            },
            |(state, _)| {
                state.cache.clear();
                Ok(())
            },
        )
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

    /// An archive, and its files as input, decoded as they are read.
    pub fn with_files(archive: Archive<'static>) -> (Arc<Shared>, Input<'static>) {
        let manifest = archive.manifest.clone();
        let shared = Shared::new(archive);
        let file =
            |entry| Box::new(SharedFile { shared: shared.clone(), entry }) as Box<dyn Source>;
        let sources = (0..manifest.entries.len()).map(file).collect();
        (shared, Input::from_sources(manifest, sources))
    }

    /// Lets go of what is kept for the next reads.
    pub fn rest(&self) {
        self.reader.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Archive<'static> {
    /// Its files as input: to be compressed anew, or compared.
    #[doc(hidden)]
    pub fn into_input(self) -> Input<'static> {
        Shared::with_files(self).1
    }
}

/// A file of an archive that it keeps open.
struct SharedFile {
    shared: Arc<Shared>,
    entry: usize,
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

    fn chunk(&mut self, archive: &Archive<'_>, chunk: usize, budget: &Budget) -> Result<&[u8]> {
        let at = match self.cache.iter().position(|(c, _)| *c == chunk) {
            Some(at) => at,
            None => {
                let memory = archive.check_memory(chunk, budget)?;
                self.buffers.below.limit(budget.link(memory));
                let len = archive.chunks[chunk].meta.len();
                let mut bytes = Vec::new();
                while !self.has_room(len, archive.limits.memory / 2) {
                    bytes = self.cache.remove(0).1;
                }
                shed(&mut bytes, LARGEST_KEPT);
                bytes.clear();
                bytes.resize(len as usize, 0);
                archive.prepare_chunk(chunk, archive.level, &mut self.buffers);
                archive.decode_chunk(chunk, archive.level, &mut self.buffers, &mut bytes)?;
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
        let budget = Budget::new(&archive.limits, 1);
        let places = &archive.places;
        let mut i = places.partition_point(|p| p.piece.offset + p.piece.len <= from);
        while !buf.is_empty() {
            let Place { piece, chunk, at } = places[i];
            let skip = from - piece.offset;
            let n = (piece.len - skip).min(buf.len() as u64) as usize;
            let chunk = chunk as usize;
            let bytes = self.chunk(archive, chunk, &budget).map_err(|e| match e {
                Error::Io { .. } => io::Error::other(e.in_chunk(chunk)),
                e => io::Error::new(io::ErrorKind::InvalidData, e.in_chunk(chunk)),
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
