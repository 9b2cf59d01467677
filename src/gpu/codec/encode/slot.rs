//! The buffers of one chunk on its way to the host, and what is recorded with them.

use super::{
    super::{Plan, Transform, buffers::Buffers, rests},
    head::{COUNTS, ESCAPES, HEAD_LEN, ORDER, TIMES, TOTALS},
};
use crate::{
    error::Result,
    gpu::{Buffer, Device, Pass},
    shader::{BitplaneParams, CascadeParams, HistogramParams, PackParams},
    transform::{bitplane::plane_len, split::Split},
};
use std::ops::Range;

/// Symbols of a tile of the cascade, and u32 words that an invocation of the histogram counts.
const TILE: u64 = 4096;
const COUNTED: u64 = 8;

/// The buffers of a chunk, with those that only encoding needs.
pub(super) struct Slot {
    pub buffers: Buffers,
    pub counts: Buffer,
    pub n_escapes: Buffer,
    pub cascade: Option<Cascade>,
    pub head: Buffer,
    pub staging: Buffer,
    pub times: Option<(wgpu::QuerySet, Buffer)>,
}

pub(super) struct Cascade {
    order: Buffer,
    tiles: Buffer,
    totals: Buffer,
    digits: Buffer,
    pub levels: Buffer,
    pub raw: Buffer,
    /// u32 words from one further level to the next.
    pub stride: u64,
}

/// Places of the planes in the staging buffer.
#[derive(Default)]
pub(super) struct Layout {
    /// Those of known length, in the order of the transform.
    pub parts: Vec<Range<usize>>,
    /// Digits of the further levels, then raw symbols.
    pub further: Vec<Range<usize>>,
    pub len: u64,
}

impl Layout {
    /// Records a copy of `len` bytes to the next place in the staging buffer.
    pub fn add(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        slot: &Slot,
        from: &wgpu::Buffer,
        at: u64,
        len: u64,
    ) -> Range<usize> {
        let to = self.len;
        if len > 0 {
            let whole = len.next_multiple_of(4);
            encoder.copy_buffer_to_buffer(from, at, &slot.staging, to, whole);
            self.len += whole;
        }
        to as usize..(to + len) as usize
    }
}

impl Slot {
    pub fn new(device: &Device, plan: &Plan) -> Result<Slot> {
        let n = plan.chunk_words as u64;
        let cascade = || -> Result<Cascade> {
            let stride = n / 16 + 1;
            Ok(Cascade {
                order: device.storage("order", 1028)?,
                tiles: device.storage("tiles", 16 * n.div_ceil(TILE))?,
                totals: device.storage("totals", 16)?,
                digits: device.storage("digits", n / 4)?,
                levels: device.storage("levels", 3 * 4 * stride)?,
                raw: device.storage("raw symbols", n + 4)?,
                stride,
            })
        };
        let is_cascade = matches!(plan.transform, Transform::Cascade { .. });
        let clock = || -> Result<_> {
            let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
            let buffer = device.create_buffer("times", 16, usage)?;
            Ok((device.query_set()?, buffer))
        };
        // Planes and digits together never exceed this: where digits save nothing, the words
        // are copied instead.
        let most = plan.chunk_len().max(plan.n_planes() as u64 * n) + n / 4 + 64;
        Ok(Slot {
            buffers: Buffers::new(device, plan)?,
            counts: device.storage("counts", 1024)?,
            n_escapes: device.storage("escapes", 16)?,
            cascade: is_cascade.then(cascade).transpose()?,
            head: device.staging("head", HEAD_LEN)?,
            staging: device.staging("planes on the host", most)?,
            times: device.timestamp_period().map(|_| clock()).transpose()?,
        })
    }

    /// Adds the transforms of a chunk of `n` words.
    pub fn transform(&self, pass: &mut Pass<'_>, plan: &Plan, n: u64) -> Result<()> {
        let (words, planes) = (self.buffers.subject(), &self.buffers.planes);
        match &plan.transform {
            Transform::None => Ok(()),
            Transform::Group => {
                pass.dispatch("split", &plan.group_params(n), n.div_ceil(4), &[words, planes])
            }
            Transform::Bitplane => {
                let len = n * plan.word_len as u64;
                let params =
                    BitplaneParams { n_words: n as u32, word_bits: 8 * plan.word_len as u32 };
                pass.dispatch("planes", &params, 32 * (len.div_ceil(128) + 1), &[words, planes])
            }
            Transform::Split(fields) => {
                self.split(pass, plan, fields, n)?;
                self.count(pass, n)
            }
            Transform::Cascade { fields, sampled } => {
                self.split(pass, plan, fields, n)?;
                if !sampled {
                    self.count(pass, n)?;
                }
                self.cascade(pass, *sampled, n)
            }
        }
    }

