//! Bit-level reading and writing.
mod stream;

pub use stream::{BitReader, BitWriter, read_varint, write_varint};
