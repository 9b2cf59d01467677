//! Input that is read forward, from a pipe.
//!
//! The first bytes say what follows (`format::parse_prefix`); chunks are then cut as their bytes
//! arrive. Unknown bytes are looked at for floats chunk by chunk. A large span becomes chunks as it would in a file. Small spans are gathered by type
//! within windows of [`WINDOW`] bytes, so that many tiny tensors share chunks here too. Nothing
//! refers back: a stream holds no copies. Where the stream does not keep what its header
//! promises, the rest of it is opaque.

use super::{
    Summary,
    coder::ChunkCoder,
    plan::{ChunkPlan, chunk_words, is_small, plan_window},
    writer::Writer,
};
use crate::{
    Error, Result,
    archive::{
        access::{digest::Digests, input::Memory},
        options::{CompressOptions, Options},
    },
    codec::Method,
    container::{Entry, EntryKind, Manifest, Piece, RecordType},
    dtype::Dtype,
    format::{self, PrefixResult, Span, parse_prefix},
    pipeline,
};
use std::{
    collections::VecDeque,
    io::{Cursor, Read, Write},
    iter::Peekable,
    time::Instant,
    vec::IntoIter,
};

/// Bytes within which small spans are gathered.
const WINDOW: u64 = 1 << 20;

/// Compresses what `reader` yields until it ends, as a file called `name`. Memory is bounded by
/// the number of threads, whatever the length; nothing is read twice.
///
/// ```
/// use lmc_gpu::{CompressOptions, RestoreOptions, decompress, internals::archive::compress_reader};
/// let mut archive = Vec::new();
/// let input = &mut &[7u8; 100_000][..];
/// compress_reader(input, "stdin", &mut archive, &CompressOptions::default())?;
/// assert_eq!(decompress(&archive, &RestoreOptions::default())?, [7; 100_000]);
/// # Ok::<(), lmc_gpu::Error>(())
/// ```
///
/// # Errors
/// `Io` where reading or writing fails or the work is cancelled.
pub fn compress_reader(
    reader: &mut (dyn Read + Send),
    name: &str,
    out: &mut (dyn Write + Send),
    options: &CompressOptions,
) -> Result<Summary> {
    let options = &options.0;
    let started = Instant::now();
    let flat = options.dtype;
    let entry = Entry { kind: EntryKind::Stream, path: name.into(), len: 0, flat };
    let manifest = Manifest { is_directory: false, entries: vec![entry] };
    let (meta, payload) = manifest.to_record()?;
    let mut writer = Writer::new(out, 0)?;
    writer.record(RecordType::Manifest, &meta, &payload)?;
    let mut cutter = Cutter::new(reader, name, options)?;
    let mut digests = Digests::default();
    pipeline::run_ordered(
        options.on_threads(options.coders(usize::MAX)),
        &options.cancel,
        || (ChunkCoder::new(options), Job::default()),
        |(_, job)| cutter.take(job),
        |(coder, job)| match &job.plan {
            Some(plan) => coder.encode(plan, &job.bytes, &[], &[u64::MAX], options),
            None => Ok(()),
        },
        |(coder, job)| {
            let coded = &mut coder.coded;
            writer.record(coded.kind, &coded.meta, &coded.payload)?;
            digests.add(std::mem::take(&mut coded.stretches));
            if let Some(progress) = &options.progress {
                progress(job.bytes.len() as u64);
            }
            Ok(())
        },
    )?;
    let input_bytes = cutter.offset;
    Ok(Summary {
        input_bytes,
        output_bytes: writer.finish(vec![input_bytes], &digests)?,
        files: 1,
        spans: cutter.n_spans + u64::from(cutter.n_spans == 0 && input_bytes > 0),
        notes: cutter.notes().into_iter().chain(options.device_note()).collect(),
        device: options.device_name(),
        seconds: started.elapsed().as_secs_f64(),
        ..Summary::default()
    })
}

/// A chunk to be coded and its bytes.
#[derive(Default)]
struct Job {
    plan: Option<ChunkPlan>,
    bytes: Vec<u8>,
}

/// Cuts a stream into chunks.
struct Cutter<'r> {
    reader: Box<dyn Read + Send + 'r>,
    name: String,
    method: Method,
    /// What is known to come, in order.
    spans: Peekable<IntoIter<Span>>,
    n_spans: u64,
    /// Bytes that the header promises.
    promised: Option<u64>,
    /// Type of everything after the spans.
    rest: Dtype,
    /// Bytes read so far.
    offset: u64,
    ended: bool,
    /// Chunks of one piece, to be read one by one.
    queue: VecDeque<ChunkPlan>,
    /// Chunks whose bytes lie in `window`, which starts at `window_at`.
    gathered: VecDeque<ChunkPlan>,
    window: Vec<u8>,
    window_at: u64,
}

impl<'r> Cutter<'r> {
    fn new(reader: &'r mut (dyn Read + Send), name: &str, options: &Options) -> Result<Self> {
        let mut prefix = Vec::new();
        let mut spans = Vec::new();
        let mut promised = None;
        while options.dtype.is_none() {
            match parse_prefix(&prefix) {
                PrefixResult::NeedMore(len) => {
                    let more = len.saturating_sub(prefix.len() as u64);
                    if more == 0 || read(reader, more, &mut prefix, name)? < more {
                        break;
                    }
                }
                PrefixResult::Parsed(parsed) => {
                    promised = parsed.spans.last().map(|s| s.offset + s.len);
                    spans = parsed.spans;
                    break;
                }
                PrefixResult::Opaque => break,
            }
        }
        Ok(Cutter {
            reader: Box::new(Cursor::new(prefix).chain(reader)),
            name: name.into(),
            method: options.method,
            n_spans: spans.len() as u64,
            spans: spans.into_iter().peekable(),
            promised,
            rest: options.dtype.unwrap_or(Dtype::BYTES),
            offset: 0,
            ended: false,
            queue: VecDeque::new(),
            gathered: VecDeque::new(),
            window: Vec::new(),
            window_at: 0,
        })
    }

