//! Opaque bytes: a general coder.

use super::{Form, Method, frame};
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

/// Bytes of the strings whose return tells of repetition: so many that strings of an alphabet which is
/// nearly used up hardly return by chance, and a general coder gains little from shorter ones.
const STRING: usize = 5;
/// Bytes from one string that is remembered to the next.
const STEP: usize = 8;
/// Bytes of a stretch of which every string is looked up, one stretch in as many.
const STRETCH: usize = 64;
const ONE_IN: usize = 16;
/// Steps of which one holds a string that returns, where a general coder could gain a hundredth by it.
const RETURNS: usize = 160;

/// Whether strings of the bytes return in them, at any distance, often enough for a general coder to
/// gain by it. Of what stands twice every eighth string is remembered, so that of its other place one
/// string in eight is found; one stretch in sixteen is looked at. Fewer bytes than that say nothing,
/// and are worth a try.
pub fn repeats(bytes: &[u8]) -> bool {
    let string = |at: usize| {
        let eight = bytes.get(at..)?.first_chunk::<8>()?;
        Some(u64::from_le_bytes(*eight) & ((1 << (8 * STRING)) - 1))
    };
    let log2 = (bytes.len() / STEP).next_power_of_two().ilog2().clamp(6, 20) + 1;
    let slot = |string: u64| (string.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - log2)) as usize;
    let mut places = vec![0u32; 1 << log2];
    for at in (0..bytes.len()).step_by(STEP) {
        if let Some(string) = string(at) {
            places[slot(string)] = at as u32;
        }
    }
    let returns = |at: usize| {
        string(at).is_some_and(|here| {
            let place = places[slot(here)] as usize;
            place != at && string(place) == Some(here)
        })
    };
    let stretches = bytes.len() / (STRETCH * ONE_IN);
    let mut found = 0;
    for k in 0..stretches {
        // Not the same column of every row.
        let start = (k * ONE_IN + 5 * k % ONE_IN) * STRETCH;
        for step in (start..start + STRETCH).step_by(STEP) {
            found += usize::from((step..step + STEP).any(returns));
        }
    }
    found * RETURNS >= stretches * (STRETCH / STEP)
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
    if !frame::is_plain(coded, out.len() as u64) {
        return Err(damaged());
    }
    match zstd::bulk::decompress_to_buffer(coded, out) {
        Ok(n) if n == out.len() => Ok(()),
        _ => Err(damaged()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame behind its guard.
    fn payload(frame: &[u8]) -> Vec<u8> {
        [&check(Level::SCALAR, frame)[..], frame].concat()
    }

    #[test]
    fn a_payload_is_one_frame_that_states_its_length_and_asks_for_nothing_else() {
        let bytes: Vec<u8> = (0..3000u32).map(|i| (i % 7 * (i % 5)) as u8).collect();
        let read = |frame: &[u8]| {
            let mut out = vec![0; bytes.len()];
            decode(Level::SCALAR, &payload(frame), &mut out).map(|()| out)
        };
        let frame_of = |part: &[u8]| zstd::bulk::compress(part, 9).unwrap();
        let good = frame_of(&bytes);
        assert_eq!(read(&good).unwrap(), bytes);
        let with = |parameter| {
            let mut coder = zstd::bulk::Compressor::new(9).unwrap();
            coder.set_parameter(parameter).unwrap();
            coder.compress(&bytes).unwrap()
        };
        let skippable = [0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9];
        let mut of_a_dictionary = good.clone();
        of_a_dictionary[4] |= 1;
        of_a_dictionary.insert(5, 7);
        let mut wide = good.clone();
        assert_eq!(wide[4] & 0xe0, 0x60, "a single segment of a length in two bytes");
        wide[4] &= !0x20;
        wide.insert(5, (frame::MOST_WINDOW_LOG - 10 + 1) << 3);
        let bad = [
            ("two frames", [frame_of(&bytes[..1000]), frame_of(&bytes[1000..])].concat()),
            ("a frame of nothing behind", [&good[..], &frame_of(&[])].concat()),
            ("a skippable frame behind", [&good[..], &skippable].concat()),
            ("a skippable frame before", [&skippable, &good[..]].concat()),
            ("a checksum", with(zstd::zstd_safe::CParameter::ChecksumFlag(true))),
            ("no length", with(zstd::zstd_safe::CParameter::ContentSizeFlag(false))),
            ("a dictionary", of_a_dictionary),
            ("a large window", wide),
            ("a byte too many", [&good[..], &[0]].concat()),
            ("a byte too few", good[..good.len() - 1].to_vec()),
        ];
        for (why, frame) in bad {
            assert!(matches!(read(&frame), Err(Error::Corrupt(_))), "{why}");
        }
    }

    /// Bytes of which none says anything about the others.
    fn noise(n: usize, seed: u64) -> Vec<u8> {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (x >> 56) as u8
        };
        (0..n).map(|_| next() & 0x7f).collect()
    }

    #[test]
    fn repetition_is_seen_at_any_distance() {
        let n = 1 << 20;
        assert!(!repeats(&noise(n, 1)));
        assert!(repeats(&[]) && repeats(&[1; 7]), "too few to say");
        for (from, to, len) in [
            (0, 1 << 19, 1 << 15),
            (3, n - (1 << 15), 1 << 15),
            (1001, 1001 + 977, 900),
            (64, n / 2 + 7, n / 2 - 7),
        ] {
            let mut bytes = noise(n, 2);
            bytes.copy_within(from..from + len, to);
            assert_eq!(repeats(&bytes), len > 1000, "{from} {to} {len}");
        }
        let rows: Vec<u8> = noise(1 << 10, 3).repeat(256);
        assert!(repeats(&rows) && repeats(&vec![0; 4096]));
    }

    #[test]
    fn every_effort_makes_frames_that_are_taken() {
        let bytes: Vec<u8> = (0..9 << 20).map(|i: u32| (i >> 9) as u8 ^ (i % 3) as u8).collect();
        for method in [Method::Fast, Method::Auto, Method::Max] {
            let mut out = Vec::new();
            assert_eq!(encode(Level::best(), method, &bytes, &mut out).unwrap(), Form::Zstd);
            let mut again = vec![0; bytes.len()];
            decode(Level::best(), &out, &mut again).unwrap();
            assert!(again == bytes);
        }
    }
}
