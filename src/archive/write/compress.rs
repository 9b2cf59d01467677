//! Input → archive.

use super::{
    chunk::ChunkPlan,
    coder::Coded,
    equality::Originals,
    plan::plan,
    spare::{Lent, Worker},
    writer::Writer,
};
use crate::{
    Error, Result,
    archive::{
        access::{
            digest::{Digests, file_ends},
            input::Input,
            memory::{Budget, memory_to_code, shed},
        },
        disk::{AtomicFile, Protected},
        options::{Changes, CompressOptions, Options},
    },
    container::{EntryKind, Origin, RecordType, Reference, header::FEATURE_BASE},
    pipeline::{self, Memory},
    remote,
    simd::far,
};
use std::{
    io::{self, Write},
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// What compressing did.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Summary {
    /// Bytes of all files.
    pub input_bytes: u64,
    /// Bytes of the archive.
    pub output_bytes: u64,
    /// Number of files.
    pub files: u64,
    /// Number of spans that the files' parsers found.
    pub spans: u64,
    /// What was odd about the input, a sentence each.
    pub notes: Vec<String>,
    /// Who made the transforms: `cpu`, or the name of a device.
    pub device: String,
    /// Wall clock time.
    pub seconds: f64,
    /// Time of coders, summed over them; with it, what they waited for a device.
    pub coding: Duration,
    /// Time that records took to be written.
    pub writing: Duration,
}

/// Compresses one file in memory.
///
/// ```
/// use lmc_gpu::{CompressOptions, RestoreOptions, compress, decompress};
/// let weights = vec![0u8; 100_000];
/// let archive = compress(&weights, &CompressOptions::default())?;
/// assert!(archive.len() < 1000);
/// assert_eq!(decompress(&archive, &RestoreOptions::default())?, weights);
/// # Ok::<(), lmc_gpu::Error>(())
/// ```
///
/// # Errors
/// `Io` where threads cannot be started or the work is cancelled.
pub fn compress(bytes: &[u8], options: &CompressOptions) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    compress_into(bytes, options, &mut out)?;
    Ok(out)
}

/// As [`compress`], into a buffer of the caller's that is cleared first: reusing one avoids
/// fresh pages, which cost more than coding.
///
/// # Errors
/// As for [`compress`].
pub fn compress_into(
    bytes: &[u8],
    options: &CompressOptions,
    out: &mut Vec<u8>,
) -> Result<Summary> {
    let options = &options.0;
    out.clear();
    let input = Input::from_bytes("data", bytes, options.dtype);
    if bytes.len() < far::FROM {
        return compress_input(&input, options, out);
    }
    compress_input(&input, options, &mut FarWriter(out))
}

/// A large archive in memory.
struct FarWriter<'a>(&'a mut Vec<u8>);

