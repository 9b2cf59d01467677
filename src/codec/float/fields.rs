//! The fields of a float, and the flags in the head of a `SPLIT` payload.

/// Fields of a chunk's words, and its rows.
#[derive(Clone, Copy, Debug)]
pub struct Float {
    /// Width of a word.
    pub bits: u8,
    /// Width of the exponent.
    pub exponent: u8,
    /// Words in a row, where the chunk is whole rows.
    pub row: Option<usize>,
}

pub(in crate::codec) const SIGN_CONSTANT: u8 = 1 << 4;
pub(in crate::codec) const SIGN: u8 = 1 << 5;
pub(in crate::codec) const ROWS: u8 = 1 << 6;
pub(in crate::codec) const COLUMNS: u8 = 1 << 7;
