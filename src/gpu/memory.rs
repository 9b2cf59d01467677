//! The buffers that are made here, and the most device memory that they may take.
//!
//! ```text
//! create_buffer   account: used + len <= limit?  ─ no ──> Error::Device, nothing is made
//!                 buffer of the device, with a lease of len bytes
//! last clone is dropped                          ──────> used − len
//! ```
//!
//! Buffers that the host reads or writes are its own memory on most devices and are not counted:
//! where the limit is reached, what lies on the device can still be read.

use super::Device;
use crate::error::{Error, Result};
use std::{
    borrow::Borrow,
    ops::Deref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

/// A buffer of a [`Device`]: a `wgpu::Buffer` that counts as memory of its device until the last
/// clone is dropped.
#[derive(Clone, Debug)]
pub struct Buffer {
    buffer: wgpu::Buffer,
    /// None where nothing is counted.
    _lease: Option<Arc<Lease>>,
}

impl Deref for Buffer {
    type Target = wgpu::Buffer;

    fn deref(&self) -> &wgpu::Buffer {
        &self.buffer
    }
}

impl Borrow<wgpu::Buffer> for Buffer {
    fn borrow(&self) -> &wgpu::Buffer {
        &self.buffer
    }
}

/// A buffer that was made elsewhere; it is not counted.
impl From<wgpu::Buffer> for Buffer {
    fn from(buffer: wgpu::Buffer) -> Buffer {
        Buffer { buffer, _lease: None }
    }
}

/// Bytes in use, and the most there may be.
#[derive(Debug)]
pub(super) struct Account {
    used: AtomicU64,
    limit: AtomicU64,
}

/// Bytes of an account that a buffer uses.
#[derive(Debug)]
struct Lease {
    account: Arc<Account>,
    len: u64,
}

impl Account {
    pub fn new() -> Arc<Account> {
        Arc::new(Account { used: AtomicU64::new(0), limit: AtomicU64::new(u64::MAX) })
    }

    fn charge(self: &Arc<Self>, len: u64) -> Result<Arc<Lease>> {
        let limit = self.limit.load(Ordering::Relaxed);
        let more = |used: u64| used.checked_add(len).filter(|sum| *sum <= limit);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more) {
            Ok(_) => Ok(Arc::new(Lease { account: self.clone(), len })),
            Err(used) => Err(Error::Device(
                format!("{used} bytes of device memory are in use, and {limit} may be").into(),
            )),
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.account.used.fetch_sub(self.len, Ordering::Relaxed);
    }
}

impl Device {
    /// Bytes of device memory that buffers made here take, of all clones of this device.
    pub fn memory(&self) -> u64 {
        self.account().used.load(Ordering::Relaxed)
    }

    /// Sets the most that [`Device::memory`] may become, for all clones; by default there is no
    /// limit. What exceeds it fails as if the device had no more memory: transforms are then the
    /// CPU's, tensors are read when they are saved instead of being copied on the device, and
    /// encoders and decoders return an error.
    pub fn set_memory_limit(&self, bytes: u64) {
        self.account().limit.store(bytes, Ordering::Relaxed);
    }

    /// A new buffer of at least `len` bytes, mapped if it is to be mapped for writing.
    ///
    /// # Errors
    /// [`Error::Device`] where the device has no memory for it or does not allow the size.
    pub fn create_buffer(
        &self,
        label: &'static str,
        len: u64,
        usage: wgpu::BufferUsages,
    ) -> Result<Buffer> {
        // Never empty: a binding must not be.
        let size = len.checked_next_multiple_of(16).unwrap_or(u64::MAX).max(16);
        let make = || {
            let write = wgpu::BufferUsages::MAP_WRITE;
            let counted = !usage.intersects(write | wgpu::BufferUsages::MAP_READ);
            let lease = counted.then(|| self.account().charge(size)).transpose()?;
            let buffer = self.scoped(|| {
                Ok(self.wgpu().create_buffer(&wgpu::BufferDescriptor {
                    label: Some(label),
                    size,
                    usage,
                    mapped_at_creation: usage.contains(write),
                }))
            })?;
            Ok(Buffer { buffer, _lease: lease })
        };
        make().map_err(|e: Error| e.at(format_args!("{label} of {size} bytes")))
    }

    /// A buffer that shaders read and write, and that can be copied from and to.
    ///
    /// # Errors
    /// As [`Device::create_buffer`].
    pub fn storage(&self, label: &'static str, len: u64) -> Result<Buffer> {
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        self.create_buffer(label, len, usage)
    }

    /// A buffer that the CPU reads after a copy to it.
    ///
    /// # Errors
    /// As [`Device::create_buffer`].
    pub fn staging(&self, label: &'static str, len: u64) -> Result<Buffer> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        self.create_buffer(label, len, usage)
    }
}
