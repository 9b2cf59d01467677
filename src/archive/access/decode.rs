//! Decodes single chunks of an open archive.

use super::{Archive, chain::Below, open::ChunkInfo};
use crate::{
    Error, Result,
    codec::{self, Form, Scratch},
    container::{ChunkMeta, Limits, Origin, Piece, RecordHeader, RecordType},
    simd::Level,
};
use std::ops::Range;

impl Archive<'_> {
    /// Decodes chunk `i` into `out`, which has its length, and checks it.
    pub(in crate::archive) fn decode_chunk(
        &self,
        i: usize,
        level: Level,
        buffers: &mut Buffers,
        out: &mut [u8],
    ) -> Result<()> {
        let chunk = &self.chunks[i];
        let coded = chunk.meta.copy_of.and_then(|source| self.chunk_at(source)).unwrap_or(i);
        let stored = &self.chunks[coded];
        let mut read = std::mem::take(&mut buffers.known);
        let found = self.read_references(coded, level, buffers, &mut read);
        buffers.known = read;
        let borrowed = found?;
        if coded != i {
            self.check_record(chunk, buffers)?;
        }
        let header_len = self.check_record(stored, buffers)?;
        let record = match self.source.as_slice() {
            Some(all) => &all[stored.offset as usize..][..stored.stored_len as usize],
            None => &buffers.record[..stored.stored_len as usize],
        };
        let known: Vec<&[u8]> =
            borrowed.iter().zip(&buffers.known).map(|(b, read)| b.unwrap_or(read)).collect();
        let payload = payload_of(&stored.meta, &record[header_len..], &known);
        let scratch = &mut buffers.scratch;
        scratch.write_far(buffers.far);
        let decoded = codec::decode(level, &payload, scratch, out);
        let decoded = decoded.and_then(|digest| match digest == chunk.meta.digest {
            true => Ok(()),
            false => Err(Error::Corrupt("the checksum does not match".into())),
        });
        if let Err(e) = decoded {
            return Err(self.base_at_fault(coded, &known).unwrap_or(e));
        }
        buffers.largest = buffers.largest.max(out.len());
        buffers.keep(self, i, out);
        Ok(())
    }

    /// Memory for decoding a chunk and whatever it needs of the archive.
    fn memory_of_chunk(&self, i: usize) -> u64 {
        let chunk = &self.chunks[i];
        let coded = chunk.meta.copy_of.and_then(|source| self.chunk_at(source)).unwrap_or(i);
        let stored = &self.chunks[coded];
        let payload = match self.source.as_slice() {
            Some(_) => 0,
            None => stored.stored_len.max(chunk.stored_len),
        };
        let mut memory = memory_of(&stored.meta, payload);
        if coded != i || !self.stands_alone(coded) {
            memory = memory.saturating_add(self.memory_of_group(self.group_of(coded)));
        }
        memory
    }

    /// Memory for what is kept of a group of several chunks, and for decoding one at a time.
    fn memory_of_group(&self, first: usize) -> u64 {
        if self.stands_alone(first) {
            return 0;
        }
        let rest = self.chunks[first + 1..].iter().take_while(|c| c.meta.continues_group);
        let lens = std::iter::once(&self.chunks[first]).chain(rest).map(|c| c.meta.len());
        // Kept, and at worst each on its way to be kept for the sake of another.
        lens.fold(0u64, u64::saturating_add).saturating_mul(2)
    }

    /// Memory for decoding these chunks one after another.
    ///
    /// # Errors
    /// `LimitExceeded`, with the chunk's place, where that is more than the limit.
    pub(in crate::archive) fn memory_of_chunks(
        &self,
        chunks: Range<usize>,
        limits: &Limits,
    ) -> Result<u64> {
        let mut most = 0;
        for i in chunks {
            let memory = within(self.memory_of_chunk(i), limits);
            most = memory.map_err(|e| e.in_chunk(i))?.max(most);
        }
        Ok(most)
    }

    /// Finds what each reference of a chunk names: in memory already, or else it is read into
    /// the buffer at the same place of `known`.
    fn read_references(
        &self,
        chunk: usize,
        level: Level,
        buffers: &mut Buffers,
        known: &mut Vec<Vec<u8>>,
    ) -> Result<Vec<Option<&[u8]>>> {
        let references = &self.chunks[chunk].meta.references;
        known.resize_with(references.len().max(known.len()), Vec::new);
        let mut borrowed = vec![None; references.len()];
        for ((r, bytes), borrowed) in references.iter().zip(known).zip(&mut borrowed) {
            if r.origin != Origin::Sibling {
                *borrowed = self.borrow_base(&r.pieces);
                if borrowed.is_none() {
                    bytes.resize(r.len() as usize, 0);
                    self.read_base(&r.pieces, buffers, bytes)?;
                }
                continue;
            }
            bytes.resize(r.len() as usize, 0);
            let mut rest = &mut bytes[..];
            for piece in &r.pieces {
                let leads_nowhere = || Error::Corrupt("a reference leads nowhere".into());
                let place = self.place_of(*piece).ok_or_else(leads_nowhere)?;
                let at = (place.at + (piece.offset - place.piece.offset)) as usize;
                let (head, tail) = rest.split_at_mut(piece.len as usize);
                let sibling = self.sibling(place.chunk as usize, level, buffers)?;
                head.copy_from_slice(&sibling[at..][..head.len()]);
                rest = tail;
            }
        }
        Ok(borrowed)
    }

    /// The bytes of a reference to the base, where they are in memory.
    fn borrow_base(&self, pieces: &[Piece]) -> Option<&[u8]> {
        let attached = self.base.get()?;
        attached.base().input.borrow(&attached.own_pieces(pieces).ok()?)
    }

    /// The bytes of a chunk that others of its group refer to. References lead to earlier chunks
    /// of a group only, so this ends.
    fn sibling<'k>(
        &self,
        chunk: usize,
        level: Level,
        buffers: &'k mut Buffers,
    ) -> Result<&'k [u8]> {
        if !buffers.kept.iter().any(|(c, _)| *c == chunk) {
            let mut bytes = vec![0; self.chunks[chunk].meta.len() as usize];
            self.decode_chunk(chunk, level, buffers, &mut bytes)?;
        }
        let kept = buffers.kept.iter().find(|(c, _)| *c == chunk);
        let lost = || Error::Corrupt("a reference leads nowhere".into());
        kept.map(|(_, bytes)| &bytes[..]).ok_or_else(lost)
    }

    /// Reads a record (unless the archive is in memory) and compares its header and metadata
    /// with the index. Returns where its payload starts.
    fn check_record(&self, chunk: &ChunkInfo, buffers: &mut Buffers) -> Result<usize> {
        buffers.meta.clear();
        chunk.meta.write(&mut buffers.meta);
        let kind = if chunk.meta.copy_of.is_some() { RecordType::Copy } else { RecordType::Chunk };
        let header = RecordHeader::to_bytes(kind, &buffers.meta, chunk.payload_len);
        let record: &[u8] = match self.source.as_slice() {
            Some(all) => &all[chunk.offset as usize..][..chunk.stored_len as usize],
            None => {
                let len = chunk.stored_len as usize;
                if buffers.record.len() < len {
                    buffers.record.resize(len, 0);
                }
                self.source.read_at(chunk.offset, &mut buffers.record[..len])?;
                &buffers.record[..len]
            }
        };
        let n = header.len();
        if record[..n] != header || record[n..n + buffers.meta.len()] != buffers.meta[..] {
            return Err(Error::Corrupt("the record header is damaged".into()));
        }
        Ok(n + buffers.meta.len())
    }
}

