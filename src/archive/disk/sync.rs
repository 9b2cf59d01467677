//! Putting many files on disk at once.

use crate::{Error, Result};
use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::atomic::{AtomicUsize, Ordering},
};

/// How many are synced at the same time.
const AT_ONCE: usize = 16;

/// More files than this are synced with their file system as a whole, where that can be done:
/// one by one, each waits for a write of the file system's journal.
#[cfg(target_os = "linux")]
const MANY: usize = 64;

/// Puts files and directories on disk. `root` is on the same file system and was opened before
/// they were written, so that it learns of every error since.
///
/// # Errors
/// `Io` names the first that could not be written.
pub(in crate::archive) fn sync_all(root: Option<&File>, paths: &[PathBuf]) -> Result<()> {
    #[cfg(target_os = "linux")]
    if let (true, Some(root)) = (paths.len() > MANY, root) {
        match rustix::fs::syncfs(root) {
            Err(e) if [rustix::io::Errno::NOSYS, rustix::io::Errno::INVAL].contains(&e) => {}
            synced => {
                let last = paths.last().map_or(Path::new("the output"), |p| p);
                return synced.map_err(|e| Error::io("sync", last, e.into()));
            }
        }
    }
    let _ = root;
    // Threads of its own: a process that was forked has none of those that a pool had before.
    let next = AtomicUsize::new(0);
    let some = || {
        while let Some(path) = paths.get(next.fetch_add(1, Ordering::Relaxed)) {
            sync(path).map_err(|e| Error::io("sync", path, e))?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let spawn = || std::thread::Builder::new().spawn_scoped(scope, some).ok();
        let others: Vec<_> = (1..paths.len().min(AT_ONCE)).map_while(|_| spawn()).collect();
        others.into_iter().fold(some(), |first, other| {
            let joined = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            first.and(joined)
        })
    })
}

fn sync(path: &Path) -> std::io::Result<()> {
    if cfg!(not(unix)) && path.is_dir() {
        return Ok(());
    }
    File::options().read(true).write(cfg!(not(unix))).open(path)?.sync_all()
}
