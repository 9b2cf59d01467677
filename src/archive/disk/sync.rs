//! Putting many files on disk at once.

use crate::{Error, Result};
use rayon::prelude::*;
use std::{
    fs::File,
    path::{Path, PathBuf},
};

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
    paths.par_iter().try_for_each(|path| sync(path).map_err(|e| Error::io("sync", path, e)))
}

fn sync(path: &Path) -> std::io::Result<()> {
    if cfg!(not(unix)) && path.is_dir() {
        return Ok(());
    }
    File::options().read(true).write(cfg!(not(unix))).open(path)?.sync_all()
}
