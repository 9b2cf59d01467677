//! Errors, by who is at fault.
//!
//! Every message names what was being read or written (file, tensor, chunk) and, where there is
//! something the user can do, says what. Lower layers return the bare fault; callers that know
//! the place add it with [`Error::in_chunk`], [`Error::in_tensor`] and [`Error::in_file`], from the
//! inside out, or in words with [`Error::at`].

use std::{fmt, io, ops::Deref, path::Path};

/// Result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. The variants say who is at fault; the [`Detail`] says where and what to do.
///
/// ```
/// use lmc_gpu::{Archive, Error, RestoreOptions};
/// let e = Archive::open("no/such/file.lmc", &RestoreOptions::default()).unwrap_err();
/// assert!(matches!(&e, Error::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound));
/// assert_eq!(e.file(), None); // The archive cannot be opened: it is no file of its own.
/// ```
///
/// [`Display`](fmt::Display) says everything, the fault of the operating system included, and
/// `source` only what lies below that: whoever prints an error and its sources prints nothing twice.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The bytes of an archive contradict their checksums or the format.
    Corrupt(Detail),
    /// An archive or stream ends before it should.
    Truncated(Detail),
    /// A valid file that this version cannot read: a newer format version or an unknown feature.
    Unsupported(Detail),
    /// The caller asked for something impossible.
    InvalidArgument(Detail),
    /// A size stated in a file exceeds a configured limit.
    LimitExceeded(Detail),
    /// The base of a delta is missing or is not the one the delta was made against.
    BaseMismatch(Detail),
    /// The GPU failed.
    Device(Detail),
    /// The operating system failed.
    Io {
        /// What was being done, with the path.
        context: Detail,
        /// The operating system's error.
        source: io::Error,
    },
}

/// What an [`Error`] says: a text, which names the place in words, and the place as data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    text: String,
    place: Option<Box<Place>>,
}

/// Where in a checkpoint it was. The innermost place counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Place {
    file: Option<String>,
    tensor: Option<String>,
    chunk: Option<u64>,
}

impl Detail {
    fn prefix(&mut self, place: impl fmt::Display) {
        self.text = format!("{place}: {}", self.text);
    }

    fn place(&mut self) -> &mut Place {
        self.place.get_or_insert_default()
    }
}

impl<T: Into<String>> From<T> for Detail {
    fn from(text: T) -> Detail {
        Detail { text: text.into(), place: None }
    }
}

impl Deref for Detail {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl PartialEq<&str> for Detail {
    fn eq(&self, text: &&str) -> bool {
        self.text == *text
    }
}

impl Error {
    /// An operating system error while doing `action` ("read", "create") on `path`.
    pub(crate) fn io(action: &str, path: &Path, source: io::Error) -> Self {
        Error::Io { context: format!("cannot {action} {}", path.display()).into(), source }
    }

    /// What it says, without the kind in front.
    pub fn detail(&self) -> &Detail {
        match self {
            Error::Corrupt(detail)
            | Error::Truncated(detail)
            | Error::Unsupported(detail)
            | Error::InvalidArgument(detail)
            | Error::LimitExceeded(detail)
            | Error::BaseMismatch(detail)
            | Error::Device(detail)
            | Error::Io { context: detail, .. } => detail,
        }
    }

    fn detail_mut(&mut self) -> &mut Detail {
        match self {
            Error::Corrupt(detail)
            | Error::Truncated(detail)
            | Error::Unsupported(detail)
            | Error::InvalidArgument(detail)
            | Error::LimitExceeded(detail)
            | Error::BaseMismatch(detail)
            | Error::Device(detail)
            | Error::Io { context: detail, .. } => detail,
        }
    }

    /// The file of the checkpoint that it was in, by its path there, where that is known.
    pub fn file(&self) -> Option<&str> {
        self.detail().place.as_ref()?.file.as_deref()
    }

    /// The tensor that it was in, where that is known. A chunk may hold several: the first then.
    pub fn tensor(&self) -> Option<&str> {
        self.detail().place.as_ref()?.tensor.as_deref()
    }

    /// The number of the chunk that it was in, counted from 0 in the order of the archive.
    pub fn chunk(&self) -> Option<u64> {
        self.detail().place.as_ref()?.chunk
    }

    /// The same error with the place it happened in put in front of its message.
    #[must_use]
    pub fn at(mut self, place: impl fmt::Display) -> Self {
        self.detail_mut().prefix(place);
        self
    }

