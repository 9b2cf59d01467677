//! Coders that are not at work, with their buffers, for the next archive: where archives are
//! small, the fresh pages of new buffers would cost more than coding.

use super::coder::{ChunkCoder, Coded};
use crate::archive::options::Options;
use std::ops::{Deref, DerefMut};

/// Chunks of coders that are kept have at most as many bytes, and their buffers a few times that.
const LARGEST: u64 = 4 << 20;

/// A coder and the records of the job at hand.
#[derive(Default)]
pub(in crate::archive) struct Worker {
    pub coder: ChunkCoder,
    pub done: Vec<Coded>,
    pub job: usize,
}

/// A worker that the options lend.
pub(in crate::archive) struct Lent<'o> {
    worker: Box<Worker>,
    options: &'o Options,
    /// Whether it is kept afterwards; not while it is in the middle of a job.
    keep: bool,
}

impl<'o> Lent<'o> {
    /// A worker for chunks of up to `largest` bytes.
    pub fn new(options: &'o Options, largest: u64) -> Self {
        if options.device.is_some() || largest > LARGEST {
            let coder = ChunkCoder::new(options);
            let worker = Box::new(Worker { coder, ..Worker::default() });
            return Lent { worker, options, keep: false };
        }
        Lent { worker: options.kept_coder().unwrap_or_default(), options, keep: true }
    }

    /// Does a job. A worker that does not end it is not kept.
    pub fn work<T, E>(&mut self, job: impl FnOnce(&mut Worker) -> Result<T, E>) -> Result<T, E> {
        let keep = std::mem::take(&mut self.keep);
        let done = job(&mut self.worker)?;
        self.keep = keep;
        Ok(done)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if self.keep {
            let mut worker = std::mem::take(&mut self.worker);
            worker.coder.forget_base();
            self.options.keep_coder(worker);
        }
    }
}

impl Deref for Lent<'_> {
    type Target = Worker;

    fn deref(&self) -> &Worker {
        &self.worker
    }
}

impl DerefMut for Lent<'_> {
    fn deref_mut(&mut self) -> &mut Worker {
        &mut self.worker
    }
}

#[cfg(test)]
mod tests {
    use crate::{archive::options::Options, codec::Method, compress, decompress, dtype::Dtype};

    #[test]
    fn what_a_coder_did_before_leaves_no_trace() {
        let bytes: Vec<u8> = (0..300_000u32).map(|i| (i.wrapping_mul(i) >> 11) as u8).collect();
        let shared = Options::default().with_threads(1);
        let all: Vec<_> = ["fast", "auto", "max", "lmc", "zstd"]
            .into_iter()
            .filter_map(Method::parse)
            .filter(|method| Method::ALL.contains(method))
            .flat_map(|method| ["bf16", "f32", "f64", "u8"].map(|dtype| (method, dtype)))
            .map(|(method, dtype)| {
                shared.clone().with_method(method).with_dtype(Dtype::parse(dtype))
            })
            .collect();
        let first: Vec<_> =
            all.iter().map(|o| compress(&bytes, &o.compressing()).unwrap()).collect();
        for (options, archive) in all.iter().zip(&first).rev() {
            assert!(compress(&bytes, &options.compressing()).unwrap() == *archive);
            assert!(decompress(archive, &options.restoring()).unwrap() == bytes);
        }
    }
}
