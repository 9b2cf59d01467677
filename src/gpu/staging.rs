//! Host memory on either side of a copy, kept for the next one.
//!
//! ```text
//! write   upload (mapped) <── bytes; unmap; copy to the buffer, ahead of what else is submitted
//!         once that is done it is mapped again, by itself, and may be taken again
//! read    copy to a readback; map; bytes; unmap; it is given back
//! ```
//!
//! A queue's own `write_buffer` takes new memory at each call, and where there is none its device
//! is lost, which may be the one that trains. Here the want of memory is an error like any other,
//! and work that goes on takes no new memory at all.

use super::{Buffer, Device, Recorder, buffer::COPY};
use crate::error::{Error, Result};
use std::sync::{
    Mutex, MutexGuard, PoisonError,
    mpsc::{Receiver, TryRecvError},
};

/// Buffers for reading back that a device keeps.
const MOST_READS: usize = 8;
/// Bytes of uploads that a device keeps.
const MOST_KEPT: u64 = 32 << 20;
/// Bytes of the largest and the smallest upload.
pub(super) const MOST_LEN: usize = 8 << 20;
const LEAST_LEN: u64 = 16 << 10;

/// Buffers that are not in use.
#[derive(Debug, Default)]
pub(super) struct Staging {
    reads: Mutex<Vec<Buffer>>,
    writes: Mutex<Vec<Upload>>,
}

/// What becomes of a mapping.
pub(super) type Outcome = Receiver<std::result::Result<(), wgpu::BufferAsyncError>>;

/// A buffer that was copied from, and whether it is mapped again.
#[derive(Debug)]
struct Upload {
    buffer: Buffer,
    outcome: Outcome,
    mapped: bool,
}

impl Upload {
    /// Looks whether it is mapped by now; false where it never will be.
    fn look(&mut self) -> bool {
        match self.outcome.try_recv() {
            _ if self.mapped => {}
            Ok(Ok(())) => self.mapped = true,
            Err(TryRecvError::Empty) => {}
            _ => return false,
        }
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Device {
    /// Writes `bytes` to `buffer` from byte `at`, a multiple of four, on, before whatever is
    /// submitted next. Up to three bytes after them are zeroed.
    ///
    /// # Errors
    /// [`Error::Device`].
    pub fn write_at(&self, buffer: &wgpu::Buffer, at: u64, bytes: &[u8]) -> Result<()> {
        let mut recorder = Recorder::for_copies(self);
        recorder.write(buffer, at, bytes)?;
        recorder.submit().map(drop)
    }

    /// A buffer that holds `bytes`, at most [`MOST_LEN`], and zeros up to the next multiple of
    /// four: to be copied from, and given back with the outcome of the mapping that follows.
    pub(super) fn upload(&self, bytes: &[u8]) -> Result<Buffer> {
        let copied = (bytes.len() as u64).next_multiple_of(COPY);
        let wanted = copied.next_power_of_two().max(LEAST_LEN);
        let mut kept = lock(&self.staging_pool().writes);
        kept.retain_mut(Upload::look);
        // A much larger one would be missed by those who need it.
        let fits = |u: &Upload| u.mapped && (wanted..=4 * wanted).contains(&u.buffer.size());
        let found = kept.iter().enumerate().filter(|(_, u)| fits(u));
        let buffer = match found.min_by_key(|(_, u)| u.buffer.size()).map(|(i, _)| i) {
            Some(i) => kept.remove(i).buffer,
            None => {
                drop(kept);
                let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
                self.create_buffer("upload", wanted, usage)?
            }
        };
        self.scoped(|| {
            let mut view = buffer
                .get_mapped_range_mut(0..copied)
                .map_err(|e| Error::Device(format!("cannot write: {e}").into()))?;
            view.slice(..bytes.len()).copy_from_slice(bytes);
            view.slice(bytes.len()..).fill(0);
            drop(view);
            buffer.unmap();
            Ok(())
        })?;
        Ok(buffer)
    }

    /// Keeps uploads for the next writes, rather than those that were kept for longest.
    pub(super) fn return_uploads(&self, uploads: Vec<(Buffer, Outcome)>) {
        let mut kept = lock(&self.staging_pool().writes);
        kept.extend(uploads.into_iter().map(|(buffer, outcome)| Upload {
            buffer,
            outcome,
            mapped: false,
        }));
        let mut room = MOST_KEPT;
        let newest = kept.iter().rev().take_while(|u| {
            let fits = u.buffer.size() <= room;
            room = room.saturating_sub(u.buffer.size());
            fits
        });
        let excess = kept.len() - newest.count();
        kept.drain(..excess);
    }

    /// A buffer for reading back at least `len` bytes, to be given back when it was unmapped.
    pub(super) fn take_staging(&self, len: u64) -> Result<Buffer> {
        let mut kept = lock(&self.staging_pool().reads);
        match kept.iter().position(|b| b.size() >= len) {
            Some(i) => Ok(kept.swap_remove(i)),
            None => {
                drop(kept);
                self.staging("readback", len.next_power_of_two())
            }
        }
    }

    /// Keeps a staging buffer for the next read.
    pub(super) fn return_staging(&self, buffer: Buffer) {
        let mut kept = lock(&self.staging_pool().reads);
        if kept.len() == MOST_READS {
            kept.remove(0);
        }
        kept.push(buffer);
    }
}
