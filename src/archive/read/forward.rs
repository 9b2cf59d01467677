//! Archives that are read forward, from a pipe.
//!
//! ```text
//! header, manifest          → the target is created
//! chunk, copy … chunk       → decoded in parallel, checked, delivered in order
//! index, trailer, end       → compared with what came before
//! ```
//!
//! Nothing that the archive states is allocated before its bytes have arrived, except for a
//! chunk's decoded length, which [`Limits::chunk_len`] bounds. Copies are read back from the
//! target; chunks that refer to others of their group are decoded when those have been delivered.
//! A pipe cannot be read back: what copies may repeat is kept in a temporary file (`spool`).

mod deliver;

use super::{
    damage::Damage,
    receiver::{Receiver, Record, ends_of},
    references::{Kept, resolve},
    restore::{Restored, is_content},
    sequence::InOrder,
    spool::{Spool, Spooled},
    target::Target,
};
use crate::{
    Error, Result,
    archive::{
        access::{
            base::Attached,
            decode::{LARGEST_KEPT, memory_of, payload_of, shed, within},
            digest::{Digests, stretches},
        },
        disk::{Protected, open_stream},
        options::{Options, RestoreOptions},
    },
    codec::{self, Scratch},
    container::{ChunkMeta, EntryKind, Manifest, Origin},
    pipeline::{self, Memory},
};
use std::{
    collections::HashMap,
    io::{Read, Write},
    path::Path,
    sync::OnceLock,
};

/// Restores an archive that arrives through a pipe to the file or directory `out`.
///
/// With [`OnDamage::Fill`](crate::OnDamage::Fill), what verifies is written, the rest is zero-filled
/// and listed, and an archive that was cut short gives what arrived of it.
///
/// # Errors
/// `Corrupt` and `Truncated` name file and chunk; `InvalidArgument` where `out` exists and
/// is not to be replaced, or is needed as it is; `Unsupported`, `LimitExceeded`, `Io`.
pub fn decompress_stream(
    reader: &mut (dyn Read + Send),
    out: &Path,
    options: &RestoreOptions,
) -> Result<Restored> {
    let (given, options) = (options, &options.0);
    let keep_going = options.keeps_going();
    Protected::of(options).refuse(out)?;
    if let Some(mut stream) = open_stream(out)? {
        return decompress_to_writer(reader, &mut stream, given);
    }
    let mut receiver = Receiver::new(reader, options.limits, keep_going)?;
    let manifest = receiver.manifest()?;
    let ends = ends_of(&manifest);
    let target = Target::create(&manifest, &ends, out, options.overwrite)?;
    let sink = Sink::Target(&target);
    let restored = Forward::new(&manifest, &ends, sink, keep_going, &OnceLock::new())
        .run(receiver, options)?;
    target.commit()?;
    Ok(restored)
}

/// Restores the only file of an archive that arrives through a pipe to a writer.
///
/// # Errors
/// As for [`decompress_stream`], and `InvalidArgument` for an archive of a directory; what was
/// written before a fault was found stays written.
pub fn decompress_to_writer(
    reader: &mut (dyn Read + Send),
    out: &mut (dyn Write + Send),
    options: &RestoreOptions,
) -> Result<Restored> {
    let options = &options.0;
    let mut receiver = Receiver::new(reader, options.limits, false)?;
    let manifest = receiver.manifest()?;
    if manifest.is_directory {
        return Err(Error::InvalidArgument(
            "the archive holds a directory, which a pipe cannot take: restore it with -o DIR"
                .into(),
        ));
    }
    let ends = ends_of(&manifest);
    let sink = Sink::Writer(InOrder::new(out), Spool::new());
    Forward::new(&manifest, &ends, sink, false, &OnceLock::new()).run(receiver, options)
}

/// Decodes and checks an archive that arrives through a pipe, writing nothing.
///
/// # Errors
/// As for [`Archive::verify`](crate::Archive::verify).
pub fn verify_stream(reader: &mut (dyn Read + Send), options: &RestoreOptions) -> Result<Restored> {
    let options = &options.0;
    let keep_going = options.keeps_going();
    let mut receiver = Receiver::new(reader, options.limits, false)?;
    let manifest = receiver.manifest()?;
    let ends = ends_of(&manifest);
    Forward::new(&manifest, &ends, Sink::Nothing, keep_going, &OnceLock::new())
        .run(receiver, options)
}

/// Where bytes go.
enum Sink<'s> {
    Nothing,
    Target(&'s Target<'s>),
    /// A pipe, and what copies may repeat.
    Writer(InOrder<'s>, Spool),
}

/// One worker's record and what became of it.
#[derive(Default)]
struct Worker {
    record: Record,
    meta: Option<ChunkMeta>,
    chunk: usize,
    bytes: Vec<u8>,
    known: Vec<Vec<u8>>,
    scratch: Scratch,
    stretches: Vec<(u64, u64)>,
    damage: Option<Error>,
    /// Bytes of the largest chunk that the scratch was used for.
    largest: usize,
    /// Bytes that decoding takes, with what is kept of its group.
    memory: u64,
}

struct Forward<'s> {
    manifest: &'s Manifest,
    ends: &'s [u64],
    sink: Sink<'s>,
    keep_going: bool,
    digests: Digests,
    /// Metadata of every chunk delivered, and where it is kept for copies of it.
    metas: Vec<(ChunkMeta, Option<Spooled>)>,
    /// Chunks by the first byte they restore.
    by_offset: HashMap<u64, usize>,
    damage: Vec<Damage>,
    kept: Kept,
    base: &'s OnceLock<Attached>,
}

