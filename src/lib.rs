//! Lossless compression of model checkpoints: weight files, whole training checkpoints, and the
//! differences between successive ones. Every byte comes back.
//!
//! # Bytes in memory
//!
//! ```
//! use lmc_gpu::{CompressOptions, RestoreOptions, compress, decompress, dtype::Dtype};
//! let weights: Vec<u8> = (0..10_000).flat_map(|i| (1.0 + i as f32 / 1e6).to_le_bytes()).collect();
//! let options = CompressOptions::default().with_dtype(Dtype::F32);
//! let archive = compress(&weights, &options)?;
//! assert!(archive.len() < weights.len());
//! assert_eq!(decompress(&archive, &RestoreOptions::default())?, weights);
//! # Ok::<(), lmc_gpu::Error>(())
//! ```
//!
//! Files of known formats (safetensors, PyTorch, GGUF, numpy) need no element type: what is in them
//! is recognised. [`compress_into`] and [`decompress_into`] fill buffers of the caller's.
//!
//! # Files and directories
//!
//! ```
//! use lmc_gpu::{Archive, CompressOptions, RestoreOptions, compress_path};
//! # let dir = tempfile::tempdir()?;
//! # std::fs::create_dir(dir.path().join("checkpoint"))?;
//! # std::fs::write(dir.path().join("checkpoint/weights.bin"), [1; 4096])?;
//! # let place = |name: &str| dir.path().join(name);
//! compress_path(place("checkpoint"), place("step600.lmc"), &CompressOptions::default())?;
//! let archive = Archive::open(place("step600.lmc"), &RestoreOptions::default())?;
//! archive.verify(&RestoreOptions::default())?;
//! archive.restore(place("restored"), &RestoreOptions::default())?;
//! # assert_eq!(std::fs::read(place("restored/weights.bin"))?, [1; 4096]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What is written appears whole or not at all. Pipes are served by [`Writer`] and [`Reader`].
//!
//! # One tensor out of an archive
//!
//! ```
//! use lmc_gpu::{Archive, CompressOptions, RestoreOptions, compress};
//! # let header = br#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
//! # let mut file = (header.len() as u64).to_le_bytes().to_vec();
//! # file.extend_from_slice(header);
//! # file.extend_from_slice(&[0, 0, 128, 63, 0, 0, 0, 64]);
//! let bytes = compress(&file, &CompressOptions::default())?; // `file` is a safetensors file.
//! let archive = Archive::from_bytes(&bytes, &RestoreOptions::default())?;
//! for tensor in archive.tensors()? {
//!     println!("{} {} {:?}", tensor.name(), tensor.dtype(), tensor.shape());
//! }
//! let mut out = vec![0; archive.tensor_info("w")?.byte_len() as usize];
//! archive.tensor_into("w", &mut out)?;
//! assert_eq!(out, [0, 0, 128, 63, 0, 0, 0, 64]);
//! # Ok::<(), lmc_gpu::Error>(())
//! ```
//!
//! Only the chunks that hold it are read. [`Archive::file`] reads files as
//! [`Read`](std::io::Read) and [`Seek`](std::io::Seek).
//!
//! # The difference from a base
//!
//! ```
//! use lmc_gpu::{Base, CompressOptions, RestoreOptions, compress, decompress, dtype::Dtype};
//! let old: Vec<u8> = (0..50_000u32).flat_map(|i| (i.wrapping_mul(i) | 1).to_le_bytes()).collect();
//! let mut new = old.clone();
//! new[40_000] ^= 1;
//! let base = Base::from_bytes("step 600", old.into(), Some(Dtype::F32));
//! let options = CompressOptions::default().with_dtype(Dtype::F32).with_base(base.clone());
//! let delta = compress(&new, &options)?;
//! assert!(delta.len() < 1000);
//! assert_eq!(decompress(&delta, &RestoreOptions::default().with_base(base))?, new);
//! # Ok::<(), lmc_gpu::Error>(())
//! ```
//!
//! A base on disk, which may be a delta itself, is opened with [`Base::open`].
//!
//! # A series of checkpoints, saved beside training
//!
//! ```
//! use lmc_gpu::{dtype::Dtype, store::*};
//! # let dir = tempfile::tempdir()?;
//! let store = Store::init(dir.path().join("run"), Policy::default())?;
//! let checkpointer = Checkpointer::new(store, CheckpointerOptions::default())?;
//! for step in [10, 20] {
//!     let weights = Bytes::from_words(vec![step as f32; 1000]);
//!     let tensor = Tensor::new("w", Dtype::F32, &[10, 100], weights)?;
//!     checkpointer.save(step, Snapshot::new().with_tensors("model.safetensors", vec![tensor]))?;
//! }
//! checkpointer.flush()?;
//! let again = checkpointer.restore(10)?;
//! assert_eq!(again.tensor("model.safetensors", "w").unwrap().bytes[..4], 10f32.to_le_bytes());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Transforms on a GPU
//!
//! With the feature `gpu`. Archives are the same, byte for byte; tensors that lie in device memory
//! already are saved from there ([`store::DeviceTensor`](store), `gpu::Encoder`).
//!
#![cfg_attr(feature = "gpu", doc = "```")]
#![cfg_attr(not(feature = "gpu"), doc = "```ignore")]
//! use lmc_gpu::{CompressOptions, compress, gpu::{Device, Selector, Transformer}};
//! use std::sync::Arc;
//! let Ok(device) = Device::request(&Selector::Auto) else { return Ok(()) }; // No adapter.
//! let options = CompressOptions::default();
//! let by_device = options.clone().with_device(Arc::new(Transformer::new(device)));
//! let weights = vec![1; 100_000];
//! assert_eq!(compress(&weights, &by_device)?, compress(&weights, &options)?);
//! # Ok::<(), lmc_gpu::Error>(())
//! ```
//!
//! # Errors
//!
//! An [`Error`] says who is at fault, and where: file, tensor and chunk.
//!
//! # Inside
//!
//! Layers, each using only what is further down; `tests/layers.rs` holds them:
//!
//! ```text
//! 6 cli, main, study             commands; methods and benchmarks that the core does without
//! 5 json                         reports for programs
//! 5 store                        series of checkpoints
//! 4 archive                      compress, decompress, Options, Archive
//! 3 pipeline                     bounded read → code → write over threads
//! 2 gpu | container | format | remote
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
mod remote;
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
