//! Archives of a store, and the archives that they are deltas to.

use super::{Link, StepRecord, Store};
use crate::{
    Result,
    archive::{Archive, Base, Input, Options, Overwrite, Summary, compress_files},
};
use std::{path::Path, sync::Arc};

/// Most links that a chain may have: each costs a restore its share of time, memory and stack.
pub(super) const MAX_CHAIN: u64 = 100;

/// The files of a step, where a saver still has them in memory: reading them there saves
/// decoding the whole chain below the next step.
pub(super) struct Near {
    /// The step as it was saved.
    pub record: StepRecord,
    /// Its files.
    pub base: Arc<Base>,
}

impl Store {
    /// What to pass on to the next save.
    pub(super) fn near(&self, record: StepRecord, input: Input<'static>) -> Near {
        let base = Base::of_files(&self.step_path(&record.archive), input);
        Near { record, base }
    }

    /// Writes an archive of `input` under a name in `steps`, as a delta to a step of the store
    /// where one is given.
    pub(super) fn write_archive(
        &self,
        input: &Input<'_>,
        name: &str,
        base: Option<&StepRecord>,
        near: Option<&Near>,
    ) -> Result<Summary> {
        let mut found = None;
        if let Some(base) = base {
            // Opened in any case, so that nothing rests on an archive that is gone.
            let archive = self.open_record(base)?;
            found = Some(match near.filter(|near| near.record == *base) {
                Some(near) => near.base.clone(),
                None => self.as_base(&base.archive, archive),
            });
        }
        let options = self.options.clone().with_overwrite(Overwrite::Refuse).with_base(found);
        compress_files(input, &self.step_path(name), &options.compressing())
    }

    /// Opens an archive in `steps` that is a delta to the first of `chain`, which is one to the
    /// second, and so on.
    pub(super) fn open_archive(&self, name: &str, chain: &[Link]) -> Result<Archive<'static>> {
        let mut base: Option<Arc<Base>> = None;
        for link in chain.iter().rev() {
            let archive = self
                .open_one(&link.archive, base.as_ref())
                .map_err(|e| e.at(format_args!("needs step {}", link.step)))?;
            base = Some(self.as_base(&link.archive, archive));
        }
        self.open_one(name, base.as_ref())
    }

    /// The archive of a link as a base, with the archives that it is a delta to.
    pub(super) fn open_base(&self, link: &Link, below: &[Link]) -> Result<Arc<Base>> {
        let archive = self
            .open_archive(&link.archive, below)
            .map_err(|e| e.at(format_args!("needs step {}", link.step)))?;
        Ok(self.as_base(&link.archive, archive))
    }

    fn open_one(&self, name: &str, base: Option<&Arc<Base>>) -> Result<Archive<'static>> {
        let archive =
            Archive::open(self.step_path(name), &self.reading.clone().with_base(None).restoring())?;
        if let Some(base) = base {
            archive.attach_known_base(base)?;
        }
        Ok(archive)
    }

    fn as_base(&self, name: &str, archive: Archive<'static>) -> Arc<Base> {
        Base::of_archive(&self.step_path(name), archive)
    }

    pub(super) fn open_input(&self, path: &Path, options: &Options) -> Result<Input<'static>> {
        Input::open(path, options.dtype, options.follows_symlinks())
    }
}
