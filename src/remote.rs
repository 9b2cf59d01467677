//! Where a checkpoint lies that is named by a URL: an object of a bucket (`s3://`, `gs://`,
//! `az://`), or what an HTTP server gives ranges of (`http://`, `https://`); `file://` names a
//! path on disk.
//!
//! What is secret in a URL (`user:password@`, and all behind `?`) is taken out of it and kept here
//! where it is first seen, so that paths, errors and everything that is written show none of it.

#[cfg(feature = "remote")]
mod blocks;
#[cfg(feature = "remote")]
mod client;
#[cfg(feature = "remote")]
mod object;
#[cfg(feature = "remote")]
mod upload;
mod url;

use crate::{Error, Result, source::Source};
#[cfg(not(feature = "remote"))]
use std::io;
use std::path::Path;
pub use url::{clean, is_url};

/// Opens what a URL names, to be read at any place.
///
/// # Errors
/// `InvalidArgument` for a URL that names nothing; `Io` where it cannot be read.
#[cfg(feature = "remote")]
pub fn open(url: &Path) -> Result<Box<dyn Source>> {
    Ok(Box::new(object::Object::open(&clean(url)?)?))
}

/// Says that this build reads no URLs.
#[cfg(not(feature = "remote"))]
pub fn open(url: &Path) -> Result<Box<dyn Source>> {
    Err(without(&clean(url)?))
}

/// An object that is being written; see [`create`].
#[cfg(feature = "remote")]
pub use upload::Upload;

/// Where nothing can be written.
#[cfg(not(feature = "remote"))]
pub enum Upload {}

#[cfg(not(feature = "remote"))]
impl Upload {
    pub fn finish(self) -> io::Result<()> {
        match self {}
    }
}

#[cfg(not(feature = "remote"))]
impl io::Write for Upload {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        match *self {}
    }

    fn flush(&mut self) -> io::Result<()> {
        match *self {}
    }
}

/// Begins to write what a URL names, which appears whole or not at all.
///
/// # Errors
/// `InvalidArgument` for a URL where nothing can be written; `Io` (`AlreadyExists`) where there is
/// something and `only_new` says that it stays.
#[cfg(feature = "remote")]
pub fn create(url: &Path, only_new: bool) -> Result<Upload> {
    Upload::create(&clean(url)?, only_new)
}

/// Says that this build writes to no URLs.
#[cfg(not(feature = "remote"))]
pub fn create(url: &Path, _: bool) -> Result<Upload> {
    Err(without(&clean(url)?))
}

/// Has servers forget what was begun and not finished, for a process that ends.
pub fn abort_all() {
    #[cfg(feature = "remote")]
    upload::abort_all();
}

/// Refuses a URL where only a path on disk will do.
///
/// # Errors
/// `InvalidArgument`.
pub fn refuse(path: &Path, what: &str) -> Result<()> {
    if !is_url(path) {
        return Ok(());
    }
    let why = format!("{} is a URL, and {what}: name a path on disk", clean(path)?.display());
    Err(Error::InvalidArgument(why.into()))
}

/// The error for a URL in a build that knows none.
#[cfg(not(feature = "remote"))]
fn without(url: &Path) -> Error {
    let shown = url.display();
    Error::InvalidArgument(
        format!(
            "{shown} is a URL, and this build has no support for them: build it with \
             cargo install --path . --features remote"
        )
        .into(),
    )
}
