//! Output on disk that appears whole or not at all, and what it must never replace.
//!
//! Files and directories are written beside their place under a temporary name and renamed when
//! they are whole. This room knows nothing of chunks: it asks `access` only which files are read.

mod directory;
mod output;
mod protected;
mod sync;
mod temporary;

pub(in crate::archive) use directory::AtomicDirectory;
pub use output::AtomicFile;
pub(in crate::archive) use output::open_stream;
pub(in crate::archive) use protected::Protected;
pub use temporary::remove_temporaries;
pub(crate) use temporary::{Holder, holder};
