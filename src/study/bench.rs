//! Benchmarks: our methods, those of the two studies and the field beside them, on any data.
//!
//! Nothing is reported that was not decoded and compared with its input in the same run. Speeds
//! are in 1e9 bytes of input a second, by the wall and by the time of processors, from and to warm
//! buffers in memory. Given a seed, every
//! ratio is the same on every run and machine; only speeds move.

pub mod baseline;
pub mod clock;
pub mod device;
pub mod entropy;
pub mod input;
pub mod measure;
pub mod method;
pub mod plot;
pub mod report;
pub mod request;
pub mod statistics;
pub mod study_fields;
pub mod study_lmc;
pub mod study_pareto;
pub mod synthetic;
pub mod table;

use crate::{
    codec::Accelerator,
    dtype::Dtype,
    error::{Error, Result},
};
use std::sync::Arc;

/// Something that makes bytes smaller and restores them: a method or a baseline under test.
pub trait Codec {
    /// Its name, as given on the command line and shown in tables.
    fn name(&self) -> &str;

    /// Threads it uses.
    fn threads(&self) -> usize {
        1
    }

    /// Whether it finds the tensors of a file itself, so that it is given files as they are.
    fn takes_files(&self) -> bool {
        false
    }

    /// Writes the coded `input`, whole words of `dtype`, to `out`, which is empty but keeps the
    /// memory of the call before.
    fn encode(&mut self, dtype: Dtype, input: &[u8], out: &mut Vec<u8>) -> Result<()>;

    /// Fills `out`, which has the length of the input, from what [`Codec::encode`] wrote.
    fn decode(&mut self, dtype: Dtype, coded: &[u8], out: &mut [u8]) -> Result<()>;
}

/// Where a run stands; handed to the caller before each measurement.
#[derive(Clone, Copy, Debug)]
pub struct Tick<'a> {
    /// Measurements finished.
    pub done: usize,
    /// Measurements planned.
    pub total: usize,
    /// What is measured next.
    pub what: &'a str,
}

/// What a run is given beside its data.
pub struct Context<'a> {
    /// Seed of all synthetic data.
    pub seed: u64,
    /// Threads for what is parallel.
    pub threads: usize,
    /// How long each measurement may take.
    pub effort: measure::Effort,
    /// Shown where a run stands; answers whether to go on. After a `false` the run ends, and
    /// what was measured is reported.
    pub progress: &'a mut dyn FnMut(Tick<'_>) -> bool,
    /// Device whose stages are measured too.
    pub device: Option<Arc<dyn Accelerator>>,
    /// Measurements finished and planned.
    pub steps: (usize, usize),
    /// Whether `progress` said to stop.
    pub stopped: bool,
}

impl<'a> Context<'a> {
    /// A context with nothing planned yet.
    pub fn new(
        seed: u64,
        threads: usize,
        effort: measure::Effort,
        progress: &'a mut dyn FnMut(Tick<'_>) -> bool,
    ) -> Self {
        let (device, steps) = (None, (0, 0));
        Context { seed, threads, effort, progress, device, steps, stopped: false }
    }

    /// Plans `n` measurements more.
    pub fn plan(&mut self, n: usize) {
        self.steps.1 += n;
    }

    /// Announces the next measurement. False where the run is to end.
    pub fn next(&mut self, what: &str) -> bool {
        if !self.stopped {
            let (done, total) = self.steps;
            self.stopped = !(self.progress)(Tick { done, total, what });
            self.steps.0 += 1;
        }
        !self.stopped
    }
}

/// The method or baseline of this name.
pub fn codec(name: &str, threads: usize) -> Result<Box<dyn Codec>> {
    let codec = method::by_name(name, threads).or_else(|| baseline::by_name(name, threads));
    codec.ok_or_else(|| {
        let known = format!("{}, {}", method::names().join(", "), baseline::names().join(", "));
        Error::InvalidArgument(
            format!("no method or baseline is called {name}; there are {known}").into(),
        )
    })
}
