//! Removing steps and what killed runs left.
//!
//! A step goes record first, so that it vanishes at once; steps go in descending order, so that
//! a kill between two of them never leaves a delta without its base.

use super::{
    Locking, Policy, STEPS, StepRecord, Store,
    record::{parse_archive_name, stem},
};
use crate::{
    Error, Result,
    archive::{Holder, holder},
};
use std::{collections::HashSet, fs, io, path::Path};

/// Whether anything is removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Collecting {
    /// What is not kept.
    #[default]
    Remove,
    /// Nothing: it is only said what would be.
    DryRun,
}

/// What becomes of steps that are to go and that others are deltas to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Needed {
    /// They stay until nothing needs them.
    #[default]
    Stay,
    /// They go: what needs them is stored anew first, as a delta to a step that stays or in full.
    Go,
}

/// Choices for `gc`.
#[derive(Clone, Debug, Default)]
pub struct GcOptions {
    needed: Needed,
    policy: Option<Policy>,
    drop_after: Option<u64>,
    collecting: Collecting,
    locking: Locking,
}

impl GcOptions {
    /// What to keep instead of what the store's own policy says.
    #[must_use]
    pub fn with_policy(mut self, policy: impl Into<Option<Policy>>) -> Self {
        self.policy = policy.into();
        self
    }

    /// Removes every step above this one first, whatever a policy says: training went back to it.
    #[must_use]
    pub fn with_drop_after(mut self, step: impl Into<Option<u64>>) -> Self {
        self.drop_after = step.into();
        self
    }

    /// What becomes of steps that are not kept and that kept ones need. Default: they stay.
    #[must_use]
    pub fn with_needed(mut self, needed: Needed) -> Self {
        self.needed = needed;
        self
    }

    /// Whether anything is removed. Default: what is not kept is.
    #[must_use]
    pub fn with_collecting(mut self, collecting: Collecting) -> Self {
        self.collecting = collecting;
        self
    }

    /// What to do while somebody else writes to the store. Default: wait.
    #[must_use]
    pub fn with_locking(mut self, locking: Locking) -> Self {
        self.locking = locking;
        self
    }
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Removed {
    /// Steps, in descending order.
    pub steps: Vec<u64>,
    /// Steps that no policy names and that stay because others are deltas to them.
    pub kept_as_base: Vec<u64>,
    /// Steps that stay without the state of their optimizer, in ascending order.
    pub without_state: Vec<u64>,
    /// Steps that were stored anew, so that others could go.
    pub rebased: Vec<u64>,
    /// Bytes of the archives that these have now.
    pub written_bytes: u64,
    /// Names of all files removed from `steps`.
    pub files: Vec<String>,
    /// Bytes of archives that were freed.
    pub bytes: u64,
}

impl Removed {
    pub(super) fn add(&mut self, other: Removed) {
        self.steps.extend(other.steps);
        self.kept_as_base.extend(other.kept_as_base);
        self.without_state.extend(other.without_state);
        self.rebased.extend(other.rebased);
        self.written_bytes += other.written_bytes;
        self.files.extend(other.files);
        self.bytes += other.bytes;
    }
}

impl Store {
    /// Removes the steps that the policy does not name and that no kept step needs, and what
    /// killed runs left.
    ///
    /// # Errors
    /// `Corrupt` where a record cannot be read: what it needs is then unknown, and no step is
    /// removed; `Io`.
    pub fn gc(&self, options: &GcOptions) -> Result<Removed> {
        let removes = options.collecting == Collecting::Remove;
        let _lock = if removes { self.lock(options.locking)? } else { None };
        let mut removed = if removes { self.remove_strays()? } else { Removed::default() };
        removed.add(self.collect(options)?);
        self.finish_anew(&mut removed)?;
        Ok(removed)
    }

    /// `gc` for whoever holds the lock.
    pub(super) fn collect(&self, options: &GcOptions) -> Result<Removed> {
        let mut listing = self.list()?;
        if let Some((path, e)) = listing.unreadable.pop() {
            return Err(e.at(format_args!(
                "nothing was removed, since it is not known which steps {} needs: repair or \
                 delete it",
                path.display()
            )));
        }
        let policy = options.policy.as_ref().unwrap_or(&self.policy);
        policy.check()?;
        let last = options.drop_after.unwrap_or(u64::MAX);
        let within = listing.steps.partition_point(|r| r.step <= last);
        let kept: HashSet<u64> = (listing.steps[..within].iter().rev().zip(0u64..))
            .filter(|(r, rank)| policy.keeps(r.step, *rank))
            .map(|(r, _)| r.step)
            .collect();
        let mut removed = Removed::default();
        let removes = options.collecting == Collecting::Remove;
        if options.needed == Needed::Go && removes {
            self.free(&kept, &mut listing.steps, &mut removed)?;
        }
        let mut needed: HashSet<&str> = HashSet::new();
        for record in listing.steps.iter().filter(|r| kept.contains(&r.step)) {
            needed.extend(record.archives());
        }
        for record in listing.steps.iter().rev() {
            if kept.contains(&record.step) {
                continue;
            }
            if needed.contains(record.archive.as_str())
                && (removes || options.needed == Needed::Stay)
            {
                removed.kept_as_base.push(record.step);
                continue;
            }
            if removes {
                self.remove_step(record)?;
            }
            removed.steps.push(record.step);
            removed.files.push(format!("{}.json", stem(record.step)));
            removed.files.push(record.archive.clone());
            removed.bytes += record.archive_bytes;
        }
        let stays = |r: &StepRecord| !removed.steps.contains(&r.step);
        let left: Vec<StepRecord> = listing.steps.into_iter().filter(stays).collect();
        self.give_up_states(policy, &left, options.collecting, &mut removed)?;
        Ok(removed)
    }

