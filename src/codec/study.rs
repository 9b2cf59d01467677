//! The methods of the two studies that this codec descends from, as codecs of a chunk, so that
//! what was claimed for them can be measured on any data.
//!
//! | method | what becomes of a chunk |
//! |---|---|
//! | `lmc` | byte groups, runs shortened, Huffman with a codebook every 64 KiB |
//! | `lmc-plain` | the same without grouping |
//! | `plmc` | `lmc` on buffers of 128 MiB, the unit that threads work on |
//! | `sem` | sign and exponent by their order-0 entropy, the mantissa raw |
//! | `xz` | LZMA over all of it |
//! | `byteplane-xz` | byte groups, each by LZMA |
//! | `bitplane-xz` | sign, exponent, and every bit of the mantissa as a plane, each by LZMA |
//! | `class-group-xz` | the same, mantissas sorted by sign and exponent |
//! | `exponent-group-xz` | the same, signs and mantissas sorted by exponent |
//!
//! A payload holds no lengths that its caller knows: element type and decoded length come from
//! outside. Bytes at the end that fill no word are kept raw at the front of the payload. Streams
//! that a payload holds several of are each preceded by their length (u32).

#[cfg(feature = "study")]
mod codec;
#[cfg(not(feature = "study"))]
mod codec {
    //! What a build without the studies does in their place.

    use super::Method;
    use crate::{
        dtype::Dtype,
        error::{Error, Result},
    };

    fn lacking(method: Method) -> Error {
        Error::Unsupported(format!(
            "method {} belongs to the studies, which this build of lmc-gpu lacks: build it with the \
             feature study",
            method.name()
        ))
    }

    /// Refuses.
    pub fn encode(method: Method, _: Dtype, _: &[u8], _: &mut Vec<u8>) -> Result<()> {
        Err(lacking(method))
    }

    /// Refuses.
    pub fn decode(method: Method, _: Dtype, _: &[u8], _: &mut [u8]) -> Result<()> {
        Err(lacking(method))
    }
}
#[cfg(feature = "study")]
mod delta;
#[cfg(feature = "study")]
mod lmc;
mod method;
#[cfg(feature = "study")]
mod numbers;
#[cfg(feature = "study")]
mod order0;
#[cfg(feature = "study")]
mod planes;
#[cfg(feature = "study")]
mod runs;
#[cfg(feature = "study")]
mod sem;
#[cfg(all(test, feature = "study"))]
mod tests;
#[cfg(feature = "study")]
mod xz;

pub use codec::*;
#[cfg(feature = "study")]
pub use delta::Delta;
pub use method::Method;
