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

pub mod archive;
pub mod bits;
#[cfg(feature = "cli")]
pub mod cli;
pub mod codec;
pub mod container;
pub mod dtype;
pub mod entropy;
pub mod error;
pub mod format;
#[cfg(feature = "gpu")]
pub mod gpu;
pub mod hash;
pub mod pipeline;
pub mod predict;
pub mod shader;
pub mod simd;
pub mod source;
pub mod store;
#[cfg(feature = "study")]
pub mod study;
pub mod text;
pub mod transform;

pub use archive::{Archive, Options, compress, compress_into, decompress, decompress_into};
pub use error::{Error, Result};
