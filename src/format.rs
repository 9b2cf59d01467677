//! File formats: parsers that turn bytes into spans, and nothing else.
//!
//! A [`Parsed`] file is a list of [`Span`]s that tile it exactly, so restoring it is
//! concatenating spans: exactness never depends on writing a format again. Names and shapes
//! live in [`Tensor`]s, which are views into the spans' bytes. Nothing a file says is executed.

pub mod safetensors;

use crate::{dtype::Dtype, error::Result, source::Source};

/// A byte range of a file whose bytes are elements of one type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte.
    pub offset: u64,
    /// Number of bytes, a multiple of `dtype.word_len()`.
    pub len: u64,
    /// What the bytes are.
    pub dtype: Dtype,
    /// Words in one row (the innermost dimension) of a tensor with two or more dimensions,
    /// 0 where rows are not known.
    pub row_words: u64,
    /// Whether words are stored most significant byte first.
    pub big_endian: bool,
}

/// A named tensor: a view into the bytes of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Its name, unique within the file.
    pub name: String,
    /// Type of its elements.
    pub dtype: Dtype,
    /// Its dimensions, outermost first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Distance between neighbours along each dimension in elements; `None` where contiguous.
    pub strides: Option<Vec<u64>>,
    /// First byte in the file.
    pub offset: u64,
    /// Whether elements are stored most significant byte first.
    pub big_endian: bool,
}

/// Which parser understood a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum Format {
    Opaque,
    /// A headerless array whose type the user gave.
    Flat,
    Safetensors,
    TorchZip,
    TorchLegacy,
    Gguf,
    Npy,
    Npz,
    Dcp,
}

/// What a parser found in a file.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// Which format it is.
    pub format: Format,
    /// Spans in order of offset, without holes or overlaps, from 0 to the end of the file.
    pub spans: Vec<Span>,
    /// The tensors, in the file's own order.
    pub tensors: Vec<Tensor>,
    /// What was odd about the file, for the user: each a sentence without the file's name.
    pub notes: Vec<String>,
}
