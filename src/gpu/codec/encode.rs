//! Tensors into planes.

mod head;
mod slot;

use super::{Plan, Planes, Snapshot, Symbols, Tensor, Transform, snapshot::Part};
use crate::{
    error::{Error, Result},
    gpu::{Buffer, Device, Recorder, Region, buffer::Mapped},
};
use head::{HEAD_LEN, Head};
use slot::{Layout, Slot};
use std::{
    borrow::Cow,
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Chunks in flight: one in transformation, one on its way to the host, one in the sink.
const DEPTH: usize = 3;

/// Where the time of an [`Encoder::encode`] went, and what crossed the bus.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stats {
    /// Number of chunks.
    pub chunks: u64,
    /// Bytes of the tensor.
    pub bytes: u64,
    /// Bytes that were copied from the device to the host.
    pub transferred: u64,
    /// Time that the device spent on transforms; `None` where it has no clock.
    pub transform: Option<Duration>,
    /// Time that this thread waited for the device.
    pub waited: Duration,
    /// Time that the sink took.
    pub sink: Duration,
    /// All of the time.
    pub total: Duration,
}

/// Transforms tensors on the device and hands their planes to the host.
pub struct Encoder {
    device: Device,
    plan: Plan,
    depth: usize,
    slots: Vec<Slot>,
    /// Buffers of snapshots that are no longer needed.
    pool: Vec<Buffer>,
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder")
            .field("plan", &self.plan)
            .field("depth", &self.depth)
            .finish_non_exhaustive()
    }
}

/// A chunk that an [`Encoder`] hands to the sink.
#[derive(Clone, Debug)]
pub struct Chunk<'a> {
    /// Its first byte in the tensor.
    pub start: u64,
    /// Its bytes.
    pub len: u64,
    /// How often each symbol occurs, by [`Transform::Split`] and [`Transform::Cascade`]: in a
    /// sample where the cascade was planned from one.
    pub counts: [u32; 256],
    /// What was made of it.
    pub planes: Planes<'a>,
}

/// A chunk whose transforms were submitted.
struct Transformed {
    slot: usize,
    start: u64,
    len: u64,
    head: Mapped,
    layout: Layout,
}

/// A chunk whose planes are on their way to the host.
struct Copied {
    start: u64,
    len: u64,
    head: Head,
    planes: Mapped,
    layout: Layout,
    form: Form,
}

/// What crossed of a chunk of split words.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// What the plan says.
    Planned,
    /// The symbols in place of digits that would have saved nothing.
    Plain,
    /// The words, because symbols escaped.
    Words,
}

impl Encoder {
    /// An encoder for tensors of words like those of `plan`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where the plan does not hold together, [`Error::Device`] where
    /// the device has no memory for the chunks in flight.
    pub fn new(device: &Device, plan: Plan) -> Result<Encoder> {
        Self::with_depth(device, plan, DEPTH)
    }

    /// As [`Encoder::new`], for `depth` chunks in flight.
    pub(in crate::gpu) fn with_depth(device: &Device, plan: Plan, depth: usize) -> Result<Encoder> {
        plan.check()?;
        let (device, slots, pool) = (device.clone(), Vec::new(), Vec::new());
        let mut encoder = Encoder { device, plan, depth, slots, pool };
        encoder.prepare()?;
        Ok(encoder)
    }

    /// Copies a tensor within the device. When this returns the copy is submitted: what is
    /// submitted to the queue later may overwrite the tensor.
    ///
    /// # Errors
    /// [`Error::Device`] where the device is lost or has no memory for the copy,
    /// [`Error::InvalidArgument`] where the buffer cannot be copied from.
    pub fn snapshot(&mut self, region: &Region<'_>) -> Result<Snapshot> {
        Snapshot::take(&self.device, region, &mut self.pool)
    }

    /// Keeps the memory of a snapshot for the next one.
    pub fn recycle(&mut self, snapshot: Snapshot) {
        self.pool.extend(snapshot.into_buffers());
    }

