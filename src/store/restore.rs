//! Reading steps.

use super::{Snapshot, StepRecord, Store, record::stored_files};
use crate::{
    Error, Result,
    archive::{Archive, OnDamage, Options, Overwrite, Restored, decompress_stream},
};
use std::{fs::File, path::Path};

impl Store {
    /// Opens the archive of a step for random access, with everything that it is a delta to.
    ///
    /// # Errors
    /// `InvalidArgument` where there is no such step, naming the nearest one; `Io` where its
    /// archive or one it needs is missing; what [`Archive::open`] reports.
    pub fn open_step(&self, step: u64) -> Result<Archive<'static>> {
        let mut record = self.existing(step)?;
        loop {
            let e = match self.open_record(&record) {
                Err(e) => e,
                opened => return opened,
            };
            // Somebody may have replaced or removed the step since its record was read.
            let again = self.existing(step)?;
            if again == record {
                return Err(e);
            }
            record = again;
        }
    }

    pub(super) fn open_record(&self, record: &StepRecord) -> Result<Archive<'static>> {
        let archive = self
            .open_archive(&record.archive, &record.chain)
            .map_err(|e| e.at(format_args!("step {}", record.step)))?;
        // Another archive may be whole in itself.
        if stored_files(&archive)? != record.files {
            return Err(Error::Corrupt(
                format!(
                    "step {}: {} is another archive than the one that was saved",
                    record.step, record.archive
                )
                .into(),
            ));
        }
        Ok(archive)
    }

    /// Restores a step to `out`, which appears whole or not at all. Of existing output that is
    /// replaced which `overwrite` says.
    ///
    /// # Errors
    /// As for [`Store::open_step`] and [`Archive::restore`]; `InvalidArgument` where `out` is,
    /// contains or lies in the store.
    pub fn restore(
        &self,
        step: u64,
        out: impl AsRef<Path>,
        overwrite: Overwrite,
    ) -> Result<Restored> {
        let options = self.restoring(overwrite, OnDamage::Fail);
        let archive = self.open_step(step)?;
        archive.restore(out, &options.restoring()).map_err(|e| at_step(step, e))
    }

    /// As [`Store::restore`], of a step that is damaged: what is not reads as zeros, and the result
    /// lists it. Where the index of the archive is lost, what can be read forward is restored.
    ///
    /// # Errors
    /// As for [`Store::restore`], where nothing can be restored.
    pub fn salvage(
        &self,
        step: u64,
        out: impl AsRef<Path>,
        overwrite: Overwrite,
    ) -> Result<Restored> {
        let options = self.restoring(overwrite, OnDamage::Fill);
        let record = self.existing(step)?;
        let restored = match self.open_record(&record) {
            Ok(archive) => archive.restore(out, &options.restoring()),
            Err(e @ (Error::Corrupt(_) | Error::Truncated(_))) => {
                log::debug!("reading forward: {e}");
                let base = match record.chain.split_first() {
                    None => None,
                    Some((link, below)) => Some(self.open_base(link, below)?),
                };
                let path = self.step_path(&record.archive);
                let mut file = File::open(&path).map_err(|e| Error::io("open", &path, e))?;
                let options = options.with_base(base).restoring();
                decompress_stream(&mut file, out.as_ref(), &options)
            }
            Err(e) => return Err(e),
        };
        restored.map_err(|e| at_step(step, e))
    }

    fn restoring(&self, overwrite: Overwrite, damage: OnDamage) -> Options {
        let mut options = self.reading.clone().with_overwrite(overwrite).with_damage(damage);
        options.protected.push(self.root.clone());
        options
    }

    /// Reads a step into memory, tensors by name out of safetensors files.
    ///
    /// # Errors
    /// As for [`Store::open_step`], and what decoding reports.
    pub fn snapshot(&self, step: u64) -> Result<Snapshot> {
        let archive = self.open_step(step)?;
        Snapshot::from_archive(&archive, &self.reading.restoring())
            .map_err(|e| e.at(format_args!("step {step}")))
    }
}

fn at_step(step: u64, e: Error) -> Error {
    match e {
        Error::InvalidArgument(_) => e,
        e => e.at(format_args!("step {step}")),
    }
}
