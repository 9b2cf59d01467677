//! Planes into cascades.
use super::{PAD, Plan, digits_len, header_len, portable, scratch_len};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::{
    hash::Stream,
    simd::{Level, dispatch},
};

/// Writes the cascade of `symbols` and returns its length; none as soon as it would not fit into
/// `out`.
///
/// # Panics
/// If `scratch` is shorter than [`scratch_len`].
pub fn encode(
    level: Level,
    plan: &Plan,
    symbols: &[u8],
    scratch: &mut [u8],
    out: &mut [u8],
) -> Option<usize> {
    encode_levels(level, plan, symbols.len(), scratch, out, |common, digits, escapes| {
        encode_level(level, common, symbols, digits, escapes)
    })
}

/// [`encode`] of the exponents of bf16 words (little endian), whose sign and mantissa (rotated
/// left by one, as in `transform::split`) go to `rest`, one byte a word. Adds as many of the bytes to
/// `hash` as suits the level, which may be none, but never all.
///
/// # Panics
/// If `scratch` is shorter than [`scratch_len`] of the words or lengths differ.
pub fn encode_bf16(
    level: Level,
    plan: &Plan,
    bytes: &[u8],
    rest: &mut [u8],
    scratch: &mut [u8],
    out: &mut [u8],
    hash: Option<&mut Stream>,
) -> Option<usize> {
    let n = rest.len();
    assert!(bytes.len() == 2 * n);
    encode_levels(level, plan, n, scratch, out, |common, digits, escapes| {
        dispatch!(level,
            Avx512 => avx512::encode_bf16(common, bytes, rest, digits, escapes, hash),
            Avx2 => avx2::encode_bf16(common, bytes, rest, digits, escapes, hash),
            _ => portable::encode_bf16(common, bytes, rest, digits, escapes, hash),
        )
    })
}

/// Level 0 as `first` codes it, then the others from its escapes.
fn encode_levels(
    level: Level,
    plan: &Plan,
    n: usize,
    scratch: &mut [u8],
    out: &mut [u8],
    first: impl FnOnce([u8; 3], &mut [u8], &mut [u8]) -> usize,
) -> Option<usize> {
    assert!(scratch.len() >= scratch_len(n));
    let levels = plan.levels;
    let (header, mut out) = out.split_at_mut_checked(header_len(levels))?;
    let mut total = header.len();
    header[0] = levels as u8;
    let (symbols, counts) = header[1..].split_at_mut(3 * levels);
    symbols.copy_from_slice(plan.symbols[..levels].as_flattened());

    let (mut from, to) = scratch.split_at_mut(n + PAD);
    let mut to = &mut to[..n + PAD];
    let mut take = |len: usize| {
        let (taken, rest) = std::mem::take(&mut out).split_at_mut_checked(len)?;
        out = rest;
        total += len;
        Some((taken, total))
    };
    let mut left = first(plan.symbols[0], take(digits_len(n))?.0, from);
    counts[..4].copy_from_slice(&(left as u32).to_le_bytes());
    for k in 1..levels {
        let (digits, _) = take(digits_len(left))?;
        left = encode_level(level, plan.symbols[k], &from[..left], digits, to);
        counts[4 * k..][..4].copy_from_slice(&(left as u32).to_le_bytes());
        std::mem::swap(&mut from, &mut to);
    }
    let (raw, total) = take(left)?;
    raw.copy_from_slice(&from[..left]);
    Some(total)
}

fn encode_level(
    level: Level,
    common: [u8; 3],
    symbols: &[u8],
    digits: &mut [u8],
    escapes: &mut [u8],
) -> usize {
    dispatch!(level,
        Avx512 => avx512::encode(common, symbols, digits, escapes),
        Avx2 => avx2::encode(common, symbols, digits, escapes),
        _ => portable::encode(common, symbols, digits, escapes),
    )
}
