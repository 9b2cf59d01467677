//! frequency
