//! Output that appears whole or not at all.

use crate::{Error, Result};
use std::{
    fs::File,
    io::{self, Write},
    path::{Path, PathBuf},
};

/// A file written under a temporary name beside its final one, which it takes when it is
/// committed. Dropped before that, it vanishes.
pub struct AtomicFile {
    temporary: tempfile::NamedTempFile,
    path: PathBuf,
    force: bool,
}

impl AtomicFile {
    /// Starts writing what will become `path`.
    ///
    /// # Errors
    /// `InvalidArgument` where `path` exists and `force` is not set; `Io`.
    pub fn create(path: &Path, force: bool) -> Result<AtomicFile> {
        refuse_existing(path, force)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".lmc-").suffix(".tmp");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let temporary =
            builder.tempfile_in(parent_of(path)).map_err(|e| Error::io("create", path, e))?;
        Ok(AtomicFile { temporary, path: path.to_owned(), force })
    }

    /// The open file.
    pub fn file(&self) -> &File {
        self.temporary.as_file()
    }

    /// Puts everything on disk and gives the file its final name.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` where the name was taken meanwhile and `force` is not set.
    pub fn commit(mut self) -> Result<()> {
        let path = self.path;
        let failed = |e| Error::io("write", &path, e);
        self.temporary.flush().map_err(failed)?;
        self.temporary.as_file().sync_all().map_err(failed)?;
        if self.force {
            self.temporary.persist(&path).map_err(|e| failed(e.error))?;
        } else {
            self.temporary.persist_noclobber(&path).map_err(|e| match e.error.kind() {
                io::ErrorKind::AlreadyExists => exists(&path),
                _ => failed(e.error),
            })?;
        }
        sync_directory(parent_of(&path))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.temporary.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.temporary.flush()
    }
}

/// A directory built under a temporary name beside its final one.
pub struct AtomicDirectory {
    temporary: tempfile::TempDir,
    path: PathBuf,
    force: bool,
}

impl AtomicDirectory {
    /// Starts building what will become `path`.
    ///
    /// # Errors
    /// As for [`AtomicFile::create`].
    pub fn create(path: &Path, force: bool) -> Result<AtomicDirectory> {
        refuse_existing(path, force)?;
        let mut builder = tempfile::Builder::new();
        builder.prefix(".lmc-").suffix(".tmp");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            builder.permissions(std::fs::Permissions::from_mode(0o777));
        }
        let temporary =
            builder.tempdir_in(parent_of(path)).map_err(|e| Error::io("create", path, e))?;
        Ok(AtomicDirectory { temporary, path: path.to_owned(), force })
    }

    /// Where to build it.
    pub fn path(&self) -> &Path {
        self.temporary.path()
    }

    /// Gives the directory its final name. With `force`, what stood there goes last: it is moved
    /// aside first and comes back if the new one cannot take its place.
    ///
    /// # Errors
    /// `Io`, or `InvalidArgument` where the name was taken meanwhile and `force` is not set.
    pub fn commit(self) -> Result<()> {
        let path = &self.path;
        let failed = |e| Error::io("write", path, e);
        sync_directory(self.temporary.path())?;
        let mut aside = None;
        if path.symlink_metadata().is_ok() {
            refuse_existing(path, self.force)?;
            let mut builder = tempfile::Builder::new();
            builder.prefix(".lmc-").suffix(".old");
            let holder = builder.tempdir_in(parent_of(path)).map_err(failed)?;
            std::fs::rename(path, holder.path().join("old")).map_err(failed)?;
            aside = Some(holder);
        }
        if let Err(e) = std::fs::rename(self.temporary.path(), path) {
            if let Some(holder) = aside {
                let back = std::fs::rename(holder.path().join("old"), path);
                if back.is_err() {
                    let _ = holder.keep();
                }
            }
            return Err(failed(e));
        }
        let _ = self.temporary.keep();
        sync_directory(parent_of(path))
    }
}

fn exists(path: &Path) -> Error {
    Error::InvalidArgument(format!(
        "{} exists already: choose another output with -o or replace it with --force",
        path.display()
    ))
}

fn refuse_existing(path: &Path, force: bool) -> Result<()> {
    if !force && path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    Ok(())
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Makes names in a directory durable, where the system can.
fn sync_directory(path: &Path) -> Result<()> {
    #[cfg(unix)]
    File::open(path).and_then(|d| d.sync_all()).map_err(|e| Error::io("sync", path, e))?;
    #[cfg(not(unix))]
    let _ = path;
    Ok(())
}
