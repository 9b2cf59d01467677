//! Planes into tensors.

mod cascade;

use super::{Plan, Planes, Symbols, Tensor, Transform, buffers::Buffers, rests};
use crate::{
    bits::pack::packed_len,
    entropy::cascade::MAX_LEVELS,
    error::{Error, Result},
    gpu::{Device, Pass, Recorder, Region, buffer::Mapped},
    shader::{BitplaneParams, PackParams},
    transform::bitplane::plane_len,
};
use cascade::{Cascade, Parsed};
use std::borrow::Cow;

/// Chunks in flight.
const DEPTH: usize = 2;

/// Joins planes on the device into tensors there.
///
/// Chunks may come in any order. What they hold is in the tensor once [`Decoder::finish`] has
/// returned, or for whatever is submitted to the same queue later.
pub struct Decoder {
    device: Device,
    plan: Plan,
    slots: Vec<Slot>,
    next: usize,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder")
            .field("plan", &self.plan)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

struct Slot {
    buffers: Buffers,
    cascade: Option<Cascade>,
    /// What the chunk that was last submitted waits for.
    pending: Option<Pending>,
}

/// A submitted chunk: how many symbols each level passed on, to be compared with what the cascade
/// said.
struct Pending {
    counted: Mapped,
    said: Vec<u32>,
    start: u64,
}

impl Decoder {
    /// A decoder for tensors that were encoded with this plan.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where the plan does not hold together, [`Error::Device`] where
    /// the device has no memory for the chunks in flight.
    pub fn new(device: &Device, plan: Plan) -> Result<Decoder> {
        plan.check()?;
        let slots = (0..DEPTH).map(|_| Slot::new(device, &plan)).collect::<Result<_>>()?;
        Ok(Decoder { device: device.clone(), plan, slots, next: 0 })
    }

    /// Submits the chunk that begins at byte `start` of `tensor`; its length follows from the
    /// plan. The buffer needs the usage `COPY_DST`, and `COPY_SRC` if the chunk does not begin
    /// and end at multiples of four bytes in it.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where the planes, of this chunk or one before, do not fit the plan or
    /// contradict themselves; [`Error::InvalidArgument`] where tensor or base do not fit;
    /// [`Error::Device`].
    pub fn put(
        &mut self,
        tensor: &Region<'_>,
        base: Option<Tensor<'_>>,
        start: u64,
        planes: &Planes<'_>,
    ) -> Result<()> {
        if base.is_some() != self.plan.predictor.is_some()
            || base.is_some_and(|base| base.len() != tensor.len())
            || start >= tensor.len()
            || !start.is_multiple_of(self.plan.chunk_len())
            || !tensor.len().is_multiple_of(self.plan.word_len as u64)
        {
            return Err(Error::InvalidArgument("the chunk does not fit tensor and plan".into()));
        }
        let chunk = tensor.part(start, self.plan.chunk_len().min(tensor.len() - start));
        let base = base.map(|base| base.part(start, chunk.len())).transpose()?;
        chunk.require(wgpu::BufferUsages::COPY_DST, "COPY_DST")?;
        let whole = chunk.shift() == 0 && chunk.len().is_multiple_of(4);
        if !whole {
            chunk.require(wgpu::BufferUsages::COPY_SRC, "COPY_SRC")?;
        }

        let index = self.next;
        self.next = (index + 1) % DEPTH;
        self.retire(index)?;
        let (device, plan, slot) = (&self.device, &self.plan, &self.slots[index]);
        let n = chunk.len() as usize / plan.word_len;
        let damaged =
            || Error::Corrupt(format!("the planes at byte {start} do not fit together").into());
        let mut recorder = Recorder::new(device, &slot.buffers.uniforms);
        let sizes = slot.upload(&mut recorder, plan, n, planes, &damaged)?;
        if let Some(base) = &base {
            slot.buffers.bring_base(&mut recorder, base)?;
        }
        if !whole {
            slot.buffers.copy_cover(recorder.encoder(), &chunk);
        }
        let mut pass = recorder.pass(None);
        if let Some(base) = &base {
            slot.buffers.align_base(&mut pass, base)?;
        }
        if let (Some(cascade), Some(sizes)) = (&slot.cascade, &sizes) {
            cascade.expand(&mut pass, sizes, &slot.buffers.planes)?;
        }
        slot.join(&mut pass, plan, n as u64, planes)?;
        slot.buffers.undo(&mut pass, plan, chunk.len())?;
        if !whole {
            slot.buffers.put(&mut pass, &chunk)?;
        }
        drop(pass);
        let from = if whole { &slot.buffers.words } else { &slot.buffers.cover };
        chunk.copy_from(recorder.encoder(), from);

        let said: Vec<u32> =
            sizes.iter().flat_map(|sizes| &sizes[1..]).map(|&n| n as u32).collect();
        let counted = device.staging("counts of the levels", 16 * MAX_LEVELS as u64)?;
        if let Some(cascade) = &slot.cascade {
            for (level, totals) in cascade.totals().iter().enumerate().take(said.len()) {
                let at = 16 * level as u64;
                recorder.encoder().copy_buffer_to_buffer(totals, 0, &counted, at, 16);
            }
        }
        let counted = Mapped::on_submit(recorder, &counted, 16 * MAX_LEVELS as u64)?;
        self.slots[index].pending = Some(Pending { counted, said, start });
        Ok(())
    }

