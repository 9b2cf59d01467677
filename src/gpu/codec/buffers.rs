//! The buffers of one chunk in flight, as far as both directions need them.
//!
//! ```text
//! cover   the words of the caller's buffer that hold the chunk, where it is not aligned
//! words   the chunk from the first byte on
//! base    the same for the base, and the delta between both
//! planes  one byte a word each, `stride` apart; or bit planes
//! packed  the parts of the rest with fewer than 8 bits
//! ```

use super::{Plan, Predictor, Transform, rests};
use crate::{
    error::Result,
    gpu::{Device, Pass, Recorder, Region},
    shader::{AlignParams, DeltaParams},
};

pub(super) struct Buffers {
    pub uniforms: wgpu::Buffer,
    pub words: wgpu::Buffer,
    pub cover: wgpu::Buffer,
    pub base: Option<Base>,
    pub planes: wgpu::Buffer,
    /// For each plane of the rest that has fewer than 8 bits: that plane, its bits, its buffer.
    pub packed: Vec<(usize, u8, wgpu::Buffer)>,
}

pub(super) struct Base {
    predictor: Predictor,
    cover: wgpu::Buffer,
    words: wgpu::Buffer,
    pub delta: wgpu::Buffer,
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

    /// Records the copies of a chunk of a tensor and of its base into the slot.
    pub fn copy_in(&self, encoder: &mut wgpu::CommandEncoder, chunk: &Region<'_>) {
        chunk.copy_to(encoder, if chunk.shift() == 0 { &self.words } else { &self.cover }, 0);
    }

    /// As [`Buffers::copy_in`] for the base.
    pub fn copy_base(&self, encoder: &mut wgpu::CommandEncoder, chunk: &Region<'_>) {
        if let Some(base) = &self.base {
            chunk.copy_to(encoder, if chunk.shift() == 0 { &base.words } else { &base.cover }, 0);
        }
    }

    /// Moves a copied chunk to the start of `words`.
    pub fn align(&self, pass: &mut Pass<'_>, chunk: &Region<'_>) -> Result<()> {
        take(pass, chunk, &self.cover, &self.words)
    }

    /// As [`Buffers::align`] for the base.
    pub fn align_base(&self, pass: &mut Pass<'_>, chunk: &Region<'_>) -> Result<()> {
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
    pub fn subject(&self) -> &wgpu::Buffer {
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

fn take(
    pass: &mut Pass<'_>,
    chunk: &Region<'_>,
    cover: &wgpu::Buffer,
    words: &wgpu::Buffer,
) -> Result<()> {
    if chunk.shift() == 0 {
        return Ok(());
    }
    pass.dispatch("take", &align_params(chunk), chunk.len().div_ceil(4), &[cover, words])
}
