//! The `GROUP` form: integers as one plane a byte, least significant first; or zstd where that
//! is smaller.

use super::{
    Form, Method, bytes,
    plane::{self, Coder, Planes, Policy},
};
use crate::{
    Result,
    entropy::{frequency, histogram},
    simd::Level,
    transform::group,
};

/// Bytes of a chunk that are tried with zstd to see whether it finds what planes do not.
const TRIED: usize = 128 << 10;

/// Chunks up to this many bytes are tried whatever they look like.
const SMALL: usize = 64 << 10;

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
    if matches!(method, Method::Auto | Method::Max) && may_gain(level, method, words, grouped) {
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

/// Whether zstd, which is slow to say so itself, might code a chunk in a hundredth less than the
/// `grouped` bytes of its planes: where strings of it return, or where the frequencies of bytes, which
/// zstd takes anew for every stretch, promise that.
fn may_gain(level: Level, method: Method, words: &[u8], grouped: usize) -> bool {
    let of_256ths = words.chunks(TRIED).map(|stretch| {
        let mut counts = [0; 256];
        histogram::sample(level, stretch, &mut counts);
        let counted: u64 = counts.iter().map(|&c| u64::from(c)).sum();
        let present = counts.iter().filter(|&&c| c > 0).count() as u64;
        // Miller and Madow: a sample hides (present − 1) / (2 ln 2) bits.
        let hidden = present.saturating_sub(1) * 185;
        (frequency::entropy(&counts) + hidden) * stretch.len() as u64 / counted.max(1)
    });
    let expected = of_256ths.sum::<u64>() / (8 * 256);
    words.len() <= SMALL
        || expected + expected / 100 < grouped as u64
        || bytes::repeats(match method {
            Method::Max => words,
            _ => &words[..words.len().min(TRIED)],
        })
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What no plane sees is left to zstd, however far apart it stands.
    #[test]
    fn repetition_is_left_to_zstd() {
        let n = 1 << 20;
        let mut x = 1u64;
        let mut words: Vec<u8> = (0..n)
            .map(|_| {
                x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                (x >> 57) as u8
            })
            .collect();
        let form = |method, words: &[u8]| {
            let mut out = Vec::new();
            let planes = &mut Planes::default();
            let form = encode(Level::best(), method, 1, words, planes, &mut out).unwrap();
            (form, out.len())
        };
        let (plain, len) = form(Method::Max, &words);
        assert_eq!(plain, Form::Group);
        // Rows of 8 KiB, of which every other one of the first eighth stands twice, and then the same
        // bytes at the other end.
        for at in (0..128 << 10).step_by(16 << 10) {
            words.copy_within(at..at + (8 << 10), at + (8 << 10));
        }
        words.copy_within(0..256 << 10, n - (256 << 10));
        for method in [Method::Auto, Method::Max] {
            let (repeated, shorter) = form(method, &words);
            assert_eq!(repeated, Form::Zstd, "{method}");
            assert!(shorter < len * 3 / 4, "{method}: {shorter}");
        }
    }
}
