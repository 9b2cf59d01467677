//! Archives of a store, and the archives that they are deltas to.

use super::{Link, StepRecord, Store};
use crate::{
    Options, Result,
    archive::{Archive, Input, Summary, compress_files},
};
use std::path::Path;

/// Whether archives can be deltas.
pub(super) const DELTAS: bool = false;

impl Store {
    /// Writes an archive of `input` under a name in `steps`, as a delta to a step of the store
    /// where one is given.
    pub(super) fn write_archive(
        &self,
        input: &Input<'_>,
        name: &str,
        base: Option<&StepRecord>,
    ) -> Result<Summary> {
        let options = self.options.clone().with_force(false);
        debug_assert!(base.is_none() || !DELTAS);
        compress_files(input, &self.step_path(name), &options)
    }

    /// Opens an archive in `steps` that is a delta to the first of `chain`, which is one to the
    /// second, and so on.
    pub(super) fn open_archive(&self, name: &str, chain: &[Link]) -> Result<Archive<'static>> {
        let _ = chain;
        Archive::open(&self.step_path(name), self.options.limits)
    }

    pub(super) fn open_input(&self, path: &Path, options: &Options) -> Result<Input<'static>> {
        Input::open(path, options.dtype, options.follow_symlinks)
    }
}
