//! File formats: parsers that turn bytes into spans, and nothing else.
//!
//! A [`Parsed`] file is a list of [`Span`]s that tile it exactly, so restoring it is
//! concatenating spans: exactness never depends on writing a format again. Names and shapes
//! live in [`Tensor`]s, which are views into the spans' bytes. Nothing a file says is executed.

mod fault;
mod gguf;
pub mod guess;
mod npy;
mod pickle;
pub mod prefix;
pub mod safetensors;
pub mod tile;
mod torch;
mod zip;
mod zipped;

pub use guess::{Guess, parse_and_guess};
pub use prefix::{PrefixResult, parse_prefix};

use crate::{dtype::Dtype, error::Result, source::Source};
use fault::{Fault, Found};

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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[allow(missing_docs, reason = "the names say it")]
pub enum Format {
    #[default]
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
    /// The parameter groups of every optimizer state in the file, in the file's own order.
    pub optimizer: Vec<ParamGroup>,
    /// What was odd about the file, for the user: each a sentence without the file's name.
    pub notes: Vec<String>,
    /// Spans that no parser knows and that are taken for floats, in order of offset.
    pub guesses: Vec<Guess>,
}

/// The settings an optimizer keeps for a group of parameters, as saved beside its state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ParamGroup {
    /// Path of the optimizer's state in the file, such as `optimizer`. The tensors of parameter
    /// `key` are named `{path}.state.{key}.exp_avg` and so on; empty for a bare state.
    pub path: String,
    /// Learning rate.
    pub lr: Option<f64>,
    /// Adam's decay rates of the first and second moment.
    pub betas: Option<[f64; 2]>,
    /// Adam's term added to the denominator.
    pub eps: Option<f64>,
    /// Weight decay.
    pub weight_decay: Option<f64>,
    /// Whether the largest second moment so far is kept.
    pub amsgrad: bool,
    /// Whether the objective is maximised.
    pub maximize: bool,
    /// The group's parameters in order.
    pub params: Vec<Param>,
}

/// One parameter of a `ParamGroup`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Param {
    /// Its key in the optimizer's state: usually a number.
    pub key: String,
    /// Steps taken so far.
    pub step: Option<f64>,
}

/// Finds out which format a file has, by its content alone, and parses it.
///
/// Content never makes this fail: a file that is of no known format, or is malformed, becomes one
/// opaque span, with a note where it looked like a known format. Only reading can fail.
pub fn parse(source: &dyn Source) -> Result<Parsed> {
    let len = source.len();
    let head = source.read_vec(0, len.min(64))?;
    let Some((format, parser)) = detect(&head) else { return Ok(Parsed::opaque(len)) };
    match parser(source).and_then(|found| found.assemble(len)) {
        Ok(parsed) => Ok(parsed),
        Err(Fault::Io(e)) => Err(e),
        Err(Fault::Content(why)) => {
            let mut parsed = Parsed::opaque(len);
            let note = format!("looks like {}, but {why}; stored as opaque bytes", format.name());
            parsed.notes.push(note);
            Ok(parsed)
        }
    }
}

type Parser = fn(&dyn Source) -> std::result::Result<Found, Fault>;

/// The parser for a file that begins with `head`, and the format it looks like.
fn detect(head: &[u8]) -> Option<(Format, Parser)> {
    if zipped::looks_like(head) {
        Some((Format::TorchZip, zipped::parse))
    } else if torch::legacy::looks_like(head) {
        Some((Format::TorchLegacy, torch::legacy::parse))
    } else if gguf::looks_like(head) {
        Some((Format::Gguf, gguf::parse))
    } else if npy::looks_like(head) {
        Some((Format::Npy, npy::parse))
    } else if safetensors::looks_like(head) {
        Some((Format::Safetensors, safetensors::parse))
    } else {
        None
    }
}

/// A headerless array of `len` bytes whose type the user gave. Bytes at the end that do not fill
/// a word become an opaque span.
pub fn parse_flat(len: u64, dtype: Dtype) -> Parsed {
    let words = len - len % dtype.word_len() as u64;
    let flat = Span { offset: 0, len: words, dtype, row_words: 0, big_endian: false };
    let found = Found { format: Format::Flat, spans: vec![flat], ..Found::default() };
    match found.assemble(len) {
        Ok(parsed) => parsed,
        Err(_) => Parsed::opaque(len),
    }
}

impl Parsed {
    /// A file of `len` bytes about which nothing is known.
    pub fn opaque(len: u64) -> Parsed {
        let spans = if len == 0 { Vec::new() } else { vec![Span::opaque(0, len)] };
        Parsed {
            format: Format::Opaque,
            spans,
            tensors: Vec::new(),
            optimizer: Vec::new(),
            notes: Vec::new(),
            guesses: Vec::new(),
        }
    }
}

impl Span {
    /// Bytes of no known structure.
    pub fn opaque(offset: u64, len: u64) -> Span {
        Span { offset, len, dtype: Dtype::BYTES, row_words: 0, big_endian: false }
    }
}

impl Tensor {
    /// Bytes from its first to its last element; `None` where that overflows or is not whole
    /// bytes.
    pub fn extent(&self) -> Option<u64> {
        let Some(strides) = &self.strides else {
            return self.dtype.tensor_len(&self.shape);
        };
        if self.shape.contains(&0) {
            return Some(0);
        }
        let mut last = 0u64;
        for (&d, &s) in self.shape.iter().zip(strides) {
            last = last.checked_add((d - 1).checked_mul(s)?)?;
        }
        self.dtype.tensor_len(&[last.checked_add(1)?])
    }
}

impl Format {
    /// Its usual name.
    pub fn name(self) -> &'static str {
        match self {
            Format::Opaque => "opaque",
            Format::Flat => "flat array",
            Format::Safetensors => "safetensors",
            Format::TorchZip => "torch zip",
            Format::TorchLegacy => "torch legacy",
            Format::Gguf => "GGUF",
            Format::Npy => "npy",
            Format::Npz => "npz",
            Format::Dcp => "distcp",
        }
    }
}

impl std::fmt::Display for Format {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// Words in a row of a contiguous tensor of this shape: its innermost dimension. 0 for vectors
/// and scalars, and where a row is not a whole number of words.
pub(crate) fn row_words(dtype: Dtype, shape: &[u64]) -> u64 {
    let [_, .., last] = shape else { return 0 };
    let word = dtype.word_len() as u64;
    match dtype.tensor_len(&[*last]) {
        Some(bytes) if bytes % word == 0 => bytes / word,
        _ => 0,
    }
}
