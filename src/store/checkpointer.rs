//! Saving in the background, beside training.
//!
//! One thread takes snapshots from a bounded queue and saves them in order. `save` hands one over
//! and returns; it blocks only while the queue is full, and that time is reported as stall. So
//! memory is bounded by the queue and the snapshot being written, and a trainer that outruns the
//! disk is slowed down instead of filling memory.

mod options;

use super::{
    Saved, Snapshot, Store,
    chain::Near,
    ticket::{Slot, Ticket, same},
};
use crate::{Error, Result, pipeline::Cancel};
use std::{
    collections::VecDeque,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::{Duration, Instant},
};

pub use options::{CheckpointerOptions, LastSaved};

/// What a checkpointer did so far.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Checkpoints on disk.
    pub saved: u64,
    /// Checkpoints that failed.
    pub failed: u64,
    /// Bytes of the checkpoints on disk before compression.
    pub input_bytes: u64,
    /// Bytes that they take.
    pub archive_bytes: u64,
    /// How long `save` blocked, in all: for room, and for submitting copies on the device.
    pub stalled: Duration,
    /// Checkpoints of which device tensors were read by `save` because the device had no memory
    /// for copies of them all. The first one is logged as a warning.
    pub spilled: u64,
    /// How long the background thread worked.
    pub busy: Duration,
}

impl Report {
    /// Uncompressed bytes that the background thread dealt with in a second of work.
    pub fn bytes_per_second(&self) -> f64 {
        self.input_bytes as f64 / self.busy.as_secs_f64().max(1e-9)
    }
}

