//! rans
