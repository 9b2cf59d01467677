//! Predictions: words computed from what is known before a chunk is decoded.
//!
//! A prediction never has to be right, only the same wherever it is computed. So it is integer
//! arithmetic, or IEEE additions, multiplications, divisions and square roots in a fixed order
//! under the default rounding and denormal modes ([`float_state`]), and where it would be a NaN,
//! whose payload processors choose differently, a known word stands in.

pub mod adam;
pub mod average;
pub mod cast;
pub mod float_state;
pub mod gradient;
pub mod quantise;
mod trial;
