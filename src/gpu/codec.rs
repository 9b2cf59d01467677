//! Tensors in device memory ↔ planes in host memory, chunk by chunk.
//!
//! ```text
//! Encoder   tensor → cover → words → (delta) → planes → (digits) → staging → sink
//!           chunk k      transforms run
//!           chunk k − 1  its lengths are read, the copy of its digits runs
//!           chunk k − 2  its planes are in the sink, on the CPU
//! Decoder   the same backwards: source → planes → words → tensor
//! ```
//!
//! Each chunk in flight has a slot of buffers of its own. Transforms are submitted before the
//! lengths of what they make are known; only the lengths are read first, so that no more than the
//! planes themselves crosses to the host.

mod buffers;
mod decode;
mod encode;
mod snapshot;

pub use decode::Decoder;
pub use encode::{Chunk, Encoder, Stats};
pub use snapshot::{Snapshot, Tensor};

use crate::{
    error::{Error, Result},
    shader::{GroupParams, SplitParams},
    transform::split::Split,
};
use std::borrow::Cow;

/// How the words of a chunk are predicted from those of a base at the same place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predictor {
    /// XOR.
    Xor,
    /// Difference of order-preserving integers.
    Diff,
}

/// What is made of the words of a chunk, or of their deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transform {
    /// The bytes as they are.
    None,
    /// A plane for each byte of words of 2, 4 or 8 bytes.
    Group,
    /// A plane for each bit.
    Bitplane,
    /// Symbols, rest and tails, the rest packed; symbols as they are, with their counts.
    Split(Split),
    /// The same, but symbols as a digit cascade: fewer bytes than the words have.
    Cascade {
        /// Fields of a word.
        fields: Split,
        /// Whether the cascade is planned from a sample of the symbols rather than from all.
        sampled: bool,
    },
}

/// How a tensor is coded. Encoder and decoder are given the same plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Bytes of a word: 1, 2, 4 or 8.
    pub word_len: usize,
    /// Words of a chunk; the last one may have fewer. A power of two of at least 64, for chunks of
    /// at most 8 MiB.
    pub chunk_words: usize,
    /// How a base is used, if there is one.
    pub predictor: Option<Predictor>,
    /// What is made of the words.
    pub transform: Transform,
}

/// Longest chunk that slots are made for.
const MAX_CHUNK_LEN: usize = 8 << 20;

impl Plan {
    /// Words of `word_len` bytes in chunks of 256 Ki, as they are.
    pub fn new(word_len: usize) -> Plan {
        Plan { word_len, chunk_words: 256 << 10, predictor: None, transform: Transform::None }
    }

    /// Sets [`Plan::transform`].
    #[must_use]
    pub fn with_transform(mut self, transform: Transform) -> Plan {
        self.transform = transform;
        self
    }

    /// Sets [`Plan::predictor`].
    #[must_use]
    pub fn with_predictor(mut self, predictor: Predictor) -> Plan {
        self.predictor = Some(predictor);
        self
    }

    /// Sets [`Plan::chunk_words`].
    #[must_use]
    pub fn with_chunk_words(mut self, chunk_words: usize) -> Plan {
        self.chunk_words = chunk_words;
        self
    }

    fn check(&self) -> Result<()> {
        let chunk_len = self.chunk_words.checked_mul(self.word_len);
        let words = matches!(self.word_len, 1 | 2 | 4 | 8)
            && self.chunk_words.is_power_of_two()
            && self.chunk_words >= 64
            && chunk_len.is_some_and(|len| len <= MAX_CHUNK_LEN);
        let fits = match self.transform {
            Transform::None | Transform::Bitplane => true,
            Transform::Group => self.word_len > 1,
            Transform::Split(fields) | Transform::Cascade { fields, .. } => {
                fields.is_valid() && fields.word_len() == self.word_len
            }
        };
        if words && fits {
            Ok(())
        } else {
            Err(Error::InvalidArgument(format!("a device cannot code with {self:?}").into()))
        }
    }

    fn chunk_len(&self) -> u64 {
        (self.chunk_words * self.word_len) as u64
    }

    /// Start and length in bytes of each chunk of a tensor of `len` bytes.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where the tensor is not whole words.
    pub fn chunks(&self, len: u64) -> Result<impl Iterator<Item = (u64, u64)> + use<>> {
        if !len.is_multiple_of(self.word_len as u64) {
            return Err(Error::InvalidArgument(
                format!("{len} bytes are not whole words of {}", self.word_len).into(),
            ));
        }
        let chunk_len = self.chunk_len();
        let n = len.div_ceil(chunk_len);
        Ok((0..n).map(move |k| (k * chunk_len, chunk_len.min(len - k * chunk_len))))
    }

    fn fields(&self) -> Option<Split> {
        match self.transform {
            Transform::Split(fields) | Transform::Cascade { fields, .. } => Some(fields),
            _ => None,
        }
    }

    /// Bytes from one plane to the next in a slot.
    fn stride(&self) -> u64 {
        self.chunk_words as u64
    }

    /// Planes of one byte a word.
    fn n_planes(&self) -> usize {
        match self.fields() {
            Some(fields) => {
                1 + usize::from(fields.stored_rest_bits().div_ceil(8)) + fields.n_tails()
            }
            None => self.word_len,
        }
    }

    fn split_params(&self, fields: &Split, n_words: u64) -> SplitParams {
        split_params(fields, n_words, self.stride())
    }

    fn group_params(&self, n_words: u64) -> GroupParams {
        GroupParams {
            n_words: n_words as u32,
            word_len: self.word_len as u32,
            stride: (self.stride() / 4) as u32,
        }
    }
}

/// Parameters for planes of `n_words` words, `stride` bytes apart.
pub(super) fn split_params(fields: &Split, n_words: u64, stride: u64) -> SplitParams {
    SplitParams {
        n_words: n_words as u32,
        word_bits: fields.word_bits.into(),
        rest_bits: fields.rest_bits.into(),
        base: fields.base.into(),
        sign: fields.sign.map_or(0, |sign| 1 + u32::from(sign)),
        stride: (stride / 4) as u32,
    }
}

/// What is left of a chunk once it was transformed.
#[derive(Clone, Debug)]
pub enum Planes<'a> {
    /// The words, or their deltas, as they are: by [`Transform::None`], and in place of a split
    /// where symbols would have escaped from the window or digits would have saved nothing.
    Words(&'a [u8]),
    /// A plane for each byte of a word, the least significant first.
    Bytes(Vec<&'a [u8]>),
    /// The planes of `transform::bitplane`.
    Bits(&'a [u8]),
    /// The planes of `transform::split`.
    Split {
        /// The symbols.
        symbols: Symbols<'a>,
        /// The low 8 bits of the rest or what there are, packed.
        rest_lo: &'a [u8],
        /// The bits of the rest above the lowest 8, packed.
        rest_hi: &'a [u8],
        /// The bytes below the head, the least significant first.
        tails: Vec<&'a [u8]>,
    },
}

/// The symbols of a chunk.
#[derive(Clone, Debug)]
pub enum Symbols<'a> {
    /// A byte each.
    Plain(&'a [u8]),
    /// What `entropy::cascade::encode` writes, in parts.
    Cascade(Vec<Cow<'a, [u8]>>),
}

/// Parts of the rest that are packed: their plane and their bits a value.
fn rests(fields: &Split) -> impl Iterator<Item = (usize, u8)> {
    let stored = fields.stored_rest_bits();
    [(1, stored.min(8)), (2, stored.saturating_sub(8))].into_iter().filter(|(_, bits)| *bits > 0)
}
