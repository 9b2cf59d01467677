//! Stores of checkpoints, and saving into them in the background.

use crate::{
    buffer::Buffer,
    checkpoint::Checkpoint,
    error::raise,
    options::{Choices, dtype},
    work,
};
use lmc_gpu::{
    Error, Overwrite, Result,
    internals::{
        archive::{self, Options},
        json,
    },
    store::{
        self, CheckpointerOptions, Collecting, Existing, Form, GcOptions, LastSaved, Policy,
        SaveOptions, Snapshot, Tensor,
    },
};
use pyo3::{exceptions::PyRuntimeError, prelude::*};
use std::{
    ops::Range,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// When to store in full and what to keep; a dictionary of these names, `None` for the default.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Rules {
    full_every: Option<u64>,
    rebase_above: Option<f64>,
    max_chain: Option<u64>,
    keep_last: Option<u64>,
    keep_every: Option<u64>,
    state_last: Option<u64>,
}

impl Rules {
    /// Whether nothing is chosen.
    fn is_empty(&self) -> bool {
        self.full_every.is_none()
            && self.rebase_above.is_none()
            && self.max_chain.is_none()
            && self.keep_last.is_none()
            && self.keep_every.is_none()
            && self.state_last.is_none()
    }

    /// `policy` with what is chosen.
    fn over(&self, mut policy: Policy) -> Policy {
        policy.full_every = self.full_every.unwrap_or(policy.full_every);
        policy.rebase_above = self.rebase_above.unwrap_or(policy.rebase_above);
        policy.max_chain = self.max_chain.unwrap_or(policy.max_chain);
        policy.keep_last = self.keep_last.or(policy.keep_last);
        policy.keep_every = self.keep_every.or(policy.keep_every);
        policy.state_last = self.state_last.or(policy.state_last);
        policy
    }
}

fn existing(replace: bool) -> Existing {
    if replace { Existing::Replace } else { Existing::Refuse }
}

/// A directory of checkpoints.
#[pyclass(frozen, module = "lmc_gpu._native")]
pub struct Store {
    store: store::Store,
    options: Options,
    path: String,
}

impl Store {
    fn work<T: Send + 'static>(
        &self,
        py: Python<'_>,
        progress: Option<Py<PyAny>>,
        job: impl FnOnce(store::Store) -> Result<T> + Send + 'static,
    ) -> PyResult<T> {
        let (store, options) = (self.store.clone(), self.options.clone());
        work::run(py, Some(&self.path), progress, move |control| {
            job(store.with_options(control.options(options)))
        })
    }
}

