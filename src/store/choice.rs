//! What a step is stored as a delta to.
//!
//! Of the last steps, the one that has most of the checkpoint's files, by path and length: after a
//! step that holds the model alone, a whole checkpoint is a delta to the whole one before it. Where
//! several have about as much, the latest. Then the policy says whether a delta it is.

use super::{StepRecord, Store};
use crate::{
    Error, Result,
    container::{EntryKind, Manifest},
};
use std::collections::HashMap;

/// Steps that are looked at.
const LOOKED_AT: usize = 64;
/// A step that has this much of what the best one has is as good.
const ABOUT: f64 = 0.99;

/// Paths and lengths of the files of a checkpoint.
pub(super) struct Content(HashMap<String, u64>);

impl Content {
    pub fn of_manifest(manifest: &Manifest) -> Content {
        let files = manifest.entries.iter().filter(|e| e.kind != EntryKind::Directory);
        Content(files.map(|e| (e.path.to_text().into_owned(), e.len)).collect())
    }

    pub fn of_record(record: &StepRecord) -> Content {
        Content(record.files.iter().map(|f| (f.path.clone(), f.bytes)).collect())
    }

    /// Bytes that a step has of it, as far as paths and lengths tell.
    fn shared_with(&self, record: &StepRecord) -> u64 {
        let of = |path: &str| self.0.get(path).copied().unwrap_or(0);
        match (&record.files[..], self.0.len()) {
            // One file is one file, whatever it is called.
            ([only], 1) => only.bytes.min(self.0.values().sum()),
            (files, _) => files.iter().map(|f| f.bytes.min(of(&f.path))).sum(),
        }
    }
}

impl Store {
    /// What to store `step` as a delta to, by the policy. `steps` are in ascending order.
    pub(super) fn base_for<'r>(
        &self,
        step: u64,
        content: &Content,
        steps: &'r [StepRecord],
    ) -> Option<&'r StepRecord> {
        let below = steps.iter().rev().filter(|r| r.step < step).take(LOOKED_AT);
        let shared: Vec<_> = below.map(|r| (content.shared_with(r), r)).collect();
        let most = shared.iter().map(|s| s.0).max()?;
        let enough = |s: &&(u64, &StepRecord)| s.0 as f64 >= ABOUT * most as f64;
        let base = shared.iter().find(enough)?.1;
        let links = base.chain.len() as u64 + 1;
        let full = self.policy.full_every;
        (links <= self.policy.max_chain && (full == 0 || links < full)).then_some(base)
    }

    /// The base that somebody asks for.
    pub(super) fn asked_base<'r>(
        &self,
        base: u64,
        step: u64,
        steps: &'r [StepRecord],
    ) -> Result<&'r StepRecord> {
        let invalid = |why: String| Err(Error::InvalidArgument(why.into()));
        if base >= step {
            return invalid(format!(
                "step {base} cannot be the base of step {step}: it is no earlier"
            ));
        }
        let Some(found) = steps.iter().find(|r| r.step == base) else {
            // Says which one is near.
            return match self.existing(base) {
                Err(e) => Err(e),
                Ok(_) => invalid(format!("step {base} appeared just now: try again")),
            };
        };
        let links = found.chain.len() as u64 + 1;
        if links > self.policy.max_chain {
            return invalid(format!(
                "a delta to step {base} would rest on {links} others, and the policy allows {}: \
                 store it in full, or step {base} anew (lmc-gpu store rebase {} {base} --full)",
                self.policy.max_chain,
                self.root.display()
            ));
        }
        Ok(found)
    }
}
