//! Where a tensor is while it is coded, and copies within the device, so that training may go on
//! changing the original.

use crate::{
    error::Result,
    gpu::{Buffer, Device, Recorder, Region},
};

/// Bytes of a segment: whole chunks, and below every device's limit on buffers.
const SEGMENT_LEN: u64 = 64 << 20;

/// A copy of a tensor in buffers of our own.
#[derive(Debug)]
pub struct Snapshot {
    /// Consecutive parts of [`SEGMENT_LEN`] bytes, the last one shorter.
    segments: Vec<Buffer>,
    /// Where each part begins in its first word, as in the original.
    shift: u64,
    len: u64,
}

impl Snapshot {
    /// Submits a copy of the region and returns. Whatever is submitted to the same queue after
    /// that may change the original. Buffers in `pool` are used again.
    pub(super) fn take(
        device: &Device,
        region: &Region<'_>,
        pool: &mut Vec<Buffer>,
    ) -> Result<Snapshot> {
        region.require(wgpu::BufferUsages::COPY_SRC, "COPY_SRC")?;
        let mut recorder = Recorder::for_copies(device);
        let mut segments = Vec::new();
        for start in (0..region.len()).step_by(SEGMENT_LEN as usize) {
            let part = region.part(start, SEGMENT_LEN.min(region.len() - start));
            let need = part.cover_len();
            let kept = pool.iter().position(|b| b.size() >= need && b.size() / 2 <= need);
            let segment = match kept {
                Some(i) => pool.swap_remove(i),
                None => device.storage("snapshot", need).or_else(|_| {
                    pool.clear();
                    device.storage("snapshot", need)
                })?,
            };
            part.copy_to(recorder.encoder(), &segment, 0);
            segments.push(segment);
        }
        recorder.submit()?;
        Ok(Snapshot { segments, shift: region.shift(), len: region.len() })
    }

    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(super) fn into_buffers(self) -> Vec<Buffer> {
        self.segments
    }

    /// The bytes `start..start + len`, which must not cross a segment's end.
    fn part(&self, start: u64, len: u64) -> Result<Region<'_>> {
        let segment = &self.segments[(start / SEGMENT_LEN) as usize];
        Region::new(segment, self.shift + start % SEGMENT_LEN, len)
    }
}

/// Where the bytes of a tensor lie.
#[derive(Clone, Copy, Debug)]
pub enum Tensor<'t> {
    /// In a caller's buffer, which must not change until the chunks are there.
    Region(Region<'t>),
    /// In a copy.
    Snapshot(&'t Snapshot),
    /// In host memory, such as a mapped file; they are sent to the device chunk by chunk.
    Host(&'t [u8]),
}

/// A chunk of a tensor on its way to the device.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part<'t> {
    Device(Region<'t>),
    Host(&'t [u8]),
}

impl Part<'_> {
    pub fn len(&self) -> u64 {
        match self {
            Part::Device(region) => region.len(),
            Part::Host(bytes) => bytes.len() as u64,
        }
    }
}

impl<'t> Tensor<'t> {
    /// Number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Tensor::Region(region) => region.len(),
            Tensor::Snapshot(snapshot) => snapshot.len(),
            Tensor::Host(bytes) => bytes.len() as u64,
        }
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes of a chunk: chunks divide segments evenly.
    pub(super) fn part(&self, start: u64, len: u64) -> Result<Part<'t>> {
        Ok(match self {
            Tensor::Region(region) => Part::Device(region.part(start, len)),
            Tensor::Snapshot(snapshot) => Part::Device(snapshot.part(start, len)?),
            Tensor::Host(bytes) => Part::Host(&bytes[start as usize..][..len as usize]),
        })
    }
}

impl<'t> From<Region<'t>> for Tensor<'t> {
    fn from(region: Region<'t>) -> Self {
        Tensor::Region(region)
    }
}

impl<'t> From<&'t [u8]> for Tensor<'t> {
    fn from(bytes: &'t [u8]) -> Self {
        Tensor::Host(bytes)
    }
}

impl<'t> From<&'t Snapshot> for Tensor<'t> {
    fn from(snapshot: &'t Snapshot) -> Self {
        Tensor::Snapshot(snapshot)
    }
}
