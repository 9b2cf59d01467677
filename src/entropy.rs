//! Entropy coders: plane ↔ bytes.
pub mod cascade;
pub mod frequency;
pub mod histogram;
pub mod huffman;
pub mod rans;
pub mod runs;
