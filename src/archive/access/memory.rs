//! How much memory chunks take while they are coded and decoded, and how all threads together keep
//! within [`Limits::memory`].
//!
//! ```text
//! 7/8 of the limit   chunks at work: each is counted before anything of it is allocated, and waits
//!                    until there is room beside the others
//! 1/8                what waits to be written in order, and chunks that are read to name damage
//! ```
//!
//! A worker keeps its buffers for the next chunk where those of all workers fit into the limit
//! together. Where they do not, it gives back all but small ones.

use crate::{
    Error, Result,
    codec::{Form, Method},
    container::{ChunkMeta, Limits},
};
use std::sync::atomic::{AtomicU64, Ordering};

/// Buffers of more bytes are not kept for the next chunk: those of ordinary chunks are smaller,
/// and every worker keeps some.
pub(in crate::archive) const LARGEST_KEPT: usize = 4 << 20;
/// Parts of the limit that buffers of one worker have, where those of all do not fit into it.
const PARTS: u64 = 64;

/// What the workers of one run may take.
#[derive(Debug)]
pub(in crate::archive) struct Budget {
    limit: u64,
    workers: u64,
    /// What the largest job so far took.
    largest: AtomicU64,
}

impl Budget {
    /// For so many workers, and half as many states beside theirs.
    pub fn new(limits: &Limits, workers: usize) -> Budget {
        let workers = workers.max(1) as u64;
        Budget { limit: limits.memory, workers, largest: AtomicU64::new(0) }
    }

    /// What is there for chunks at work.
    pub fn at_work(&self) -> u64 {
        self.limit - self.limit / 8
    }

    /// What may wait to be written in order, and as much again what is read to name damage.
    pub fn waiting(&self) -> u64 {
        self.limit / 16
    }

    /// The same number, unless it is more than there is. `doing` begins the sentence that says so.
    ///
    /// # Errors
    /// `LimitExceeded`, which says what to do.
    pub fn check(&self, memory: u64, doing: &str) -> Result<u64> {
        if memory > self.at_work() {
            let why = format!(
                "{doing} it takes {memory} bytes of memory, more than the {} that the limit of {} \
                 leaves for it: raise Limits::memory, or --memory of the command",
                self.at_work(),
                self.limit
            );
            return Err(Error::LimitExceeded(why.into()));
        }
        Ok(memory)
    }

    /// Notes what a job takes.
    pub fn add(&self, memory: u64) {
        self.largest.fetch_max(memory, Ordering::Relaxed);
    }

    /// What each link of a chain of bases may take that is prepared for one job of so much memory:
    /// as much again, or more where there are few workers. There are two links at a time.
    pub fn link(&self, memory: u64) -> u64 {
        let fair = self.at_work() / (4 * self.workers);
        fair.max(memory).min(self.at_work().saturating_sub(memory) / 2)
    }

    /// The longest buffer that a worker keeps for its next job.
    pub fn kept(&self) -> usize {
        let states = self.workers + self.workers.div_ceil(2);
        let all = states.saturating_mul(self.largest.load(Ordering::Relaxed));
        match all <= self.at_work() {
            true => LARGEST_KEPT,
            false => LARGEST_KEPT.min((self.limit / (PARTS * states)) as usize),
        }
    }
}

/// Gives a buffer of more than `most` bytes back.
pub(in crate::archive) fn shed(buffer: &mut Vec<u8>, most: usize) {
    if buffer.capacity() > most {
        *buffer = Vec::new();
    }
}

/// Memory for decoding a chunk: its bytes, its payload, what it refers to, and scratch.
pub(in crate::archive) fn memory_of(meta: &ChunkMeta, payload_len: u64) -> u64 {
    let len = meta.len();
    // Coders of planes hold the planes; predictors hold contexts and lanes beside them.
    let scratch = match meta.form {
        Form::Copy | Form::Stored | Form::Constant => 0,
        // What it was made of, in 32 bits, and each code as it is and as it was predicted.
        Form::Derived => {
            (len / meta.dtype.word_len() as u64).saturating_mul(10 * meta.dtype.group_elements())
        }
        Form::Zstd | Form::Split | Form::Group | Form::Quantised => len,
        _ => len.saturating_mul(3),
    };
    let parts = [len, payload_len, scratch];
    let known = meta.references.iter().map(|r| r.len());
    parts.into_iter().chain(known).fold(0, u64::saturating_add)
}

/// Memory for making the records of a group of chunks of these lengths, each with so many bytes
/// that it may be predicted from: what is read, a payload for each, and the scratch of one, which
/// holds a few times the chunk. Chunks of bytes take the most, 8.7 times their length in all; those
/// of wider floats take 5 to 7.5 times that.
pub(in crate::archive) fn memory_to_code(
    method: Method,
    chunks: impl Iterator<Item = (u64, u64)>,
) -> u64 {
    let (mut all, mut largest, mut known) = (0u64, 0u64, 0u64);
    for (len, of_base) in chunks {
        all = all.saturating_add(len);
        largest = largest.max(len);
        known = known.max(of_base);
    }
    let (times, fixed) = match method {
        // Payloads and what is written grow by halves.
        Method::Raw => (2, 0),
        // Tables of the dictionary, whatever the length.
        Method::Study(_) => (8, 96 << 20),
        Method::Zstd => (5, 1 << 20),
        _ => (7, 1 << 20),
    };
    let scratch = largest.saturating_mul(times).saturating_add(fixed);
    all.saturating_mul(2).saturating_add(known).saturating_add(scratch)
}