impl Write for FarWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        far::append(self.0, bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Compresses a file or directory into the archive `out`, which appears whole or not at all.
///
/// ```
/// use lmc_gpu::{Archive, CompressOptions, RestoreOptions, compress_path};
/// # let dir = tempfile::tempdir()?;
/// # let (file, archive, back) = (dir.path().join("w"), dir.path().join("w.lmc"), dir.path().join("b"));
/// std::fs::write(&file, [1u8; 4096])?;
/// let summary = compress_path(&file, &archive, &CompressOptions::default())?;
/// assert_eq!(summary.output_bytes, std::fs::metadata(&archive)?.len());
///
/// let options = RestoreOptions::default();
/// Archive::open(&archive, &options)?.restore(&back, &options)?;
/// assert_eq!(std::fs::read(&back)?, [1u8; 4096]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `InvalidArgument` where `out` exists and is not to be replaced
/// ([`CompressOptions::with_overwrite`]), where it is, contains or lies in the input or a base, or
/// where the input holds something that cannot be stored; `Io`, also where a file changed while it
/// was read ([`CompressOptions::with_changes`]); `BaseMismatch` where the base did.
pub fn compress_path(
    path: impl AsRef<Path>,
    out: impl AsRef<Path>,
    options: &CompressOptions,
) -> Result<Summary> {
    let (path, out, options) = (&remote::clean(path.as_ref())?, out.as_ref(), &options.0);
    let input = Input::open(path, options.dtype, options.follows_symlinks())?;
    Protected::of(options).with_place(path).with_input(&input).refuse(out)?;
    let mut file = AtomicFile::create(out, options.overwrite)?;
    let summary = compress_input(&input, options, &mut file)
        .map_err(|e| if matches!(e, Error::Io { .. }) { e } else { e.at(path.display()) })?;
    file.commit()?;
    Ok(summary)
}

/// Compresses files that are open already, or that exist in memory only, into the archive `out`.
///
/// # Errors
/// As for [`compress_path`].
pub fn compress_files(input: &Input<'_>, out: &Path, options: &CompressOptions) -> Result<Summary> {
    let options = &options.0;
    Protected::of(options).with_input(input).refuse(out)?;
    let mut file = AtomicFile::create(out, options.overwrite)?;
    let summary = compress_input(input, options, &mut file)?;
    file.commit()?;
    Ok(summary)
}

/// Compresses a file or directory into a writer that cannot seek.
///
/// # Errors
/// As for [`compress_path`].
pub fn compress_stream(
    path: &Path,
    out: &mut (dyn Write + Send),
    options: &CompressOptions,
) -> Result<Summary> {
    let options = &options.0;
    let input = Input::open(path, options.dtype, options.follows_symlinks())?;
    compress_input(&input, options, out)
}

/// Compresses files that are open already, or that exist in memory only, into a writer that
/// cannot seek.
///
/// # Errors
/// As for [`compress_path`].
pub fn compress_to_writer(
    input: &Input<'_>,
    out: &mut (dyn Write + Send),
    options: &CompressOptions,
) -> Result<Summary> {
    compress_input(input, &options.0, out)
}

/// Codes every chunk of `input` and writes the archive in order.
pub(in crate::archive) fn compress_input<W: Write + Send + ?Sized>(
    input: &Input<'_>,
    options: &Options,
    out: &mut W,
) -> Result<Summary> {
    let started = Instant::now();
    // Names that cannot be stored are refused before anything is read or written.
    let (meta, payload) = input.manifest.to_record()?;
    input.settle();
    let base = options.base.as_ref().filter(|_| options.method.uses_base());
    if let Some(base) = base {
        base.settle();
    }
    let plan = plan(input, options)?;
    let entries = &input.manifest.entries;
    let ends = file_ends(entries.iter().map(|e| e.len));
    if let Some(base) = base {
        base.rest();
    }
    let base_record = base.map(|base| base.record().to_record()).transpose()?;
    let mut writer = Writer::new(out, base.map_or(0, |_| FEATURE_BASE))?;
    writer.record(RecordType::Manifest, &meta, &payload)?;
    if let Some((meta, payload)) = &base_record {
        writer.record(RecordType::Base, meta, payload)?;
    }
    let mut digests = Digests::default();
    let mut originals = Originals::of(&plan.chunks);
    let (coding, mut writing) = (AtomicU64::new(0), Duration::ZERO);
    let chunks = &plan.chunks;
    let largest = chunks.iter().map(ChunkPlan::len).max().unwrap_or(0);
    let coders = options.coders(plan.groups.len());
    let budget = Budget::new(&options.limits, coders);
    let of_group = |group: &[ChunkPlan]| {
        let of_base = |chunk: &ChunkPlan| {
            let base = chunk.known.iter().filter(|r| r.origin != Origin::Sibling);
            base.map(Reference::len).sum()
        };
        memory_to_code(options.method, group.iter().map(|c| (c.len(), of_base(c))))
    };
    let chained = base.is_some_and(|base| base.archive().is_some());
    let memory = |worker: &Lent<'_>| {
        let group = &chunks[plan.groups[worker.job].clone()];
        let memory = budget.check(of_group(group), "compressing").map_err(|e| {
            let offset = group.first().and_then(|c| c.pieces.first()).map_or(0, |p| p.offset);
            let file = entries.get(ends.partition_point(|&end| end <= offset));
            e.at(file.map_or(String::new(), |entry| entry.path.to_string()))
        })?;
        budget.add(memory);
        let below = if chained { 2 * budget.link(memory) } else { 0 };
        Ok(memory.saturating_add(below))
    };
    let read = |_: &mut Lent<'_>| Ok(());
    pipeline::run_within(
        options.on_threads(coders),
        &options.cancel,
        Memory { limit: budget.at_work(), of: memory, read },
        || Lent::new(options, largest),
        pipeline::numbered(plan.groups.len(), |worker: &mut Lent, i| worker.job = i),
        |worker: &mut Lent<'_>| {
            worker.work(|Worker { coder, done, job }| {
                let group = &chunks[plan.groups[*job].clone()];
                done.resize_with(group.len().max(done.len()), Coded::default);
                let begun = Instant::now();
                coder.limit_base(budget.link(of_group(group)));
                coder.prepare(group, options);
                // With all coders at work, this one's next job is as many further on.
                let later = plan.groups.get(*job + coders).map(|group| group.start);
                for (i, done) in done[..group.len()].iter_mut().enumerate() {
                    let next = group.get(i + 1).or_else(|| chunks.get(later?));
                    coder.fetch(next, input, options);
                    // There and back: every chunk of a group keeps a payload of its own, whose
                    // pages are at hand for the next group.
                    std::mem::swap(&mut coder.coded, done);
                    let made = coder.code(input, group, i, &ends, options);
                    std::mem::swap(&mut coder.coded, done);
                    made?;
                }
                coding.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
                Ok(())
            })
        },
        |worker| {
            let begun = Instant::now();
            worker.work(|Worker { coder, done, job }| {
                let group = &chunks[plan.groups[*job].clone()];
                for (i, (chunk, coded)) in group.iter().zip(&mut *done).enumerate() {
                    if !originals.hold(chunk, coded.digest) {
                        std::mem::swap(&mut coder.coded, coded);
                        let made = coder.code_alone(input, chunk, i, &ends, options);
                        std::mem::swap(&mut coder.coded, coded);
                        made?;
                    }
                    originals.add(chunk, coded.digest);
                    writer.record(coded.kind, &coded.meta, &coded.payload)?;
                    digests.add(std::mem::take(&mut coded.stretches));
                    if let Some(progress) = &options.progress {
                        progress(chunk.len());
                    }
                }
                coder.shed(budget.kept(), options);
                done.iter_mut().for_each(|coded| shed(&mut coded.payload, budget.kept()));
                Ok::<(), Error>(())
            })?;
            writing += begun.elapsed();
            Ok(())
        },
    )?;
    let mut notes = plan.notes;
    notes.extend(changes(input, options)?);
    if let Some(base) = base {
        base.check_unchanged()?;
    }
    let lens: Vec<u64> = entries.iter().map(|e| e.len).collect();
    let output_bytes = writer.finish(lens, &digests)?;
    Ok(Summary {
        input_bytes: input.len(),
        output_bytes,
        files: entries.iter().filter(|e| e.kind != EntryKind::Directory).count() as u64,
        spans: plan.spans,
        notes: notes.into_iter().chain(options.device_note()).collect(),
        device: options.device_name(),
        seconds: started.elapsed().as_secs_f64(),
        coding: Duration::from_nanos(coding.into_inner()),
        writing,
    })
}

/// A note for every file that changed while it was read, where that is allowed.
fn changes(input: &Input<'_>, options: &Options) -> Result<Vec<String>> {
    let changed = input.changed();
    match changed.first() {
        Some(&first) if options.changes == Changes::Refuse => {
            let why = "it changed while it was being read: compress it when nobody writes to it, \
                       or store what was read with --allow-changes";
            Err(Error::Io {
                context: format!("cannot read {}", input.shown(first)).into(),
                source: io::Error::new(io::ErrorKind::ResourceBusy, why),
            })
        }
        _ => {
            let shown = changed.into_iter().map(|i| input.shown(i));
            Ok(shown.map(|f| format!("{f} changed while it was being read")).collect())
        }
    }
}
