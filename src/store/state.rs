//! Older steps without the state of their optimizer.
//!
//! Training goes on from the latest steps only; what older ones are kept for are their weights. So
//! `gc` writes them once more without the files of the optimizer's state, in ascending order, each as
//! a delta to the one before:
//!
//! ```text
//! for each chain of steps that are not among the highest ones, and whose archives none of those needs
//!     write an archive of the other files of each under a new name
//!     write its record            ← from here on it is the step without its state
//! remove the archives that no record names any more
//! ```
//!
//! One step apart, weights follow from the optimizer's state: without it a delta may take more than
//! with it. So a chain gives its state up only where that makes it smaller; else its records say that
//! it keeps it, and it is not tried again.
//!
//! An archive that a record names is not changed, so a kill at any instant leaves every step whole,
//! with its state or without. A step that a later one with state is a delta to keeps its own: it
//! gives it up when that one does.

use super::{Collecting, Existing, Policy, StepRecord, Store, StoredFile, gc::Removed};
use crate::{
    Result,
    archive::{Input, Overwrite},
    container::EntryKind,
    source::Source,
};
use std::{collections::HashSet, fs};

/// What names of files and directories that hold an optimizer's state begin with.
const BEGINNINGS: [&str; 5] =
    ["exp_avg", "momentum_buffer", "optimizer", "optim_", "distrib_optim"];
/// What names of such files end with, before their ending.
const ENDINGS: [&str; 2] = ["optim_states", "_optim"];

/// The archive stored in full that a step rests on.
fn root(record: &StepRecord) -> &str {
    record.chain.last().map_or(&record.archive, |link| &link.archive)
}

/// Whether a file of a checkpoint holds the state of an optimizer, by its name.
pub(super) fn is_state(path: &str) -> bool {
    path.to_ascii_lowercase().split('/').any(|part| {
        let stem = part.split('.').next().unwrap_or(part);
        stem == "optim"
            || BEGINNINGS.iter().any(|beginning| stem.starts_with(beginning))
            || ENDINGS.iter().any(|ending| stem.ends_with(ending))
    })
}

impl Store {
    /// Takes the state from steps that the policy wants without, for whoever holds the lock.
    pub(super) fn give_up_states(
        &self,
        policy: &Policy,
        steps: &[StepRecord],
        collecting: Collecting,
        removed: &mut Removed,
    ) -> Result<()> {
        let Some(last) = policy.state_last else { return Ok(()) };
        let dry_run = collecting == Collecting::DryRun;
        let with = steps.len().saturating_sub(usize::try_from(last).unwrap_or(usize::MAX));
        let (without, with) = steps.split_at(with);
        let needed: HashSet<&str> = with.iter().flat_map(StepRecord::archives).collect();
        let pending = |r: &StepRecord| {
            let is_state = |f: &&StoredFile| is_state(&f.path);
            let n = r.files.iter().filter(is_state).count();
            !r.keeps_state && !needed.contains(&r.archive[..]) && n > 0 && n < r.files.len()
        };
        let mut left = without.iter().filter(|r| pending(r)).peekable();
        while let Some(first) = left.next() {
            // What rests on the same archive that is stored in full.
            let mut chain = vec![first];
            while let Some(next) = left.next_if(|r| root(r) == root(first)) {
                chain.push(next);
            }
            if dry_run || self.rewrite(&chain, steps)? {
                removed.without_state.extend(chain.iter().map(|r| r.step));
            }
        }
        if !dry_run && !removed.without_state.is_empty() {
            removed.add(self.remove_strays()?);
        }
        Ok(())
    }

    /// Writes steps without their state; where that would take more, says in their records that
    /// they keep it. Whether they gave it up.
    fn rewrite(&self, chain: &[&StepRecord], steps: &[StepRecord]) -> Result<bool> {
        let mut written: Vec<StepRecord> = Vec::new();
        for record in chain {
            let made = self.write_without_state(record, written.last())?;
            written.push(made);
        }
        let others = steps.iter().filter(|r| !chain.contains(r));
        let needed: HashSet<&str> = others.flat_map(StepRecord::archives).collect();
        let own: HashSet<&str> = chain.iter().flat_map(|r| r.archives()).collect();
        let len = |name: &&str| fs::metadata(self.step_path(name)).map_or(0, |meta| meta.len());
        let freed: u64 = own.difference(&needed).map(len).sum();
        let pays = written.iter().map(|r| r.archive_bytes).sum::<u64>() < freed;
        for (record, made) in chain.iter().zip(&written) {
            if pays {
                self.commit(made, Existing::Replace)?;
            } else {
                self.remove_file(&made.archive)?;
                let keeps = StepRecord { keeps_state: true, ..(*record).clone() };
                self.write_json(&self.record_path(record.step), keeps.to_json(), Overwrite::Files)?;
            }
        }
        Ok(pays)
    }

    fn write_without_state(
        &self,
        record: &StepRecord,
        before: Option<&StepRecord>,
    ) -> Result<StepRecord> {
        let archive = self.open_record(record)?;
        let mut files = Vec::new();
        for (i, entry) in archive.entries().iter().enumerate() {
            if entry.kind != EntryKind::Directory && !is_state(&entry.path.to_text()) {
                files
                    .push((entry.path.clone(), Box::new(archive.file(i)?) as Box<dyn Source + '_>));
            }
        }
        let input = Input::from_files(files)?;
        let links = |base: &&StepRecord| base.chain.len() as u64 + 1;
        let full = self.policy.full_every;
        let base =
            before.filter(|b| links(b) <= self.policy.max_chain && (full == 0 || links(b) < full));
        let mut notes = Vec::new();
        let written = self.write(&input, record.step, base, None, &mut notes)?;
        Ok(StepRecord { saved_at: record.saved_at, ..written })
    }
}

#[cfg(test)]
mod tests {
    use super::is_state;

    #[test]
    fn states_are_told_by_the_names_that_trainers_give_them() {
        for path in [
            "exp_avg.safetensors",
            "a/exp_avg_sq-00001-of-00002.safetensors",
            "optimizer.pt",
            "optimizer_0/__0_0.distcp",
            "zero_pp_rank_0_mp_rank_00_optim_states.pt",
            "mp_rank_00/distrib_optim.pt",
            "optim/rank0.pt",
        ] {
            assert!(is_state(path), "{path}");
        }
        for path in ["model.safetensors", "master.safetensors", "optimal.bin", "meta.json"] {
            assert!(!is_state(path), "{path}");
        }
    }
}
