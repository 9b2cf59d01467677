//! Bytes in the order of the address space, for a writer that cannot seek.
//!
//! Archives hold a chunk at the place of its first piece. What comes early, the further pieces of
//! gathered chunks and the tensors that are stored beside others of their parameter, waits in
//! memory up to a limit and beyond that in an anonymous temporary file.

use super::target::write_at;
use crate::{
    Error, Result,
    container::Piece,
    source::{FileSource, Source},
};
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Write},
};

/// Bytes that wait in memory.
const IN_MEMORY: u64 = 64 << 20;
/// Bytes read back at a time.
const STEP: u64 = 1 << 20;

pub(in crate::archive) struct InOrder<'w> {
    out: &'w mut (dyn Write + Send),
    next: u64,
    early: BTreeMap<u64, Early>,
    in_memory: u64,
    limit: u64,
    /// The temporary file and its length.
    spill: Option<(File, u64)>,
}

enum Early {
    Memory(Vec<u8>),
    Spilled { at: u64, len: u64 },
}

impl<'w> InOrder<'w> {
    pub fn new(out: &'w mut (dyn Write + Send)) -> Self {
        let early = BTreeMap::new();
        InOrder { out, next: 0, early, in_memory: 0, limit: IN_MEMORY, spill: None }
    }

    /// Takes the bytes of a chunk.
    pub fn put(&mut self, pieces: &[Piece], bytes: &[u8]) -> Result<()> {
        let mut at = 0;
        for piece in pieces {
            let bytes = &bytes[at..at + piece.len as usize];
            at += bytes.len();
            match piece.offset == self.next {
                true => self.send(bytes)?,
                false => self.keep(piece.offset, bytes)?,
            }
        }
        while let Some(first) = self.early.first_entry() {
            if *first.key() > self.next {
                return Ok(());
            }
            match first.remove() {
                Early::Memory(bytes) => {
                    self.in_memory -= bytes.len() as u64;
                    self.send(&bytes)?;
                }
                Early::Spilled { at, len } => self.send_spilled(at, len)?,
            }
        }
        if let Some((file, len)) = self.spill.as_mut().filter(|s| s.1 > 0) {
            file.set_len(0).map_err(no_space)?;
            *len = 0;
        }
        Ok(())
    }

    fn keep(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let len = bytes.len() as u64;
        let early = if self.in_memory + len <= self.limit {
            self.in_memory += len;
            Early::Memory(bytes.to_vec())
        } else {
            if self.spill.is_none() {
                self.spill = Some((tempfile::tempfile().map_err(no_space)?, 0));
            }
            let Some((file, end)) = &mut self.spill else { return Ok(()) };
            let at = *end;
            write_at(file, at, bytes).map_err(no_space)?;
            *end += len;
            Early::Spilled { at, len }
        };
        self.early.insert(offset, early);
        Ok(())
    }

    fn send_spilled(&mut self, mut at: u64, len: u64) -> Result<()> {
        let Some((file, _)) = &self.spill else { return Ok(()) };
        let source = file.try_clone().and_then(FileSource::new).map_err(no_space)?;
        let end = at + len;
        let mut bytes = Vec::new();
        while at < end {
            bytes.resize(STEP.min(end - at) as usize, 0);
            source.read_at(at, &mut bytes).map_err(no_space)?;
            self.send(&bytes)?;
            at += bytes.len() as u64;
        }
        Ok(())
    }

    fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(write_error)?;
        self.next += bytes.len() as u64;
        Ok(())
    }

    /// Flushes the writer.
    pub fn finish(self) -> Result<()> {
        self.out.flush().map_err(write_error)
    }
}

fn write_error(source: io::Error) -> Error {
    Error::Io { context: "cannot write the output".into(), source }
}

fn no_space(source: io::Error) -> Error {
    let dir = std::env::temp_dir();
    Error::Io {
        context: format!("cannot keep what comes early in a temporary file in {}", dir.display())
            .into(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_come_out_in_order_from_memory_and_from_disk() {
        let all: Vec<u8> = (0..5000u32).map(|i| (i * 7 % 251) as u8).collect();
        for limit in [0, 300, 1 << 20] {
            let mut out = Vec::new();
            let mut order = InOrder::new(&mut out);
            order.limit = limit;
            // Pieces of 50 bytes; the chunk `k` of a round holds every fifth, last chunk first.
            for round in 0..4 {
                for k in (0..5).rev() {
                    let offsets = (0..5).map(|i| 1250 * round + 50 * (5 * i + k));
                    let pieces: Vec<Piece> =
                        offsets.map(|offset| Piece { offset: offset as u64, len: 50 }).collect();
                    let bytes: Vec<u8> = pieces
                        .iter()
                        .flat_map(|p| &all[p.offset as usize..][..50])
                        .copied()
                        .collect();
                    order.put(&pieces, &bytes).unwrap();
                }
            }
            order.finish().unwrap();
            assert!(out == all, "limit {limit}");
        }
    }
}