    /// Waits until all chunks are in their tensors.
    ///
    /// # Errors
    /// [`Error::Corrupt`] where a chunk contradicted itself, [`Error::Device`].
    pub fn finish(&mut self) -> Result<()> {
        (0..DEPTH).try_for_each(|index| self.retire(index))
    }

    /// Waits for the chunk that was last submitted with this slot.
    fn retire(&mut self, index: usize) -> Result<()> {
        let Some(Pending { counted, said, start }) = self.slots[index].pending.take() else {
            return Ok(());
        };
        let counts = counted.read(&self.device, |bytes| {
            let of_level = |level: &[u8]| level.first_chunk().map_or(0, |b| u32::from_le_bytes(*b));
            bytes.chunks(16).map(of_level).collect::<Vec<_>>()
        })?;
        if counts[..said.len()] == said {
            return Ok(());
        }
        Err(Error::Corrupt(format!("the digits at byte {start} do not fit their counts").into()))
    }
}

impl Slot {
    fn new(device: &Device, plan: &Plan) -> Result<Slot> {
        let n = plan.chunk_words as u64;
        let is_cascade = matches!(plan.transform, Transform::Cascade { .. });
        Ok(Slot {
            buffers: Buffers::new(device, plan)?,
            cascade: is_cascade.then(|| Cascade::new(device, n)).transpose()?,
            pending: None,
        })
    }

    /// Writes the planes of a chunk of `n` words to the device. Where symbols are a cascade,
    /// returns how many of them reach each level.
    fn upload(
        &self,
        recorder: &mut Recorder<'_>,
        plan: &Plan,
        n: usize,
        planes: &Planes<'_>,
        damaged: &dyn Fn() -> Error,
    ) -> Result<Option<Vec<usize>>> {
        let mut put = |buffer: &wgpu::Buffer, at: u64, bytes: &[u8], len: usize| {
            if bytes.len() != len {
                return Err(damaged());
            }
            recorder.write(buffer, at, bytes)
        };
        let (to, stride) = (&self.buffers.planes, plan.stride());
        match (planes, &plan.transform) {
            (
                Planes::Words(words),
                Transform::None | Transform::Split(_) | Transform::Cascade { .. },
            ) => {
                put(self.buffers.subject(), 0, words, n * plan.word_len)?;
            }
            (Planes::Bytes(planes), Transform::Group) if planes.len() == plan.word_len => {
                for (p, plane) in planes.iter().enumerate() {
                    put(to, p as u64 * stride, plane, n)?;
                }
            }
            (Planes::Bits(bits), Transform::Bitplane) => {
                put(to, 0, bits, 8 * plan.word_len * plane_len(n))?;
            }
            (
                Planes::Split { symbols, rest_lo, rest_hi, tails },
                Transform::Split(fields) | Transform::Cascade { fields, .. },
            ) if tails.len() == fields.n_tails() => {
                for ((plane, bits), rest) in rests(fields).zip([rest_lo, rest_hi]) {
                    let packed = self.buffers.packed.iter().find(|(packed, ..)| *packed == plane);
                    match packed {
                        Some((.., packed)) => put(packed, 0, rest, packed_len(bits, n))?,
                        None => put(to, plane as u64 * stride, rest, n)?,
                    }
                }
                let first = plan.n_planes() - tails.len();
                for (p, tail) in tails.iter().enumerate() {
                    put(to, (first + p) as u64 * stride, tail, n)?;
                }
                match symbols {
                    Symbols::Plain(symbols) => put(to, 0, symbols, n)?,
                    Symbols::Cascade(parts) => {
                        let bytes = match &parts[..] {
                            [whole] => Cow::Borrowed(&whole[..]),
                            parts => Cow::Owned(parts.concat()),
                        };
                        let parsed = Parsed::new(n, &bytes).ok_or_else(damaged)?;
                        let cascade = self.cascade.as_ref().ok_or_else(damaged)?;
                        return cascade.upload(recorder, parsed).map(Some);
                    }
                }
            }
            _ => return Err(damaged()),
        }
        Ok(None)
    }

    /// Adds the way from planes to words, or to deltas.
    fn join(&self, pass: &mut Pass<'_>, plan: &Plan, n: u64, given: &Planes<'_>) -> Result<()> {
        let (words, planes) = (self.buffers.subject(), &self.buffers.planes);
        match (&plan.transform, given) {
            (Transform::None, _) | (_, Planes::Words(_)) => Ok(()),
            (Transform::Group, _) => {
                pass.dispatch("join", &plan.group_params(n), n.div_ceil(4), &[words, planes])
            }
            (Transform::Bitplane, _) => {
                let len = n * plan.word_len as u64;
                let params =
                    BitplaneParams { n_words: n as u32, word_bits: 8 * plan.word_len as u32 };
                pass.dispatch("words", &params, 32 * (len.div_ceil(128) + 1), &[planes, words])
            }
            (Transform::Split(fields) | Transform::Cascade { fields, .. }, _) => {
                for (plane, bits, packed) in &self.buffers.packed {
                    let params = PackParams {
                        n_values: n as u32,
                        width: u32::from(*bits),
                        at: (*plane as u64 * plan.stride() / 4) as u32,
                    };
                    pass.dispatch("unpack", &params, n.div_ceil(4), &[planes, packed])?;
                }
                let params = plan.split_params(fields, n);
                pass.dispatch("join", &params, n.div_ceil(4), &[words, planes])
            }
        }
    }
}
