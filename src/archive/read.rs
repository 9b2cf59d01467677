//! Archive → files, memory or a pipe: whole archives, at random access or read forward, single
//! tensors, and what can be saved of damaged ones.
//!
//! Uses `access` for archives that are open, `disk` for where output goes. Nothing here knows how
//! archives are written.

mod damage;
mod extract;
mod forward;
mod pipe;
mod receiver;
mod references;
mod restore;
mod sequence;
mod spool;
mod target;
mod tensor;

pub use damage::{Damage, is_salvageable};
#[cfg(feature = "cli")]
pub use extract::Extracted;
#[cfg(feature = "cli")]
pub(in crate::archive) use extract::gather;
pub use extract::{extract, extract_to};
pub use forward::{decompress_stream, decompress_to_writer, verify_stream};
pub use pipe::Reader;
pub use restore::{Restored, decompress, decompress_into};
