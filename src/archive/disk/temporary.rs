//! Temporary files and directories: how they are told apart from those of a killed run, and
//! how they go when the process is stopped.
//!
//! ```text
//! .lmc-XXXXXX.tmp        what is being written, beside its final name; its writer holds a lock on it
//! .lmc-XXXXXX.old/NAME   what stood at NAME while a new directory takes its place; locked likewise
//! ```
//!
//! The lock goes with the process that holds it, however it ends and wherever it runs, so that a
//! lock which can be taken belongs to nobody alive. Where a file system has no locks, nothing is
//! known and nothing is removed.

use crate::{Error, Result, remote};
use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Times that a name is chosen anew after another run took its file for left over.
const TRIES: usize = 20;

/// The temporary files and directories of this process.
struct Live {
    paths: BTreeSet<PathBuf>,
    /// Directories that were looked through for what killed runs left.
    swept: BTreeSet<PathBuf>,
    /// Whether everything was removed and the process is about to end.
    closed: bool,
}

static LIVE: Mutex<Live> =
    Mutex::new(Live { paths: BTreeSet::new(), swept: BTreeSet::new(), closed: false });

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stopped() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the process is being stopped")
}

/// Removes every temporary file and directory of this process, for a process that ends next:
/// what was begun in a bucket is aborted; afterwards no output can be started or take its name. Output that is just taking its name is
/// waited for.
pub fn remove_temporaries() {
    let mut live = live();
    live.closed = true;
    remote::abort_all();
    for path in std::mem::take(&mut live.paths) {
        // Other threads may still be filling a directory.
        for _ in 0..TRIES {
            let removed = match path.is_dir() {
                true => fs::remove_dir_all(&path),
                false => fs::remove_file(&path),
            };
            match removed {
                Err(e) if e.kind() != io::ErrorKind::NotFound => {}
                _ => break,
            }
        }
    }
}

/// While it exists, [`remove_temporaries`] waits: for the instant in which output takes its name.
pub(in crate::archive) struct Finishing(
    #[allow(dead_code, reason = "held")] MutexGuard<'static, Live>,
);

impl Finishing {
    /// # Errors
    /// `Io` (interrupted) where everything was removed.
    pub fn begin() -> io::Result<Finishing> {
        let live = live();
        if live.closed { Err(stopped()) } else { Ok(Finishing(live)) }
    }
}

/// A temporary file or directory that has a lock and is removed when the process is stopped.
pub(in crate::archive) struct Temporary<T> {
    made: Option<T>,
    path: PathBuf,
    lock: Option<File>,
}

impl<T> Temporary<T> {
    pub fn get(&self) -> &T {
        self.made.as_ref().unwrap_or_else(|| unreachable!("taken only by value"))
    }

    pub fn get_mut(&mut self) -> &mut T {
        self.made.as_mut().unwrap_or_else(|| unreachable!("taken only by value"))
    }

    /// The open directory, or file, on which the lock is.
    pub fn lock(&self) -> Option<&File> {
        self.lock.as_ref()
    }

    /// What was made, and its lock, to be held until it has its final name.
    pub fn take(mut self, finishing: &mut Finishing) -> (T, Option<File>) {
        finishing.0.paths.remove(&self.path);
        // Dropping must not wait for what `finishing` holds.
        self.path = PathBuf::new();
        let made = self.made.take().unwrap_or_else(|| unreachable!("taken only by value"));
        (made, self.lock.take())
    }
}

impl<T> Drop for Temporary<T> {
    fn drop(&mut self) {
        drop(self.made.take());
        if !self.path.as_os_str().is_empty() {
            live().paths.remove(&self.path);
        }
    }
}

/// A new temporary file in `dir`.
pub(in crate::archive) fn file_in(dir: &Path) -> io::Result<Temporary<tempfile::NamedTempFile>> {
    make(dir, ".tmp", 0o666, |b, dir| b.tempfile_in(dir), |made| made.path())
}

/// A new temporary directory in `dir`.
pub(in crate::archive) fn directory_in(dir: &Path) -> io::Result<Temporary<tempfile::TempDir>> {
    make(dir, ".tmp", 0o777, |b, dir| b.tempdir_in(dir), |made| made.path())
}

/// A new directory in `dir` for what is set aside. It is not removed when the process is stopped.
pub(in crate::archive) fn aside_in(dir: &Path) -> io::Result<(tempfile::TempDir, Option<File>)> {
    let holder = builder(".old", 0o777).tempdir_in(dir)?;
    let lock = take_lock(holder.path())?;
    Ok((holder, lock))
}

fn builder<'a>(suffix: &'a str, mode: u32) -> tempfile::Builder<'static, 'a> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".lmc-").suffix(suffix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(mode));
    }
    #[cfg(not(unix))]
    let _ = mode;
    builder
}

