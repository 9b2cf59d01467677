//! Saving a step.
//!
//! ```text
//! lock; remove what killed runs left
//! base = the one of the last steps below with most of the same files, unless the policy wants a
//!     full one
//! write the archive; where it is a delta that did not pay, or its base turns out to be damaged,
//!     write it again in full under another name
//! write the record            ← the step exists from here on
//! remove what this save made superfluous
//! ```

use super::{
    GcOptions, Locking, StepRecord, Store,
    chain::Near,
    choice::Content,
    gc::Removed,
    record::{archive_name, stored_files},
};
use crate::{
    Error, Result,
    archive::{Input, Overwrite},
};
use std::{
    path::Path,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// What becomes of a step that exists already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Existing {
    /// Saving it again is an error.
    #[default]
    Refuse,
    /// It is replaced. Deltas to what it was before stay valid: its archive is kept for them.
    Replace,
}

/// Whether a step is stored as a delta.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Where the store's policy says so.
    #[default]
    ByPolicy,
    /// Never: in full.
    Full,
}

/// What is done after a save.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AfterSave {
    /// Nothing.
    #[default]
    Nothing,
    /// `gc` runs. A step that it would remove at once is refused.
    Collect,
}

/// Choices for one save.
#[derive(Clone, Debug, Default)]
pub struct SaveOptions {
    existing: Existing,
    form: Form,
    base: Option<u64>,
    locking: Locking,
    after: AfterSave,
}

impl SaveOptions {
    /// What becomes of a step that exists already. Default: that is an error.
    #[must_use]
    pub fn with_existing(mut self, existing: Existing) -> Self {
        self.existing = existing;
        self
    }

    /// Whether the step is stored as a delta. Default: where the policy says so.
    #[must_use]
    pub fn with_form(mut self, form: Form) -> Self {
        self.form = form;
        self
    }

    /// The step that this one is stored as a delta to, however much that takes. Default: the one of
    /// the last steps that has most of the same files, where the policy wants a delta.
    #[must_use]
    pub fn with_base(mut self, step: impl Into<Option<u64>>) -> Self {
        self.base = step.into();
        self
    }

    /// What to do while somebody else writes to the store. Default: wait.
    #[must_use]
    pub fn with_locking(mut self, locking: Locking) -> Self {
        self.locking = locking;
        self
    }

    /// What is done after the save. Default: nothing.
    #[must_use]
    pub fn with_after(mut self, after: AfterSave) -> Self {
        self.after = after;
        self
    }
}

/// What a save did.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Saved {
    /// The step as it is stored.
    pub record: StepRecord,
    /// What was odd about the input or the store, a sentence each.
    pub notes: Vec<String>,
    /// What was removed: what killed runs had left, what the step replaced, what `gc` found.
    pub removed: Removed,
    /// Wall clock time, the wait for the lock left out.
    pub seconds: f64,
    /// Time spent waiting for the lock.
    pub waited: f64,
}

impl Store {
    /// Stores a file or directory as `step`. When this returns, it is on disk; after a kill or a
    /// failure before that, the store is as it was.
    ///
    /// # Errors
    /// `InvalidArgument` where the step exists and is not to be replaced, or `gc` would remove it
    /// at once; what reading the source and writing the archive report, `Io` also where a file
    /// changed while it was read, unless
    /// [`CompressOptions::with_changes`](crate::CompressOptions::with_changes) allows that.
    pub fn save(
        &self,
        source: impl AsRef<Path>,
        step: u64,
        options: &SaveOptions,
    ) -> Result<Saved> {
        let asked = Instant::now();
        let _lock = self.lock(options.locking)?;
        // Not before: what happens to the files during the wait is nobody's fault.
        let input = self.open_input(source.as_ref(), &self.options)?;
        self.save_locked(&input, step, options, None, asked)
    }

    /// As [`Store::save`], of files that are open already or exist in memory only.
    ///
    /// # Errors
    /// As for [`Store::save`].
    #[doc(hidden)]
    pub fn save_input(&self, input: &Input<'_>, step: u64, options: &SaveOptions) -> Result<Saved> {
        self.save_near(input, step, options, None)
    }

    /// As [`Store::save_input`], with the files of another step that are still in memory.
    pub(super) fn save_near(
        &self,
        input: &Input<'_>,
        step: u64,
        options: &SaveOptions,
        near: Option<&Near>,
    ) -> Result<Saved> {
        let asked = Instant::now();
        let _lock = self.lock(options.locking)?;
        self.save_locked(input, step, options, near, asked)
    }

