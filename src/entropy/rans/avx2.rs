//! Placeholder levels.
use super::{Input, Source, scalar};

/// See [`super::scalar::encode`].
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub fn encode<const CTX: bool>(
    input: Input,
    states: &mut [u32; 64],
    out: &mut [u8],
    end: usize,
) -> Option<usize> {
    scalar::encode::<64, CTX>(input, states, out, end)
}

/// See [`super::scalar::decode`].
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub fn decode<const CTX: bool>(
    source: Source,
    states: &mut [u32; 64],
    words: &mut &[u8],
    out: &mut [u8],
) -> bool {
    scalar::decode::<64, CTX>(source, states, words, out)
}