    /// Fills `job` with the next chunk; `false` at the end.
    fn take(&mut self, job: &mut Job) -> Result<bool> {
        loop {
            if let Some(plan) = self.gathered.pop_front() {
                job.bytes.clear();
                for p in &plan.pieces {
                    let at = (p.offset - self.window_at) as usize;
                    job.bytes.extend_from_slice(&self.window[at..at + p.len as usize]);
                }
                job.plan = Some(plan);
                return Ok(true);
            }
            if self.ended {
                return Ok(false);
            }
            if self.queue.is_empty() && self.spans.peek().is_some_and(is_small) {
                self.gather()?;
                continue;
            }
            let plan = self.next_large();
            job.bytes.clear();
            let n = self.read(plan.len(), &mut job.bytes)?;
            if let Some(spans) = self.guess(&plan, &job.bytes)? {
                self.window_at = plan.pieces[0].offset;
                self.window.clear();
                std::mem::swap(&mut self.window, &mut job.bytes);
                self.gathered.extend(plan_window(&spans, self.method));
                continue;
            }
            let whole = n - n % plan.dtype.word_len() as u64;
            if whole < n {
                self.window_at = self.offset - (n - whole);
                self.window.clear();
                self.window.extend_from_slice(&job.bytes[whole as usize..]);
                self.gathered.push_back(opaque(self.window_at, n - whole));
                job.bytes.truncate(whole as usize);
            }
            if whole > 0 {
                let piece = Piece { len: whole, ..plan.pieces[0] };
                job.plan = Some(ChunkPlan { pieces: vec![piece], ..plan });
                return Ok(true);
            }
        }
    }

    /// The next chunk of a large span, or of what follows all spans.
    fn next_large(&mut self) -> ChunkPlan {
        if self.queue.is_empty()
            && let Some(span) = self.spans.next()
        {
            self.queue.extend(plan_window(&[span], self.method));
        }
        self.queue.pop_front().unwrap_or_else(|| {
            let words = chunk_words(self.method, self.rest);
            let len = words * self.rest.word_len() as u64;
            ChunkPlan { dtype: self.rest, ..opaque(self.offset, len) }
        })
    }

    /// The spans of a chunk of unknown bytes, where floats show in it.
    fn guess(&self, plan: &ChunkPlan, bytes: &[u8]) -> Result<Option<Vec<Span>>> {
        if plan.dtype != Dtype::BYTES || !self.method.guesses() {
            return Ok(None);
        }
        let parsed = format::guess::bytes(&Memory(bytes))?;
        let at = plan.pieces[0].offset;
        let found = parsed.spans.into_iter().map(|s| Span { offset: s.offset + at, ..s });
        Ok((!parsed.guesses.is_empty()).then(|| found.collect()))
    }

    /// Reads a window of small spans and gathers them by type.
    fn gather(&mut self) -> Result<()> {
        let mut spans = Vec::new();
        let mut len = 0;
        while let Some(span) =
            self.spans.next_if(|s| is_small(s) && (len == 0 || len + s.len <= WINDOW))
        {
            len += span.len;
            spans.push(span);
        }
        let mut window = std::mem::take(&mut self.window);
        window.clear();
        self.window_at = self.offset;
        let n = self.read(len, &mut window)?;
        self.window = window;
        if n == len {
            self.gathered.extend(plan_window(&spans, self.method));
        } else if n > 0 {
            self.gathered.push_back(opaque(self.window_at, n));
        }
        Ok(())
    }

    fn read(&mut self, len: u64, out: &mut Vec<u8>) -> Result<u64> {
        let n = read(&mut self.reader, len, out, &self.name)?;
        self.offset += n;
        self.ended |= n < len;
        Ok(n)
    }

    fn notes(&self) -> Vec<String> {
        let Some(promised) = self.promised else { return Vec::new() };
        let n = self.offset.abs_diff(promised);
        match self.offset.cmp(&promised) {
            std::cmp::Ordering::Less => {
                vec![format!("{}: ends {n} bytes before its header says", self.name)]
            }
            std::cmp::Ordering::Equal => Vec::new(),
            std::cmp::Ordering::Greater => {
                vec![format!("{}: {n} bytes follow the last tensor", self.name)]
            }
        }
    }
}

fn opaque(offset: u64, len: u64) -> ChunkPlan {
    ChunkPlan::new(vec![Piece { offset, len }], &Span::opaque(offset, len))
}

/// Appends up to `len` bytes to `out`, fewer only at the end. Memory grows as bytes arrive.
fn read(reader: &mut dyn Read, len: u64, out: &mut Vec<u8>, name: &str) -> Result<u64> {
    let n = reader
        .take(len)
        .read_to_end(out)
        .map_err(|source| Error::Io { context: format!("cannot read {name}").into(), source })?;
    Ok(n as u64)
}
