//! Cascades of values less a base for each block of them: exponents whose rows are of different scales
//! then have their commonest ones in common.
//!
//! ```text
//! log2 of the values in a block (1 byte) · bases: a coded plane of 8 bits · a cascade behind its guard
//! ```
//!
//! A base is the mean of its block, rounded; from which fraction on it is rounded up is what takes
//! least in a sample.

use super::{
    Coded, Coder, CoderScratch, GUARD, Policy, cascade_room, encode as encode_plane, guard_cascade,
    guarded_cascade, take,
};
use crate::{
    entropy::cascade::{self, Plan},
    simd::{Level, for_every_level},
};

/// log2 of the least and most values in a block; the most are not more than a piece of a plane.
const BLOCKS: std::ops::RangeInclusive<u8> = 6..=11;
/// Means are in quarters.
const QUARTERS: usize = 4;
/// Values of a stretch that is sampled, one in as many, of planes with so many values or more.
const STRETCH: usize = 16;
const ONE_IN: usize = 16;
const SAMPLED_FROM: usize = 1 << 15;

for_every_level! {
/// The mean of every block, in quarters.
fn means(block: usize, values: &[u8], out: &mut [u16]) {
    for (out, values) in out.iter_mut().zip(values.chunks(block)) {
        let mut sum = 0u32;
        for part in values.chunks(64) {
            sum += part.iter().map(|&v| u32::from(v)).sum::<u32>();
        }
        *out = (QUARTERS as u32 * sum / values.len() as u32) as u16;
    }
}
}

for_every_level! {
fn subtract(block: usize, values: &[u8], bases: &[u8], out: &mut [u8]) {
    let blocks = values.chunks(block).zip(out.chunks_mut(block)).zip(bases);
    for ((values, out), base) in blocks {
        for (out, value) in out.iter_mut().zip(values) {
            *out = value.wrapping_sub(*base);
        }
    }
}
}

for_every_level! {
fn add(block: usize, bases: &[u8], values: &mut [u8]) {
    for (values, base) in values.chunks_mut(block).zip(bases) {
        values.iter_mut().for_each(|value| *value = value.wrapping_add(*base));
    }
}
}

/// How often each value occurs in a sample, and each less the mean of its block, by the mean's fraction.
fn count(log2: u8, values: &[u8], means: &[u16]) -> ([u32; 256], [[u32; 256]; QUARTERS]) {
    let (mut plain, mut shifted) = ([0u32; 256], [[0u32; 256]; QUARTERS]);
    let one_in = if values.len() < SAMPLED_FROM { 1 } else { ONE_IN };
    for (i, (block, mean)) in values.chunks(1 << log2).zip(means).enumerate() {
        let shifted = &mut shifted[usize::from(*mean) % QUARTERS];
        let base = (mean / QUARTERS as u16) as u8;
        for stretch in block.chunks(STRETCH).skip(5 * i % one_in).step_by(one_in) {
            for value in stretch {
                plain[usize::from(*value)] += 1;
                shifted[usize::from(value.wrapping_sub(base))] += 1;
            }
        }
    }
    (plain, shifted)
}

/// The counts of values less their bases, where means with one of the `up` highest fractions are
/// rounded up.
fn rounded(counts: &[[u32; 256]; QUARTERS], up: usize) -> [u32; 256] {
    let mut all = [0u32; 256];
    let (down, raised) = counts.split_at(QUARTERS - up);
    for counts in down {
        all.iter_mut().zip(counts).for_each(|(all, count)| *all += count);
    }
    for counts in raised {
        let less = counts[1..].iter().chain(&counts[..1]);
        all.iter_mut().zip(less).for_each(|(all, count)| *all += count);
    }
    all
}

