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
mod url;

#[cfg(not(feature = "remote"))]
use crate::Error;
use crate::{Result, source::Source};
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
