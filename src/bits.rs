//! Bit-level reading and writing, and values of fewer bits than a byte.
pub mod pack;
mod stream;

pub use stream::{BitReader, BitWriter, read_varint, write_varint};
