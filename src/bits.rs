//! Bit-level storage of numbers.

mod log2;
pub mod pack;
pub mod stream;

pub use log2::log2_q16;
pub use pack::{pack, packed_len, unpack};
pub use stream::{BitReader, BitWriter, read_varint, write_varint};
