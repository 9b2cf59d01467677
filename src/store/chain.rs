//! Archives of a store, and the archives that they are deltas to.

use super::{Link, StepRecord, Store};
use crate::{
    Options, Result,
    archive::{Archive, Base, Input, Summary, compress_files},
};
use std::{path::Path, sync::Arc};

/// Most links that a chain may have: each costs a restore its share of time, memory and stack.
pub(super) const MAX_CHAIN: u64 = 100;

impl Store {
    /// Writes an archive of `input` under a name in `steps`, as a delta to a step of the store
    /// where one is given.
    pub(super) fn write_archive(
        &self,
        input: &Input<'_>,
        name: &str,
        base: Option<&StepRecord>,
    ) -> Result<Summary> {
        let base = match base {
            Some(base) => Some(self.as_base(&base.archive, self.open_record(base)?)),
            None => None,
        };
        let options = self.options.clone().with_force(false).with_base(base);
        compress_files(input, &self.step_path(name), &options)
    }

    /// Opens an archive in `steps` that is a delta to the first of `chain`, which is one to the
    /// second, and so on.
    pub(super) fn open_archive(&self, name: &str, chain: &[Link]) -> Result<Archive<'static>> {
        let mut base: Option<Arc<Base>> = None;
        for link in chain.iter().rev() {
            let archive = self
                .open_one(&link.archive, base.as_ref())
                .map_err(|e| e.at(format_args!("step {}", link.step)))?;
            base = Some(self.as_base(&link.archive, archive));
        }
        self.open_one(name, base.as_ref())
    }

    fn open_one(&self, name: &str, base: Option<&Arc<Base>>) -> Result<Archive<'static>> {
        let archive = Archive::open(&self.step_path(name), self.options.limits)?;
        if let Some(base) = base {
            archive.attach_base(base)?;
        }
        Ok(archive)
    }

    fn as_base(&self, name: &str, archive: Archive<'static>) -> Arc<Base> {
        Base::of_archive(&self.step_path(name), archive)
    }

    pub(super) fn open_input(&self, path: &Path, options: &Options) -> Result<Input<'static>> {
        Input::open(path, options.dtype, options.follow_symlinks)
    }
}
