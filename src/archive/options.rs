//! What a caller can choose.

mod face;

use super::access::Base;
use crate::{
    codec::{Accelerator, Method, Scratch},
    container::Limits,
    dtype::Dtype,
    pipeline::{self, Cancel, Threads, Workers},
    predict::adam::Hints,
    simd::Level,
};
use std::{
    any::Any,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

pub use face::{CompressOptions, RestoreOptions};

/// Called with the number of input bytes dealt with since the last call, from any thread.
pub type Progress = Arc<dyn Fn(u64) + Send + Sync>;

/// What of existing output is replaced. Never replaced are the input, the base and every base of
/// its chain, directories that contain one of them, what lies in one of them, and what is neither
/// a file nor a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overwrite {
    /// Nothing: output that exists is an error.
    #[default]
    Refuse,
    /// A file; of a directory those files that are written anew. Others in it stay.
    Files,
    /// As `Files`, but a directory is replaced as a whole, with whatever else it holds.
    Directory,
}

/// What becomes of symbolic links among files to compress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Symlinks {
    /// One that is met is an error.
    #[default]
    Refuse,
    /// What they lead to is stored.
    Follow,
}

/// What becomes of files that somebody writes to while they are read. A file that becomes shorter
/// and a base that changes are errors in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Changes {
    /// One that is noticed is an error.
    #[default]
    Refuse,
    /// What was read is stored, and a note names every file that changed.
    Store,
}

/// What becomes of stretches that cannot be restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDamage {
    /// The first is an error.
    #[default]
    Fail,
    /// They read as zeros, and [`Restored::damage`](crate::Restored::damage) lists them all.
    Fill,
}

/// All choices together, as this crate hands them on. [`CompressOptions`] and [`RestoreOptions`]
/// show callers those that matter to them.
///
/// Calls with the same options, or with clones of them, use the same threads and buffers, one after
/// the other, which are given back with the last of the options.
#[derive(Clone)]
#[non_exhaustive]
pub struct Options {
    /// How to code. Default `auto`; recorded per chunk. Only for compressing.
    pub method: Method,
    /// Worker threads; 0, the default, is one a core. Not stored: archives do not depend on it.
    pub threads: usize,
    /// Instruction set. Default: the best one here. Not stored: archives do not depend on it.
    pub level: Level,
    /// Element type of headerless input. Default `None`: recognise formats. Stored.
    pub dtype: Option<Dtype>,
    /// What becomes of symbolic links.
    pub symlinks: Symlinks,
    /// What of existing output is replaced. Default: nothing.
    pub overwrite: Overwrite,
    /// What output must never replace, contain or lie in, beside what the work itself reads and
    /// knows the place of. Default: nothing.
    pub protected: Vec<PathBuf>,
    /// What becomes of input that changes while it is read. Only for compressing.
    pub changes: Changes,
    /// What becomes of what cannot be restored. Only for restoring.
    pub damage: OnDamage,
    /// What the archive is or will be a delta to. Default: nothing. Its name, files and digests
    /// are stored. Without one, a delta finds its base beside it under the name it remembers.
    pub base: Option<Arc<Base>>,
    /// What is known of the optimizer that made a training checkpoint, beside what stands in the
    /// checkpoint itself. Default: nothing; scalars are searched for. Only for compressing.
    pub optimizer: Hints,
    /// Makes transforms instead of the CPU; archives do not depend on it. Default: nothing.
    pub device: Option<Arc<dyn Accelerator>>,
    /// Bounds on sizes that an archive states. Not stored.
    pub limits: Limits,
    /// Told about every stretch of input dealt with. Default: nobody.
    pub progress: Option<Progress>,
    /// Stops the work between chunks. Default: never.
    pub cancel: Arc<Cancel>,
    /// What calls with these options, and with clones of them, leave to each other.
    kept: Arc<Kept>,
}

/// Threads and coders that wait for the next call.
#[derive(Default)]
struct Kept {
    threads: Threads,
    coders: Mutex<Vec<Box<dyn Any + Send>>>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            method: Method::Auto,
            threads: 0,
            level: Level::best(),
            dtype: None,
            symlinks: Symlinks::Refuse,
            overwrite: Overwrite::Refuse,
            protected: Vec::new(),
            changes: Changes::Refuse,
            damage: OnDamage::Fail,
            base: None,
            optimizer: Hints::default(),
            device: None,
            limits: Limits::default(),
            progress: None,
            cancel: Arc::new(Cancel::new()),
            kept: Arc::default(),
        }
    }
}