#[pymethods]
impl Store {
    /// Opens a store, or makes a directory into one where `create` says so.
    #[new]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        create: bool,
        rules: Rules,
        choices: Choices<'_>,
    ) -> PyResult<Store> {
        let plan = choices.plan(py)?;
        let file = path.display().to_string();
        let (store, options) = work::run(py, Some(&file), None, move |_| {
            let options = plan.open()?;
            let store = match store::Store::open(&path) {
                Err(_) if create && !path.join("lmc-store.json").exists() => {
                    store::Store::init(&path, rules.over(Policy::default()))?
                }
                opened => {
                    let mut store = opened?;
                    let policy = rules.over(store.policy().clone());
                    if !rules.is_empty() && policy != *store.policy() {
                        store.set_policy(policy)?;
                    }
                    store
                }
            };
            Ok((store, options))
        })?;
        Ok(Store { store, options, path: file })
    }

    /// Stores a file or directory as a step.
    fn save(
        &self,
        py: Python<'_>,
        source: PathBuf,
        step: u64,
        replace: bool,
        full: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        let form = if full { Form::Full } else { Form::ByPolicy };
        let options = SaveOptions::default().with_existing(existing(replace)).with_form(form);
        self.work(py, progress, move |store| {
            store.save(&source, step, &options).map(|s| json::saved(&s).to_string())
        })
    }

    /// Restores a step to a path.
    fn restore(
        &self,
        py: Python<'_>,
        step: u64,
        out: PathBuf,
        overwrite: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<String> {
        self.work(py, progress, move |store| {
            let overwrite = if overwrite { Overwrite::Files } else { Overwrite::Refuse };
            store.restore(step, &out, overwrite).map(|r| json::restored(&r).to_string())
        })
    }

    /// Opens a step for random access.
    fn open_step(&self, py: Python<'_>, step: u64) -> PyResult<Checkpoint> {
        let archive = self.work(py, None, move |store| store.open_step(step))?;
        let inner = archive::Checkpoint::Archive(archive);
        Ok(Checkpoint::new(inner, self.options.clone(), Some(format!("{} step {step}", self.path))))
    }

    /// The records of all steps.
    fn records(&self, py: Python<'_>) -> PyResult<String> {
        self.work(py, None, |store| store.list().map(|listing| json::listing(&listing).to_string()))
    }

    /// Removes what the policy, or `rules` instead of it, does not keep.
    fn gc(
        &self,
        py: Python<'_>,
        rules: Rules,
        drop_after: Option<u64>,
        dry_run: bool,
    ) -> PyResult<String> {
        self.work(py, None, move |store| {
            let policy = (!rules.is_empty()).then(|| {
                let mut own = store.policy().clone();
                if rules.keep_last.is_some() || rules.keep_every.is_some() {
                    own = own.with_keep_last(None).with_keep_every(None);
                }
                rules.over(own)
            });
            let options = GcOptions::default()
                .with_policy(policy)
                .with_drop_after(drop_after)
                .with_collecting(if dry_run { Collecting::DryRun } else { Collecting::Remove });
            store.gc(&options).map(|r| json::removed(&r).to_string())
        })
    }

    /// Sizes by step and stream.
    fn stats(&self, py: Python<'_>) -> PyResult<String> {
        self.work(py, None, |store| store.stats().map(|s| json::stats(&s).to_string()))
    }

    /// Decodes steps, or all, and checks them.
    fn verify(&self, py: Python<'_>, only: Vec<u64>) -> PyResult<String> {
        self.work(py, None, move |store| {
            store.verify(&only).map(|v| json::verified(&v).to_string())
        })
    }

    /// Starts saving in the background.
    fn checkpointer(
        &self,
        py: Python<'_>,
        queue: usize,
        max_bytes: Option<u64>,
        keep_last: bool,
        replace: bool,
    ) -> PyResult<Checkpointer> {
        let options = CheckpointerOptions::default()
            .with_queue(queue)
            .with_max_bytes(max_bytes.unwrap_or(u64::MAX))
            .with_last_saved(if keep_last { LastSaved::Keep } else { LastSaved::Forget })
            .with_save(SaveOptions::default().with_existing(existing(replace)));
        let store = self.store.clone().with_options(self.options.clone());
        let made = store::Checkpointer::new(store, options);
        let made = made.map_err(|e| raise(py, e, Some(&self.path)))?;
        let inner = Mutex::new(Some(Arc::new(made)));
        Ok(Checkpointer { inner, path: self.path.clone(), process: std::process::id() })
    }
}

/// A tensor in memory that is lent as a whole: name, element type, shape, first byte, length.
type Placed = (String, String, Vec<u64>, usize, usize);

/// A stretch of lent memory.
struct Part {
    memory: Buffer,
    range: Range<usize>,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        &self.memory.as_ref()[self.range.clone()]
    }
}

fn tensor(memory: &Buffer, (name, kind, shape, at, len): Placed) -> Result<Tensor> {
    let range = at..at.saturating_add(len);
    if memory.as_ref().get(range.clone()).is_none() {
        let why = format!("tensor \"{name}\" reaches beyond the memory that is lent");
        return Err(Error::InvalidArgument(why.into()));
    }
    Tensor::new(name, dtype(&kind)?, &shape, Part { memory: memory.clone(), range })
}

