//! Opaque bytes: general coders.

use super::{Method, form};
use crate::{Error, Result};
use std::io::{Read, Write};

/// Appends the bytes, coded by zstd or xz, and returns the form. `STORED` means that coding does
/// not pay; what was appended is then of no use.
pub fn encode(method: Method, bytes: &[u8], out: &mut Vec<u8>) -> Result<u8> {
    let level = match method {
        Method::Xz => {
            let mut xz = xz2::write::XzEncoder::new(out, XZ_PRESET);
            xz.write_all(bytes)?;
            xz.finish()?;
            return Ok(form::XZ);
        }
        Method::Fast | Method::Cascade => 1,
        Method::Max => 19,
        _ if bytes.len() <= 64 << 10 => 15,
        _ => 6,
    };
    if level > 1 && bytes.len() > SAMPLE.len() * 4 && !shrinks(bytes)? {
        return Ok(form::STORED);
    }
    out.extend_from_slice(&zstd::bulk::compress(bytes, level)?);
    Ok(form::ZSTD)
}

const XZ_PRESET: u32 = 6;
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

/// Inverse of [`encode`], for a known decoded length.
pub fn decode(form: u8, payload: &[u8], out: &mut [u8]) -> Result<()> {
    let damaged = || Error::Corrupt("the coded data is damaged".into());
    if form == form::ZSTD {
        let n = zstd::bulk::decompress_to_buffer(payload, out).map_err(|_| damaged())?;
        return if n == out.len() { Ok(()) } else { Err(damaged()) };
    }
    let stream = xz2::stream::Stream::new_stream_decoder(XZ_MEMORY, 0).map_err(|_| damaged())?;
    let mut xz = xz2::read::XzDecoder::new_stream(payload, stream);
    xz.read_exact(out).map_err(|_| damaged())?;
    match xz.read(&mut [0]) {
        Ok(0) => Ok(()),
        _ => Err(damaged()),
    }
}

/// Memory that an xz stream may ask for: preset 6 needs 9 MiB.
const XZ_MEMORY: u64 = 64 << 20;
