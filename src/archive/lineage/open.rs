//! Opening archives and their files as callers do: with options, and with the base at hand when
//! something is read.

use super::Lineage;
use crate::{
    Error, Result,
    archive::{
        access::{Archive, ArchivedFile, Base, open::no_entry},
        options::{Options, RestoreOptions},
    },
    container::EntryKind,
    dtype::Dtype,
    source::Source,
};
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

impl<'a> Archive<'a> {
    /// Opens an archive on disk. Its base, where it is a delta, is opened when something is read.
    ///
    /// # Errors
    /// `Io`, `Truncated`, `Corrupt`, `Unsupported` (a newer version), `LimitExceeded`.
    pub fn open(path: impl AsRef<Path>, options: &RestoreOptions) -> Result<Archive<'static>> {
        Ok(Archive::at(path.as_ref(), options.0.limits)?.opened_with(&options.0))
    }

    /// Opens an archive in memory.
    ///
    /// # Errors
    /// As for [`Archive::open`].
    pub fn from_bytes(bytes: &'a [u8], options: &RestoreOptions) -> Result<Archive<'a>> {
        Ok(Archive::of_bytes(bytes, options.0.limits)?.opened_with(&options.0))
    }

    /// Opens an archive anywhere.
    #[doc(hidden)]
    pub fn from_source(
        source: Box<dyn Source + 'a>,
        options: &RestoreOptions,
    ) -> Result<Archive<'a>> {
        Ok(Archive::of_source(source, options.0.limits)?.opened_with(&options.0))
    }

    pub(in crate::archive) fn opened_with(mut self, options: &Options) -> Self {
        self.threads = options.threads;
        self.level = options.level;
        self.given.clone_from(&options.base);
        self
    }

    /// A file by its number in [`Archive::entries`], to be read at any place: only the chunks that
    /// are needed are decoded.
    ///
    /// ```
    /// use lmc_gpu::{Archive, CompressOptions, RestoreOptions, compress};
    /// use std::io::{Read, Seek, SeekFrom};
    /// let bytes = compress(b"weights and more", &CompressOptions::default())?;
    /// let archive = Archive::from_bytes(&bytes, &RestoreOptions::default())?;
    /// let mut file = archive.file(0)?;
    /// let mut word = String::new();
    /// file.seek(SeekFrom::End(-4))?;
    /// file.read_to_string(&mut word)?;
    /// assert_eq!(word, "more");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` where there is no such entry, or it is a directory; `BaseMismatch` where
    /// the archive is a delta and its base is missing or another one.
    pub fn file(&self, entry: usize) -> Result<ArchivedFile<'_, 'a>> {
        let entries = self.entries();
        let found = entries.get(entry).ok_or_else(|| no_entry(entry, entries.len()))?;
        if found.kind == EntryKind::Directory {
            let why = format!("{} is a directory, which has no bytes", found.path);
            return Err(Error::InvalidArgument(why.into()));
        }
        self.ready()?;
        Ok(self.bytes_of(entry))
    }

    /// As [`Archive::file`], by the file's path in the checkpoint.
    ///
    /// # Errors
    /// As for [`Archive::file`]; where there is no such path, the error lists the first few.
    pub fn file_named(&self, path: &str) -> Result<ArchivedFile<'_, 'a>> {
        let entries = self.entries();
        let Some(entry) = entries.iter().position(|e| e.path == *path) else {
            let all: Vec<String> = entries.iter().take(5).map(|e| e.path.to_string()).collect();
            let more = if entries.len() > 5 { ", …" } else { "" };
            let list = all.join(", ");
            let why = format!("there is no file \"{path}\": the archive has {list}{more}");
            return Err(Error::InvalidArgument(why.into()));
        };
        self.file(entry)
    }

    /// Makes sure that the base is there, by the options that the archive was opened with.
    pub(in crate::archive) fn ready(&self) -> Result<()> {
        if self.base_record.is_none() || self.attached().is_some() {
            return Ok(());
        }
        let options = Options::default().with_limits(self.limits).with_base(self.given.clone());
        self.ensure_base(&options)
    }
}

impl Base {
    /// Opens a raw file, a directory, or an archive. An archive that is itself a delta finds its
    /// own base beside it under the name it remembers; so does that one.
    ///
    /// # Errors
    /// `BaseMismatch` where a base of the chain is missing or the chain leads in a circle; `Io`,
    /// `Corrupt`, `Truncated`, `Unsupported`, `InvalidArgument` for symbolic links.
    pub fn open(path: impl AsRef<Path>) -> Result<Arc<Base>> {
        Base::open_with(path.as_ref(), &[], &Options::default())
    }

    /// As [`Base::open`], for files that lie elsewhere or have other names: the archives of the
    /// chain find their bases among `others` too.
    ///
    /// # Errors
    /// As for [`Base::open`].
    pub fn open_among(path: impl AsRef<Path>, others: &[PathBuf]) -> Result<Arc<Base>> {
        Base::open_with(path.as_ref(), others, &Options::default())
    }

    /// As [`Base::open`], for a file without a header whose elements have this type.
    ///
    /// # Errors
    /// As for [`Base::open`].
    pub fn open_flat(path: impl AsRef<Path>, dtype: Dtype) -> Result<Arc<Base>> {
        Base::open_with(path.as_ref(), &[], &Options::default().with_dtype(Some(dtype)))
    }

    /// As [`Base::open_among`], with links followed and limits as the options say.
    #[doc(hidden)]
    pub fn open_with(path: &Path, others: &[PathBuf], options: &Options) -> Result<Arc<Base>> {
        Lineage::new(others, options).open(path)
    }
}