    /// Transforms a tensor and calls `sink` with each of its chunks in order. The base, which the
    /// plan must have a predictor for, is as long as the tensor. Either may be in host memory.
    ///
    /// # Errors
    /// [`Error::Device`] where the device fails, after which nothing of this call is in flight
    /// and the encoder may be used again if the device can; [`Error::InvalidArgument`] where
    /// tensor and base do not fit the plan; errors of the sink.
    pub fn encode<'t>(
        &mut self,
        tensor: impl Into<Tensor<'t>>,
        base: Option<Tensor<'t>>,
        mut sink: impl FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<Stats> {
        let tensor = tensor.into();
        if base.is_some() != self.plan.predictor.is_some()
            || base.is_some_and(|base| base.len() != tensor.len())
        {
            return Err(Error::InvalidArgument("the base does not fit tensor and plan".into()));
        }
        for tensor in [Some(tensor), base].into_iter().flatten() {
            if let Tensor::Region(region) = tensor {
                region.require(wgpu::BufferUsages::COPY_SRC, "COPY_SRC")?;
            }
        }
        self.prepare()?;
        let result = self.run(tensor, base, &mut sink);
        if result.is_err() {
            // Their buffers may be in use or mapped.
            self.slots.clear();
        }
        result
    }

    /// Makes the slots where there are none.
    fn prepare(&mut self) -> Result<()> {
        while self.slots.len() < self.depth {
            self.slots.push(Slot::new(&self.device, &self.plan)?);
        }
        Ok(())
    }

    fn run(
        &self,
        tensor: Tensor<'_>,
        base: Option<Tensor<'_>>,
        sink: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
    ) -> Result<Stats> {
        let begun = Instant::now();
        let mut stats = Stats { bytes: tensor.len(), ..Stats::default() };
        stats.transform = self.device.timestamp_period().map(|_| Duration::ZERO);
        let mut chunks = self.plan.chunks(tensor.len())?.enumerate();
        let (mut transformed, mut copied) = (VecDeque::new(), VecDeque::new());
        loop {
            let next = chunks.next();
            let keep = usize::from(next.is_some());
            if let Some((k, (start, len))) = next {
                let base = base.map(|base| base.part(start, len)).transpose()?;
                let chunk = tensor.part(start, len)?;
                let slot = k % self.depth;
                transformed.push_back(self.transform(slot, start, &chunk, base, &mut stats)?);
            }
            while transformed.len() > keep {
                if let Some(chunk) = transformed.pop_front() {
                    copied.push_back(self.copy(chunk, &mut stats)?);
                }
            }
            while copied.len() > keep {
                if let Some(chunk) = copied.pop_front() {
                    self.deliver(chunk, sink, &mut stats)?;
                }
            }
            if keep == 0 {
                stats.total = begun.elapsed();
                return Ok(stats);
            }
        }
    }

    /// Submits the transforms of a chunk and the copies of all that has a known length.
    fn transform(
        &self,
        index: usize,
        start: u64,
        chunk: &Part<'_>,
        base: Option<Part<'_>>,
        stats: &mut Stats,
    ) -> Result<Transformed> {
        let slot = &self.slots[index];
        let n = chunk.len() / self.plan.word_len as u64;
        let mut recorder = Recorder::new(&self.device, &slot.buffers.uniforms);
        let encoder = recorder.encoder();
        encoder.clear_buffer(&slot.counts, 0, None);
        encoder.clear_buffer(&slot.n_escapes, 0, None);
        slot.buffers.bring(&mut recorder, chunk)?;
        if let Some(base) = &base {
            slot.buffers.bring_base(&mut recorder, base)?;
        }
        let mut pass = recorder.pass(slot.times.as_ref().map(|(set, _)| set));
        slot.buffers.align(&mut pass, chunk)?;
        if let Some(base) = &base {
            slot.buffers.align_base(&mut pass, base)?;
        }
        slot.buffers.apply(&mut pass, &self.plan, chunk.len())?;
        slot.transform(&mut pass, &self.plan, n)?;
        drop(pass);
        let layout = slot.copy_known(recorder.encoder(), &self.plan, n);
        stats.transferred += layout.len + slot.copy_head(recorder.encoder());
        let head = Mapped::on_submit(recorder, &slot.head, HEAD_LEN)?;
        Ok(Transformed { slot: index, start, len: chunk.len(), head, layout })
    }

