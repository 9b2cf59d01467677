//! Whether every step can be restored, and what depends on what is damaged.

use super::{StepRecord, Store};
use crate::{Result, archive::OnDamage};
use std::collections::BTreeSet;

/// What verifying found of one step.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StepHealth {
    /// The step.
    pub step: u64,
    /// The steps that it needs, its base first.
    pub needs: Vec<u64>,
    /// What is wrong with it, a sentence each; empty where it restores exactly.
    pub problems: Vec<String>,
    /// Damaged steps that it needs.
    pub through: Vec<u64>,
    /// Steps that need it.
    pub dependents: Vec<u64>,
}

impl StepHealth {
    /// Whether the step restores exactly.
    pub fn is_whole(&self) -> bool {
        self.problems.is_empty()
    }
}

/// What verifying a store found.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Verified {
    /// Every step, in ascending order.
    pub steps: Vec<StepHealth>,
    /// Records that cannot be read, a sentence each.
    pub unreadable: Vec<String>,
    /// Files that killed runs left, which the next save or `gc` removes.
    pub strays: Vec<String>,
    /// Bytes of the checkpoints that were decoded and checked.
    pub bytes: u64,
}

impl Verified {
    /// Whether every step restores exactly.
    pub fn is_whole(&self) -> bool {
        self.unreadable.is_empty() && self.steps.iter().all(StepHealth::is_whole)
    }
}

impl Store {
    /// Decodes the given steps, or all of them, and checks every checksum. Writes nothing.
    ///
    /// # Errors
    /// `InvalidArgument` for a step that does not exist, `Io` where the directory cannot be
    /// read. Damage is not an error: it is what the result describes.
    pub fn verify(&self, only: &[u64]) -> Result<Verified> {
        let listing = self.list()?;
        let mut verified = Verified { strays: self.strays()?, ..Verified::default() };
        for (path, e) in &listing.unreadable {
            verified.unreadable.push(format!("{}: {e}", path.display()));
        }
        for &step in only {
            self.existing(step)?;
        }
        let mut damaged: BTreeSet<u64> = BTreeSet::new();
        for record in &listing.steps {
            if !only.is_empty() && !only.contains(&record.step) {
                continue;
            }
            let problems = self.problems(record, &mut verified.bytes);
            let needs: Vec<u64> = record.chain.iter().map(|l| l.step).collect();
            let through = match problems.is_empty() {
                true => Vec::new(),
                false => needs.iter().copied().filter(|s| damaged.contains(s)).collect(),
            };
            if !problems.is_empty() {
                damaged.insert(record.step);
            }
            let dependents = (listing.steps.iter())
                .filter(|r| r.step != record.step && r.archives().any(|a| a == record.archive))
                .map(|r| r.step)
                .collect();
            let step = record.step;
            verified.steps.push(StepHealth { step, needs, problems, through, dependents });
        }
        Ok(verified)
    }

    fn problems(&self, record: &StepRecord, bytes: &mut u64) -> Vec<String> {
        let archive = match self.open_record(record) {
            Ok(archive) => archive,
            Err(e) => return vec![e.to_string()],
        };
        let mut problems = Vec::new();
        if archive.stored_len() != record.archive_bytes {
            problems.push(format!(
                "{} has {} bytes, its record says {}",
                record.archive,
                archive.stored_len(),
                record.archive_bytes
            ));
        }
        let options = self.reading.clone().with_damage(OnDamage::Fill);
        match archive.verify(&options.restoring()) {
            Err(e) => problems.push(e.to_string()),
            Ok(restored) => {
                *bytes += restored.bytes;
                for d in restored.damage {
                    let tensors = match d.tensors.len() {
                        0 => String::new(),
                        1..=3 => format!(" (tensor {})", d.tensors.join(", ")),
                        n => format!(" (tensor {} and {} more)", d.tensors[0], n - 1),
                    };
                    problems.push(format!(
                        "{}: bytes {}..{}{tensors}, chunk {}: {}",
                        d.file,
                        d.offset,
                        d.offset + d.len,
                        d.chunk,
                        d.reason
                    ));
                }
            }
        }
        problems
    }
}
