<<<<<<< HEAD
//! Bit-level storage of numbers.

mod log2;
pub mod pack;
pub mod stream;

pub use log2::log2_q16;
pub use pack::{pack, unpack};
=======
//! Bit-level reading and writing, and values of fewer bits than a byte.
pub mod pack;
mod stream;

>>>>>>> gpu
pub use stream::{BitReader, BitWriter, read_varint, write_varint};
