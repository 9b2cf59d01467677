//! A checkpoint to look into, whether it is compressed or not.

use super::{
    access::{Archive, ArchivedFile, Input, is_archive, open::no_entry, place::begins_as_archive},
    options::Options,
};
use crate::{
    Result,
    container::{EntryKind, Manifest},
    format::{self, Parsed},
    remote,
    source::Source,
};
use std::path::Path;

/// An archive, or a raw file or directory: told apart by the first bytes. An archive inside a
/// directory is a file like any other.
#[allow(clippy::large_enum_variant, reason = "there is one at a time")]
#[derive(Debug)]
pub enum Checkpoint {
    /// Raw files.
    Raw(Input<'static>),
    /// An archive.
    Archive(Archive<'static>),
}

impl Checkpoint {
    /// Opens whatever is at `path`.
    ///
    /// # Errors
    /// As for [`Archive::open`] and [`Input::open`].
    pub fn open(path: &Path, options: &Options) -> Result<Checkpoint> {
        let path = &remote::clean(path)?;
        if remote::is_url(path) {
            let source = remote::open(path)?;
            if !begins_as_archive(&*source)? {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                return Ok(Checkpoint::Raw(Input::from_source(&name, source, options.dtype)));
            }
            let archive = Archive::of_file(path, source, options.limits)?;
            return Checkpoint::of_archive(archive.opened_with(options), options);
        }
        if is_archive(path)? {
            return Checkpoint::of_archive(Archive::open(path, &options.restoring())?, options);
        }
        Input::open(path, options.dtype, options.follows_symlinks()).map(Checkpoint::Raw)
    }

    fn of_archive(archive: Archive<'static>, options: &Options) -> Result<Checkpoint> {
        // A delta without its base still tells what it holds; reading from it says what lacks.
        match archive.ensure_base(options) {
            Err(e) if options.base.is_some() => Err(e),
            _ => Ok(Checkpoint::Archive(archive)),
        }
    }

    /// Opens one file that is open already, or lies in memory only. `name` is what it is called.
    ///
    /// # Errors
    /// As for [`Checkpoint::open`].
    pub fn of_source(name: &str, source: Box<dyn Source>, options: &Options) -> Result<Checkpoint> {
        if !begins_as_archive(&*source).unwrap_or(false) {
            return Ok(Checkpoint::Raw(Input::from_source(name, source, options.dtype)));
        }
        let opened = Archive::from_source(source, &options.restoring());
        let archive = opened.map_err(|e| e.at(name))?;
        if options.base.is_some() {
            archive.ensure_base(options)?;
        }
        Ok(Checkpoint::Archive(archive))
    }

    /// Its files as input, those of an archive decoded as they are read.
    pub fn into_input(self) -> Input<'static> {
        match self {
            Checkpoint::Raw(input) => input,
            Checkpoint::Archive(archive) => archive.into_input(),
        }
    }

    /// Its files.
    pub fn manifest(&self) -> &Manifest {
        match self {
            Checkpoint::Raw(input) => &input.manifest,
            Checkpoint::Archive(archive) => &archive.manifest,
        }
    }

    /// The bytes of one entry of the manifest.
    pub fn file(&self, entry: usize) -> CheckpointFile<'_> {
        match self {
            Checkpoint::Raw(input) => CheckpointFile::Raw(input.file(entry)),
            Checkpoint::Archive(archive) => CheckpointFile::Archived(archive.bytes_of(entry)),
        }
    }

    /// Fills `out` with bytes of one entry of the manifest, of an archive on several threads.
    ///
    /// # Errors
    /// Where reading fails.
    pub fn read_range(
        &self,
        entry: usize,
        offset: u64,
        out: &mut [u8],
        options: &Options,
    ) -> Result<()> {
        match self {
            Checkpoint::Raw(input) => Ok(input.file(entry).read_at(offset, out)?),
            Checkpoint::Archive(archive) => archive.read_range(entry, offset, out, &options.cancel),
        }
    }

    /// What a parser finds in one entry of the manifest.
    ///
    /// # Errors
    /// Where reading fails; `InvalidArgument` where there is no such entry.
    pub fn parse(&self, entry: usize) -> Result<Parsed> {
        self.parse_by(entry, format::parse)
    }

    /// As [`Checkpoint::parse`]; bytes of raw files that no parser knows are looked at for floats,
    /// as when they are compressed.
    pub(in crate::archive) fn parse_and_guess(&self, entry: usize) -> Result<Parsed> {
        match self {
            Checkpoint::Raw(_) => self.parse_by(entry, format::parse_and_guess),
            Checkpoint::Archive(_) => self.parse(entry),
        }
    }

    fn parse_by(&self, entry: usize, parse: fn(&dyn Source) -> Result<Parsed>) -> Result<Parsed> {
        let file = self.file(entry);
        let entries = &self.manifest().entries;
        let entry = entries.get(entry).ok_or_else(|| no_entry(entry, entries.len()))?;
        match entry.flat {
            Some(dtype) => Ok(format::parse_flat(file.len(), dtype)),
            None if entry.kind == EntryKind::Directory => Ok(Parsed::opaque(0)),
            None => parse(&file).map_err(|e| e.in_file(&entry.path)),
        }
    }
}

/// One file of a [`Checkpoint`].
pub enum CheckpointFile<'c> {
    /// As it is on disk.
    Raw(&'c dyn Source),
    /// Decoded as it is read.
    Archived(ArchivedFile<'c, 'static>),
}

impl Source for CheckpointFile<'_> {
    fn len(&self) -> u64 {
        match self {
            CheckpointFile::Raw(source) => source.len(),
            CheckpointFile::Archived(file) => file.len(),
        }
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        match self {
            CheckpointFile::Raw(source) => source.read_at(offset, buf),
            CheckpointFile::Archived(file) => file.read_at(offset, buf),
        }
    }
}
