//! Entropy coders: plane ↔ bytes.
pub mod cascade;
pub mod frequency;
pub mod histogram;
pub mod rans;
