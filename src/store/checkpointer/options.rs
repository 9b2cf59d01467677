//! Choices for a checkpointer.

use crate::store::SaveOptions;

/// What becomes of the snapshot that was saved last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastSaved {
    /// It stays in memory, one more of them (device tensors: in the device's), so that the next one
    /// is compared with it there.
    #[default]
    Keep,
    /// It is let go, and decoded from the store for the next one, through all deltas down to the
    /// last full step.
    Forget,
}

/// Choices for a [`Checkpointer`].
#[derive(Clone, Debug)]
pub struct CheckpointerOptions {
    pub(super) queue: usize,
    pub(super) max_bytes: u64,
    pub(super) last_saved: LastSaved,
    pub(super) save: SaveOptions,
}

impl Default for CheckpointerOptions {
    fn default() -> Self {
        CheckpointerOptions {
            queue: 1,
            max_bytes: u64::MAX,
            last_saved: LastSaved::Keep,
            save: SaveOptions::default(),
        }
    }
}

impl CheckpointerOptions {
    /// How many snapshots may wait while another one is written. Default 1: together with the
    /// one being written and the one before, three are in memory at most.
    #[must_use]
    pub fn with_queue(mut self, queue: usize) -> Self {
        self.queue = queue;
        self
    }

    /// Most bytes of snapshots that wait and are being written. One snapshot is always accepted when
    /// none is there. Default: no bound of its own. Copies on a device have a bound of their own,
    /// `gpu::Device::set_memory_limit`.
    #[must_use]
    pub fn with_max_bytes(mut self, max_bytes: u64) -> Self {
        self.max_bytes = max_bytes;
        self
    }

    /// What becomes of the snapshot that was saved last. Default: it stays in memory.
    #[must_use]
    pub fn with_last_saved(mut self, last_saved: LastSaved) -> Self {
        self.last_saved = last_saved;
        self
    }

    /// How every step is saved.
    #[must_use]
    pub fn with_save(mut self, save: SaveOptions) -> Self {
        self.save = save;
        self
    }
}
