//! What is to be coded at once.

use crate::{
    codec::{Offer, Predictor},
    container::{Origin, Piece, Reference},
    dtype::Dtype,
    format::Span,
};

/// One chunk to be coded.
#[derive(Clone, Debug)]
pub struct ChunkPlan {
    /// Its bytes, in ascending order.
    pub pieces: Vec<Piece>,
    /// Type of its words.
    pub dtype: Dtype,
    /// Whether words are stored most significant byte first.
    pub big_endian: bool,
    /// Words in a row, 0 where unknown.
    pub row_words: u64,
    /// First byte of an earlier chunk with the same bytes.
    pub copy_of: Option<u64>,
    /// What may be known when it is decoded; digests are filled in when it is coded.
    pub known: Vec<Reference>,
    /// How it may be predicted from what is known.
    pub offers: Vec<Offer>,
    /// Whether it is decoded after, and beside, the chunk before it.
    pub continues_group: bool,
}

impl ChunkPlan {
    /// A chunk about which nothing is known.
    pub fn new(pieces: Vec<Piece>, span: &Span) -> Self {
        ChunkPlan {
            pieces,
            dtype: span.dtype,
            // Of one byte there is one order.
            big_endian: span.big_endian && span.dtype.word_len() > 1,
            row_words: span.row_words,
            copy_of: None,
            known: Vec::new(),
            offers: Vec::new(),
            continues_group: false,
        }
    }

    /// Adds what may be known; its index for offers.
    pub fn know(&mut self, origin: Origin, pieces: Vec<Piece>) -> u8 {
        self.known.push(Reference { origin, pieces });
        (self.known.len() - 1) as u8
    }

    /// Adds a way to predict it.
    pub fn offer(&mut self, predictor: Predictor, inputs: &[u8]) {
        self.offers.push(Offer { predictor, inputs: inputs.to_vec() });
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(|p| p.len).sum()
    }
}
