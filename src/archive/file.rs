//! One file of an archive, readable anywhere: only the chunks that are needed are decoded.

use super::{
    Archive,
    open::{Buffers, Place},
};
use crate::{Error, simd::Level, source::Source};
use std::{
    io,
    sync::{Mutex, PoisonError},
};

/// Decoded chunks kept for the next read.
const CACHED: usize = 4;

/// The bytes of a file inside an archive.
pub struct ArchivedFile<'b, 'a> {
    archive: &'b Archive<'a>,
    start: u64,
    len: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    buffers: Buffers,
    /// Chunks and their bytes, least recently used first.
    cache: Vec<(usize, Vec<u8>)>,
}

impl<'b, 'a> ArchivedFile<'b, 'a> {
    pub(super) fn new(archive: &'b Archive<'a>, entry: usize) -> Self {
        let len = archive.manifest.entries[entry].len;
        ArchivedFile {
            archive,
            start: archive.start_of(entry),
            len,
            state: Mutex::new(State::default()),
        }
    }
}

impl State {
    fn chunk(&mut self, archive: &Archive<'_>, chunk: usize) -> Result<&[u8], Error> {
        let at = match self.cache.iter().position(|(c, _)| *c == chunk) {
            Some(at) => at,
            None => {
                let full = self.cache.len() >= CACHED;
                let mut bytes = if full { self.cache.remove(0).1 } else { Vec::new() };
                bytes.clear();
                bytes.resize(archive.chunks[chunk].meta.len() as usize, 0);
                archive.decode_chunk(chunk, Level::best(), &mut self.buffers, &mut bytes)?;
                self.cache.push((chunk, bytes));
                self.cache.len() - 1
            }
        };
        let hit = self.cache.remove(at);
        self.cache.push(hit);
        Ok(&self.cache[self.cache.len() - 1].1)
    }
}

impl Source for ArchivedFile<'_, '_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match offset.checked_add(buf.len() as u64) {
            Some(end) if end <= self.len => {}
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut from, mut buf) = (self.start + offset, buf);
        let places = &self.archive.places;
        let mut i = places.partition_point(|p| p.piece.offset + p.piece.len <= from);
        while !buf.is_empty() {
            let Place { piece, chunk, at } = places[i];
            let skip = from - piece.offset;
            let n = (piece.len - skip).min(buf.len() as u64) as usize;
            let bytes = state.chunk(self.archive, chunk as usize).map_err(|e| {
                io::Error::new(io::ErrorKind::InvalidData, e.at(format_args!("chunk {chunk}")))
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
