//! Opaque bytes: a general coder.

use super::{Form, Method};
use crate::{Error, Result, hash::hash64_at, simd::Level};

/// Appends the bytes, coded by zstd, and returns the form. `STORED` means that coding does
/// not pay; what was appended is then of no use.
pub fn encode(level: Level, method: Method, bytes: &[u8], out: &mut Vec<u8>) -> Result<Form> {
    let effort = match method {
        Method::Fast | Method::Cascade => 1,
        Method::Max => 19,
        _ if bytes.len() <= 64 << 10 => 15,
        _ => 3,
    };
    if effort > 1 && bytes.len() > SAMPLE.len() * 4 && !shrinks(bytes)? {
        return Ok(Form::Stored);
    }
    let coded = zstd::bulk::compress(bytes, effort)?;
    out.extend_from_slice(&check(level, &coded));
    out.extend_from_slice(&coded);
    Ok(Form::Zstd)
}

/// Stretches of a large chunk that tell whether it is worth a try.
const SAMPLE: std::ops::Range<usize> = 0..16 << 10;

/// Whether one of three stretches of the bytes shrinks by zstd -1.
fn shrinks(bytes: &[u8]) -> Result<bool> {
    let n = SAMPLE.len();
    for start in [0, (bytes.len() - n) / 2, bytes.len() - n] {
        let coded = zstd::bulk::compress(&bytes[start..start + n], 1)?;
        if coded.len() + n / 128 < n {
            return Ok(true);
        }
    }
    Ok(false)
}

/// What guards bytes of general coders: their headers have bits that change nothing when they
/// flip.
pub fn check(level: Level, coded: &[u8]) -> [u8; 4] {
    (hash64_at(level, coded) as u32).to_le_bytes()
}

/// The bytes behind a guard, if it is theirs.
pub fn checked(level: Level, payload: &[u8]) -> Option<&[u8]> {
    let (guard, coded) = payload.split_first_chunk()?;
    (*guard == check(level, coded)).then_some(coded)
}

/// Bytes of a chunk that are tried at first to see whether zstd finds what planes do not.
const TRIED: usize = 8 << 10;

/// The bytes coded by zstd, where that takes less than the `coded` bytes that planes take.
pub fn rival(level: Level, method: Method, bytes: &[u8], coded: usize) -> Result<Option<Vec<u8>>> {
    if method != Method::Max && bytes.len() > TRIED {
        let at = (bytes.len() - TRIED) / 2;
        let tried = zstd::bulk::compress(&bytes[at..at + TRIED], 1)?.len() as u64;
        if tried * bytes.len() as u64 / TRIED as u64 >= coded as u64 {
            return Ok(None);
        }
    }
    let mut out = Vec::new();
    let found = encode(level, method, bytes, &mut out)? == Form::Zstd && out.len() < coded;
    Ok(found.then_some(out))
}

/// Inverse of [`encode`], for a known decoded length.
pub fn decode(level: Level, payload: &[u8], out: &mut [u8]) -> Result<()> {
    let damaged = || Error::Corrupt("the coded data is damaged".into());
    let coded = checked(level, payload).ok_or_else(damaged)?;
    match zstd::bulk::decompress_to_buffer(coded, out) {
        Ok(n) if n == out.len() => Ok(()),
        _ => Err(damaged()),
    }
}
