//! bitplane
