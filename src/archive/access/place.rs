//! Opens archives by where they lie, on disk or at a URL.

use super::Archive;
use crate::{
    Error, Result,
    container::{Limits, header::MAGIC},
    remote,
    source::{FileSource, Source},
};
use std::{fs::File, io::Read, path::Path};

impl Archive<'_> {
    /// Opens an archive on disk or at a URL, by itself.
    pub(in crate::archive) fn at(path: &Path, limits: Limits) -> Result<Archive<'static>> {
        let path = remote::clean(path)?;
        let source: Box<dyn Source> = match remote::is_url(&path) {
            true => remote::open(&path)?,
            false => {
                let file = File::open(&path).map_err(|e| Error::io("open", &path, e))?;
                Box::new(FileSource::new(file).map_err(|e| Error::io("read", &path, e))?)
            }
        };
        Self::of_file(&path, source, limits)
    }

    /// An archive that is open already, from where it lies.
    pub(in crate::archive) fn of_file(
        path: &Path,
        source: Box<dyn Source>,
        limits: Limits,
    ) -> Result<Archive<'static>> {
        let opened = Archive::of_source(source, limits);
        let mut archive = opened.map_err(|e| e.at(path.display()))?;
        archive.path = Some(path.to_owned());
        Ok(archive)
    }
}

/// Whether the file at `path`, or what a URL names, begins as an archive does.
///
/// # Errors
/// `Io` where it cannot be read.
pub fn is_archive(path: &Path) -> Result<bool> {
    if remote::is_url(path) {
        return begins_as_archive(&*remote::open(path)?);
    }
    let is_file = std::fs::metadata(path).map_err(|e| Error::io("open", path, e))?.is_file();
    if !is_file {
        return Ok(false);
    }
    let mut start = Vec::new();
    File::open(path)
        .and_then(|f| f.take(MAGIC.len() as u64).read_to_end(&mut start))
        .map_err(|e| Error::io("read", path, e))?;
    Ok(start == MAGIC)
}

/// Whether bytes begin as an archive does.
///
/// # Errors
/// `Io` where they cannot be read.
pub(in crate::archive) fn begins_as_archive(source: &dyn Source) -> Result<bool> {
    let mut start = [0; MAGIC.len()];
    if source.len() < start.len() as u64 {
        return Ok(false);
    }
    source.read_at(0, &mut start)?;
    Ok(start == MAGIC)
}
