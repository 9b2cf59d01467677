//! The promise of a save that goes on in the background.

use super::Saved;
use crate::{Error, Result};
use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

/// A save that was handed over. Dropping it changes nothing.
#[derive(Debug)]
pub struct Ticket {
    step: u64,
    stalled: Duration,
    slot: Arc<Slot>,
}

/// Where a result is put once and taken once.
#[derive(Debug, Default)]
pub(super) struct Slot {
    result: Mutex<Option<Result<Saved>>>,
    filled: Condvar,
}

impl Ticket {
    pub(super) fn new(step: u64, stalled: Duration, slot: Arc<Slot>) -> Ticket {
        Ticket { step, stalled, slot }
    }

    /// The step that is being saved.
    pub fn step(&self) -> u64 {
        self.step
    }

    /// How long handing it over blocked.
    pub fn stalled(&self) -> Duration {
        self.stalled
    }

    /// Whether the checkpoint is on disk, or failed to get there.
    pub fn is_done(&self) -> bool {
        self.slot.lock().is_some()
    }

    /// Waits until the checkpoint is on disk.
    ///
    /// # Errors
    /// What [`super::Store::save`] reports, and `Io` (interrupted) where it was abandoned.
    pub fn wait(self) -> Result<Saved> {
        let mut result = self.slot.lock();
        loop {
            if let Some(result) = result.take() {
                return result;
            }
            result = self.slot.filled.wait(result).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Result<Saved>>> {
        self.result.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn fill(&self, result: Result<Saved>) {
        *self.lock() = Some(result);
        self.filled.notify_all();
    }
}

/// The same error once more: operating system errors cannot be cloned.
pub(super) fn same(e: &Error) -> Error {
    match e {
        Error::Corrupt(m) => Error::Corrupt(m.clone()),
        Error::Truncated(m) => Error::Truncated(m.clone()),
        Error::Unsupported(m) => Error::Unsupported(m.clone()),
        Error::InvalidArgument(m) => Error::InvalidArgument(m.clone()),
        Error::LimitExceeded(m) => Error::LimitExceeded(m.clone()),
        Error::BaseMismatch(m) => Error::BaseMismatch(m.clone()),
        Error::Device(m) => Error::Device(m.clone()),
        Error::Io { context, source } => Error::Io {
            context: context.clone(),
            source: io::Error::new(source.kind(), source.to_string()),
        },
    }
}