    fn split(&self, pass: &mut Pass<'_>, plan: &Plan, fields: &Split, n: u64) -> Result<()> {
        let planes = &self.buffers.planes;
        let buffers = [self.buffers.subject(), planes, &self.n_escapes];
        pass.dispatch("split", &plan.split_params(fields, n), n.div_ceil(4), &buffers)?;
        for (plane, bits, packed) in &self.buffers.packed {
            let params = PackParams {
                n_values: n as u32,
                width: u32::from(*bits),
                at: (*plane as u64 * plan.stride() / 4) as u32,
            };
            let n_words = (n * u64::from(*bits)).div_ceil(32);
            pass.dispatch("pack", &params, n_words, &[planes, packed])?;
        }
        Ok(())
    }

    fn count(&self, pass: &mut Pass<'_>, n: u64) -> Result<()> {
        let params = HistogramParams { n_symbols: n as u32, per_invocation: COUNTED as u32 };
        let buffers = [&self.buffers.planes, &self.counts];
        pass.dispatch("count", &params, n.div_ceil(4 * COUNTED), &buffers)
    }

    fn cascade(&self, pass: &mut Pass<'_>, sampled: bool, n: u64) -> Result<()> {
        let Some(c) = &self.cascade else { return Ok(()) };
        let symbols = &self.buffers.planes;
        let n_tiles = n.div_ceil(TILE);
        let params = CascadeParams {
            n_symbols: n as u32,
            n_tiles: n_tiles as u32,
            stride: c.stride as u32,
            ..Default::default()
        };
        if sampled {
            pass.dispatch("sample", &params, n.div_ceil(4), &[symbols, &self.counts])?;
        }
        pass.dispatch("plan", &params, 256, &[&self.counts, &c.order])?;
        pass.dispatch("count", &params, 256 * n_tiles, &[symbols, &c.order, &c.tiles])?;
        pass.dispatch("scan", &params, 256, &[&c.tiles, &c.totals])?;
        let meeting = [&c.order, &c.tiles, &c.totals, &c.levels, &c.raw];
        pass.dispatch("clear", &params, n_tiles + 1, &meeting)?;
        let all = [symbols, &c.order, &c.tiles, &c.digits, &c.levels, &c.raw];
        pass.dispatch("emit", &params, 256 * n_tiles, &all)
    }

    /// Records the copies of all planes whose length is known beforehand.
    pub fn copy_known(&self, encoder: &mut wgpu::CommandEncoder, plan: &Plan, n: u64) -> Layout {
        let mut layout = Layout::default();
        let planes = &self.buffers.planes;
        let mut add = |from, at, len| {
            let part = layout.add(encoder, self, from, at, len);
            layout.parts.push(part);
        };
        match &plan.transform {
            Transform::None => add(self.buffers.subject(), 0, n * plan.word_len as u64),
            Transform::Group => {
                (0..plan.word_len as u64).for_each(|p| add(planes, p * plan.stride(), n));
            }
            Transform::Bitplane => {
                add(planes, 0, (8 * plan.word_len * plane_len(n as usize)) as u64);
            }
            Transform::Split(fields) | Transform::Cascade { fields, .. } => {
                match &self.cascade {
                    Some(cascade) => add(&cascade.digits, 0, n.div_ceil(4)),
                    None => add(planes, 0, n),
                }
                for (plane, bits) in rests(fields) {
                    match self.buffers.packed.iter().find(|(packed, ..)| *packed == plane) {
                        Some((.., packed)) => add(packed, 0, (n * u64::from(bits)).div_ceil(8)),
                        None => add(planes, plane as u64 * plan.stride(), n),
                    }
                }
                let first = plan.n_planes() - fields.n_tails();
                (first..plan.n_planes()).for_each(|p| add(planes, p as u64 * plan.stride(), n));
            }
        }
        layout
    }

    /// Records the copies of the parts of the head and returns their bytes.
    pub fn copy_head(&self, encoder: &mut wgpu::CommandEncoder) -> u64 {
        let mut copied = 0;
        let mut copy = |from: &wgpu::Buffer, at, len| {
            encoder.copy_buffer_to_buffer(from, 0, &self.head, at, len);
            copied += len;
        };
        copy(&self.counts, COUNTS, 1024);
        copy(&self.n_escapes, ESCAPES, 4);
        if let Some(cascade) = &self.cascade {
            copy(&cascade.order, ORDER, 1028);
            copy(&cascade.totals, TOTALS, 16);
        }
        if let Some((set, times)) = &self.times {
            encoder.resolve_query_set(set, 0..2, times, 0);
            encoder.copy_buffer_to_buffer(times, 0, &self.head, TIMES, 16);
            copied += 16;
        }
        copied
    }
}
