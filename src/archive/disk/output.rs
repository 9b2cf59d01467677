//! Output that appears whole or not at all: a file.

use super::{
    protected::Protected,
    temporary::{self, Finishing, Temporary, parent_of, sync_directory},
};
use crate::{
    Error, Result,
    archive::options::{Options, Overwrite},
    remote,
};
use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// A file written under a temporary name beside its final one, which it takes when it is
/// committed. Dropped before that, it vanishes. A pipe or character device (`/dev/null`) is
/// written to as it is.
pub struct AtomicFile {
    place: Place,
    path: PathBuf,
    overwrite: Overwrite,
}

enum Place {
    Temporary(Temporary<tempfile::NamedTempFile>),
    Stream(File),
    Remote(Box<remote::Upload>),
}

impl AtomicFile {
    /// Starts writing what will become `path`.
    ///
    /// # Errors
    /// `InvalidArgument` where `path` exists and is not to be replaced, or is something that no
    /// file can replace; `Io`.
    pub fn create(path: &Path, overwrite: Overwrite) -> Result<AtomicFile> {
        if remote::is_url(path) {
            let upload = match remote::create(path, overwrite == Overwrite::Refuse) {
                Err(Error::Io { source, .. }) => return Err(not_created(path, source)),
                created => Place::Remote(Box::new(created?)),
            };
            return Ok(AtomicFile { place: upload, path: path.into(), overwrite });
        }
        if let Some(stream) = open_stream(path)? {
            return Ok(AtomicFile { place: Place::Stream(stream), path: path.into(), overwrite });
        }
        if path.is_dir() {
            return Err(Error::InvalidArgument(
                format!(
                    "{} is a directory, which no file replaces: name a file with -o",
                    path.display()
                )
                .into(),
            ));
        }
        refuse_existing(path, overwrite)?;
        let made = temporary::file_in(parent_of(path)).map_err(temporary::failed(path))?;
        Ok(AtomicFile { place: Place::Temporary(made), path: path.into(), overwrite })
    }

    /// As [`AtomicFile::create`], as the options say, and never over what they or the base say is
    /// needed.
    ///
    /// # Errors
    /// As for [`AtomicFile::create`], and `InvalidArgument` where `path` is, contains or lies in
    /// any of those.
    pub fn with_options(path: &Path, options: &Options) -> Result<AtomicFile> {
        Protected::of(options).refuse(path)?;
        AtomicFile::create(path, options.overwrite)
    }

    /// The open file.
    ///
    /// # Errors
    /// `InvalidArgument` where it is not on disk.
    pub fn file(&self) -> Result<&File> {
        match &self.place {
            Place::Temporary(made) => Ok(made.get().as_file()),
            Place::Stream(stream) => Ok(stream),
            Place::Remote(_) => Err(Error::InvalidArgument(
                format!("{} is a URL, where only archives are written", self.path.display()).into(),
            )),
        }
    }

    /// Puts everything on disk and gives the file its final name.
    ///
    /// # Errors
    /// `Io`; `InvalidArgument` where the name was taken meanwhile and is not to be replaced.
    pub fn commit(self) -> Result<()> {
        let AtomicFile { place, path, overwrite } = self;
        let failed = |e| Error::io("write", &path, e);
        let mut made = match place {
            Place::Temporary(made) => made,
            Place::Stream(mut stream) => return stream.flush().map_err(failed),
            Place::Remote(upload) => {
                let _finishing = Finishing::begin().map_err(failed)?;
                return upload.finish().map_err(|e| not_created(&path, e));
            }
        };
        made.get_mut().flush().map_err(failed)?;
        made.get().as_file().sync_all().map_err(failed)?;
        let mut finishing = Finishing::begin().map_err(failed)?;
        let (made, _lock) = made.take(&mut finishing);
        if overwrite == Overwrite::Refuse {
            made.persist_noclobber(&path).map_err(|e| match e.error.kind() {
                io::ErrorKind::AlreadyExists => exists(&path),
                _ => failed(e.error),
            })?;
        } else {
            made.persist(&path).map_err(|e| failed(e.error))?;
        }
        drop(finishing);
        sync_directory(parent_of(&path))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match &mut self.place {
            Place::Temporary(made) => made.get_mut().write(buf),
            Place::Stream(stream) => stream.write(buf),
            Place::Remote(upload) => upload.write(buf),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.place {
            Place::Temporary(made) => made.get_mut().flush(),
            Place::Stream(stream) => stream.flush(),
            Place::Remote(upload) => upload.flush(),
        }
    }
}

/// Opens `path` for writing where it is a pipe or a character device, to which bytes go as they
/// are. `None` for what a file can take the place of.
///
/// # Errors
/// `InvalidArgument` for other devices, sockets and names of open files; `Io`.
pub(in crate::archive) fn open_stream(path: &Path) -> Result<Option<File>> {
    let Ok(meta) = fs::metadata(path) else { return Ok(None) };
    if meta.is_dir() {
        return Ok(None);
    }
    if meta.is_file() {
        return match names_open_file(path) {
            true => Err(Error::InvalidArgument(
                format!(
                    "{} names a file that is open already: -o - writes to standard output",
                    path.display()
                )
                .into(),
            )),
            false => Ok(None),
        };
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        let kind = meta.file_type();
        if kind.is_fifo() || kind.is_char_device() {
            let opened = File::options().write(true).open(path);
            return opened.map(Some).map_err(|e| Error::io("open", path, e));
        }
    }
    Err(Error::InvalidArgument(
        format!(
            "{} is a device or socket, which no file replaces: choose another output with -o",
            path.display()
        )
        .into(),
    ))
}

/// Whether a path leads through the system's list of open files, like `/dev/stdout`.
fn names_open_file(path: &Path) -> bool {
    let within = |p: &Path| parent_of(p).canonicalize().is_ok_and(|p| p.starts_with("/proc"));
    within(path) || fs::read_link(path).is_ok_and(|to| to.is_absolute() && within(&to))
}

fn not_created(path: &Path, e: io::Error) -> Error {
    match e.kind() {
        io::ErrorKind::AlreadyExists => exists(path),
        _ => Error::io("write", path, e),
    }
}

pub(in crate::archive) fn exists(path: &Path) -> Error {
    Error::InvalidArgument(
        format!(
            "{} exists already: choose another output with -o or replace it with --force",
            path.display()
        )
        .into(),
    )
}

pub(in crate::archive) fn refuse_existing(path: &Path, overwrite: Overwrite) -> Result<()> {
    if overwrite == Overwrite::Refuse && path.symlink_metadata().is_ok() {
        return Err(exists(path));
    }
    Ok(())
}
