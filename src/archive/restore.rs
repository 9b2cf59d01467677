//! Archive → files or memory.

use super::{
    Archive,
    digest::{Digests, leaves},
    open::Buffers,
    options::Options,
    output::{AtomicDirectory, AtomicFile},
};
use crate::{
    Error, Result,
    container::EntryKind,
    format,
    pipeline::{self, numbered},
};
use std::{
    collections::BTreeMap,
    fs::File,
    path::Path,
    sync::{Mutex, PoisonError},
};

/// A stretch of a file that could not be restored.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Damage {
    /// Number of the chunk.
    pub chunk: usize,
    /// Path of the file in the archive.
    pub file: String,
    /// First byte within the file.
    pub offset: u64,
    /// Number of bytes; they read as zero in what was restored.
    pub len: u64,
    /// Tensors with bytes in this stretch; empty where they cannot be told.
    pub tensors: Vec<String>,
    /// What is wrong.
    pub reason: String,
}

/// What restoring or verifying did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Restored {
    /// Bytes of all files.
    pub bytes: u64,
    /// Number of files.
    pub files: u64,
    /// What could not be restored; empty unless the caller asked to keep going.
    pub damage: Vec<Damage>,
}

/// Decompresses an archive that holds one file.
///
/// # Errors
/// `InvalidArgument` for archives of directories; `LimitExceeded` where the file does not fit
/// into memory; everything that [`Archive::open`] and [`Archive::restore`] report.
pub fn decompress(archive: &[u8], options: &Options) -> Result<Vec<u8>> {
    let opened = Archive::from_bytes(archive, options.limits)?;
    let mut out = Vec::new();
    usize::try_from(opened.total_len())
        .ok()
        .and_then(|len| out.try_reserve_exact(len).ok().map(|()| len))
        .map(|len| out.resize(len, 0))
        .ok_or_else(|| {
            Error::LimitExceeded("the decompressed file does not fit into memory".into())
        })?;
    opened.restore_into(&mut out, options)?;
    Ok(out)
}

/// As [`decompress`], into a buffer of the caller's that has exactly the file's length.
///
/// # Errors
/// As for [`decompress`], and `InvalidArgument` where the length differs.
pub fn decompress_into(archive: &[u8], out: &mut [u8], options: &Options) -> Result<()> {
    Archive::from_bytes(archive, options.limits)?.restore_into(out, options)
}

/// Slices of the output that one chunk fills.
type Slots<'o> = Mutex<Vec<&'o mut [u8]>>;

#[derive(Default)]
struct Worker {
    job: usize,
    bytes: Vec<u8>,
    buffers: Buffers,
    leaves: Vec<(u64, u64)>,
    damage: Option<Error>,
}

