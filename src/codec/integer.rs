//! The `GROUP` form: integers as one plane a byte, least significant first; or zstd where that
//! is smaller.

use super::{
    Form, Method, bytes,
    plane::{self, Coder, Planes, Policy},
};
use crate::{Result, simd::Level, transform::group};

/// Bytes of a chunk that are tried with zstd to see whether it finds what planes do not.
const TRIED: usize = 128 << 10;

/// Appends the payload of a chunk of integers. Returns its form.
pub fn encode(
    level: Level,
    method: Method,
    word: usize,
    words: &[u8],
    planes: &mut Planes,
    out: &mut Vec<u8>,
) -> Result<Form> {
    let start = out.len();
    let n = words.len() / word;
    let policy = match method {
        Method::Fast => Policy::Sampled,
        Method::Cascade => Policy::Coder(Coder::Cascade),
        Method::Max => Policy::Smallest,
        _ => Policy::Sampled,
    };
    for plane in &mut planes.tails[..word] {
        plane.resize(plane.len().max(n), 0);
    }
    {
        let mut split = planes.tails.each_mut().map(|t| {
            let len = t.len().min(n);
            &mut t[..len]
        });
        match word {
            1 => split[0].copy_from_slice(words),
            _ => {
                let split = &mut split[..word];
                if !planes.device.as_mut().is_some_and(|d| d.group(words, split)) {
                    group::split(level, words, split);
                }
            }
        }
    }
    for plane in &planes.tails[..word] {
        plane::encode(level, policy, &plane[..n], 8, &mut planes.coder, out);
    }
    let grouped = out.len() - start;
    if matches!(method, Method::Auto | Method::Max) {
        let head = &words[..words.len().min(TRIED)];
        let mut tried = Vec::new();
        if bytes::encode(level, method, head, &mut tried)? == Form::Zstd {
            // Scaled to the whole chunk, zstd must win by a hundredth.
            let expected = tried.len() as u64 * words.len() as u64 / head.len() as u64;
            if expected + expected / 100 < grouped as u64 {
                if head.len() < words.len() {
                    tried.clear();
                    bytes::encode(level, method, words, &mut tried)?;
                }
                if tried.len() < grouped {
                    out.truncate(start);
                    out.extend_from_slice(&tried);
                    return Ok(Form::Zstd);
                }
            }
        }
    }
    Ok(Form::Group)
}

/// Inverse of [`encode`] for the `GROUP` form.
pub fn decode(
    level: Level,
    word: usize,
    mut payload: &[u8],
    planes: &mut Planes,
    out: &mut [u8],
) -> Option<()> {
    let n = out.len() / word;
    for plane in &mut planes.tails[..word] {
        let coded = plane::take(&mut payload)?;
        plane.resize(plane.len().max(n), 0);
        coded.decode(level, 8, &mut planes.coder, &mut plane[..n])?;
    }
    if !payload.is_empty() {
        return None;
    }
    let joined = planes.tails.each_ref().map(|t| &t[..t.len().min(n)]);
    match word {
        1 => out.copy_from_slice(joined[0]),
        _ => group::join(level, &joined[..word], out),
    }
    Some(())
}
