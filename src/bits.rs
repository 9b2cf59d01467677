//! Bit-level storage of numbers.

mod log2;
mod varint;

pub use log2::log2_q16;
pub use varint::{read_varint, write_varint};