impl<'s> Forward<'s> {
    fn new(
        manifest: &'s Manifest,
        ends: &'s [u64],
        sink: Sink<'s>,
        keep_going: bool,
        base: &'s OnceLock<Attached>,
    ) -> Self {
        Forward {
            manifest,
            ends,
            sink,
            keep_going,
            digests: Digests::default(),
            metas: Vec::new(),
            by_offset: HashMap::new(),
            damage: Vec::new(),
            kept: Kept::default(),
            base,
        }
    }

    fn run(mut self, mut receiver: Receiver<'_>, options: &Options) -> Result<Restored> {
        let keep_going = self.keep_going;
        let ends = self.ends;
        let base = self.base;
        let mut name = None;
        let target = match self.sink {
            Sink::Target(target) => Some(target),
            _ => None,
        };
        let mut stopped = None;
        let mut chunk = 0;
        // Bytes of the group at hand, and of those that are kept until the next job is delivered.
        let (mut group, mut kept) = (0u64, 0u64);
        let memory = |w: &Worker| Ok(w.memory);
        pipeline::run_within(
            options.workers(usize::MAX),
            &options.cancel,
            Memory { limit: options.limits.memory, of: memory },
            Worker::default,
            |w: &mut Worker| {
                w.meta = match receiver.chunk(&mut w.record) {
                    Err(e) if keep_going && is_content(&e) => {
                        stopped = Some(e);
                        None
                    }
                    done => done.map_err(|e| e.in_chunk(chunk))?,
                };
                if let Some(record) = receiver.base_record.as_ref().filter(|_| name.is_none()) {
                    name = Some(record.name.clone());
                    if let Some(given) = &options.base {
                        let _ = base.set(Attached::new(record, given)?);
                    }
                }
                if let Some(meta) = &w.meta {
                    kept = group;
                    group = if meta.continues_group { group } else { 0 };
                    group = group.saturating_add(meta.len());
                    let decoding = memory_of(meta, w.record.payload.len() as u64);
                    w.memory = within(decoding.saturating_add(kept), &options.limits)
                        .map_err(|e| e.in_chunk(chunk))?;
                }
                w.chunk = chunk;
                chunk += 1;
                Ok(w.meta.is_some())
            },
            |w| match w.decode(options, ends, target, base.get(), None) {
                Err(e) if is_content(&e) => {
                    w.damage = Some(e);
                    Ok(())
                }
                done => done,
            },
            |w| {
                let len = w.meta.as_ref().map_or(0, ChunkMeta::len);
                self.deliver(w, options)?;
                if let Some(progress) = &options.progress {
                    progress(len);
                }
                w.shed();
                Ok(())
            },
        )?;
        let mut lens: Vec<u64> = self.manifest.entries.iter().map(|e| e.len).collect();
        match stopped {
            Some(e) => self.add_holes(&e),
            None => match self.finish(receiver) {
                Err(e) if keep_going && is_content(&e) => self.add_holes(&e),
                done => lens = done?,
            },
        }
        let files = self.manifest.entries.iter().filter(|e| e.kind != EntryKind::Directory);
        let mut restored = Restored { files: files.count() as u64, ..Restored::default() };
        restored.bytes = lens.iter().sum();
        restored.damage = self.damage;
        if let Sink::Writer(out, _) = self.sink {
            out.finish()?;
        }
        Ok(restored)
    }
}

/// Whether a chunk cannot be decoded before others of its group.
fn refers_to_siblings(meta: &ChunkMeta) -> bool {
    meta.references.iter().any(|r| r.origin == Origin::Sibling)
}

impl Worker {
    /// Gives back what was only needed for a large chunk.
    fn shed(&mut self) {
        if self.bytes.len().max(self.largest) > LARGEST_KEPT {
            self.scratch = Scratch::default();
        }
        self.largest = 0;
        shed(&mut self.bytes);
        shed(&mut self.record.payload);
        self.known.iter_mut().for_each(shed);
    }

    /// Decodes a chunk that is not a copy, checks it, and writes it where there is a target. One
    /// that refers to siblings waits until there is something kept.
    fn decode(
        &mut self,
        options: &Options,
        ends: &[u64],
        target: Option<&Target<'_>>,
        base: Option<&Attached>,
        kept: Option<&Kept>,
    ) -> Result<()> {
        let Some(meta) = self.meta.as_ref().filter(|m| m.copy_of.is_none()) else {
            return Ok(());
        };
        if refers_to_siblings(meta) && kept.is_none() {
            return Ok(());
        }
        self.bytes.resize(meta.len() as usize, 0);
        self.largest = self.largest.max(self.bytes.len());
        let known = resolve(options.level, meta, base, kept, &mut self.known)?;
        let payload = payload_of(meta, &self.record.payload, &known);
        let digest = codec::decode(options.level, &payload, &mut self.scratch, &mut self.bytes)?;
        if digest != meta.digest {
            return Err(Error::Corrupt("the checksum does not match".into()));
        }
        if let Some(target) = target {
            target.put(&meta.pieces, &self.bytes)?;
        }
        self.stretches = stretches(options.level, meta, &self.bytes, ends);
        Ok(())
    }
}
