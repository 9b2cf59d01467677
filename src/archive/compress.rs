//! Input → archive.

use super::{
    decode::{Buffers, spec_of},
    digest::{Digests, file_ends, leaves},
    input::Input,
    options::Options,
    output::AtomicFile,
    plan::{ChunkPlan, plan},
    protected::Protected,
    spare::{Lent, Worker},
    writer::Writer,
};
use crate::{
    Error, Result,
    codec::{self, Scratch},
    container::{ChunkMeta, EntryKind, Origin, Piece, RecordType, hash64, header::FEATURE_BASE},
    pipeline,
    simd::far,
};
use std::{
    collections::BTreeSet,
    io::Write,
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
/// use lmc_gpu::Options;
/// let weights = vec![0u8; 100_000];
/// let archive = lmc_gpu::compress(&weights, &Options::default())?;
/// assert!(archive.len() < 1000);
/// assert_eq!(lmc_gpu::decompress(&archive, &Options::default())?, weights);
/// # Ok::<(), lmc_gpu::Error>(())
/// ```
///
/// # Errors
/// `Io` where threads cannot be started or the work is cancelled.
pub fn compress(bytes: &[u8], options: &Options) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    compress_into(bytes, options, &mut out)?;
    Ok(out)
}

/// As [`compress`], into a buffer of the caller's that is cleared first: reusing one avoids
/// fresh pages, which cost more than coding.
///
/// # Errors
/// As for [`compress`].
pub fn compress_into(bytes: &[u8], options: &Options, out: &mut Vec<u8>) -> Result<Summary> {
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

/// Compresses a file or directory into the archive `out`.
///
/// # Errors
/// `InvalidArgument` where `out` exists and is not to be replaced ([`Options::overwrite`]), where
/// it is, contains or lies in the input or a base, or where the input holds something that cannot
/// be stored; `Io`.
pub fn compress_path(path: &Path, out: &Path, options: &Options) -> Result<Summary> {
    let input = Input::open(path, options.dtype, options.follow_symlinks)?;
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
pub fn compress_files(input: &Input<'_>, out: &Path, options: &Options) -> Result<Summary> {
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
    options: &Options,
) -> Result<Summary> {
    let input = Input::open(path, options.dtype, options.follow_symlinks)?;
    compress_input(&input, options, out)
}

/// Codes every chunk of `input` and writes the archive in order.
pub(super) fn compress_input<W: Write + Send + ?Sized>(
    input: &Input<'_>,
    options: &Options,
    out: &mut W,
) -> Result<Summary> {
    let started = Instant::now();
    let plan = plan(input, options)?;
    let entries = &input.manifest.entries;
    let ends = file_ends(entries.iter().map(|e| e.len));
    let base = options.base.as_ref().filter(|_| options.method.uses_base());
    if let Some(base) = base {
        base.rest();
    }
    let mut writer = Writer::new(out, base.map_or(0, |_| FEATURE_BASE))?;
    let (meta, payload) = input.manifest.to_record()?;
    writer.record(RecordType::Manifest, &meta, &payload)?;
    if let Some(base) = base {
        let (meta, payload) = base.record().to_record()?;
        writer.record(RecordType::Base, &meta, &payload)?;
    }
    let mut digests = Digests::default();
    let (coding, mut writing) = (AtomicU64::new(0), Duration::ZERO);
    let chunks = &plan.chunks;
    let largest = chunks.iter().map(ChunkPlan::len).max().unwrap_or(0);
    let coders = options.coders(plan.groups.len());
    pipeline::run_ordered(
        coders,
        &options.cancel,
        || Lent::new(options, largest),
        pipeline::numbered(plan.groups.len(), |worker: &mut Lent, i| worker.job = i),
        |worker: &mut Lent| {
            worker.work(|Worker { coder, done, job }| {
                let group = &chunks[plan.groups[*job].clone()];
                done.resize_with(group.len().max(done.len()), Coded::default);
                let begun = Instant::now();
                coder.prepare(group, options);
                // With all coders at work, this one's next job is as many further on.
                let later = plan.groups.get(*job + coders).map(|group| group.start);
                for (i, (chunk, done)) in group.iter().zip(done).enumerate() {
                    let next = group.get(i + 1).or_else(|| chunks.get(later?));
                    coder.fetch(next, input, options);
                    // There and back: every chunk of a group keeps a payload of its own, whose
                    // pages are at hand for the next group.
                    std::mem::swap(&mut coder.coded, done);
                    let made = coder.code(input, chunk, &ends, options);
                    std::mem::swap(&mut coder.coded, done);
                    made?;
                }
                coding.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
                Ok(())
            })
        },
        |worker| {
            let group = &chunks[plan.groups[worker.job].clone()];
            let begun = Instant::now();
            for (chunk, coded) in group.iter().zip(&mut worker.done) {
                writer.record(coded.kind, &coded.meta, &coded.payload)?;
                digests.add(std::mem::take(&mut coded.leaves));
                if let Some(progress) = &options.progress {
                    progress(chunk.len());
                }
            }
            writing += begun.elapsed();
            Ok(())
        },
    )?;
    let lens: Vec<u64> = entries.iter().map(|e| e.len).collect();
    let output_bytes = writer.finish(lens, &digests)?;
    Ok(Summary {
        input_bytes: input.len(),
        output_bytes,
        files: entries.iter().filter(|e| e.kind != EntryKind::Directory).count() as u64,
        spans: plan.spans,
        notes: plan.notes.into_iter().chain(options.device_note()).collect(),
        device: options.device_name(),
        seconds: started.elapsed().as_secs_f64(),
        coding: Duration::from_nanos(coding.into_inner()),
        writing,
    })
}

/// The record of a chunk.
#[derive(Default)]
pub(super) struct Coded {
    pub kind: RecordType,
    pub meta: Vec<u8>,
    pub payload: Vec<u8>,
    pub form: u8,
    pub leaves: Vec<(u64, u64)>,
}

/// One worker's buffers, and the record it made last.
#[derive(Default)]
pub(super) struct ChunkCoder {
    pub coded: Coded,
    bytes: Vec<u8>,
    known: Vec<Vec<u8>>,
    scratch: Scratch,
    decoder: Buffers,
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

    /// Prepares what a group of chunks refers to in the base.
    fn prepare(&mut self, group: &[ChunkPlan], options: &Options) {
        let Some(base) = &options.base else { return };
        let references = group.iter().flat_map(|c| &c.known);
        let of_base = references.filter(|r| r.origin != Origin::Sibling);
        let pieces: BTreeSet<Piece> = of_base.flat_map(|r| r.pieces.iter().copied()).collect();
        let pieces: Vec<Piece> = pieces.into_iter().collect();
        base.prepare(&pieces, options.level, &mut self.decoder);
    }

    /// Has the next chunk, and what it is coded against, fetched while the one before is coded.
    fn fetch(&mut self, next: Option<&ChunkPlan>, input: &Input<'_>, options: &Options) {
        let bytes = next.and_then(|chunk| input.borrow(&chunk.pieces));
        let base = options.base.as_ref().zip(next.and_then(|chunk| chunk.known.first()));
        let base = base.filter(|(_, r)| r.origin != Origin::Sibling);
        let known = base.and_then(|(base, r)| base.input.borrow(&r.pieces));
        self.scratch.fetch(bytes.unwrap_or(&[]), known.unwrap_or(&[]));
    }

    /// Makes the record of one chunk of an input.
    pub fn code(
        &mut self,
        input: &Input<'_>,
        chunk: &ChunkPlan,
        ends: &[u64],
        options: &Options,
    ) -> Result<()> {
        let mut buffers = std::mem::take(&mut self.known);
        buffers.resize_with(chunk.known.len().max(buffers.len()), Vec::new);
        let mut known: Vec<&[u8]> = Vec::with_capacity(chunk.known.len());
        for (r, buffer) in chunk.known.iter().zip(&mut buffers) {
            let base = options.base.as_ref().filter(|_| r.origin != Origin::Sibling);
            let source = base.map_or(input, |base| &base.input);
            known.push(match source.borrow(&r.pieces) {
                Some(bytes) => bytes,
                None => {
                    buffer.resize(r.len() as usize, 0);
                    match base {
                        Some(base) => base.read_near(&r.pieces, &self.decoder, buffer)?,
                        None => input.read(&r.pieces, buffer)?,
                    }
                    buffer
                }
            });
        }
        let mut buffer = std::mem::take(&mut self.bytes);
        let bytes = match input.borrow(&chunk.pieces) {
            Some(bytes) => bytes,
            None => {
                buffer.resize(chunk.len() as usize, 0);
                input.read(&chunk.pieces, &mut buffer)?;
                &buffer
            }
        };
        self.encode(chunk, bytes, &known, ends, options)?;
        self.bytes = buffer;
        self.known = buffers;
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
        let Coded { kind, meta: out, payload, form, leaves: found } = &mut self.coded;
        self.scratch.reuse(options.method, payload);
        let mut meta = ChunkMeta {
            pieces: chunk.pieces.clone(),
            dtype: chunk.dtype,
            big_endian: chunk.big_endian,
            continues_group: chunk.continues_group,
            row_words: chunk.row_words,
            digest: 0,
            form: 0,
            references: Vec::new(),
            copy_of: chunk.copy_of,
        };
        let spec = spec_of(&meta);
        let (level, method) = (options.level, options.method);
        let fused = !chunk.known.is_empty() || Scratch::hashes(level, method, &spec);
        let fused = fused && chunk.copy_of.is_none();
        if !fused {
            meta.digest = hash64(bytes);
        }
        *kind = RecordType::Copy;
        if chunk.copy_of.is_none() {
            *kind = RecordType::Chunk;
            let (offers, scratch) = (&chunk.offers, &mut self.scratch);
            let coded =
                codec::encode_known(level, method, &spec, bytes, known, offers, scratch, payload)?;
            meta.form = coded.form;
            if fused {
                meta.digest = self.scratch.take_digest().unwrap_or_else(|| hash64(bytes));
            }
            for i in coded.inputs {
                let mut reference = chunk.known[usize::from(i)].clone();
                if let Origin::Base { digest } = &mut reference.origin {
                    let found = self.scratch.take_known_digest(i);
                    *digest = found.unwrap_or_else(|| hash64(known[usize::from(i)]));
                }
                meta.references.push(reference);
            }
        }
        *form = meta.form;
        *found = leaves(&meta, bytes, ends);
        out.clear();
        meta.write(out);
        Ok(())
    }
}