/// A method `with_FIELD` for each of some public fields of a type.
macro_rules! with_methods {
    ($type:ident { $($name:ident $field:ident: $value:ty),* $(,)? }) => {
        impl $type {$(
            #[doc = concat!("Sets [`", stringify!($type), "::", stringify!($field), "`].")]
            #[must_use]
            pub fn $name(mut self, $field: $value) -> Self {
                self.$field = $field;
                self
            }
        )*}
    };
}
pub(crate) use with_methods;

with_methods! {
    Options {
        with_method method: Method,
        with_threads threads: usize,
        with_level level: Level,
        with_dtype dtype: Option<Dtype>,
        with_symlinks symlinks: Symlinks,
        with_overwrite overwrite: Overwrite,
        with_protected protected: Vec<PathBuf>,
        with_changes changes: Changes,
        with_damage damage: OnDamage,
        with_base base: Option<Arc<Base>>,
        with_optimizer optimizer: Hints,
        with_device device: Option<Arc<dyn Accelerator>>,
        with_limits limits: Limits,
        with_progress progress: Option<Progress>,
        with_cancel cancel: Arc<Cancel>,
    }
}

/// Coders more than threads where a device makes transforms: while they wait, others code.
const WAITING: usize = 2;

impl Options {
    /// Those for compressing.
    pub fn compressing(&self) -> CompressOptions {
        CompressOptions(self.clone())
    }

    /// Those for restoring.
    pub fn restoring(&self) -> RestoreOptions {
        RestoreOptions(self.clone())
    }

    /// Whether symbolic links are followed.
    pub(crate) fn follows_symlinks(&self) -> bool {
        self.symlinks == Symlinks::Follow
    }

    /// Whether work goes on past what cannot be restored.
    pub(in crate::archive) fn keeps_going(&self) -> bool {
        self.damage == OnDamage::Fill
    }

    /// Coders for at most `jobs` jobs.
    pub(in crate::archive) fn coders(&self, jobs: usize) -> usize {
        let waiting = if self.device.is_some() { WAITING } else { 0 };
        (pipeline::worker_count(self.threads) + waiting).min(jobs.max(1))
    }

    /// Workers for at most `jobs` jobs.
    pub(in crate::archive) fn workers(&self, jobs: usize) -> Workers<'_> {
        self.on_threads(pipeline::worker_count(self.threads).min(jobs.max(1)))
    }

    /// So many workers.
    pub(in crate::archive) fn on_threads(&self, count: usize) -> Workers<'_> {
        self.kept.threads.workers(count)
    }

    /// A coder that an earlier call kept.
    pub(in crate::archive) fn kept_coder<T: Any + Send>(&self) -> Option<Box<T>> {
        let mut coders = self.kept.coders.lock().unwrap_or_else(PoisonError::into_inner);
        coders.pop()?.downcast().ok()
    }

    /// Keeps a coder for a later call, one a worker at most.
    pub(in crate::archive) fn keep_coder(&self, coder: Box<dyn Any + Send>) {
        let mut coders = self.kept.coders.lock().unwrap_or_else(PoisonError::into_inner);
        let most = pipeline::worker_count(self.threads);
        if coders.len() < most + most.div_ceil(2) {
            coders.push(coder);
        }
    }

    /// Memory of one coder.
    pub(in crate::archive) fn scratch(&self) -> Scratch {
        Scratch::new(self.device.as_ref().map(|device| device.transforms()))
    }

    /// Who makes the transforms, for people.
    pub(in crate::archive) fn device_name(&self) -> String {
        self.device.as_ref().map_or_else(|| "cpu".into(), |device| device.name())
    }

    /// What went wrong on the device, once.
    pub(in crate::archive) fn device_note(&self) -> Option<String> {
        let fault = self.device.as_ref()?.take_fault()?;
        Some(format!("the CPU did what the device could not: {fault}"))
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("method", &self.method)
            .field("threads", &self.threads)
            .field("level", &self.level)
            .field("dtype", &self.dtype)
            .field("overwrite", &self.overwrite)
            .field("base", &self.base)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
