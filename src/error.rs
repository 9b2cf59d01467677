//! Errors, by who is at fault.
//!
//! Every message names what was being read or written (file, tensor, chunk) and, where there is
//! something the user can do, says what. Lower layers return the bare fault; callers that know
//! the place add it with [`Error::at`].

use std::path::Path;

/// Result of every fallible function of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// What went wrong. The variants say who is at fault; the text says where and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes of an archive contradict their checksums or the format.
    #[error("corrupt data: {0}")]
    Corrupt(String),
    /// An archive or stream ends before it should.
    #[error("truncated data: {0}")]
    Truncated(String),
    /// A valid file that this version cannot read: a newer format version or an unknown feature.
    #[error("unsupported: {0}")]
    Unsupported(String),
    /// The caller asked for something impossible.
    #[error("invalid argument: {0}")]
    InvalidArgument(String),
    /// A size stated in a file exceeds a configured limit.
    #[error("limit exceeded: {0}")]
    LimitExceeded(String),
    /// The base of a delta is missing or is not the one the delta was made against.
    #[error("base mismatch: {0}")]
    BaseMismatch(String),
    /// The GPU failed.
    #[error("device: {0}")]
    Device(String),
    /// The operating system failed.
    #[error("{context}: {source}")]
    Io {
        /// What was being done, with the path.
        context: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl Error {
    /// An operating system error while doing `action` ("read", "create") on `path`.
    pub fn io(action: &str, path: &Path, source: std::io::Error) -> Self {
        Error::Io { context: format!("cannot {action} {}", path.display()), source }
    }

    /// The same error with the place it happened in put in front of its message.
    #[must_use]
    pub fn at(self, place: impl std::fmt::Display) -> Self {
        let join = |m: String| format!("{place}: {m}");
        match self {
            Error::Corrupt(m) => Error::Corrupt(join(m)),
            Error::Truncated(m) => Error::Truncated(join(m)),
            Error::Unsupported(m) => Error::Unsupported(join(m)),
            Error::InvalidArgument(m) => Error::InvalidArgument(join(m)),
            Error::LimitExceeded(m) => Error::LimitExceeded(join(m)),
            Error::BaseMismatch(m) => Error::BaseMismatch(join(m)),
            Error::Device(m) => Error::Device(join(m)),
            Error::Io { context, source } => Error::Io { context: join(context), source },
        }
    }

    /// Whether the fault lies in the caller's request (exit code 2) rather than in data or system.
    pub fn is_usage(&self) -> bool {
        matches!(self, Error::InvalidArgument(_))
    }
}

impl From<std::io::Error> for Error {
    fn from(source: std::io::Error) -> Self {
        if source.kind() == std::io::ErrorKind::UnexpectedEof {
            return Error::Truncated("the data ends too early".into());
        }
        // One of ours that passed through an interface of the standard library.
        source
            .downcast::<Error>()
            .unwrap_or_else(|source| Error::Io { context: "i/o".into(), source })
    }
}
