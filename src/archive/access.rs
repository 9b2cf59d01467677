//! What is there already and can be read at any place: the input, archives that are open, and
//! the bases that archives are deltas to.
//!
//! Writing and reading both stand on this room, and it knows neither. Archives and bases are in
//! one room because each needs the other: a base may be an archive, which may have a base.

mod average;
pub(in crate::archive) mod base;
mod chain;
pub(in crate::archive) mod decode;
pub(in crate::archive) mod digest;
mod file;
pub(in crate::archive) mod headers;
pub(in crate::archive) mod input;
pub(in crate::archive) mod memory;
pub(in crate::archive) mod naming;
pub(in crate::archive) mod open;
mod parameter;
pub(in crate::archive) mod place;
pub(in crate::archive) mod relation;
pub(in crate::archive) mod tensor;

pub use base::Base;
pub use file::ArchivedFile;
pub use input::Input;
pub use open::Archive;
pub use place::is_archive;
pub use tensor::TensorInfo;
