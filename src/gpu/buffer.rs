//! Byte ranges of buffers, and what crosses between them and the host.
//!
//! A device copies multiples of four bytes at multiples of four. A [`Region`] that begins or ends
//! elsewhere is copied together with what surrounds it, and a shader moves its bytes into place
//! (`transform::align`).

use super::{Buffer, Device, Recorder, staging::Outcome};
use crate::error::{Error, Result};
use std::{
    sync::mpsc::RecvTimeoutError,
    time::{Duration, Instant},
};

/// Alignment and unit of copies.
pub(super) const COPY: u64 = wgpu::COPY_BUFFER_ALIGNMENT;

/// The bytes `offset..offset + len` of a buffer, which may hold other things around them.
#[derive(Clone, Copy, Debug)]
pub struct Region<'b> {
    buffer: &'b wgpu::Buffer,
    offset: u64,
    len: u64,
}

impl<'b> Region<'b> {
    /// A region of `buffer`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] where it does not lie in the buffer, or reaches into a last
    /// word that the buffer holds only a part of, which no device can copy.
    pub fn new(buffer: &'b wgpu::Buffer, offset: u64, len: u64) -> Result<Self> {
        match offset.checked_add(len) {
            Some(end) if end.next_multiple_of(COPY) <= buffer.size() => {}
            Some(end) if end <= buffer.size() => {
                return Err(Error::InvalidArgument(format!(
                    "the last bytes of a buffer of {} bytes cannot be copied; make it a multiple of 4",
                    buffer.size()
                ).into()));
            }
            _ => {
                return Err(Error::InvalidArgument(
                    format!(
                        "{len} bytes at {offset} do not lie in a buffer of {} bytes",
                        buffer.size()
                    )
                    .into(),
                ));
            }
        }
        Ok(Region { buffer, offset, len })
    }

    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes `start..start + len` of this region, which must lie in it.
    pub(super) fn part(&self, start: u64, len: u64) -> Self {
        debug_assert!(start + len <= self.len);
        Region { buffer: self.buffer, offset: self.offset + start, len }
    }

    /// Where the region begins in the first word of its [`Region::cover`].
    pub(super) fn shift(&self) -> u64 {
        self.offset % COPY
    }

    /// Bytes of the whole words that hold the region.
    pub(super) fn cover_len(&self) -> u64 {
        (self.shift() + self.len).next_multiple_of(COPY)
    }

    /// Records a copy of the words that hold the region to the start of `to`.
    pub(super) fn copy_to(&self, encoder: &mut wgpu::CommandEncoder, to: &wgpu::Buffer, at: u64) {
        let from = self.offset - self.shift();
        if !self.is_empty() {
            encoder.copy_buffer_to_buffer(self.buffer, from, to, at, self.cover_len());
        }
    }

    /// Records a copy of the words at the start of `from` to those that hold the region.
    pub(super) fn copy_from(&self, encoder: &mut wgpu::CommandEncoder, from: &wgpu::Buffer) {
        let to = self.offset - self.shift();
        if !self.is_empty() {
            encoder.copy_buffer_to_buffer(from, 0, self.buffer, to, self.cover_len());
        }
    }

    /// Fails unless the buffer allows `usage`.
    pub(super) fn require(&self, usage: wgpu::BufferUsages, name: &str) -> Result<()> {
        if self.buffer.usage().contains(usage) {
            return Ok(());
        }
        Err(Error::InvalidArgument(format!("the buffer was made without the usage {name}").into()))
    }
}

impl Device {
    /// Two readings of the device's clock, which it must have.
    pub(super) fn query_set(&self) -> Result<wgpu::QuerySet> {
        self.scoped(|| {
            Ok(self.wgpu().create_query_set(&wgpu::QuerySetDescriptor {
                label: Some("times"),
                ty: wgpu::QueryType::Timestamp,
                count: 2,
            }))
        })
    }

    /// Reads the first `len` bytes of a buffer that can be copied from, waiting for them.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn read(&self, buffer: &wgpu::Buffer, len: u64) -> Result<Vec<u8>> {
        if len == 0 {
            return Ok(Vec::new());
        }
        let copied = len.next_multiple_of(COPY);
        let staging = self.staging("readback", copied)?;
        let mut recorder = Recorder::for_copies(self);
        recorder.encoder().copy_buffer_to_buffer(buffer, 0, &staging, 0, copied);
        Mapped::on_submit(recorder, &staging, copied)?
            .read(self, |bytes| bytes[..len as usize].to_vec())
    }
}

/// A staging buffer that is being copied to and then mapped.
#[derive(Debug)]
pub(super) struct Mapped {
    buffer: Buffer,
    len: u64,
    submission: wgpu::SubmissionIndex,
    outcome: Outcome,
}

impl Mapped {
    /// Submits what was recorded and maps the first `len` bytes of `buffer` when it is done.
    pub(super) fn on_submit(
        mut recorder: Recorder<'_>,
        buffer: &Buffer,
        len: u64,
    ) -> Result<Mapped> {
        let outcome = recorder.map_on_submit(buffer, len);
        let submission = recorder.submit()?;
        Ok(Mapped { buffer: buffer.clone(), len, submission, outcome })
    }

    /// What became of the mapping, once the submission is done. Another thread that waits for the
    /// device may be the one that is about to say so.
    fn is_mapped(&self, device: &Device) -> Result<bool> {
        let begun = Instant::now();
        loop {
            match self.outcome.recv_timeout(Duration::from_millis(20)) {
                Ok(outcome) => return Ok(outcome.is_ok()),
                Err(RecvTimeoutError::Disconnected) => return Ok(false),
                Err(RecvTimeoutError::Timeout) if begun.elapsed() > Device::TIMEOUT => {
                    return Ok(false);
                }
                Err(RecvTimeoutError::Timeout) => device.wait(self.submission.clone())?,
            }
        }
    }

    /// Waits for the bytes, hands them to `f` and unmaps the buffer.
    pub(super) fn read<T>(self, device: &Device, f: impl FnOnce(&[u8]) -> T) -> Result<T> {
        device.wait(self.submission.clone())?;
        if !self.is_mapped(device)? {
            let name = &device.info().name;
            return Err(Error::Device(format!("{name} lost what it was to read back").into()));
        }
        let view = device.scoped(|| {
            self.buffer
                .get_mapped_range(0..self.len)
                .map_err(|e| Error::Device(format!("cannot read back: {e}").into()))
        })?;
        let value = f(&view);
        drop(view);
        device.scoped(|| {
            self.buffer.unmap();
            Ok(value)
        })
    }
}