/// Saves snapshots into a store while training goes on.
///
/// ```
/// use lmc_gpu::{dtype::Dtype, store::*};
/// let dir = tempfile::tempdir()?;
/// let store = Store::init(dir.path(), Policy::default())?;
/// let checkpointer = Checkpointer::new(store, CheckpointerOptions::default())?;
/// let weights = Bytes::from_words(vec![0.5f32; 1024]);
/// let tensors = vec![Tensor::new("w", Dtype::F32, &[1024], weights)?];
/// let ticket = checkpointer.save(10, Snapshot::new().with_tensors("model.safetensors", tensors))?;
/// // … training goes on …
/// assert_eq!(ticket.wait()?.record.step, 10);
/// let again = checkpointer.restore(10)?;
/// assert_eq!(again.tensor("model.safetensors", "w").unwrap().shape, [1024]);
/// println!("stalled for {:?}", checkpointer.finish()?.stalled);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Dropping it waits for what was handed over; [`Checkpointer::abandon`] does not.
#[derive(Debug)]
pub struct Checkpointer {
    store: Store,
    options: CheckpointerOptions,
    shared: Arc<Shared>,
    cancel: Arc<Cancel>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum What {
    Snapshot(Snapshot),
    Path(PathBuf),
}

#[derive(Debug)]
struct Job {
    step: u64,
    what: What,
    bytes: u64,
    slot: Arc<Slot>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Job>,
    /// Bytes of snapshots in the queue and in the worker's hands.
    held: u64,
    working: bool,
    closed: bool,
    /// The first error that no `save` has returned yet.
    failure: Option<Error>,
    report: Report,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Checkpointer {
    /// Starts the background thread. How many threads code a checkpoint is an option of the
    /// store.
    ///
    /// # Errors
    /// `Io` where no thread can be started.
    pub fn new(store: Store, options: CheckpointerOptions) -> Result<Checkpointer> {
        let shared = Arc::new(Shared::default());
        let cancel = Arc::new(Cancel::new());
        let mut store = store;
        store.options.cancel = cancel.clone();
        store.reading.cancel = cancel.clone();
        let (for_worker, of_worker) = (store.clone(), shared.clone());
        let chosen = options.clone();
        let worker = std::thread::Builder::new()
            .name("lmc-checkpointer".into())
            .spawn(move || work(&for_worker, &chosen, &of_worker))
            .map_err(|source| Error::Io { context: "cannot start a thread".into(), source })?;
        Ok(Checkpointer { store, options, shared, cancel, worker: Some(worker) })
    }

    /// Hands a snapshot over. Tensors in host memory must not change any more, which their types
    /// see to. Those in device memory are copied there: when this returns, training may submit
    /// what overwrites them.
    ///
    /// # Errors
    /// [`Error::Device`] where device tensors can neither be copied nor read; else the first error of an earlier save that no call returned yet; this snapshot is then not
    /// saved, and the next call starts afresh.
    pub fn save(&self, step: u64, snapshot: Snapshot) -> Result<Ticket> {
        let bytes = snapshot.len();
        self.hand_over(step, bytes, || hold(snapshot))
    }

    /// As [`Checkpointer::save`], but where that would wait for room it gives the snapshot back: for
    /// callers that hold what the background thread may need.
    ///
    /// # Errors
    /// As for [`Checkpointer::save`].
    pub fn try_save(
        &self,
        step: u64,
        snapshot: Snapshot,
    ) -> Result<std::result::Result<Ticket, Snapshot>> {
        let started = Instant::now();
        let bytes = snapshot.len();
        let mut state = self.shared.lock();
        if !self.has_room(&mut state, bytes)? {
            return Ok(Err(snapshot));
        }
        self.take(state, started, step, bytes, || hold(snapshot)).map(Ok)
    }

    /// Hands over a file or directory, which must not change until the ticket is done.
    ///
    /// # Errors
    /// As for [`Checkpointer::save`].
    pub fn save_path(&self, step: u64, path: impl Into<PathBuf>) -> Result<Ticket> {
        self.hand_over(step, 0, || Ok((What::Path(path.into()), false)))
    }

    /// Waits for room and takes what `make` makes then, so that what it takes is bounded too.
    fn hand_over(
        &self,
        step: u64,
        bytes: u64,
        make: impl FnOnce() -> Result<(What, bool)>,
    ) -> Result<Ticket> {
        let started = Instant::now();
        let mut state = self.shared.lock();
        while !self.has_room(&mut state, bytes)? {
            state = self.shared.wait(state);
        }
        self.take(state, started, step, bytes, make)
    }

    /// Whether so many bytes may be handed over now.
    fn has_room(&self, state: &mut State, bytes: u64) -> Result<bool> {
        if let Some(e) = state.failure.take() {
            return Err(e.at("an earlier checkpoint failed"));
        }
        let idle = state.queue.is_empty() && !state.working;
        let room = state.queue.len() < self.options.queue.max(1);
        let fits = state.held.saturating_add(bytes) <= self.options.max_bytes;
        Ok(idle || room && fits)
    }

    fn take(
        &self,
        mut state: MutexGuard<'_, State>,
        started: Instant,
        step: u64,
        bytes: u64,
        make: impl FnOnce() -> Result<(What, bool)>,
    ) -> Result<Ticket> {
        let (what, spilled) = make()?;
        let stalled = started.elapsed();
        let slot = Arc::new(Slot::default());
        state.held = state.held.saturating_add(bytes);
        state.report.stalled += stalled;
        if spilled && state.report.spilled == 0 {
            log::warn!(
                "step {step}: save waits for tensors to be read, since the device has no memory for \
                 copies of them"
            );
        }
        state.report.spilled += u64::from(spilled);
        state.queue.push_back(Job { step, what, bytes, slot: slot.clone() });
        drop(state);
        self.shared.changed.notify_all();
        Ok(Ticket::new(step, stalled, slot))
    }

    /// Reads a step back into memory. Steps that are still being saved are not there yet.
    ///
    /// # Errors
    /// As for [`Store::open_step`], and what decoding reports.
    pub fn restore(&self, step: u64) -> Result<Snapshot> {
        self.store.snapshot(step)
    }

    /// What it did so far.
    pub fn report(&self) -> Report {
        self.shared.lock().report
    }

    /// Waits until everything handed over is on disk or failed.
    ///
    /// # Errors
    /// The first error that no call returned yet.
    pub fn flush(&self) -> Result<()> {
        let mut state = self.shared.lock();
        while state.working || !state.queue.is_empty() {
            state = self.shared.wait(state);
        }
        state.failure.take().map_or(Ok(()), Err)
    }

    /// Waits for everything handed over and stops.
    ///
    /// # Errors
    /// As for [`Checkpointer::flush`].
    pub fn finish(mut self) -> Result<Report> {
        let flushed = self.flush();
        self.stop();
        flushed.map(|()| self.report())
    }

    /// Stops as soon as possible: the checkpoint being written and those waiting are given up,
    /// and leave nothing behind.
    pub fn abandon(mut self) {
        self.cancel.cancel();
        self.stop();
    }

    fn stop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The background thread: until the queue is empty and closed.
fn work(store: &Store, options: &CheckpointerOptions, shared: &Shared) {
    let mut near = None;
    loop {
        let mut state = shared.lock();
        let job = loop {
            if let Some(job) = state.queue.pop_front() {
                break job;
            }
            if state.closed {
                return;
            }
            state = shared.wait(state);
        };
        state.working = true;
        drop(state);
        shared.changed.notify_all();
        let started = Instant::now();
        let Job { step, what, bytes, slot } = job;
        let result = catch_unwind(AssertUnwindSafe(|| save(store, options, step, what, &mut near)));
        let result = result.unwrap_or_else(|_| {
            Err(Error::Io {
                context: "internal error while saving".into(),
                source: io::Error::other("panic"),
            })
        });
        let mut state = shared.lock();
        state.working = false;
        state.held = state.held.saturating_sub(bytes);
        state.report.busy += started.elapsed();
        match &result {
            Ok(saved) => {
                state.report.saved += 1;
                state.report.input_bytes += saved.record.input_bytes;
                state.report.archive_bytes += saved.record.archive_bytes;
            }
            Err(e) => {
                state.report.failed += 1;
                state.failure.get_or_insert_with(|| same(e).at(format_args!("step {step}")));
            }
        }
        drop(state);
        slot.fill(result);
        shared.changed.notify_all();
    }
}

/// Takes copies of device tensors. Whether they had to be read instead.
#[cfg(feature = "gpu")]
fn hold(mut snapshot: Snapshot) -> Result<(What, bool)> {
    let spilled = super::device::hold(&mut snapshot)?;
    Ok((What::Snapshot(snapshot), spilled))
}

#[cfg(not(feature = "gpu"))]
fn hold(snapshot: Snapshot) -> Result<(What, bool)> {
    Ok((What::Snapshot(snapshot), false))
}

fn save(
    store: &Store,
    options: &CheckpointerOptions,
    step: u64,
    what: What,
    near: &mut Option<Near>,
) -> Result<Saved> {
    if store.options.cancel.is_cancelled() {
        let source = io::ErrorKind::Interrupted.into();
        return Err(Error::Io { context: "abandoned".into(), source });
    }
    let last = near.take();
    match what {
        What::Path(path) => store.save(&path, step, &options.save),
        What::Snapshot(snapshot) => {
            let input = snapshot.to_input()?;
            let saved = store.save_near(&input, step, &options.save, last.as_ref())?;
            if options.last_saved == LastSaved::Keep {
                *near = Some(store.near(saved.record.clone(), input));
            }
            Ok(saved)
        }
    }
}
