//! Options as callers see them: apart for compressing and for restoring.

use super::{Changes, Hints, OnDamage, Options, Overwrite, Symlinks};
use crate::{
    archive::access::Base,
    codec::{Accelerator, Method},
    container::Limits,
    dtype::Dtype,
    pipeline::Cancel,
    simd::Level,
};
use std::{path::PathBuf, sync::Arc};

/// Choices for compressing. Start from `CompressOptions::default()` and change what matters.
/// Archives depend on method, element type and base; never on threads, device or timing.
///
/// Calls with the same options, or with clones of them, use the same threads and buffers, one after
/// the other, which are given back with the last of the options. Where archives are small, starting
/// threads and getting fresh memory take longer than coding: keep the options.
///
/// ```
/// use lmc_gpu::{CompressOptions, Method};
/// let options = CompressOptions::default().with_method(Method::Fast).with_threads(1);
/// let archive = lmc_gpu::compress(&[0; 1000], &options)?;
/// # Ok::<(), lmc_gpu::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct CompressOptions(pub(crate) Options);

/// Choices for restoring, verifying and looking into archives. Start from
/// `RestoreOptions::default()` and change what matters.
///
/// ```
/// use lmc_gpu::{Limits, RestoreOptions};
/// let limits = Limits { memory: 256 << 20, ..Limits::default() };
/// let options = RestoreOptions::default().with_threads(2).with_limits(limits);
/// assert_eq!(options.limits().memory, 256 << 20);
/// ```
#[derive(Clone, Debug, Default)]
pub struct RestoreOptions(pub(crate) Options);

/// What both have.
macro_rules! of_both {
    ($type:ident) => {
        impl $type {
            /// Worker threads; 0, the default, is one a core.
            #[must_use]
            pub fn with_threads(mut self, threads: usize) -> Self {
                self.0.threads = threads;
                self
            }

            /// What the archive is, or will be, a delta to. Default: nothing. Without one, an
            /// archive that is a delta finds its base beside it under the name it remembers.
            #[must_use]
            pub fn with_base(mut self, base: impl Into<Option<Arc<Base>>>) -> Self {
                self.0.base = base.into();
                self
            }

            /// What of existing output is replaced. Default: nothing.
            #[must_use]
            pub fn with_overwrite(mut self, overwrite: Overwrite) -> Self {
                self.0.overwrite = overwrite;
                self
            }

            /// What output must never replace, contain or lie in, beside what the work itself reads
            /// and knows the place of. Default: nothing.
            #[must_use]
            pub fn with_protected(mut self, protected: Vec<PathBuf>) -> Self {
                self.0.protected = protected;
                self
            }

            /// Called with the number of input bytes dealt with since the last call, from any
            /// thread. Default: nobody is told.
            #[must_use]
            pub fn with_progress(mut self, progress: impl Fn(u64) + Send + Sync + 'static) -> Self {
                self.0.progress = Some(Arc::new(progress));
                self
            }

            /// Stops the work between chunks. Default: never.
            #[must_use]
            pub fn with_cancel(mut self, cancel: Arc<Cancel>) -> Self {
                self.0.cancel = cancel;
                self
            }

            /// The instruction set, for tests: the best one here otherwise.
            #[doc(hidden)]
            #[must_use]
            pub fn with_level(mut self, level: Level) -> Self {
                self.0.level = level;
                self
            }

            /// Worker threads; 0 is one a core.
            pub fn threads(&self) -> usize {
                self.0.threads
            }

            /// What the archive is, or will be, a delta to.
            pub fn base(&self) -> Option<&Arc<Base>> {
                self.0.base.as_ref()
            }

            /// What of existing output is replaced.
            pub fn overwrite(&self) -> Overwrite {
                self.0.overwrite
            }
        }
    };
}

of_both!(CompressOptions);
of_both!(RestoreOptions);

impl CompressOptions {
    /// How to code. Default [`Method::Auto`]; recorded per chunk.
    #[must_use]
    pub fn with_method(mut self, method: Method) -> Self {
        self.0.method = method;
        self
    }

    /// Element type of input without a header. Default: formats are recognised. Stored.
    #[must_use]
    pub fn with_dtype(mut self, dtype: impl Into<Option<Dtype>>) -> Self {
        self.0.dtype = dtype.into();
        self
    }

    /// What becomes of symbolic links. Default: they are refused.
    #[must_use]
    pub fn with_symlinks(mut self, symlinks: Symlinks) -> Self {
        self.0.symlinks = symlinks;
        self
    }

    /// What becomes of files that change while they are read. Default: that is an error.
    #[must_use]
    pub fn with_changes(mut self, changes: Changes) -> Self {
        self.0.changes = changes;
        self
    }

    /// What is known of the optimizer that made a training checkpoint, beside what stands in the
    /// checkpoint itself. Default: nothing; scalars are searched for.
    #[must_use]
    pub fn with_optimizer(mut self, optimizer: Hints) -> Self {
        self.0.optimizer = optimizer;
        self
    }

    /// Makes transforms instead of the CPU: a `gpu::Transformer`. Default: nothing does.
    #[must_use]
    pub fn with_device(mut self, device: Arc<dyn Accelerator>) -> Self {
        self.0.device = Some(device);
        self
    }

    /// How to code.
    pub fn method(&self) -> Method {
        self.0.method
    }

    /// Element type of input without a header.
    pub fn dtype(&self) -> Option<Dtype> {
        self.0.dtype
    }
}

impl RestoreOptions {
    /// What becomes of stretches that cannot be restored. Default: the first is an error.
    #[must_use]
    pub fn with_damage(mut self, damage: OnDamage) -> Self {
        self.0.damage = damage;
        self
    }

    /// Bounds on what an archive may ask for.
    #[must_use]
    pub fn with_limits(mut self, limits: Limits) -> Self {
        self.0.limits = limits;
        self
    }

    /// Bounds on what an archive may ask for.
    pub fn limits(&self) -> Limits {
        self.0.limits
    }
}
