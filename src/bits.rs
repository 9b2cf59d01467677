//! Values of fewer bits than a byte.
pub mod pack;