    /// Waits for the lengths of a chunk and submits the copies of what they tell.
    fn copy(&self, chunk: Transformed, stats: &mut Stats) -> Result<Copied> {
        let Transformed { slot, start, len, head, mut layout } = chunk;
        let slot = &self.slots[slot];
        let begun = Instant::now();
        let head = head.read(&self.device, Head::parse)?;
        stats.waited += begun.elapsed();
        if let (Some(time), Some(period)) = (&mut stats.transform, self.device.timestamp_period()) {
            *time += Duration::from_nanos((head.ticks as f64 * period) as u64);
        }
        let known = layout.len;
        let n = len / self.plan.word_len as u64;
        let mut recorder = Recorder::for_copies(&self.device);
        let encoder = recorder.encoder();
        let split = self.plan.fields().is_some();
        let form = match &slot.cascade {
            _ if split && head.n_escapes > 0 => {
                layout = Layout::default();
                let words = layout.add(encoder, slot, slot.buffers.subject(), 0, len);
                layout.parts.push(words);
                stats.transferred += layout.len;
                Form::Words
            }
            Some(_) if n.div_ceil(4) + head.further().sum::<u64>() >= n => {
                layout.parts[0] = layout.add(encoder, slot, &slot.buffers.planes, 0, n);
                stats.transferred += layout.len - known;
                Form::Plain
            }
            Some(cascade) => {
                let last = head.n_levels - 1;
                for (level, len) in head.further().enumerate() {
                    let (from, at) = match level {
                        _ if level < last => (&cascade.levels, 4 * cascade.stride * level as u64),
                        _ => (&cascade.raw, 0),
                    };
                    let part = layout.add(encoder, slot, from, at, len);
                    layout.further.push(part);
                }
                stats.transferred += layout.len - known;
                Form::Planned
            }
            None => Form::Planned,
        };
        let planes = Mapped::on_submit(recorder, &slot.staging, layout.len)?;
        Ok(Copied { start, len, head, planes, layout, form })
    }

    /// Waits for the planes of a chunk and hands them to the sink.
    fn deliver(
        &self,
        chunk: Copied,
        sink: &mut dyn FnMut(Chunk<'_>) -> Result<()>,
        stats: &mut Stats,
    ) -> Result<()> {
        let Copied { start, len, head, planes, layout, form } = chunk;
        let begun = Instant::now();
        planes.read(&self.device, |bytes| {
            stats.waited += begun.elapsed();
            let begun = Instant::now();
            let planes = self.planes(&head, &layout, form, bytes);
            let result = sink(Chunk { start, len, counts: head.counts, planes });
            stats.sink += begun.elapsed();
            stats.chunks += 1;
            result
        })?
    }

    /// The planes of a chunk in the bytes of its staging buffer.
    fn planes<'a>(&self, head: &Head, layout: &Layout, form: Form, bytes: &'a [u8]) -> Planes<'a> {
        let all: Vec<_> = layout.parts.iter().map(|part| &bytes[part.clone()]).collect();
        let first = all.first().copied().unwrap_or_default();
        let fields = match self.plan.transform {
            _ if form == Form::Words => return Planes::Words(first),
            Transform::None => return Planes::Words(first),
            Transform::Group => return Planes::Bytes(all),
            Transform::Bitplane => return Planes::Bits(first),
            Transform::Split(fields) | Transform::Cascade { fields, .. } => fields,
        };
        let symbols = match self.plan.transform {
            Transform::Cascade { .. } if form == Form::Planned => {
                let header = Cow::Owned(head.cascade_header());
                let further = layout.further.iter().map(|part| Cow::Borrowed(&bytes[part.clone()]));
                Symbols::Cascade(
                    [header, Cow::Borrowed(first)].into_iter().chain(further).collect(),
                )
            }
            _ => Symbols::Plain(first),
        };
        let n_rests = super::rests(&fields).count();
        let (rests, tails) = all[1..].split_at(n_rests);
        Planes::Split {
            symbols,
            rest_lo: rests.first().copied().unwrap_or_default(),
            rest_hi: rests.get(1).copied().unwrap_or_default(),
            tails: tails.to_vec(),
        }
    }
}
