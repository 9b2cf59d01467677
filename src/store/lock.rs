//! One writer at a time.

use super::{LOCK_FILE, Store};
use crate::{Error, Result};
use std::{
    fs::{File, TryLockError},
    io,
    time::Duration,
};

/// How often a waiting writer looks again. Polling lets it be cancelled.
const POLL: Duration = Duration::from_millis(20);

/// What to do while another process or thread writes to the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Locking {
    /// Wait for it.
    #[default]
    Wait,
    /// Fail at once.
    Fail,
    /// Take no lock, for file systems without locks: the caller sees to it that nobody else
    /// writes to the store.
    None,
}

impl Store {
    /// Takes the store's lock, which is released when the file is dropped, also by a kill.
    pub(super) fn lock(&self, how: Locking) -> Result<Option<File>> {
        if how == Locking::None {
            return Ok(None);
        }
        let path = self.root.join(LOCK_FILE);
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(|e| Error::io("write to the store: cannot open", &path, e))?;
        let mut told = false;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(Some(file)),
                Err(TryLockError::Error(e)) => return Err(Error::io("lock", &path, e)),
                Err(TryLockError::WouldBlock) => {}
            }
            if how == Locking::Fail || self.options.cancel.is_cancelled() {
                let source = match how {
                    Locking::Fail => io::ErrorKind::WouldBlock,
                    _ => io::ErrorKind::Interrupted,
                };
                let context = format!("another process writes to {}", self.root.display());
                return Err(Error::Io { context: context.into(), source: source.into() });
            }
            if !told {
                log::info!("waiting: another process writes to {}", self.root.display());
                told = true;
            }
            std::thread::sleep(POLL);
        }
    }
}
