//! The buffers of one chunk in flight, as far as both directions need them.
//!
//! ```text
//! cover   the words of the caller's buffer that hold the chunk, where it is not aligned
//! words   the chunk from the first byte on
//! base    the same for the base, and the delta between both
//! planes  one byte a word each, `stride` apart; or bit planes
//! packed  the parts of the rest with fewer than 8 bits
//! ```

use super::{Plan, Predictor, Transform, rests, snapshot::Part};
use crate::{
    error::Result,
    gpu::{Buffer, Device, Pass, Recorder, Region},
    shader::{AlignParams, DeltaParams},
};

pub(super) struct Buffers {
    pub uniforms: Buffer,
    pub words: Buffer,
    pub cover: Buffer,
    pub base: Option<Base>,
    pub planes: Buffer,
    /// For each plane of the rest that has fewer than 8 bits: that plane, its bits, its buffer.
    pub packed: Vec<(usize, u8, Buffer)>,
}

pub(super) struct Base {
    predictor: Predictor,
    cover: Buffer,
    words: Buffer,
    pub delta: Buffer,
}

impl Buffers {
    pub fn new(device: &Device, plan: &Plan) -> Result<Buffers> {
        let len = plan.chunk_len();
        let base = |predictor| -> Result<Base> {
            Ok(Base {
                predictor,
                cover: device.storage("cover of the base", len + 4)?,
                words: device.storage("words of the base", len)?,
                delta: device.storage("deltas", len)?,
            })
        };
        let planes_len = match plan.transform {
            Transform::None => 0,
            Transform::Bitplane => len,
            _ => plan.n_planes() as u64 * plan.stride(),
        };
        let mut packed = Vec::new();
        for (plane, bits) in plan.fields().iter().flat_map(rests) {
            if bits < 8 {
                packed.push((plane, bits, device.storage("packed rest", plan.stride() + 8)?));
            }
        }
        Ok(Buffers {
            uniforms: Recorder::uniforms(device)?,
            words: device.storage("words", len)?,
            cover: device.storage("cover", len + 4)?,
            base: plan.predictor.map(base).transpose()?,
            planes: device.storage("planes", planes_len)?,
            packed,
        })
    }

    /// Brings a chunk of a tensor into the slot, which must not be in use.
    pub fn bring(&self, recorder: &mut Recorder<'_>, chunk: &Part<'_>) -> Result<()> {
        bring(recorder, chunk, &self.cover, &self.words)
    }

    /// As [`Buffers::bring`] for the base.
    pub fn bring_base(&self, recorder: &mut Recorder<'_>, chunk: &Part<'_>) -> Result<()> {
        match &self.base {
            Some(base) => bring(recorder, chunk, &base.cover, &base.words),
            None => Ok(()),
        }
    }

    /// Moves a chunk that was brought to the start of `words`.
    pub fn align(&self, pass: &mut Pass<'_>, chunk: &Part<'_>) -> Result<()> {
        take(pass, chunk, &self.cover, &self.words)
    }

    /// As [`Buffers::align`] for the base.
    pub fn align_base(&self, pass: &mut Pass<'_>, chunk: &Part<'_>) -> Result<()> {
        match &self.base {
            Some(base) => take(pass, chunk, &base.cover, &base.words),
            None => Ok(()),
        }
    }

    /// Records a copy of the words of a tensor that hold the chunk, for [`Buffers::put`].
    pub fn copy_cover(&self, encoder: &mut wgpu::CommandEncoder, chunk: &Region<'_>) {
        chunk.copy_to(encoder, &self.cover, 0);
    }

    /// Moves the chunk from the start of `words` to its place in the cover.
    pub fn put(&self, pass: &mut Pass<'_>, chunk: &Region<'_>) -> Result<()> {
        let buffers = [&self.cover, &self.words];
        pass.dispatch("put", &align_params(chunk), chunk.cover_len() / 4, &buffers)
    }

    /// The words to be transformed: the chunk's, or their deltas.
    pub fn subject(&self) -> &Buffer {
        self.base.as_ref().map_or(&self.words, |base| &base.delta)
    }

    /// Forms the delta.
    pub fn apply(&self, pass: &mut Pass<'_>, plan: &Plan, len: u64) -> Result<()> {
        let Some(base) = &self.base else { return Ok(()) };
        let entry = match base.predictor {
            Predictor::Xor => "xor",
            Predictor::Diff => "diff",
        };
        let buffers = [&self.words, &base.words, &base.delta];
        pass.dispatch(entry, &delta_params(plan, len), len.div_ceil(8), &buffers)
    }

    /// Undoes the delta.
    pub fn undo(&self, pass: &mut Pass<'_>, plan: &Plan, len: u64) -> Result<()> {
        let Some(base) = &self.base else { return Ok(()) };
        let entry = match base.predictor {
            Predictor::Xor => "xor",
            Predictor::Diff => "undo",
        };
        let buffers = [&base.delta, &base.words, &self.words];
        pass.dispatch(entry, &delta_params(plan, len), len.div_ceil(8), &buffers)
    }
}

fn delta_params(plan: &Plan, len: u64) -> DeltaParams {
    DeltaParams { n_bytes: len as u32, word_bits: 8 * plan.word_len as u32 }
}

fn align_params(chunk: &Region<'_>) -> AlignParams {
    AlignParams { n_bytes: chunk.len() as u32, shift: chunk.shift() as u32 }
}

fn bring(
    recorder: &mut Recorder<'_>,
    chunk: &Part<'_>,
    cover: &Buffer,
    words: &Buffer,
) -> Result<()> {
    match chunk {
        Part::Host(bytes) => return recorder.write(words, 0, bytes),
        Part::Device(chunk) if chunk.shift() == 0 => chunk.copy_to(recorder.encoder(), words, 0),
        Part::Device(chunk) => chunk.copy_to(recorder.encoder(), cover, 0),
    }
    Ok(())
}

fn take(pass: &mut Pass<'_>, chunk: &Part<'_>, cover: &Buffer, words: &Buffer) -> Result<()> {
    match chunk {
        Part::Device(chunk) if chunk.shift() != 0 => {
            pass.dispatch("take", &align_params(chunk), chunk.len().div_ceil(4), &[cover, words])
        }
        _ => Ok(()),
    }
}