    /// Saves a step under the lock, which the caller holds and asked for at that time.
    fn save_locked(
        &self,
        input: &Input<'_>,
        step: u64,
        options: &SaveOptions,
        near: Option<&Near>,
        asked: Instant,
    ) -> Result<Saved> {
        let started = Instant::now();
        let mut removed = self.remove_strays()?;
        let listing = self.list()?;
        let mut notes = Vec::new();
        for (path, e) in &listing.unreadable {
            notes.push(format!("{} cannot be read: {e}", path.display()));
        }
        if self.record_path(step).exists() && options.existing == Existing::Refuse {
            return Err(Error::InvalidArgument(
                format!("step {step} is saved already: --force replaces it").into(),
            ));
        }
        if options.after == AfterSave::Collect {
            self.refuse_unkept(step, &listing.steps)?;
        }
        let base = match (options.form, options.base) {
            (Form::Full, None) => None,
            (Form::Full, Some(_)) => {
                let why = "a step that is stored in full has no base: ask for one of the two";
                return Err(Error::InvalidArgument(why.into()));
            }
            (Form::ByPolicy, Some(base)) => Some(self.asked_base(base, step, &listing.steps)?),
            (Form::ByPolicy, None) => {
                self.base_for(step, &Content::of_manifest(&input.manifest), &listing.steps)
            }
        };
        let mut written = self.write(input, step, base, near, &mut notes)?;
        let judged = options.base.is_none();
        if judged && let Some(why) = self.does_not_pay(&written, &listing.steps) {
            let full = self.write(input, step, None, None, &mut notes)?;
            let name = std::mem::replace(&mut written, full).archive;
            self.remove_file(&name)?;
            notes.push(why);
        }
        self.commit(&written, options.existing)?;
        if let Some(old) = listing.steps.iter().find(|r| r.step == step) {
            let needs = |r: &&StepRecord| r.step != step && r.archives().any(|a| a == old.archive);
            match listing.steps.iter().find(needs) {
                Some(r) => notes.push(format!(
                    "the earlier archive of step {step} stays: step {} is a delta to it",
                    r.step
                )),
                None => {
                    self.remove_file(&old.archive)?;
                    removed.bytes += old.archive_bytes;
                    removed.files.push(old.archive.clone());
                }
            }
        }
        if options.after == AfterSave::Collect {
            removed.add(self.collect(&GcOptions::default())?);
        }
        Ok(Saved {
            record: written,
            notes,
            removed,
            seconds: started.elapsed().as_secs_f64(),
            waited: (started - asked).as_secs_f64(),
        })
    }

    /// Writes the record. If that fails before the step exists, its archive goes.
    pub(super) fn commit(&self, record: &StepRecord, existing: Existing) -> Result<()> {
        let overwrite = match existing {
            Existing::Refuse => Overwrite::Refuse,
            Existing::Replace => Overwrite::Files,
        };
        let written = self.write_json(&self.record_path(record.step), record.to_json(), overwrite);
        if written.is_err() && !matches!(self.record(record.step), Ok(Some(r)) if r == *record) {
            let _ = self.remove_file(&record.archive);
        }
        written
    }

    /// Writes the archive. A base that cannot be used costs space, never the checkpoint.
    pub(super) fn write(
        &self,
        input: &Input<'_>,
        step: u64,
        base: Option<&StepRecord>,
        near: Option<&Near>,
        notes: &mut Vec<String>,
    ) -> Result<StepRecord> {
        let names = self.names()?;
        let name = (0..).map(|n| archive_name(step, n)).find(|n| !names.contains(n));
        let name = name.unwrap_or_default();
        let (summary, base) = match self.write_archive(input, &name, base, near) {
            Err(e) if base.is_some() && is_base_fault(&e) => {
                let step = base.map_or(0, |b| b.step);
                notes.push(format!(
                    "stored in full, since step {step} cannot be its base: {}",
                    e.detail()
                ));
                (self.write_archive(input, &name, None, None)?, None)
            }
            written => (written?, base),
        };
        for note in summary.notes {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
        let mut chain: Vec<_> = base
            .map(|b| std::iter::once(b.link()).chain(b.chain.iter().cloned()).collect())
            .unwrap_or_default();
        let archive = self.open_archive(&name, &chain)?;
        if !archive.refers_to_base() {
            chain.clear();
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
        Ok(StepRecord {
            step,
            files: stored_files(&archive)?,
            archive: name,
            chain,
            saved_at: now,
            input_bytes: summary.input_bytes,
            archive_bytes: summary.output_bytes,
            keeps_state: false,
        })
    }

    /// Why a delta should rather be a full save, judged by the full one it rests on.
    pub(super) fn does_not_pay(&self, delta: &StepRecord, steps: &[StepRecord]) -> Option<String> {
        let (base, root) = (delta.base()?, delta.chain.last()?);
        let full = steps.iter().find(|r| r.archive == root.archive)?;
        let expected = full.ratio() * delta.input_bytes as f64;
        let fraction = delta.archive_bytes as f64 / expected.max(1.0);
        (fraction > self.policy.rebase_above).then(|| {
            format!("stored in full: a delta to step {base} would have taken {fraction:.2} of that")
        })
    }
}

/// Whether an error while writing a delta may come from the base. Most say so, but a base on a
/// failing disk gives `Io`, and then writing in full says what it really was.
fn is_base_fault(e: &Error) -> bool {
    match e {
        Error::InvalidArgument(_) | Error::Device(_) => false,
        Error::Io { source, .. } => !matches!(
            source.kind(),
            std::io::ErrorKind::StorageFull
                | std::io::ErrorKind::QuotaExceeded
                | std::io::ErrorKind::FileTooLarge
                | std::io::ErrorKind::Interrupted
                // Of a file of the checkpoint that changed while it was read.
                | std::io::ErrorKind::ResourceBusy
        ),
        _ => true,
    }
}
