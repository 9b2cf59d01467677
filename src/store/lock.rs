//! One writer at a time.

use super::{LOCK_FILE, Store};
use crate::{Error, Result};
use std::{
    fs::{File, TryLockError},
    io,
};

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
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) if how == Locking::Fail => Err(Error::Io {
                context: format!("another process writes to {}", self.root.display()),
                source: io::ErrorKind::WouldBlock.into(),
            }),
            Err(TryLockError::WouldBlock) => {
                log::info!("waiting: another process writes to {}", self.root.display());
                file.lock().map_err(|e| Error::io("lock", &path, e))?;
                Ok(Some(file))
            }
            Err(TryLockError::Error(e)) => Err(Error::io("lock", &path, e)),
        }
    }
}
