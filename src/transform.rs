//! Reversible mappings between the words of a chunk and its planes.
pub mod bitplane;
pub mod changes;
pub mod delta;
pub mod group;
pub mod split;