fn make<T>(
    dir: &Path,
    suffix: &str,
    mode: u32,
    make: impl Fn(&tempfile::Builder, &Path) -> io::Result<T>,
    path_of: impl Fn(&T) -> &Path,
) -> io::Result<Temporary<T>> {
    let mut live = live();
    if live.closed {
        return Err(stopped());
    }
    sweep(dir, &mut live);
    for _ in 0..TRIES {
        let made = make(&builder(suffix, mode), dir)?;
        let path = path_of(&made).to_owned();
        let lock = take_lock(&path)?;
        // Between the two, another run may have taken it for left over.
        if path.symlink_metadata().is_err() {
            continue;
        }
        let path = std::path::absolute(&path)?;
        live.paths.insert(path.clone());
        return Ok(Temporary { made: Some(made), path, lock });
    }
    Err(io::Error::other("every temporary file is removed by others"))
}

/// Locks what this process has just made. `None` where the file system has no locks, or it is
/// gone already.
fn take_lock(path: &Path) -> io::Result<Option<File>> {
    if cfg!(not(unix)) {
        return Ok(None);
    }
    match File::open(path) {
        Ok(file) => Ok(file.lock().ok().map(|()| file)),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether a name is that of a temporary file or directory with this ending.
fn has_form(name: &OsStr, suffix: &str) -> bool {
    let random = name.to_str().and_then(|n| n.strip_prefix(".lmc-")?.strip_suffix(suffix));
    random.is_some_and(|r| r.len() == 6 && r.bytes().all(|b| b.is_ascii_alphanumeric()))
}

/// Who has a temporary file or directory.
pub(crate) enum Holder {
    /// A process that is alive.
    Alive,
    /// Nobody; it cannot be taken while the file is open.
    Nobody(#[allow(dead_code, reason = "held for its lock")] File),
    /// It cannot be known.
    Unknown,
}

/// Finds out who has it.
pub(crate) fn holder(path: &Path) -> Holder {
    let is_ours = path.symlink_metadata().is_ok_and(|m| m.is_file() || m.is_dir());
    if cfg!(not(unix)) || !is_ours {
        return Holder::Unknown;
    }
    let Ok(file) = File::open(path) else { return Holder::Unknown };
    match file.try_lock() {
        Ok(()) => Holder::Nobody(file),
        Err(TryLockError::WouldBlock) => Holder::Alive,
        Err(TryLockError::Error(_)) => Holder::Unknown,
    }
}

/// Removes what killed runs left in a directory, and puts back what they had set aside. Once for
/// every directory and process, and as far as possible: nothing depends on it.
fn sweep(dir: &Path, live: &mut Live) {
    let Ok(real) = dir.canonicalize() else { return };
    if !live.swept.insert(real) {
        return;
    }
    let Ok(entries) = fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let is_aside = has_form(&name, ".old");
        if !is_aside && !has_form(&name, ".tmp") {
            continue;
        }
        let Holder::Nobody(_lock) = holder(&path) else { continue };
        let removed = match (is_aside, path.is_dir()) {
            (true, _) => put_back(&path, dir),
            (false, true) => fs::remove_dir_all(&path),
            (false, false) => fs::remove_file(&path),
        };
        match removed {
            Ok(()) => log::info!("{}: a killed run left this", path.display()),
            Err(e) => log::debug!("{}: {e}", path.display()),
        }
    }
}

/// Gives what a killed run set aside its name again, unless the new one has it already.
fn put_back(aside: &Path, dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(aside)? {
        let entry = entry?;
        let place = dir.join(entry.file_name());
        if place.symlink_metadata().is_err() {
            fs::rename(entry.path(), &place)?;
            log::warn!("{}: put back after a killed run", place.display());
        }
    }
    fs::remove_dir_all(aside)
}

/// The error of an output that could not be started.
pub(in crate::archive) fn failed(path: &Path) -> impl Fn(io::Error) -> Error + '_ {
    |e| {
        let parent = parent_of(path);
        let e = match e.kind() {
            io::ErrorKind::NotFound => {
                let why = format!("there is no directory {}: make it first", parent.display());
                io::Error::new(io::ErrorKind::NotFound, why)
            }
            // Without the temporary name, which means nothing to anybody.
            kind => e.raw_os_error().map_or_else(|| kind.into(), io::Error::from_raw_os_error),
        };
        Error::io("create", path, e)
    }
}

/// The directory that a path is in.
pub(in crate::archive) fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes names in a directory durable, where the system can.
pub(in crate::archive) fn sync_directory(path: &Path) -> Result<()> {
    #[cfg(unix)]
    File::open(path).and_then(|d| d.sync_all()).map_err(|e| Error::io("sync", path, e))?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
