//! Codes one chunk after another.
//!
//! Whatever a chunk is predicted from is what its archive gives back: siblings are taken from the
//! bytes that the worker read when it coded them, never from the input again, which may have
//! changed since.

use super::chunk::ChunkPlan;
use crate::{
    Error, Result,
    archive::{
        access::{
            decode::{Buffers, spec_of},
            digest::stretches,
            input::Input,
            memory::shed,
        },
        options::Options,
    },
    codec::{self, Form, Scratch},
    container::{ChunkMeta, Origin, Piece, RecordType},
    hash,
};
use std::collections::BTreeSet;

/// The record of a chunk.
#[derive(Default)]
pub(in crate::archive) struct Coded {
    pub kind: RecordType,
    pub meta: Vec<u8>,
    pub payload: Vec<u8>,
    pub form: Form,
    pub digest: u64,
    pub stretches: Vec<(u64, u64)>,
}

/// One worker's buffers, and the record it made last.
#[derive(Default)]
pub(in crate::archive) struct ChunkCoder {
    pub coded: Coded,
    /// What was read of the chunks of the group at hand.
    read: Vec<Vec<u8>>,
    known: Vec<Vec<u8>>,
    scratch: Scratch,
    decoder: Buffers,
    /// Bytes of the largest chunk that the scratch was used for.
    largest: usize,
}

impl ChunkCoder {
    /// A coder that leaves transforms to the device of the options, if they have one.
    pub fn new(options: &Options) -> Self {
        ChunkCoder { scratch: options.scratch(), ..ChunkCoder::default() }
    }

    /// Forgets what it knows of a base, and keeps buffers only.
    pub fn forget_base(&mut self) {
        self.decoder = Buffers::default();
    }

    /// Bounds what is prepared of a chain of bases in one link.
    pub fn limit_base(&mut self, most: u64) {
        self.decoder.below.limit(most);
    }

    /// Gives back what has more than `most` bytes.
    pub fn shed(&mut self, most: usize, options: &Options) {
        let buffers = self.read.iter_mut().chain(&mut self.known);
        let largest = buffers.map(|buffer| {
            let len = buffer.capacity();
            shed(buffer, most);
            len
        });
        let largest = largest.max().unwrap_or(0).max(std::mem::take(&mut self.largest));
        shed(&mut self.coded.payload, most);
        self.decoder.shed(most);
        if largest > most {
            self.scratch = options.scratch();
        }
    }

    /// Prepares what a group of chunks refers to in the base.
    pub fn prepare(&mut self, group: &[ChunkPlan], options: &Options) {
        let Some(base) = &options.base else { return };
        let references = group.iter().flat_map(|c| &c.known);
        let of_base = references.filter(|r| r.origin != Origin::Sibling);
        let pieces: BTreeSet<Piece> = of_base.flat_map(|r| r.pieces.iter().copied()).collect();
        let pieces: Vec<Piece> = pieces.into_iter().collect();
        base.prepare(&pieces, options.level, &mut self.decoder);
    }

    /// Has the next chunk, and what it is coded against, fetched while the one before is coded.
    pub fn fetch(&mut self, next: Option<&ChunkPlan>, input: &Input<'_>, options: &Options) {
        let bytes = next.and_then(|chunk| input.borrow(&chunk.pieces));
        let base = options.base.as_ref().zip(next.and_then(|chunk| chunk.known.first()));
        let base = base.filter(|(_, r)| r.origin != Origin::Sibling);
        let known = base.and_then(|(base, r)| base.input.borrow(&r.pieces));
        self.scratch.fetch(bytes.unwrap_or(&[]), known.unwrap_or(&[]));
    }

    /// Reads chunk `i` of a group, unless it is in memory.
    fn read(&mut self, input: &Input<'_>, chunk: &ChunkPlan, i: usize) -> Result<()> {
        self.read.resize_with(self.read.len().max(i + 1), Vec::new);
        let buffer = &mut self.read[i];
        if input.borrow(&chunk.pieces).is_some() {
            buffer.clear();
            return Ok(());
        }
        buffer.resize(chunk.len() as usize, 0);
        input.read(&chunk.pieces, buffer)
    }

    /// Makes the record of a chunk that is measured and not stored: its siblings are read anew.
    pub fn measure(
        &mut self,
        input: &Input<'_>,
        chunk: &ChunkPlan,
        ends: &[u64],
        options: &Options,
    ) -> Result<()> {
        let mut group = Vec::new();
        for r in chunk.known.iter().filter(|r| r.origin == Origin::Sibling) {
            let sibling = ChunkPlan {
                pieces: r.pieces.clone(),
                known: Vec::new(),
                offers: Vec::new(),
                ..*chunk
            };
            self.read(input, &sibling, group.len())?;
            group.push(sibling);
        }
        group.push(chunk.clone());
        self.code(input, &group, group.len() - 1, ends, options)
    }