/// Saves snapshots in the background.
#[pyclass(frozen, module = "lmc_gpu._native")]
pub struct Checkpointer {
    inner: Mutex<Option<Arc<store::Checkpointer>>>,
    path: String,
    /// Who made it: its thread is not in processes forked since.
    process: u32,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Checkpointer {
    fn open(&self) -> PyResult<Arc<store::Checkpointer>> {
        let closed = || PyRuntimeError::new_err("the checkpointer is closed");
        lock(&self.inner).clone().ok_or_else(closed)
    }
}

#[pymethods]
impl Checkpointer {
    /// Hands over files of tensors, whose bytes are parts of `memory`, and files of bytes; waits
    /// while there is no room for them.
    fn save(
        &self,
        py: Python<'_>,
        step: u64,
        memory: &Bound<'_, PyAny>,
        files: Vec<(String, Vec<Placed>)>,
        others: Vec<(String, Vec<u8>)>,
    ) -> PyResult<Ticket> {
        let checkpointer = self.open()?;
        let memory = Buffer::of(memory)?;
        let mut snapshot = Snapshot::new();
        for (path, placed) in files {
            let tensors = placed.into_iter().map(|p| tensor(&memory, p)).collect::<Result<_>>();
            let tensors = tensors.map_err(|e| raise(py, e, Some(&self.path)))?;
            snapshot = snapshot.with_tensors(path, tensors);
        }
        for (path, bytes) in others {
            snapshot = snapshot.with_bytes(path, bytes);
        }
        // Where there is room, nothing waits for another thread to be scheduled, which takes longer
        // than the copies where coding has the cores.
        let at_once = checkpointer.try_save(step, snapshot);
        let ticket = match at_once.map_err(|e| raise(py, e, Some(&self.path)))? {
            Ok(ticket) => ticket,
            Err(snapshot) => {
                work::wait(py, Some(&self.path), move || checkpointer.save(step, snapshot))?
            }
        };
        let stalled = ticket.stalled().as_secs_f64();
        Ok(Ticket { inner: Mutex::new(Some(ticket)), stalled, path: self.path.clone() })
    }

    /// Waits until everything handed over is on disk.
    fn flush(&self, py: Python<'_>) -> PyResult<()> {
        let checkpointer = self.open()?;
        work::wait(py, Some(&self.path), move || checkpointer.flush())
    }

    /// What it did so far.
    fn report(&self) -> PyResult<String> {
        Ok(json::report(&self.open()?.report()).to_string())
    }

    /// Ends the background thread: after what was handed over, or at once.
    fn close(&self, py: Python<'_>, abandon: bool) -> PyResult<()> {
        let Some(checkpointer) = lock(&self.inner).take() else { return Ok(()) };
        work::wait(py, Some(&self.path), move || {
            let flushed = if abandon { Ok(()) } else { checkpointer.flush() };
            // Somebody who waits for it in another thread drops it later.
            if let Some(last) = Arc::into_inner(checkpointer).filter(|_| abandon) {
                last.abandon();
            }
            flushed
        })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        let Some(checkpointer) = lock(&self.inner).take() else { return };
        if std::process::id() != self.process {
            // A process that was forked has no such thread to wait for.
            std::mem::forget(checkpointer);
            return;
        }
        // Its thread may need the interpreter to give back what it was lent. Where that has ended,
        // the closure is dropped, and the checkpointer with it.
        let _ = Python::try_attach(|py| py.detach(|| drop(checkpointer)));
    }
}

/// The promise of a save.
#[pyclass(frozen, module = "lmc_gpu._native")]
pub struct Ticket {
    inner: Mutex<Option<store::Ticket>>,
    /// Seconds that handing it over blocked for want of room.
    #[pyo3(get)]
    stalled: f64,
    path: String,
}

#[pymethods]
impl Ticket {
    /// Whether it is on disk, or failed to get there.
    fn done(&self) -> bool {
        lock(&self.inner).as_ref().is_none_or(store::Ticket::is_done)
    }

    /// What the save did, which is told once.
    fn take(&self, py: Python<'_>) -> PyResult<String> {
        let taken = || PyRuntimeError::new_err("the ticket was waited for already");
        let ticket = lock(&self.inner).take().ok_or_else(taken)?;
        work::wait(py, Some(&self.path), move || ticket.wait().map(|s| json::saved(&s).to_string()))
    }
}
