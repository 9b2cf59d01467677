//! The door to the methods of the studies, which stand in a wing of their own that only some
//! builds have: nothing else in the core names it. A build without it says by name what it lacks.

mod method;

pub use method::Method;

#[cfg(feature = "study")]
use crate::{Result, dtype::Dtype, simd::Level};

/// Appends the coded `bytes` to `out`.
///
/// # Errors
/// `InvalidArgument` for chunks of 4 GiB and more, `Io` for lack of memory, and `Unsupported` where
/// this build lacks the methods of the studies.
#[cfg(feature = "study")]
pub fn encode(
    level: Level,
    method: Method,
    dtype: Dtype,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    crate::study::codec::encode(level, method, dtype, bytes, out)
}

/// Fills `out` with the bytes that `payload` codes.
///
/// # Errors
/// `Corrupt` or `Truncated` where the payload is damaged, and `Unsupported` where this build lacks
/// the methods of the studies.
#[cfg(feature = "study")]
pub fn decode(
    level: Level,
    method: Method,
    dtype: Dtype,
    payload: &[u8],
    out: &mut [u8],
) -> Result<()> {
    crate::study::codec::decode(level, method, dtype, payload, out)
}

#[cfg(not(feature = "study"))]
pub use lacking::{decode, encode};

#[cfg(not(feature = "study"))]
mod lacking {
    //! What a build without the studies does in their place.

    use super::Method;
    use crate::{Error, Result, dtype::Dtype, simd::Level};

    fn lacking(method: Method) -> Error {
        Error::Unsupported(format!(
            "method {} belongs to the studies, which this build of lmc-gpu lacks: build it with the \
             feature study",
            method.name()
        ).into())
    }

    /// Refuses.
    pub fn encode(_: Level, method: Method, _: Dtype, _: &[u8], _: &mut Vec<u8>) -> Result<()> {
        Err(lacking(method))
    }

    /// Refuses.
    pub fn decode(_: Level, method: Method, _: Dtype, _: &[u8], _: &mut [u8]) -> Result<()> {
        Err(lacking(method))
    }
}
