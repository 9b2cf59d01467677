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
//! A pipe cannot be read back, so for one the payloads are kept in an anonymous temporary file,
//! from which sources of copies are decoded again.

use super::{
    base::Attached,
    damage::{Damage, damage, locate, parse},
    decode::spec_of,
    digest::{Digests, file_ends, leaves},
    in_order::InOrder,
    known::{Kept, resolve},
    open::tile,
    options::Options,
    receive::Receiver,
    receive_worker::{Worker, refers_to_siblings},
    restore::{Restored, is_content},
    target::{Target, write_at},
};
use crate::{
    Error, Result, codec,
    container::{ChunkMeta, EntryKind, Index, Manifest, Piece, hash64},
    pipeline,
    source::{FileSource, Source},
};
use std::collections::HashMap;
use std::{
    fs::File,
    io::{Read, Write},
    path::Path,
    sync::OnceLock,
};

/// Restores an archive that arrives through a pipe to the file or directory `out`.
///
/// With `keep_going`, what verifies is written, the rest is zero-filled and listed, and an
/// archive that was cut short gives what arrived of it.
///
/// # Errors
/// `Corrupt` and `Truncated` name file and chunk; `InvalidArgument` where `out` exists and
/// [`Options::force`] is not set; `Unsupported`, `LimitExceeded`, `Io`.
pub fn decompress_stream(
    reader: &mut (dyn Read + Send),
    out: &Path,
    options: &Options,
    keep_going: bool,
) -> Result<Restored> {
    let mut receiver = Receiver::new(reader, options.limits, keep_going)?;
    let manifest = receiver.manifest()?;
    let ends = ends_of(&manifest);
    let target = Target::create(&manifest, &ends, out, options.force)?;
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
    options: &Options,
) -> Result<Restored> {
    let mut receiver = Receiver::new(reader, options.limits, false)?;
    let manifest = receiver.manifest()?;
    if manifest.is_directory {
        return Err(Error::InvalidArgument(
            "the archive holds a directory, which a pipe cannot take: restore it with -o DIR"
                .into(),
        ));
    }
    let ends = ends_of(&manifest);
    let spool = tempfile::tempfile().map_err(|e| log::debug!("no temporary file: {e}")).ok();
    let sink = Sink::Writer(InOrder::new(out), spool);
    Forward::new(&manifest, &ends, sink, false, &OnceLock::new()).run(receiver, options)
}

/// Decodes and checks an archive that arrives through a pipe, writing nothing.
///
/// # Errors
/// As for [`Archive::verify`](super::Archive::verify).
pub fn verify_stream(
    reader: &mut (dyn Read + Send),
    options: &Options,
    keep_going: bool,
) -> Result<Restored> {
    let mut receiver = Receiver::new(reader, options.limits, false)?;
    let manifest = receiver.manifest()?;
    let ends = ends_of(&manifest);
    Forward::new(&manifest, &ends, Sink::Nothing, keep_going, &OnceLock::new())
        .run(receiver, options)
}

/// Ends of the entries; a stream may end anywhere.
fn ends_of(manifest: &Manifest) -> Vec<u64> {
    match &manifest.entries[..] {
        [only] if only.kind == EntryKind::Stream => vec![u64::MAX],
        entries => file_ends(entries.iter().map(|e| e.len)),
    }
}

/// Where bytes go.
enum Sink<'s> {
    Nothing,
    Target(&'s Target<'s>),
    /// A pipe, and the payloads so far at their offsets in the archive.
    Writer(InOrder<'s>, Option<File>),
}

