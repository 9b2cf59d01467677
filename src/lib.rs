//! Lossless compression of model checkpoints: weight files, whole training checkpoints, and the
//! differences between successive ones.
//!
//! Layers, each using only what is further down; `tests/layers.rs` holds them:
//!
//! ```text
//! 6 cli, main, study             commands; methods and benchmarks that the core does without
//! 5 store                        series of checkpoints
//! 4 archive                      compress, decompress, Options, Archive
//! 3 pipeline                     bounded read → code → write over threads
//! 2 gpu | container | format
//! 1 codec → transform, predict, entropy     kernels: no I/O, no threads
//! 0 error text dtype bits source simd shader
//! ```

mod archive;
mod bits;
#[cfg(feature = "cli")]
#[doc(hidden)]
pub mod cli;
mod codec;
mod container;
pub mod dtype;
mod entropy;
mod error;
mod format;
#[cfg(feature = "gpu")]
pub mod gpu;
mod hash;
#[doc(hidden)]
pub mod internals;
mod json;
mod pipeline;
mod predict;
mod shader;
mod simd;
mod source;
pub mod store;
#[cfg(feature = "study")]
mod study;
mod text;
mod transform;

pub use archive::{
    Archive, ArchivedFile, Base, Changes, CompressOptions, Damage, OnDamage, Overwrite, Reader,
    RestoreOptions, Restored, Summary, Symlinks, TensorInfo, Writer, compress, compress_into,
    compress_path, decompress, decompress_into, remove_temporaries,
};
pub use codec::{Accelerator, Method, Usage};
pub use container::{Entry, EntryKind, Limits, Name};
pub use error::{Detail, Error, Result};
pub use pipeline::Cancel;
pub use predict::adam::Hints as OptimizerHints;