    /// Makes the record of chunk `i` of a group, those before it having been coded before.
    pub fn code(
        &mut self,
        input: &Input<'_>,
        group: &[ChunkPlan],
        i: usize,
        ends: &[u64],
        options: &Options,
    ) -> Result<()> {
        let chunk = &group[i];
        self.read(input, chunk, i)?;
        let read = std::mem::take(&mut self.read);
        let bytes = input.borrow(&chunk.pieces).unwrap_or(&read[i]);
        let mut buffers = std::mem::take(&mut self.known);
        buffers.resize_with(chunk.known.len().max(buffers.len()), Vec::new);
        let mut known: Vec<&[u8]> = Vec::with_capacity(chunk.known.len());
        for (r, buffer) in chunk.known.iter().zip(&mut buffers) {
            let base = options.base.as_ref().filter(|_| r.origin != Origin::Sibling);
            known.push(match base {
                None => input
                    .borrow(&r.pieces)
                    .or_else(|| coded_before(&group[..i], &read, &r.pieces))
                    .ok_or_else(|| Error::Corrupt("a chunk is planned to rest on none".into()))?,
                Some(base) => match base.input.borrow(&r.pieces) {
                    Some(bytes) => bytes,
                    None => {
                        buffer.resize(r.len() as usize, 0);
                        base.read_near(&r.pieces, &self.decoder, buffer)?;
                        buffer
                    }
                },
            });
        }
        self.encode(chunk, bytes, &known, ends, options)?;
        self.read = read;
        self.known = buffers;
        Ok(())
    }

    /// Makes the record of chunk `i` of the group coded last once more, from the same bytes and
    /// nothing else.
    pub fn code_alone(
        &mut self,
        input: &Input<'_>,
        chunk: &ChunkPlan,
        i: usize,
        ends: &[u64],
        options: &Options,
    ) -> Result<()> {
        let (known, offers) = (Vec::new(), Vec::new());
        let alone = ChunkPlan { copy_of: None, known, offers, ..chunk.clone() };
        let read = std::mem::take(&mut self.read);
        let bytes = input.borrow(&chunk.pieces).unwrap_or(&read[i]);
        self.encode(&alone, bytes, &[], ends, options)?;
        self.read = read;
        Ok(())
    }

    /// Makes the record of one chunk from its bytes and those that its plan says are known.
    pub fn encode(
        &mut self,
        chunk: &ChunkPlan,
        bytes: &[u8],
        known: &[&[u8]],
        ends: &[u64],
        options: &Options,
    ) -> Result<()> {
        self.largest = self.largest.max(bytes.len());
        self.scratch.at_work(true);
        let made = self.make(chunk, bytes, known, ends, options);
        self.scratch.at_work(false);
        made
    }

    fn make(
        &mut self,
        chunk: &ChunkPlan,
        bytes: &[u8],
        known: &[&[u8]],
        ends: &[u64],
        options: &Options,
    ) -> Result<()> {
        let Coded { kind, meta: out, payload, form, digest, stretches: found } = &mut self.coded;
        self.scratch.reuse(options.method, payload);
        let mut meta = ChunkMeta {
            pieces: chunk.pieces.clone(),
            dtype: chunk.dtype,
            big_endian: chunk.big_endian,
            continues_group: chunk.continues_group,
            row_words: chunk.row_words,
            digest: 0,
            form: Form::Copy,
            references: Vec::new(),
            copy_of: chunk.copy_of,
        };
        if chunk.copy_of.is_some() {
            *kind = RecordType::Copy;
            meta.digest = hash::digest(options.level, bytes);
        } else {
            *kind = RecordType::Chunk;
            let (level, method) = (options.level, options.method);
            let spec = spec_of(&meta);
            let coded = codec::Chunk { spec, bytes, known, offers: &chunk.offers };
            let coded = codec::encode(level, method, &coded, &mut self.scratch, payload)?;
            (meta.form, meta.digest) = (coded.form, coded.digest);
            for input in coded.inputs {
                let i = usize::from(input.index);
                let mut reference = chunk.known[i].clone();
                if let Origin::Base { digest } = &mut reference.origin {
                    *digest = input.digest.unwrap_or_else(|| hash::digest(level, known[i]));
                }
                meta.references.push(reference);
            }
        }
        (*form, *digest) = (meta.form, meta.digest);
        *found = stretches(options.level, &meta, bytes, ends);
        out.clear();
        meta.write(out);
        Ok(())
    }
}

/// What was read of the earlier chunk of a group in which a piece lies.
fn coded_before<'r>(
    group: &[ChunkPlan],
    read: &'r [Vec<u8>],
    pieces: &[Piece],
) -> Option<&'r [u8]> {
    let [piece] = pieces else {
        // Of several pieces, all of a chunk.
        let whole = group.iter().zip(read).find(|(chunk, _)| chunk.pieces == pieces);
        return whole.map(|(_, bytes)| &bytes[..]);
    };
    for (chunk, bytes) in group.iter().zip(read) {
        let mut at = 0;
        for p in &chunk.pieces {
            if p.offset <= piece.offset && piece.offset + piece.len <= p.offset + p.len {
                let from = (at + (piece.offset - p.offset)) as usize;
                return bytes.get(from..)?.get(..piece.len as usize);
            }
            at += p.len;
        }
    }
    None
}
