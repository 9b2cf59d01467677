//! Planes of 16-bit floats: the scale d of each group, and its minimum.
//!
//! Taken as integers, floats of one sign are the pseudo-logarithms of their magnitudes, so a
//! difference of two stands for a ratio. What is coded is the difference from a prediction:
//!
//! ```text
//! kind 0   nothing                       t = v
//! kind 1   the running mean of those     t = v − p / 16        p = 16 · start at first, and
//!          before                                              p += floor((16 v − p) / 4) after
//! kind 2   d of the same group           t = v − d
//!
//! t − base   hhhh mmmmmmm lllll          modulo 2^16: three planes of 4, 7 and 5 bits
//! ```
//!
//! The base is chosen so that high bits are zero for most.

use super::{
    super::plane::{self, CoderScratch, Policy},
    Policies,
};
use crate::simd::{Level, for_every_level};

const HIGH_BITS: u8 = 4;
const MID_BITS: u8 = 7;
const LOW_BITS: u8 = 5;

const PLAIN: u8 = 0;
const RUNNING: u8 = 1;
const RELATIVE: u8 = 2;

/// Bytes in front of the planes: kind, base, start.
const HEAD: usize = 5;

/// Buffers for one plane.
#[derive(Default)]
pub struct Scratch {
    residuals: Vec<u16>,
    tried: Vec<u16>,
    planes: [Vec<u8>; 3],
}

/// Appends `values`, which are related to `other` where there is one. There is at least one value.
pub fn encode(
    level: Level,
    policies: &Policies,
    values: &[u16],
    other: Option<&[u16]>,
    scratch: &mut Scratch,
    coder: &mut CoderScratch,
    out: &mut Vec<u8>,
) {
    let start = values.first().copied().unwrap_or(0);
    let mut kind = PLAIN;
    scratch.residuals.clear();
    scratch.residuals.extend_from_slice(values);
    let mut least = width(level, &scratch.residuals[..]);
    for candidate in [RUNNING, RELATIVE] {
        scratch.tried.clear();
        match (candidate, other) {
            (RUNNING, _) => running(values, start, &mut scratch.tried),
            (_, Some(other)) => {
                scratch.tried.extend(values.iter().zip(other).map(|(v, d)| v.wrapping_sub(*d)));
            }
            _ => continue,
        }
        let found = width(level, &scratch.tried[..]);
        if found < least {
            (kind, least) = (candidate, found);
            std::mem::swap(&mut scratch.residuals, &mut scratch.tried);
        }
    }
    let base = window(&scratch.residuals);
    out.push(kind);
    out.extend_from_slice(&base.to_le_bytes());
    out.extend_from_slice(&if kind == RUNNING { start } else { 0 }.to_le_bytes());
    let [high, mid, low] = &mut scratch.planes;
    for (plane, shift, bits) in
        [(high, MID_BITS + LOW_BITS, HIGH_BITS), (mid, LOW_BITS, MID_BITS), (low, 0, LOW_BITS)]
    {
        plane.resize(scratch.residuals.len(), 0);
        cut(level, &scratch.residuals[..], base, shift, bits, &mut plane[..]);
        let policy = match (policies.scales, shift) {
            (Policy::Smallest, 0) => Policy::Sampled,
            (policy, _) => policy,
        };
        plane::encode(level, policy, plane, bits, coder, out);
    }
}

/// Takes a plane written by [`encode`] off the front of the payload; `values` has its length.
pub fn decode(
    level: Level,
    payload: &mut &[u8],
    other: Option<&[u16]>,
    scratch: &mut Scratch,
    coder: &mut CoderScratch,
    values: &mut [u16],
) -> Option<()> {
    let (&[kind, base_low, base_high, start_low, start_high], rest) =
        payload.split_first_chunk::<HEAD>()?;
    *payload = rest;
    let base = u16::from_le_bytes([base_low, base_high]);
    let start = u16::from_le_bytes([start_low, start_high]);
    if kind != RUNNING && start != 0 {
        return None;
    }
    for (plane, bits) in scratch.planes.iter_mut().zip([HIGH_BITS, MID_BITS, LOW_BITS]) {
        plane.resize(values.len(), 0);
        plane::take(payload)?.decode(level, bits, coder, plane)?;
    }
    let [high, mid, low] = &scratch.planes;
    for (((v, h), m), l) in values.iter_mut().zip(high).zip(mid).zip(low) {
        let t = u16::from(*h) << (MID_BITS + LOW_BITS) | u16::from(*m) << LOW_BITS | u16::from(*l);
        *v = t.wrapping_add(base);
    }
    match (kind, other) {
        (PLAIN, _) => {}
        (RUNNING, _) => {
            let mut mean = Mean::new(start);
            for v in values {
                *v = v.wrapping_add(mean.prediction());
                mean.update(*v);
            }
        }
        (RELATIVE, Some(other)) => {
            for (v, d) in values.iter_mut().zip(other) {
                *v = v.wrapping_add(*d);
            }
        }
        _ => return None,
    }
    Some(())
}

fn running(values: &[u16], start: u16, out: &mut Vec<u16>) {
    let mut mean = Mean::new(start);
    out.extend(values.iter().map(|&v| {
        let t = v.wrapping_sub(mean.prediction());
        mean.update(v);
        t
    }));
}

/// Mean of the values so far, the newer the heavier.
struct Mean(i32);

impl Mean {
    fn new(start: u16) -> Self {
        Mean(i32::from(start) << 4)
    }

    fn prediction(&self) -> u16 {
        (self.0 >> 4) as u16
    }

    fn update(&mut self, v: u16) {
        self.0 += ((i32::from(v) << 4) - self.0) >> 2;
    }
}

for_every_level! {
/// Bits of the distances from the base.
fn cut(residuals: &[u16], base: u16, shift: u8, bits: u8, plane: &mut [u8]) {
    let mask = (1u16 << bits) - 1;
    for (value, t) in plane.iter_mut().zip(residuals) {
        *value = (t.wrapping_sub(base) >> shift & mask) as u8;
    }
}
}

for_every_level! {
/// Sum of the distances from the mean.
fn width(residuals: &[u16]) -> u64 {
    // Sums of up to 2^15 numbers fit 32 bits, which vectors have more lanes of.
    let parts = || residuals.chunks(1 << 15);
    let sum = |part: &[u16]| part.iter().map(|&t| i32::from(t as i16)).sum::<i32>();
    let total: i64 = parts().map(|part| i64::from(sum(part))).sum();
    let mean = (total / residuals.len().max(1) as i64) as i32;
    let distance = |t: &u16| i32::from(*t as i16).abs_diff(mean);
    parts().map(|part| u64::from(part.iter().map(distance).sum::<u32>())).sum()
}
}

/// The multiple of 256 from which a window of 4096 holds most residuals: of several the one in the
/// middle.
fn window(residuals: &[u16]) -> u16 {
    let mut counts = [0u32; 256];
    for t in residuals {
        counts[usize::from(t >> 8)] += 1;
    }
    let held = |first: usize| (first..first + 16).map(|i| counts[i % 256]).sum::<u32>();
    let most = (0..256).map(held).max();
    let best: Vec<usize> = (0..256).filter(|&first| Some(held(first)) == most).collect();
    best.get(best.len() / 2).map_or(0, |&first| (first as u16) << 8)
}