    /// Removes these steps, whatever the policy keeps.
    ///
    /// # Errors
    /// `InvalidArgument` where there is no such step, or others that stay are deltas to it and are
    /// not to be stored anew; as for [`Store::gc`]. Nothing is removed then.
    pub fn remove(&self, steps: &[u64], needed: Needed, locking: Locking) -> Result<Removed> {
        let _lock = self.lock(locking)?;
        for &step in steps {
            self.existing(step)?;
        }
        let mut all = self.all_steps()?;
        let stays = |r: &&StepRecord| !steps.contains(&r.step);
        for record in all.iter().filter(|r| needed == Needed::Stay && !stays(r)) {
            let needs = |r: &&StepRecord| r.archives().any(|a| a == record.archive);
            let needing: Vec<String> =
                all.iter().filter(stays).filter(needs).map(|r| r.step.to_string()).collect();
            let s = if needing.len() == 1 { " is a delta" } else { "s are deltas" };
            if !needing.is_empty() {
                return Err(Error::InvalidArgument(
                    format!(
                        "step{s} to step {}: {}; --rebase stores anew what needs it",
                        record.step,
                        needing.join(", ")
                    )
                    .into(),
                ));
            }
        }
        let mut removed = self.remove_strays()?;
        let kept = all.iter().filter(stays).map(|r| r.step).collect();
        if needed == Needed::Go {
            self.free(&kept, &mut all, &mut removed)?;
        }
        for record in all.iter().rev().filter(|r| !kept.contains(&r.step)) {
            self.remove_step(record)?;
            removed.steps.push(record.step);
            removed.files.extend([format!("{}.json", stem(record.step)), record.archive.clone()]);
            removed.bytes += record.archive_bytes;
        }
        self.finish_anew(&mut removed)?;
        Ok(removed)
    }

    /// Refuses to save a step that `gc` would remove at once.
    pub(super) fn refuse_unkept(&self, step: u64, steps: &[StepRecord]) -> Result<()> {
        let above = steps.iter().filter(|r| r.step > step).count() as u64;
        if self.policy.keeps(step, above) {
            return Ok(());
        }
        let (dir, highest) = (self.root.display(), steps.last().map_or(0, |r| r.step));
        Err(Error::InvalidArgument(
            format!(
                "gc would remove step {step} at once: the policy keeps {}, and {highest} \
             is among those above it. Save it without --gc; or, where training went back, remove \
             those first (lmc-gpu store gc {dir} --drop-after {step}); or give the store another \
             policy (lmc-gpu store init {dir} --force)",
                self.policy.kept()
            )
            .into(),
        ))
    }

    fn remove_step(&self, record: &StepRecord) -> Result<()> {
        self.remove_file(&format!("{}.json", stem(record.step)))?;
        self.sync_steps()?;
        self.remove_file(&record.archive)
    }

    /// Removes a file in `steps` that may be gone already.
    pub(super) fn remove_file(&self, name: &str) -> Result<()> {
        let path = self.step_path(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", &path, e)),
            _ => Ok(()),
        }
    }

    fn sync_steps(&self) -> Result<()> {
        #[cfg(unix)]
        {
            let dir = self.root.join(STEPS);
            let synced = fs::File::open(&dir).and_then(|d| d.sync_all());
            synced.map_err(|e| Error::io("sync", &dir, e))?;
        }
        Ok(())
    }

    /// Files in `steps` that nothing needs: what was being written, and archives that no record
    /// names. While a record cannot be read it is unknown what it names, and archives stay.
    pub(super) fn strays(&self) -> Result<Vec<String>> {
        let listing = self.list()?;
        let named: HashSet<&str> = listing.steps.iter().flat_map(StepRecord::archives).collect();
        let mut strays = self.names()?;
        strays.retain(|name| {
            let archive = parse_archive_name(name).is_some() && listing.unreadable.is_empty();
            is_left_over(&self.step_path(name)) || archive && !named.contains(name.as_str())
        });
        Ok(strays)
    }

    /// Removes strays, for whoever holds the lock.
    pub(super) fn remove_strays(&self) -> Result<Removed> {
        let mut removed = Removed::default();
        // What a killed change of the policy left.
        for entry in fs::read_dir(&self.root).map_err(|e| Error::io("read", &self.root, e))? {
            let path = entry.map_err(|e| Error::io("read", &self.root, e))?.path();
            if is_left_over(&path) {
                fs::remove_file(&path).map_err(|e| Error::io("remove", &path, e))?;
            }
        }
        for name in self.strays()? {
            if let Ok(meta) = fs::metadata(self.step_path(&name)) {
                removed.bytes += meta.len();
            }
            self.remove_file(&name)?;
            removed.files.push(name);
        }
        Ok(removed)
    }
}

/// Whether a file was being written when its writer was killed.
fn is_left_over(path: &Path) -> bool {
    let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let is_temporary = name.starts_with(".lmc-") && name.ends_with(".tmp");
    is_temporary && !matches!(holder(path), Holder::Alive)
}
