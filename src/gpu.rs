//! Transforms on the GPU, in the process that owns the tensors.
//!
//! A tensor stays in the buffer that training put it in. Shaders split, count, difference and
//! pack it there; only the planes cross to the CPU, whose coders work on one chunk while the
//! device transforms the next. What comes out is what the CPU would have made: each shader is
//! the twin of a CPU function (`shader`).
//!
//! ```text
//! Device    an adapter's device and queue, the pipelines made so far, whether it is lost
//! Kernel    an entry point of a shader as a pipeline; Recorder runs several in one submission
//! Region    a byte range of a caller's buffer, at any offset and of any length
//! Encoder   region → snapshot → planes of each chunk, through a ring of slots
//! Decoder   planes of each chunk → region
//! Buffer    one that the device made, and counts as its memory
//! Resident  a tensor that stays on the device and is read, copied and written there
//! Transformer   chunks in host memory → planes, for the coders of an archive
//! ```
//!
//! Nothing here panics on a lost device, waits for ever, or keeps memory after it is dropped.

mod buffer;
mod codec;
mod device;
mod kernel;
mod memory;
mod resident;
mod staging;
mod transformer;

pub use buffer::Region;
pub use codec::{
    Chunk, Decoder, Encoder, Plan, Planes, Predictor, Snapshot, Stats, Symbols, Tensor, Transform,
};
pub use device::{Adapter, Device, Selector, adapters};
pub use kernel::{Pass, Recorder};
pub use memory::Buffer;
pub use resident::Resident;
pub use transformer::Transformer;
pub use wgpu;