/// Memory that decoding reuses from chunk to chunk.
#[derive(Default)]
pub(in crate::archive) struct Buffers {
    record: Vec<u8>,
    meta: Vec<u8>,
    scratch: Scratch,
    /// What the references of the last chunk named.
    pub known: Vec<Vec<u8>>,
    /// Chunks of one group, which others of it may refer to.
    kept: Vec<(usize, Vec<u8>)>,
    /// Whether decoded chunks are not read soon, and all of them are larger than the caches.
    pub far: bool,
    spare: Vec<Vec<u8>>,
    /// Bytes of the largest chunk that the scratch was used for.
    largest: usize,
    /// What was prepared of the base.
    pub below: Below,
}

/// Buffers of more bytes are not kept for the next chunk: those of ordinary chunks are smaller,
/// and every worker keeps some.
pub(in crate::archive) const LARGEST_KEPT: usize = 4 << 20;

/// Gives a large buffer back.
pub(in crate::archive) fn shed(buffer: &mut Vec<u8>) {
    if buffer.capacity() > LARGEST_KEPT {
        *buffer = Vec::new();
    }
}

/// Memory for decoding a chunk: its bytes, its payload, what it refers to, and scratch.
pub(in crate::archive) fn memory_of(meta: &ChunkMeta, payload_len: u64) -> u64 {
    let len = meta.len();
    // Coders of planes hold the planes; predictors hold contexts and lanes beside them.
    let scratch = match meta.form {
        Form::Copy | Form::Stored | Form::Constant => 0,
        Form::Zstd | Form::Split | Form::Group | Form::Quantised => len,
        _ => len.saturating_mul(3),
    };
    let parts = [len, payload_len, scratch];
    let known = meta.references.iter().map(|r| r.len());
    parts.into_iter().chain(known).fold(0, u64::saturating_add)
}

