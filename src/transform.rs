//! Reversible mappings between the words of a chunk and its planes.
pub mod align;
pub mod bitplane;
pub mod change;
pub mod delta;
pub mod group;
pub mod split;