/// Appends a plane of `1 << log2` values a block, without bases where they save nothing. None, and
/// what was appended is of no use, unless that takes fewer than `limit` bytes.
pub fn encode(
    level: Level,
    log2: u8,
    values: &[u8],
    limit: usize,
    scratch: &mut CoderScratch,
    out: &mut Vec<u8>,
) -> Option<Coder> {
    let (start, block) = (out.len(), 1 << log2);
    let mut quarters = vec![0; values.len().div_ceil(block)];
    means(level, block, values, &mut quarters);
    let (plain, shifted) = count(log2, values, &quarters);
    let counted: u64 = plain.iter().map(|&c| u64::from(c)).sum();
    let planned = |counts: [u32; 256]| {
        let plan = cascade::plan(&counts);
        let len = plan.digits_and_raw_len(&counts) * values.len() as u64 / counted.max(1);
        (plan, len as usize)
    };
    let plans = (0..QUARTERS).map(|up| (up, planned(rounded(&shifted, up))));
    let (up, (plan, len)) = plans.min_by_key(|(_, (_, len))| *len)?;
    let mut bases = Vec::with_capacity(quarters.len());
    bases.extend(quarters.iter().map(|mean| ((usize::from(*mean) + up) / QUARTERS) as u8));
    out.push(log2);
    encode_plane(level, Policy::Quick, &bases, 8, scratch, out);
    let (plain, plain_len) = planned(plain);
    if plain_len <= len + out.len() - start {
        out.truncate(start);
        cascade_within(level, &plain, values, limit, scratch, out)?;
        return Some(Coder::Cascade);
    }
    let mut shifted = std::mem::take(&mut scratch.shifted);
    if shifted.len() < values.len() {
        shifted.resize(values.len(), 0);
    }
    subtract(level, block, values, &bases, &mut shifted[..values.len()]);
    let left = limit.saturating_sub(out.len() - start);
    let done = cascade_within(level, &plan, &shifted[..values.len()], left, scratch, out);
    scratch.shifted = shifted;
    done.map(|()| Coder::Shifted)
}

/// Appends a cascade and its guard; none, and what was appended is of no use, unless that takes fewer
/// than `limit` bytes.
pub fn cascade_within(
    level: Level,
    plan: &Plan,
    values: &[u8],
    limit: usize,
    scratch: &mut CoderScratch,
    out: &mut Vec<u8>,
) -> Option<()> {
    let start = out.len();
    let room = cascade_room(&mut scratch.cascade, values.len());
    out.resize(start + limit.max(GUARD + 1) - 1, 0);
    let len = cascade::encode(level, plan, values, room, &mut out[start + GUARD..])?;
    out.truncate(start + GUARD + len);
    guard_cascade(&mut out[start..]);
    Some(())
}

/// Cascades, with bases or without, piece by piece.
#[derive(Debug)]
pub struct Decoder<'a> {
    level: Level,
    cascade: cascade::Decoder<'a>,
    block: usize,
    /// Those of the blocks that are left.
    bases: Vec<u8>,
    /// Blocks that were decoded.
    done: usize,
}

impl<'a> Decoder<'a> {
    /// Starts to decode a plane of `n` values with coder `cascade` or `shifted`, in `room`; none where it
    /// is damaged.
    pub fn new(
        level: Level,
        coded: Coded<'a>,
        n: usize,
        scratch: &mut CoderScratch,
        room: &'a mut Vec<u8>,
    ) -> Option<Self> {
        let (mut data, mut bases, mut block) = (coded.data, Vec::new(), 1);
        if coded.coder == Coder::Shifted {
            let (&log2, rest) = data.split_first()?;
            data = rest;
            let coded = take(&mut data)?;
            // Bases have none themselves, so that nothing is nested.
            let plain = matches!(coded.coder, Coder::Constant | Coder::Packed | Coder::Rans);
            if !plain || !BLOCKS.contains(&log2) {
                return None;
            }
            block = 1 << log2;
            bases.resize(n.div_ceil(block), 0);
            coded.decode(level, 8, scratch, &mut bases)?;
        }
        let room = cascade_room(room, n);
        let cascade = cascade::Decoder::new(level, n, guarded_cascade(data)?, room)?;
        Some(Decoder { level, cascade, block, bases, done: 0 })
    }

    /// Decodes the next values: whole blocks, or all that are left. False where the plane is damaged, or,
    /// with the last of them, longer.
    #[must_use]
    pub fn decode(&mut self, values: &mut [u8]) -> bool {
        let good = self.cascade.decode(values);
        if !self.bases.is_empty() {
            add(self.level, self.block, &self.bases[self.done..], values);
            self.done += values.len() / self.block;
        }
        good
    }
}
