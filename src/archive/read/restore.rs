//! Archive → files or memory.

use super::{damage::Damage, sequence::InOrder, target::Target};
use crate::{
    Error, Result,
    archive::{
        access::{
            Archive,
            decode::Buffers,
            digest::{Digests, stretches},
            memory::{Budget, shed},
        },
        disk::{Protected, open_stream},
        options::{Options, RestoreOptions},
    },
    container::EntryKind,
    pipeline::{self, Memory, numbered},
    simd::far,
};
use std::ops::Range;
use std::{
    io::Write,
    path::Path,
    sync::{Mutex, PoisonError},
};

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
pub fn decompress(archive: &[u8], options: &RestoreOptions) -> Result<Vec<u8>> {
    let opened = Archive::from_bytes(archive, options)?;
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
pub fn decompress_into(archive: &[u8], out: &mut [u8], options: &RestoreOptions) -> Result<()> {
    Archive::from_bytes(archive, options)?.restore_into(out, options)
}

/// Slices of the output that one chunk fills.
type Slots<'o> = Mutex<Vec<&'o mut [u8]>>;

/// A chunk, its stretches, and what was wrong with it.
type Done = (usize, Vec<(u64, u64)>, Option<Error>);

#[derive(Default)]
struct Worker {
    /// Which of the ranges of chunks it works on, and the chunk at hand.
    group: usize,
    job: usize,
    /// What became of the chunks of its range.
    done: Vec<Done>,
    bytes: Vec<u8>,
    buffers: Buffers,
    stretches: Vec<(u64, u64)>,
    damage: Option<Error>,
}

impl Archive<'_> {
    /// Decompresses the only file into `out`, which has its length.
    ///
    /// # Errors
    /// `InvalidArgument` for a directory or another length; `Corrupt` names the chunk.
    pub fn restore_into(&self, out: &mut [u8], options: &RestoreOptions) -> Result<()> {
        if self.manifest.is_directory {
            return Err(Error::InvalidArgument(
                "the archive holds a directory, not a single file".into(),
            ));
        }
        self.restore_all_into(out, options)
    }

    /// Decompresses all files into `out`, end to end in the order of the manifest.
    ///
    /// # Errors
    /// `InvalidArgument` for another length; `Corrupt` names the chunk.
    pub fn restore_all_into(&self, out: &mut [u8], options: &RestoreOptions) -> Result<()> {
        let options = &options.0;
        if out.len() as u64 != self.total_len() {
            return Err(Error::InvalidArgument(
                format!(
                    "the output has {} bytes, the archive restores {}",
                    out.len(),
                    self.total_len()
                )
                .into(),
            ));
        }
        self.ensure_base(options)?;
        let mut slots: Vec<Slots> = self.chunks.iter().map(|_| Mutex::default()).collect();
        let far = out.len() >= far::FROM;
        let mut rest = out;
        for place in &self.places {
            let (head, tail) = rest.split_at_mut(place.piece.len as usize);
            let slot = slots[place.chunk as usize].get_mut();
            slot.unwrap_or_else(PoisonError::into_inner).push(head);
            rest = tail;
        }
        let work = |w: &mut Worker| {
            let mut slot = slots[w.job].lock().unwrap_or_else(PoisonError::into_inner);
            w.buffers.far = far;
            if let [whole] = &mut slot[..] {
                let budget = Budget::new(&options.limits, 1);
                self.check_memory(w.job, &budget).map_err(|e| self.locate(w.job, e))?;
                self.decode_chunk(w.job, options.level, &mut w.buffers, whole)
                    .map_err(|e| self.locate(w.job, e))?;
                w.stretches = stretches(options.level, &self.chunks[w.job].meta, whole, &self.ends);
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
        self.run(options, self.group_ranges(), work, |_| Ok(())).map(|_| ())
    }

    /// Decodes everything and checks every checksum, writing nothing.
    ///
    /// # Errors
    /// `Corrupt` names file, tensor and chunk of the first fault, unless the options say to go on
    /// ([`OnDamage::Fill`](crate::OnDamage::Fill)): then all faults are in [`Restored::damage`].
    pub fn verify(&self, options: &RestoreOptions) -> Result<Restored> {
        let options = &options.0;
        self.ensure_base(options)?;
        self.run_kept(options, |_| Ok(()), |_| Ok(()))
    }

    /// Restores the file or directory to `out`, which appears whole or not at all. A pipe or
    /// character device takes the bytes of a single file as they come.
    ///
    /// # Errors
    /// As for [`Archive::verify`]; where the options say to go on, damaged stretches become zeros.
    /// `InvalidArgument` where `out` exists and is not to be replaced
    /// ([`RestoreOptions::with_overwrite`]), or is, contains or lies in the archive or a base of its
    /// chain; `Io`.
    pub fn restore(&self, out: impl AsRef<Path>, options: &RestoreOptions) -> Result<Restored> {
        let (out, given, options) = (out.as_ref(), options, &options.0);
        self.ensure_base(options)?;
        Protected::of(options).with_archive(self).refuse(out)?;
        if !self.manifest.is_directory
            && let Some(mut stream) = open_stream(out)?
        {
            return self.restore_to_writer(&mut stream, given);
        }
        let target = Target::create(&self.manifest, &self.ends, out, options.overwrite)?;
        let put = |w: &mut Worker| match w.damage {
            Some(_) => Ok(()),
            None => target.put(&self.chunks[w.job].meta.pieces, &w.bytes),
        };
        // Only one thread at a time can write to a file. If the others leave it their chunks, they
        // can go on instead of waiting. A group has one buffer for all of its chunks.
        let one_file = !self.manifest.is_directory;
        let later = |w: &Worker| one_file && self.stands_alone(w.job);
        let restored = self.run_kept(
            options,
            |w| if later(w) { Ok(()) } else { put(w) },
            |w| if later(w) { put(w) } else { Ok(()) },
        )?;
        target.commit()?;
        Ok(restored)
    }

    /// Restores the only file to a writer that cannot seek.
    ///
    /// # Errors
    /// As for [`Archive::restore`]; what was written before a fault was found stays written.
    pub fn restore_to_writer(
        &self,
        out: &mut (dyn Write + Send),
        options: &RestoreOptions,
    ) -> Result<Restored> {
        let options = &options.0;
        let keep_going = options.keeps_going();
        if self.manifest.is_directory {
            return Err(Error::InvalidArgument(
                "the archive holds a directory, which a pipe cannot take: restore it with -o DIR"
                    .into(),
            ));
        }
        self.ensure_base(options)?;
        let mut damage = Vec::new();
        let mut out = InOrder::new(out, Budget::new(&options.limits, 1).waiting());
        // A chunk a job: what a job decodes is delivered as a whole.
        let jobs = (0..self.chunks.len()).map(|i| i..i + 1).collect();
        let mut restored = self.run(
            options,
            jobs,
            |w| {
                w.damage = match self.decode(w, options) {
                    Err(e) if keep_going && is_content(&e) => Some(e),
                    done => done.map(|()| None)?,
                };
                Ok(())
            },
            |w| {
                let pieces = &self.chunks[w.job].meta.pieces;
                match w.damage.take() {
                    None => out.put(pieces, &w.bytes),
                    Some(e) => {
                        damage.extend(self.damage(w.job, &e.to_string()));
                        out.put_zeros(pieces)
                    }
                }
            },
        )?;
        out.finish()?;
        restored.damage = damage;
        Ok(restored)
    }

    fn decode(&self, w: &mut Worker, options: &Options) -> Result<()> {
        let meta = &self.chunks[w.job].meta;
        let budget = Budget::new(&options.limits, 1);
        self.check_memory(w.job, &budget).map_err(|e| self.locate(w.job, e))?;
        w.bytes.resize(meta.len() as usize, 0);
        self.decode_chunk(w.job, options.level, &mut w.buffers, &mut w.bytes)
            .map_err(|e| self.locate(w.job, e))?;
        w.stretches = stretches(options.level, meta, &w.bytes, &self.ends);
        Ok(())
    }

    /// Decodes all chunks into the workers' buffers and calls `at_once` for each; then, in the order
    /// of the archive, `in_order`.
    fn run_kept(
        &self,
        options: &Options,
        at_once: impl Fn(&mut Worker) -> Result<()> + Sync,
        mut in_order: impl FnMut(&mut Worker) -> Result<()> + Send,
    ) -> Result<Restored> {
        let keep_going = options.keeps_going();
        let mut damage = Vec::new();
        let work = |w: &mut Worker| {
            w.damage = match self.decode(w, options) {
                Err(e) if keep_going && is_content(&e) => Some(e),
                done => done.map(|()| None)?,
            };
            at_once(w)
        };
        let mut restored = self.run(options, self.group_ranges(), work, |w| {
            in_order(w)?;
            if let Some(e) = w.damage.take() {
                damage.extend(self.damage(w.job, &e.to_string()));
            }
            Ok(())
        })?;
        restored.damage = damage;
        Ok(restored)
    }

    /// Works on ranges of chunks in parallel, each in order, and calls `done` for every chunk in
    /// the order of the archive.
    fn run(
        &self,
        options: &Options,
        jobs: Vec<Range<usize>>,
        work: impl Fn(&mut Worker) -> Result<()> + Sync,
        mut done: impl FnMut(&mut Worker) -> Result<()> + Send,
    ) -> Result<Restored> {
        let _expected = self.expect(jobs.iter().cloned().flatten());
        let mut digests = Digests::default();
        let mut whole = true;
        let workers = options.workers(jobs.len());
        let budget = Budget::new(&options.limits, workers.count());
        let memory = |w: &Worker| Ok(self.memory_of_chunks(jobs[w.group].clone(), &budget));
        pipeline::run_within(
            workers,
            &options.cancel,
            Memory { limit: budget.at_work(), of: memory, read: |_: &mut Worker| Ok(()) },
            Worker::default,
            numbered(jobs.len(), |w: &mut Worker, job| w.group = job),
            |w| {
                w.done.clear();
                let each = jobs[w.group].clone().map(|i| self.memory_of_chunk(i));
                w.buffers.below.limit(budget.link(each.max().unwrap_or(0)));
                self.prepare_group(jobs[w.group].clone(), options.level, &mut w.buffers);
                for chunk in jobs[w.group].clone() {
                    w.job = chunk;
                    work(w)?;
                    w.done.push((chunk, std::mem::take(&mut w.stretches), w.damage.take()));
                }
                Ok(())
            },
            |w| {
                for (chunk, stretches, damage) in std::mem::take(&mut w.done) {
                    w.job = chunk;
                    w.damage = damage;
                    whole &= w.damage.is_none();
                    digests.add(stretches);
                    if let Some(progress) = &options.progress {
                        progress(self.chunks[chunk].meta.len());
                    }
                    done(w)?;
                }
                shed(&mut w.bytes, budget.kept());
                w.buffers.shed(budget.kept());
                Ok(())
            },
        )?;
        let mut restored = Restored { bytes: self.total_len(), ..Restored::default() };
        for (i, entry) in self.manifest.entries.iter().enumerate() {
            restored.files += u64::from(entry.kind != EntryKind::Directory);
            if whole && digests.file(self.start_of(i), self.ends[i]) != self.digests[i] {
                let e = Error::Corrupt("the digest of the file does not match".into());
                return Err(e.in_file(&entry.path));
            }
        }
        Ok(restored)
    }
}

/// Whether the archive's bytes are at fault, so that the other chunks may still be good.
pub(in crate::archive) fn is_content(e: &Error) -> bool {
    matches!(
        e,
        Error::Corrupt(_) | Error::Truncated(_) | Error::LimitExceeded(_) | Error::BaseMismatch(_)
    )
}