impl Archive<'_> {
    /// Decompresses the only file into `out`, which has its length.
    ///
    /// # Errors
    /// `InvalidArgument` for a directory or another length; `Corrupt` names the chunk.
    pub fn restore_into(&self, out: &mut [u8], options: &Options) -> Result<()> {
        if self.manifest.is_directory || out.len() as u64 != self.total_len() {
            return Err(Error::InvalidArgument(format!(
                "the output has {} bytes, the archive restores {} (and must hold a single file)",
                out.len(),
                self.total_len()
            )));
        }
        let mut slots: Vec<Slots> = self.chunks.iter().map(|_| Mutex::default()).collect();
        let mut rest = out;
        for place in &self.places {
            let (head, tail) = rest.split_at_mut(place.piece.len as usize);
            let slot = slots[place.chunk as usize].get_mut();
            slot.unwrap_or_else(PoisonError::into_inner).push(head);
            rest = tail;
        }
        let work = |w: &mut Worker| {
            let mut slot = slots[w.job].lock().unwrap_or_else(PoisonError::into_inner);
            if let [whole] = &mut slot[..] {
                self.decode_chunk(w.job, options.level, &mut w.buffers, whole)
                    .map_err(|e| self.locate(w.job, e))?;
                w.leaves = leaves(&self.chunks[w.job].meta, whole, &self.ends);
            } else {
                self.decode(w, options)?;
                let mut at = 0;
                for part in slot.iter_mut() {
                    part.copy_from_slice(&w.bytes[at..at + part.len()]);
                    at += part.len();
                }
            }
            Ok(())
        };
        self.run(options, work, |_| Ok(())).map(|_| ())
    }

    /// Decodes everything and checks every checksum, writing nothing.
    ///
    /// # Errors
    /// `Corrupt` names file, tensor and chunk of the first fault, unless `keep_going`: then all
    /// faults are in [`Restored::damage`].
    pub fn verify(&self, options: &Options, keep_going: bool) -> Result<Restored> {
        self.run_kept(options, keep_going, |_| Ok(()))
    }

    /// Restores the file or directory to `out`, which appears whole or not at all.
    ///
    /// # Errors
    /// As for [`Archive::verify`]; with `keep_going` damaged stretches are zero-filled instead.
    /// `InvalidArgument` where `out` exists and [`Options::force`] is not set; `Io`.
    pub fn restore(&self, out: &Path, options: &Options, keep_going: bool) -> Result<Restored> {
        if !self.manifest.is_directory {
            let target = AtomicFile::create(out, options.force)?;
            let failed = |e| Error::io("write", out, e);
            target.file().set_len(self.total_len()).map_err(failed)?;
            let restored = self.run_kept(options, keep_going, |w: &mut Worker| {
                self.scatter(w, |_, offset, bytes| {
                    write_at(target.file(), offset, bytes).map_err(failed)
                })
            })?;
            target.commit()?;
            return Ok(restored);
        }
        let target = AtomicDirectory::create(out, options.force)?;
        for entry in &self.manifest.entries {
            let path = target.path().join(&entry.path);
            let failed = |e| Error::io("create", &path, e);
            if entry.kind == EntryKind::Directory {
                std::fs::create_dir(&path).map_err(failed)?;
            } else {
                File::create_new(&path).and_then(|f| f.set_len(entry.len)).map_err(failed)?;
            }
        }
        let restored = self.run_kept(options, keep_going, |w: &mut Worker| {
            self.scatter(w, |entry, offset, bytes| {
                let path = target.path().join(&self.manifest.entries[entry].path);
                File::options()
                    .write(true)
                    .open(&path)
                    .and_then(|f| write_at(&f, offset, bytes))
                    .map_err(|e| Error::io("write", &path, e))
            })
        })?;
        for entry in self.manifest.entries.iter().rev() {
            let path = target.path().join(&entry.path);
            let synced = File::open(&path).and_then(|f| f.sync_all());
            synced.map_err(|e| Error::io("sync", &path, e))?;
        }
        target.commit()?;
        Ok(restored)
    }

    /// Hands the decoded bytes of a worker's chunk to `put`, cut at file boundaries.
    fn scatter(&self, w: &Worker, put: impl Fn(usize, u64, &[u8]) -> Result<()>) -> Result<()> {
        if w.damage.is_some() {
            return Ok(());
        }
        let mut at = 0;
        for piece in &self.chunks[w.job].meta.pieces {
            let (mut from, end) = (piece.offset, piece.offset + piece.len);
            while from < end {
                let entry = self.ends.partition_point(|&e| e <= from);
                let n = (end.min(self.ends[entry]) - from) as usize;
                put(entry, from - self.start_of(entry), &w.bytes[at..at + n])?;
                at += n;
                from += n as u64;
            }
        }
        Ok(())
    }

    fn decode(&self, w: &mut Worker, options: &Options) -> Result<()> {
        let meta = &self.chunks[w.job].meta;
        w.bytes.resize(meta.len() as usize, 0);
        self.decode_chunk(w.job, options.level, &mut w.buffers, &mut w.bytes)
            .map_err(|e| self.locate(w.job, e))?;
        w.leaves = leaves(meta, &w.bytes, &self.ends);
        Ok(())
    }

    /// Decodes all chunks into the workers' buffers and calls `put` for each.
    fn run_kept(
        &self,
        options: &Options,
        keep_going: bool,
        put: impl Fn(&mut Worker) -> Result<()> + Sync,
    ) -> Result<Restored> {
        let mut damage = Vec::new();
        let work = |w: &mut Worker| {
            w.damage = match self.decode(w, options) {
                Err(e) if keep_going => Some(e),
                done => done.map(|()| None)?,
            };
            put(w)
        };
        let mut restored = self.run(options, work, |w| {
            if let Some(e) = w.damage.take() {
                damage.extend(self.damage(w.job, e.to_string()));
            }
            Ok(())
        })?;
        restored.damage = damage;
        Ok(restored)
    }

    fn run(
        &self,
        options: &Options,
        work: impl Fn(&mut Worker) -> Result<()> + Sync,
        mut done: impl FnMut(&mut Worker) -> Result<()> + Send,
    ) -> Result<Restored> {
        let mut digests = Digests::default();
        let mut whole = true;
        let n = self.chunks.len();
        pipeline::run_ordered(
            pipeline::worker_count(options.threads).min(n.max(1)),
            &options.cancel,
            Worker::default,
            numbered(n, |w: &mut Worker, job| w.job = job),
            work,
            |w| {
                whole &= w.damage.is_none();
                digests.add(std::mem::take(&mut w.leaves));
                if let Some(progress) = &options.progress {
                    progress(self.chunks[w.job].meta.len());
                }
                done(w)
            },
        )?;
        let mut restored = Restored { bytes: self.total_len(), ..Restored::default() };
        for (i, entry) in self.manifest.entries.iter().enumerate() {
            restored.files += u64::from(entry.kind != EntryKind::Directory);
            if whole && digests.file(self.start_of(i), self.ends[i]) != self.digests[i] {
                return Err(Error::Corrupt(format!(
                    "{}: the digest of the file does not match",
                    entry.path
                )));
            }
        }
        Ok(restored)
    }

    /// Adds file, tensor and chunk to an error.
    fn locate(&self, chunk: usize, e: Error) -> Error {
        let damage = self.damage(chunk, String::new());
        let Some(first) = damage.first() else { return e.at(format_args!("chunk {chunk}")) };
        match first.tensors.first() {
            Some(tensor) => {
                e.at(format_args!("{}: tensor \"{tensor}\": chunk {chunk}", first.file))
            }
            None => e.at(format_args!("{}: chunk {chunk}", first.file)),
        }
    }

    /// The stretches of files that a chunk would have restored.
    fn damage(&self, chunk: usize, reason: String) -> Vec<Damage> {
        let mut found: BTreeMap<usize, Damage> = BTreeMap::new();
        for piece in &self.chunks[chunk].meta.pieces {
            let entry = self.ends.partition_point(|&e| e <= piece.offset);
            let file = &self.manifest.entries[entry];
            let offset = piece.offset - self.start_of(entry);
            let end = (offset + piece.len).min(file.len);
            found.entry(entry).and_modify(|d| d.len = end - d.offset).or_insert_with(|| Damage {
                chunk,
                file: file.path.clone(),
                offset,
                len: end - offset,
                tensors: Vec::new(),
                reason: reason.clone(),
            });
        }
        for (&entry, damage) in &mut found {
            damage.tensors = self.tensors_in(entry, damage.offset, damage.len, chunk);
        }
        found.into_values().collect()
    }

    /// Names of the tensors with bytes in a stretch of a file that `chunk` restores.
    fn tensors_in(&self, entry: usize, offset: u64, len: u64, chunk: usize) -> Vec<String> {
        if self.manifest.entries[entry].flat.is_some() {
            return Vec::new();
        }
        let Ok(parsed) = format::parse(&self.file(entry)) else { return Vec::new() };
        let start = self.start_of(entry);
        let in_chunk = |from: u64, to: u64| {
            let pieces = &self.chunks[chunk].meta.pieces;
            pieces.iter().any(|p| p.offset < to && from < p.offset + p.len)
        };
        let mut names = Vec::new();
        for t in parsed.tensors {
            let n = t.dtype.tensor_len(&t.shape).unwrap_or(0);
            let near = t.offset < offset + len && offset < t.offset + n;
            if near && in_chunk(start + t.offset, start + t.offset + n) {
                names.push(t.name);
            }
        }
        names
    }
}

fn write_at(file: &File, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, offset);
    #[cfg(not(unix))]
    {
        use std::io::{Seek, SeekFrom, Write};
        let mut file = file;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }
}
