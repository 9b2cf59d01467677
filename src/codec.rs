//! Chunk ↔ payload: which planes a chunk is split into and how each is coded.

pub mod study;
