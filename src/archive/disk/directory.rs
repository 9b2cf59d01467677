//! Output that appears whole or not at all: a directory.
//!
//! Where nothing stands at its name, or what stands there is to go ([`Overwrite::Directory`]), it
//! is built beside its name and takes it at the end. Where only files are to be replaced, it is
//! built inside the directory that is there, and then file by file takes the place of the old.

use super::{
    output::{exists, refuse_existing},
    sync::sync_all,
    temporary::{self, Finishing, Temporary, parent_of, sync_directory},
};
use crate::{
    Error, Result,
    archive::options::Overwrite,
    container::{EntryKind, Manifest},
};
use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

/// A directory built under a temporary name.
pub(in crate::archive) struct AtomicDirectory {
    temporary: Temporary<tempfile::TempDir>,
    path: PathBuf,
    overwrite: Overwrite,
    /// Whether `path` is a directory that stays, and only its files are replaced.
    stays: bool,
}

impl AtomicDirectory {
    /// Starts building what will become `path` and hold the files of `manifest`.
    ///
    /// # Errors
    /// `InvalidArgument` where `path` exists and is not to be replaced, or something in it is
    /// not a file and stands where a file belongs, or the other way round; `Io`.
    pub fn create(
        path: &Path,
        overwrite: Overwrite,
        manifest: &Manifest,
    ) -> Result<AtomicDirectory> {
        let stays = overwrite == Overwrite::Files && path.is_dir();
        if stays {
            refuse_other_kinds(path, manifest)?;
        } else if let Ok(meta) = fs::metadata(path) {
            let replaced = meta.is_dir() || overwrite == Overwrite::Directory && meta.is_file();
            if overwrite != Overwrite::Refuse && !replaced {
                return Err(Error::InvalidArgument(format!(
                    "{} is not a directory, which the archive restores to: choose another output \
                     with -o",
                    path.display()
                ).into()));
            }
        }
        let within = if stays { path } else { parent_of(path) };
        if !stays {
            refuse_existing(path, overwrite)?;
        }
        let temporary = temporary::directory_in(within).map_err(temporary::failed(path))?;
        // What a killed run had set aside may have come back.
        if !stays {
            refuse_existing(path, overwrite)?;
        }
        Ok(AtomicDirectory { temporary, path: path.to_owned(), overwrite, stays })
    }

    /// Where to build it.
    pub fn path(&self) -> &Path {
        self.temporary.get().path()
    }

    /// Puts the files of the manifest on disk and gives them, or all of the directory, its name.
    ///
    /// # Errors
    /// `Io`, or `InvalidArgument` where the name was taken meanwhile and is not to be replaced.
    pub fn commit(self, manifest: &Manifest) -> Result<()> {
        let built = self.path().to_owned();
        let mut paths = Vec::with_capacity(manifest.entries.len() + 1);
        for entry in manifest.entries.iter().rev() {
            paths.push(built.join(entry.path.to_path()?));
        }
        paths.push(built);
        sync_all(self.temporary.lock(), &paths)?;
        if self.stays { self.replace_files(manifest) } else { self.replace_directory() }
    }

    /// With [`Overwrite::Directory`], what stood there goes last: it is moved aside first and
    /// comes back if the new one cannot take its place.
    fn replace_directory(self) -> Result<()> {
        let AtomicDirectory { temporary, path, overwrite, .. } = self;
        let failed = |e| Error::io("write", &path, e);
        let finishing = Finishing::begin().map_err(failed)?;
        let mut aside = None;
        if path.symlink_metadata().is_ok() {
            if overwrite != Overwrite::Directory {
                return Err(exists(&path));
            }
            let (holder, lock) = temporary::aside_in(parent_of(&path)).map_err(failed)?;
            let place = holder.path().join(path.file_name().unwrap_or(OsStr::new("old")));
            fs::rename(&path, &place).map_err(failed)?;
            aside = Some((holder, place, lock));
        }
        if let Err(e) = fs::rename(temporary.get().path(), &path) {
            if let Some((holder, place, _lock)) = aside
                && fs::rename(place, &path).is_err()
            {
                let _ = holder.keep();
            }
            drop(finishing);
            return Err(failed(e));
        }
        let mut finishing = finishing;
        let _ = temporary.take(&mut finishing).0.keep();
        drop(finishing);
        // The old one goes when the new one is sure to stay.
        sync_directory(parent_of(&path))
    }

    /// Every file takes the place of the one that it replaces; everything else stays.
    fn replace_files(self, manifest: &Manifest) -> Result<()> {
        refuse_other_kinds(&self.path, manifest)?;
        let lock = self.temporary.lock();
        let mut touched = vec![self.path.clone()];
        let finishing = Finishing::begin().map_err(|e| Error::io("write", &self.path, e))?;
        for entry in &manifest.entries {
            let path = entry.path.to_path()?;
            let (from, to) = (self.path().join(&path), self.path.join(&path));
            let done = match entry.kind {
                EntryKind::Directory => {
                    touched.push(to.clone());
                    match fs::create_dir(&to) {
                        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
                        made => made,
                    }
                }
                _ => fs::rename(&from, &to),
            };
            if let Err(e) = done {
                drop(finishing);
                return Err(Error::io("replace", &to, e));
            }
        }
        drop(finishing);
        sync_all(lock, &touched)
    }
}

/// Refuses to replace anything but files by files.
fn refuse_other_kinds(path: &Path, manifest: &Manifest) -> Result<()> {
    for entry in &manifest.entries {
        let to = path.join(entry.path.to_path()?);
        let Ok(meta) = to.symlink_metadata() else { continue };
        let (fits, what) = match entry.kind {
            EntryKind::Directory => (meta.is_dir(), "a directory"),
            _ => (meta.is_file() || meta.is_symlink() && !is_other(&to), "a file"),
        };
        if !fits {
            return Err(Error::InvalidArgument(format!(
                "{} stands where the archive has {what}, which --force does not replace: choose \
                 another output with -o, or replace all of {} with --force-replace-dir",
                to.display(),
                path.display()
            ).into()));
        }
    }
    Ok(())
}

/// Whether a link leads to a device, a pipe or a directory.
fn is_other(link: &Path) -> bool {
    fs::metadata(link).is_ok_and(|m| !m.is_file())
}
