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

/// Most bytes that wait in memory, whatever there is.
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
    Zeros(u64),
}

impl<'w> InOrder<'w> {
    /// For a writer, with at most so many bytes that wait in memory.
    pub fn new(out: &'w mut (dyn Write + Send), most: u64) -> Self {
        let early = BTreeMap::new();
        let limit = IN_MEMORY.min(most);
        InOrder { out, next: 0, early, in_memory: 0, limit, spill: None }
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
        self.go_on()
    }

    /// Takes zeros in place of the bytes of a chunk, which takes no memory.
    pub fn put_zeros(&mut self, pieces: &[Piece]) -> Result<()> {
        for piece in pieces {
            match piece.offset == self.next {
                true => self.send_zeros(piece.len)?,
                false => drop(self.early.insert(piece.offset, Early::Zeros(piece.len))),
            }
        }
        self.go_on()
    }

    /// Sends what has waited for what was sent just now.
    fn go_on(&mut self) -> Result<()> {
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
                Early::Zeros(len) => self.send_zeros(len)?,
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

    fn send_zeros(&mut self, mut len: u64) -> Result<()> {
        const ZEROS: [u8; 4096] = [0; 4096];
        while len > 0 {
            let n = len.min(ZEROS.len() as u64);
            self.send(&ZEROS[..n as usize])?;
            len -= n;
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
        let mut all: Vec<u8> = (0..5000u32).map(|i| (i * 7 % 251) as u8).collect();
        // Of some chunks nothing but their places is known.
        let lost = |round: i32, k: i32| round == 2 && k != 1;
        for round in 0..4 {
            for i in 0..25 {
                let at = 1250 * round + 50 * i;
                if lost(round, i % 5) {
                    all[at as usize..][..50].fill(0);
                }
            }
        }
        for limit in [0, 300, 1 << 20] {
            let mut out = Vec::new();
            let mut order = InOrder::new(&mut out, limit);
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
                    match lost(round, k) {
                        true => order.put_zeros(&pieces).unwrap(),
                        false => order.put(&pieces, &bytes).unwrap(),
                    }
                }
            }
            order.finish().unwrap();
            assert!(out == all, "limit {limit}");
        }
    }
}
