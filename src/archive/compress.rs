//! Input → archive.

use super::{
    digest::{Digests, file_ends, leaves},
    input::Input,
    open::spec_of,
    options::Options,
    output::AtomicFile,
    plan::{ChunkPlan, plan},
    writer::Writer,
};
use crate::{
    Error, Result,
    codec::{self, Scratch},
    container::{ChunkMeta, EntryKind, RecordType, hash64},
    pipeline,
};
use std::{io::Write, path::Path, time::Instant};

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
    /// Wall clock time.
    pub seconds: f64,
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
    compress_input(&Input::from_bytes("data", bytes, options.dtype), options, out)
}

/// Compresses a file or directory into the archive `out`.
///
/// # Errors
/// `InvalidArgument` where `out` exists and [`Options::force`] is not set, or the input holds
/// something that cannot be stored; `Io`.
pub fn compress_path(path: &Path, out: &Path, options: &Options) -> Result<Summary> {
    let input = Input::open(path, options.dtype, options.follow_symlinks)?;
    let mut file = AtomicFile::create(out, options.force)?;
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
    let mut file = AtomicFile::create(out, options.force)?;
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
    let plan = plan(input, options.method)?;
    let entries = &input.manifest.entries;
    let ends = file_ends(entries.iter().map(|e| e.len));
    let mut writer = Writer::new(out, 0)?;
    let (meta, payload) = input.manifest.to_record()?;
    writer.record(RecordType::Manifest, &meta, &payload)?;
    let mut digests = Digests::default();
    let chunks = &plan.chunks;
    pipeline::run_ordered(
        pipeline::worker_count(options.threads).min(chunks.len().max(1)),
        &options.cancel,
        ChunkCoder::default,
        pipeline::numbered(chunks.len(), |coder: &mut ChunkCoder, job| coder.job = job),
        |coder| coder.code(input, &chunks[coder.job], &ends, options),
        |coder| {
            writer.record(coder.kind, &coder.meta, &coder.payload)?;
            digests.add(std::mem::take(&mut coder.leaves));
            if let Some(progress) = &options.progress {
                progress(chunks[coder.job].len());
            }
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
        notes: plan.notes,
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// One worker's buffers, and the record it made last.
#[derive(Default)]
pub(super) struct ChunkCoder {
    job: usize,
    pub(super) kind: RecordType,
    pub(super) meta: Vec<u8>,
    pub(super) payload: Vec<u8>,
    pub(super) form: u8,
    pub(super) leaves: Vec<(u64, u64)>,
    bytes: Vec<u8>,
    scratch: Scratch,
}

impl ChunkCoder {
    pub(super) fn code(
        &mut self,
        input: &Input<'_>,
        chunk: &ChunkPlan,
        ends: &[u64],
        options: &Options,
    ) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.bytes);
        let bytes = match input.borrow(&chunk.pieces) {
            Some(bytes) => bytes,
            None => {
                buffer.resize(chunk.len() as usize, 0);
                input.read(&chunk.pieces, &mut buffer)?;
                &buffer
            }
        };
        self.encode(chunk, bytes, ends, options)?;
        self.bytes = buffer;
        Ok(())
    }

    /// Makes the record of one chunk from its bytes.
    pub(super) fn encode(
        &mut self,
        chunk: &ChunkPlan,
        bytes: &[u8],
        ends: &[u64],
        options: &Options,
    ) -> Result<()> {
        self.payload.clear();
        let mut meta = ChunkMeta {
            pieces: chunk.pieces.clone(),
            dtype: chunk.dtype,
            big_endian: chunk.big_endian,
            continues_group: false,
            row_words: chunk.row_words,
            digest: hash64(bytes),
            form: 0,
            references: Vec::new(),
            copy_of: chunk.copy_of,
        };
        self.kind = RecordType::Copy;
        if chunk.copy_of.is_none() {
            self.kind = RecordType::Chunk;
            let spec = spec_of(&meta);
            let method = options.method;
            let scratch = &mut self.scratch;
            meta.form =
                codec::encode(options.level, method, &spec, bytes, scratch, &mut self.payload)?;
        }
        self.form = meta.form;
        self.leaves = leaves(&meta, bytes, ends);
        self.meta.clear();
        meta.write(&mut self.meta);
        Ok(())
    }
}
