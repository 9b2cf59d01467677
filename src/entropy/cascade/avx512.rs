//! Variant for this level.
use super::scalar;

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn encode(
    common: [u8; 3],
    symbols: &[u8],
    digits: &mut [u8],
    escapes: &mut [u8],
) -> usize {
    scalar::encode(common, symbols, digits, escapes)
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn encode_bf16(
    common: [u8; 3],
    bytes: &[u8],
    rest: &mut [u8],
    digits: &mut [u8],
    escapes: &mut [u8],
) -> usize {
    scalar::encode_bf16(common, bytes, rest, digits, escapes)
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn decode(
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    symbols: &mut [u8],
) -> Option<usize> {
    scalar::decode(common, digits, escapes, symbols)
}

#[target_feature(
    enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,avx2,bmi1,bmi2,lzcnt,popcnt"
)]
pub(super) fn decode_bf16(
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    rest: &[u8],
    bytes: &mut [u8],
    _non_temporal: bool,
) -> Option<usize> {
    scalar::decode_bf16(common, digits, escapes, rest, bytes)
}