/// The same number, unless it is above the limit.
pub(in crate::archive) fn within(memory: u64, limits: &Limits) -> Result<u64> {
    if memory > limits.memory {
        return Err(Error::LimitExceeded(
            format!(
                "decoding it takes {memory} bytes of memory, more than the limit of {}: raise \
             Limits::memory, or --memory of the command",
                limits.memory
            )
            .into(),
        ));
    }
    Ok(memory)
}

impl Buffers {
    /// Gives back what was only needed for large chunks.
    pub fn shed(&mut self) {
        shed(&mut self.record);
        self.known.iter_mut().for_each(shed);
        if self.kept.iter().any(|(_, b)| b.capacity() > LARGEST_KEPT) {
            self.kept.clear();
        }
        self.spare.retain(|b| b.capacity() <= LARGEST_KEPT);
        if std::mem::take(&mut self.largest) > LARGEST_KEPT {
            self.scratch = Scratch::default();
        }
    }

    /// Forgets what was kept of a group, before another archive is read.
    pub fn forget_group(&mut self) {
        self.spare.extend(self.kept.drain(..).map(|(_, b)| b));
    }

    /// Keeps a decoded chunk for the others of its group.
    fn keep(&mut self, archive: &Archive<'_>, chunk: usize, bytes: &[u8]) {
        let group = archive.group_of(chunk);
        if self.kept.first().is_some_and(|(c, _)| archive.group_of(*c) != group) {
            self.spare.extend(self.kept.drain(..).map(|(_, b)| b));
        }
        if archive.stands_alone(chunk) || self.kept.iter().any(|(c, _)| *c == chunk) {
            return;
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.clear();
        kept.extend_from_slice(bytes);
        self.kept.push((chunk, kept));
    }
}

/// The payload of a chunk, of which `known` are the references.
pub(in crate::archive) fn payload_of<'a>(
    meta: &ChunkMeta,
    bytes: &'a [u8],
    known: &'a [&'a [u8]],
) -> codec::Payload<'a> {
    codec::Payload { spec: spec_of(meta), form: meta.form, bytes, known }
}

/// The parts of a chunk's metadata that its payload depends on.
pub(in crate::archive) fn spec_of(meta: &ChunkMeta) -> codec::ChunkSpec {
    codec::ChunkSpec { dtype: meta.dtype, big_endian: meta.big_endian, row_words: meta.row_words }
}