    /// The same error in a file of a checkpoint.
    #[must_use]
    pub fn in_file(mut self, file: impl fmt::Display) -> Self {
        let detail = self.detail_mut();
        detail.prefix(&file);
        detail.place().file.get_or_insert_with(|| file.to_string());
        self
    }

    /// The same error in a tensor.
    #[must_use]
    pub fn in_tensor(mut self, tensor: &str) -> Self {
        let detail = self.detail_mut();
        detail.prefix(format_args!("tensor \"{tensor}\""));
        detail.place().tensor.get_or_insert_with(|| tensor.into());
        self
    }

    /// The same error in a chunk.
    #[must_use]
    pub fn in_chunk(mut self, chunk: usize) -> Self {
        let detail = self.detail_mut();
        detail.prefix(format_args!("chunk {chunk}"));
        detail.place().chunk.get_or_insert(chunk as u64);
        self
    }

    /// Whether the fault lies in the caller's request (exit code 2) rather than in data or system.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::InvalidArgument(_))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Corrupt(detail) => write!(f, "corrupt data: {detail}"),
            Error::Truncated(detail) => write!(f, "truncated data: {detail}"),
            Error::Unsupported(detail) => write!(f, "unsupported: {detail}"),
            Error::InvalidArgument(detail) => write!(f, "invalid argument: {detail}"),
            Error::LimitExceeded(detail) => write!(f, "limit exceeded: {detail}"),
            Error::BaseMismatch(detail) => write!(f, "base mismatch: {detail}"),
            Error::Device(detail) => write!(f, "device: {detail}"),
            Error::Io { context, source } => write!(f, "{context}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            // Its own text stands in ours already.
            Error::Io { source, .. } => source.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(source: io::Error) -> Self {
        // It may be one of ours that passed through an interface of the standard library.
        source.downcast::<Error>().unwrap_or_else(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => Error::Truncated("the data ends too early".into()),
            _ => Error::Io { context: "i/o".into(), source },
        })
    }
}

impl From<Error> for io::Error {
    fn from(e: Error) -> Self {
        let kind = match &e {
            Error::Corrupt(_) | Error::BaseMismatch(_) => io::ErrorKind::InvalidData,
            Error::Truncated(_) => io::ErrorKind::UnexpectedEof,
            Error::Unsupported(_) => io::ErrorKind::Unsupported,
            Error::InvalidArgument(_) => io::ErrorKind::InvalidInput,
            Error::Io { source, .. } => source.kind(),
            _ => io::ErrorKind::Other,
        };
        io::Error::new(kind, e)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error as _;

    fn chain(e: &dyn std::error::Error) -> Vec<String> {
        let mut found = vec![e.to_string()];
        found.extend(e.source().map(chain).unwrap_or_default());
        found
    }

    #[test]
    fn places_stand_in_the_text_and_as_data_and_the_innermost_counts() {
        let e = Error::Corrupt("the checksum does not match".into());
        let e =
            e.in_chunk(3).in_tensor("w").in_file("model.safetensors").in_file("outer").at("x.lmc");
        assert_eq!(
            (e.file(), e.tensor(), e.chunk()),
            (Some("model.safetensors"), Some("w"), Some(3))
        );
        assert_eq!(
            e.to_string(),
            "corrupt data: x.lmc: outer: model.safetensors: tensor \"w\": chunk 3: the checksum does \
             not match"
        );
    }

    #[test]
    fn nothing_is_printed_twice() {
        let inner = Error::Corrupt("deep".into());
        let e = Error::io("read", Path::new("x"), io::Error::other(inner));
        assert_eq!(chain(&e), ["cannot read x: corrupt data: deep"]);
        let e = Error::io("read", Path::new("x"), io::ErrorKind::NotFound.into());
        assert_eq!(chain(&e).len(), 1);
    }

    #[test]
    fn errors_survive_interfaces_of_the_standard_library() {
        for e in [
            Error::Truncated("cut".into()).in_chunk(7),
            Error::Corrupt("bad".into()).in_file("f"),
            Error::Io { context: "c".into(), source: io::ErrorKind::NotFound.into() },
        ] {
            let text = e.to_string();
            let (file, chunk) = (e.file().map(str::to_owned), e.chunk());
            let back = Error::from(io::Error::from(e));
            assert_eq!(back.to_string(), text);
            assert_eq!((back.file().map(str::to_owned), back.chunk()), (file, chunk));
            assert!(back.source().is_none());
        }
    }
}