struct Forward<'s> {
    manifest: &'s Manifest,
    ends: &'s [u64],
    sink: Sink<'s>,
    keep_going: bool,
    digests: Digests,
    /// Metadata of every chunk delivered, and where its payload stands in the archive.
    metas: Vec<(ChunkMeta, u64, u32)>,
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
        let end = ends.last().copied().unwrap_or(0);
        let target = match self.sink {
            Sink::Target(target) => Some(target),
            _ => None,
        };
        let mut stopped = None;
        let mut chunk = 0;
        pipeline::run_ordered(
            options.threads,
            &options.cancel,
            Worker::default,
            |w: &mut Worker| {
                w.meta = match receiver.chunk(&mut w.record, end) {
                    Err(e) if keep_going && is_content(&e) => {
                        stopped = Some(e);
                        None
                    }
                    done => done.map_err(|e| e.at(format_args!("chunk {chunk}")))?,
                };
                if let Some(record) = receiver.base_record.as_ref().filter(|_| name.is_none()) {
                    name = Some(record.name.clone());
                    if let Some(given) = &options.base {
                        let _ = base.set(Attached::new(record, given)?);
                    }
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

    /// Takes a worker's result in the order of the archive.
    fn deliver(&mut self, w: &mut Worker, options: &Options) -> Result<()> {
        let target = match self.sink {
            Sink::Target(target) => Some(target),
            _ => None,
        };
        let deferred = w.meta.as_ref().is_some_and(refers_to_siblings);
        if let Some(meta) = &w.meta {
            self.kept.start(meta)?;
        }
        if deferred && w.damage.is_none() {
            match w.decode(options, self.ends, target, self.base.get(), Some(&self.kept)) {
                Err(e) if is_content(&e) => w.damage = Some(e),
                done => done?,
            }
        }
        let Some(meta) = w.meta.take() else { return Ok(()) };
        if meta.copy_of.is_some() {
            match self.copy(&meta, w) {
                Err(e) if is_content(&e) => w.damage = Some(e),
                done => done?,
            }
        }
        if let Some(e) = w.damage.take_if(|_| !self.keep_going) {
            return Err(locate(e, w.chunk, &self.damage_of(w.chunk, &meta.pieces, "")));
        }
        if let Sink::Writer(out, spool) = &mut self.sink {
            let at = w.record.payload_offset();
            let kept = spool.as_ref().map(|s| write_at(s, at, &w.record.payload));
            if let Some(Err(e)) = kept {
                log::debug!("copies will not be possible: {e}");
                *spool = None;
            }
            if w.damage.is_none() {
                out.put(&meta.pieces, &w.bytes)?;
            }
        }
        match w.damage.take() {
            Some(e) => {
                let reason = e.to_string();
                let found = self.damage_of(w.chunk, &meta.pieces, &reason);
                self.damage.extend(found);
            }
            None => self.digests.add(std::mem::take(&mut w.leaves)),
        }
        if self.damage.last().is_none_or(|d| d.chunk != w.chunk) {
            self.kept.keep(&meta, &mut w.bytes);
        }
        self.by_offset.entry(meta.offset()).or_insert(self.metas.len());
        self.metas.push((meta, w.record.payload_offset(), w.record.payload.len() as u32));
        Ok(())
    }

    /// Repeats the chunk that `meta` is a copy of.
    fn copy(&mut self, meta: &ChunkMeta, w: &mut Worker) -> Result<()> {
        let source = meta.copy_of.and_then(|s| self.by_offset.get(&s));
        let source = source.map(|&i| &self.metas[i]).filter(|(s, ..)| {
            s.copy_of.is_none() && s.len() == meta.len() && s.digest == meta.digest
        });
        let Some((source, payload_at, payload_len)) = source else {
            return Err(Error::Corrupt("a copy has no source".into()));
        };
        w.bytes.resize(meta.len() as usize, 0);
        match &self.sink {
            // Equal digests and a source that was checked are proof enough.
            Sink::Nothing => match meta.pieces[..] {
                [p] if !self.ends.iter().any(|&e| p.offset < e && e < p.offset + p.len) => {
                    w.leaves = vec![(p.offset, meta.digest)];
                    return Ok(());
                }
                _ => return Err(Error::Unsupported("a copy in several pieces".into())),
            },
            Sink::Target(target) => target.get(&source.pieces, &mut w.bytes)?,
            Sink::Writer(_, spool) => {
                let failed = |source| Error::Io {
                    context: format!(
                        "the archive repeats an earlier chunk, for which temporary space in {} \
                         is needed",
                        std::env::temp_dir().display()
                    ),
                    source,
                };
                let none = || failed(std::io::ErrorKind::StorageFull.into());
                let spool = spool.as_ref().ok_or_else(none)?;
                let spool = spool.try_clone().and_then(FileSource::new).map_err(failed)?;
                let payload =
                    spool.read_vec(*payload_at, u64::from(*payload_len)).map_err(failed)?;
                let spec = spec_of(source);
                let level = crate::simd::Level::best();
                let known = resolve(source, self.base.get(), None, &mut w.known)?;
                let scratch = &mut w.scratch;
                codec::decode_known(
                    level,
                    &spec,
                    source.form,
                    &payload,
                    &known,
                    scratch,
                    &mut w.bytes,
                )?;
            }
        }
        if hash64(&w.bytes) != meta.digest {
            return Err(Error::Corrupt("the checksum does not match".into()));
        }
        if let Sink::Target(target) = &self.sink {
            target.put(&meta.pieces, &w.bytes)?;
        }
        w.leaves = leaves(meta, &w.bytes, self.ends);
        Ok(())
    }

    /// Reads index, trailer and end, and compares them with what came before. Returns the
    /// lengths of the entries.
    fn finish(&mut self, receiver: Receiver<'_>) -> Result<Vec<u64>> {
        let Index { lens, digests, .. } = receiver.finish()?;
        let entries = &self.manifest.entries;
        let fits = entries.len() == lens.len()
            && entries.iter().zip(&lens).all(|(e, &l)| e.kind == EntryKind::Stream || e.len == l);
        if !fits {
            return Err(Error::Corrupt("index and manifest contradict each other".into()));
        }
        tile(self.metas.iter().map(|m| &m.0), lens.iter().sum())?;
        if !self.damage.is_empty() {
            return Ok(lens);
        }
        let mut start = 0;
        for ((entry, len), digest) in entries.iter().zip(&lens).zip(&digests) {
            if self.digests.file(start, start + len) != *digest {
                let e = Error::Corrupt("the digest of the file does not match".into());
                return Err(e.at(&entry.path));
            }
            start += len;
        }
        Ok(lens)
    }

    /// Lists what no chunk restored as damage.
    fn add_holes(&mut self, e: &Error) {
        let mut pieces: Vec<Piece> =
            self.metas.iter().flat_map(|m| m.0.pieces.iter().copied()).collect();
        pieces.sort();
        let mut holes = Vec::new();
        let mut at = 0;
        for p in &pieces {
            if p.offset > at {
                holes.push(Piece { offset: at, len: p.offset - at });
            }
            at = at.max(p.offset + p.len);
        }
        let end = self.ends.last().copied().unwrap_or(0);
        let is_stream = end == u64::MAX;
        if at < end && !is_stream {
            holes.push(Piece { offset: at, len: end - at });
        }
        let reason = e.to_string();
        let chunk = self.metas.len();
        let found = self.damage_of(chunk, &holes, &reason);
        if found.is_empty() {
            let file = self.manifest.entries.first().map_or(String::new(), |e| e.path.clone());
            let damage = Damage { chunk, file, offset: at, len: 0, tensors: Vec::new(), reason };
            self.damage.push(damage);
        }
        self.damage.extend(found);
    }

    fn damage_of(&self, chunk: usize, pieces: &[Piece], reason: &str) -> Vec<Damage> {
        damage(chunk, pieces, self.manifest, self.ends, reason, |entry| match &self.sink {
            Sink::Target(target) => parse(self.manifest, entry, &target.file(entry).ok()?),
            _ => None,
        })
    }
}
