//! A device that makes transforms for the coders of the CPU, whose chunks lie in host memory.
//!
//! ```text
//! coder 1   words ──> device ──> planes   coding        words ──> …
//! coder 2             coding              words ──> device ──> planes
//! ```
//!
//! Each coder has buffers of its own on the device and waits for its answer; while one waits, the
//! others code, so a device is kept busy by having more coders than cores. A request that fails
//! is declined, and the CPU does it; after some failures, or one after which the device cannot be
//! used, nothing more is asked of it.

mod request;

use super::Device;
use crate::{
    codec::{Accelerator, Transforms, Usage},
    error::Error,
};
use request::Requests;
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

/// Failures after which a device is left alone.
const MOST_FAILURES: u32 = 3;

/// Makes the transforms of compressing on a [`Device`]: see
/// [`CompressOptions::with_device`](crate::CompressOptions::with_device).
///
/// ```no_run
/// use lmc_gpu::{CompressOptions, gpu::{Device, Selector, Transformer}};
/// use std::sync::Arc;
/// let device = Device::request(&Selector::Auto)?;
/// let options = CompressOptions::default().with_device(Arc::new(Transformer::new(device)));
/// # Ok::<(), lmc_gpu::Error>(())
/// ```
#[derive(Debug)]
pub struct Transformer(Arc<Shared>);

#[derive(Debug, Default)]
enum Fault {
    #[default]
    None,
    Found(String),
    Taken,
}

#[derive(Debug)]
struct Shared {
    device: Device,
    failures: AtomicU32,
    /// The first failure, until it is taken.
    fault: Mutex<Fault>,
    usage: Mutex<Counts>,
}

/// What was done, how many coders have a chunk just now, and how many of them wait.
#[derive(Debug)]
struct Counts {
    usage: Usage,
    coders: usize,
    waiting: usize,
    /// When the number of either changed last.
    changed: Instant,
}

impl Transformer {
    /// Transforms on this device.
    pub fn new(device: Device) -> Transformer {
        let clock = device.timestamp_period().map(|_| Duration::ZERO);
        let usage = Usage { transform: clock, ..Usage::default() };
        Transformer(Arc::new(Shared {
            device,
            failures: AtomicU32::new(0),
            fault: Mutex::default(),
            usage: Mutex::new(Counts { usage, coders: 0, waiting: 0, changed: Instant::now() }),
        }))
    }
}

impl Accelerator for Transformer {
    fn name(&self) -> String {
        self.0.device.info().name.clone()
    }

    fn transforms(&self) -> Box<dyn Transforms> {
        Box::new(Requests::new(self.0.clone()))
    }

    fn usage(&self) -> Usage {
        self.0.usage.lock().unwrap_or_else(PoisonError::into_inner).usage
    }

    fn take_fault(&self) -> Option<String> {
        let mut fault = self.0.fault.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::take(&mut *fault) {
            Fault::None => None,
            Fault::Taken => {
                *fault = Fault::Taken;
                None
            }
            Fault::Found(text) => {
                *fault = Fault::Taken;
                Some(text)
            }
        }
    }
}

impl Shared {
    /// Whether the device is still asked.
    fn is_usable(&self) -> bool {
        self.failures.load(Ordering::Relaxed) < MOST_FAILURES
    }

    /// Notes a request that failed. Only the first one is reported.
    fn failed(&self, error: &Error) {
        let lost = self.device.check().is_err();
        let by = if lost { MOST_FAILURES } else { 1 };
        self.failures.fetch_add(by, Ordering::Relaxed);
        self.count(|usage| usage.failed += 1);
        let mut fault = self.fault.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(*fault, Fault::None) {
            *fault = Fault::Found(error.to_string());
        }
        log::debug!("declined a chunk: {error}");
    }

    fn count(&self, add: impl FnOnce(&mut Usage)) {
        add(&mut self.usage.lock().unwrap_or_else(PoisonError::into_inner).usage);
    }

    /// Notes that coders begin or end a chunk, begin to wait or have waited.
    fn change(&self, coders: isize, waiting: isize) {
        let mut counts = self.usage.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let passed = now - counts.changed;
        if counts.waiting > 0 {
            counts.usage.busy += passed;
            if counts.waiting >= counts.coders {
                counts.usage.exposed += passed;
            }
        }
        counts.changed = now;
        counts.coders = counts.coders.saturating_add_signed(coders);
        counts.waiting = counts.waiting.saturating_add_signed(waiting);
    }
}
