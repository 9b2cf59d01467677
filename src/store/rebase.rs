//! Storing a step anew, as a delta to another step or in full.
//!
//! ```text
//! write the archive under a name that is free, decode it and check it
//! write the records of the steps that are deltas to this one: they name the new archive from here on
//! write the record of the step
//! remove the archive that no record names any more
//! ```
//!
//! The bytes that the step restores to are the same, so deltas to it hold for the new archive as
//! they did for the old one. Both archives are there until the last record is written: a kill at
//! any instant leaves records each of which names archives that restore it.

use super::{Locking, StepRecord, Store, chain::MAX_CHAIN, choice::Content, gc::Removed};
use crate::{
    Error, Result,
    archive::{OnDamage, Overwrite},
};
use std::collections::HashSet;

/// What a step is to be stored as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Onto {
    /// In full.
    #[default]
    Full,
    /// As a delta to this step.
    Step(u64),
}

/// What storing a step anew did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Rebased {
    /// The step as it is stored now.
    pub record: StepRecord,
    /// Bytes of the archive that it had before.
    pub archive_bytes_before: u64,
    /// What was odd, a sentence each.
    pub notes: Vec<String>,
    /// What was removed.
    pub removed: Removed,
}

impl Store {
    /// Stores a step anew. Steps that are deltas to it stay so.
    ///
    /// # Errors
    /// `InvalidArgument` where there is no such step, or the other one is no earlier or rests on too
    /// many; `Corrupt` where a record cannot be read, since it is unknown what it needs; what
    /// reading the step and writing its archive report. The store then is as it was.
    pub fn rebase(&self, step: u64, onto: Onto, locking: Locking) -> Result<Rebased> {
        let _lock = self.lock(locking)?;
        let mut removed = self.remove_strays()?;
        let mut steps = self.all_steps()?;
        let record = self.existing(step)?;
        let base = match onto {
            Onto::Full => None,
            Onto::Step(base) => Some(self.asked_base(base, step, &steps)?.clone()),
        };
        let mut notes = Vec::new();
        let new = self.store_anew(&record, base.as_ref(), &mut steps, &mut removed, &mut notes)?;
        self.finish_anew(&mut removed)?;
        let archive_bytes_before = record.archive_bytes;
        Ok(Rebased { record: new, archive_bytes_before, notes, removed })
    }

    /// The steps, where all records can be read.
    pub(super) fn all_steps(&self) -> Result<Vec<StepRecord>> {
        let mut listing = self.list()?;
        match listing.unreadable.pop() {
            None => Ok(listing.steps),
            Some((path, e)) => Err(e.at(format_args!(
                "nothing was changed, since it is not known which steps {} needs: repair or \
                 delete it",
                path.display()
            ))),
        }
    }

    /// Stores a step anew, for whoever holds the lock, and brings `steps` up to date.
    pub(super) fn store_anew(
        &self,
        record: &StepRecord,
        base: Option<&StepRecord>,
        steps: &mut [StepRecord],
        removed: &mut Removed,
        notes: &mut Vec<String>,
    ) -> Result<StepRecord> {
        let step = record.step;
        let at = |e: Error| e.at(format_args!("step {step} stays as it is"));
        let input = self.open_record(record)?.into_input();
        let mut new = self.write(&input, step, base, None, notes).map_err(at)?;
        if base.is_some()
            && let Some(why) = self.does_not_pay(&new, steps)
        {
            let full = self.write(&input, step, None, None, notes).map_err(at)?;
            self.remove_file(&std::mem::replace(&mut new, full).archive)?;
            notes.push(why);
        }
        new.saved_at = record.saved_at;
        let dropped = |e: Error| {
            let _ = self.remove_file(&new.archive);
            at(e)
        };
        self.check_anew(record, &new).map_err(dropped)?;
        // All chains are made before any record is written.
        let mut changed = Vec::new();
        for other in steps.iter().filter(|r| r.step != step) {
            let Some(i) = other.chain.iter().position(|l| l.archive == record.archive) else {
                continue;
            };
            let mut chain = other.chain[..i].to_vec();
            chain.push(new.link());
            chain.extend(new.chain.iter().cloned());
            if chain.len() as u64 > MAX_CHAIN {
                let why = format!("step {} would rest on {} others", other.step, chain.len());
                return Err(dropped(Error::InvalidArgument(why.into())));
            }
            changed.push(StepRecord { chain, ..other.clone() });
        }
        changed.push(new.clone());
        for record in &changed {
            let path = self.record_path(record.step);
            self.write_json(&path, record.to_json(), Overwrite::Files)?;
            if let Some(old) = steps.iter_mut().find(|r| r.step == record.step) {
                old.clone_from(record);
            }
        }
        self.remove_file(&record.archive)?;
        removed.bytes += record.archive_bytes;
        removed.files.push(record.archive.clone());
        removed.rebased.push(step);
        removed.written_bytes += new.archive_bytes;
        Ok(new)
    }

    /// Removes what a run that was killed halfway had stored anew, and what nothing needs any more.
    pub(super) fn finish_anew(&self, removed: &mut Removed) -> Result<()> {
        if !removed.rebased.is_empty() {
            removed.add(self.remove_strays()?);
        }
        Ok(())
    }

    /// Decodes a new archive, which must hold the files of the old one.
    fn check_anew(&self, old: &StepRecord, new: &StepRecord) -> Result<()> {
        let files = |r: &StepRecord| -> Vec<_> {
            r.files.iter().map(|f| (f.path.clone(), f.path_bytes.clone(), f.bytes)).collect()
        };
        if files(old) != files(new) {
            return Err(Error::Corrupt("its new archive holds other files".into()));
        }
        let archive = self.open_record(new)?;
        let options = self.reading.clone().with_damage(OnDamage::Fail).with_base(None);
        archive.verify(&options.restoring()).map(|_| ())
    }

    /// Stores those of the `kept` steps anew that need an archive which is not one of theirs, so
    /// that all others can go. For whoever holds the lock.
    pub(super) fn free(
        &self,
        kept: &HashSet<u64>,
        steps: &mut [StepRecord],
        removed: &mut Removed,
    ) -> Result<()> {
        for i in 0..steps.len() {
            let record = steps[i].clone();
            let Some(base) = record.chain.first().filter(|_| kept.contains(&record.step)) else {
                continue;
            };
            let current = |archive: &str| {
                steps.iter().any(|r| r.archive == archive && kept.contains(&r.step))
            };
            // Steps ascend: what lies below a base that stays was dealt with before.
            if current(&base.archive) {
                continue;
            }
            let near = record.chain.iter().find(|link| current(&link.archive));
            let left: Vec<StepRecord> =
                steps[..i].iter().filter(|r| kept.contains(&r.step)).cloned().collect();
            let base = match near.and_then(|link| left.iter().find(|r| r.step == link.step)) {
                Some(base) => Some(base),
                None => self.base_for(record.step, &Content::of_record(&record), &left),
            };
            self.store_anew(&record, base, steps, removed, &mut Vec::new())?;
        }
        Ok(())
    }
}
