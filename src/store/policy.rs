//! What a store decides by itself.

use super::chain::MAX_CHAIN;
use crate::{Error, Result, archive::with_methods};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// When to store a checkpoint in full, and which ones to keep.
///
/// ```
/// use lmc_gpu::store::Policy;
/// let policy = Policy::default().with_full_every(8).with_keep_last(Some(20));
/// assert_eq!(policy.max_chain, 16);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Policy {
    /// Every how many saves a checkpoint is stored in full, deltas between them: 1 makes every
    /// one full, 0 leaves it to `max_chain`. Default 10.
    pub full_every: u64,
    /// A delta that takes more than this fraction of a full save is stored in full instead.
    /// Between 0 and 1; default 0.95. The fraction is taken of the latest full save, scaled by
    /// the lengths of the checkpoints.
    pub rebase_above: f64,
    /// Most deltas between a checkpoint and the one stored in full that it rests on: what a
    /// restore has to decode besides. 1 to 100; default 16.
    pub max_chain: u64,
    /// `gc` keeps this many of the highest steps. Default `None`: it does not count.
    pub keep_last: Option<u64>,
    /// `gc` keeps the steps that are multiples of this. Default `None`: none for that reason.
    /// With neither this nor `keep_last`, `gc` keeps every step.
    pub keep_every: Option<u64>,
    /// `gc` keeps the files of the optimizer's state of this many of the highest steps, and of
    /// those that they are deltas to; others are written once more without. Default `None`: of all.
    pub state_last: Option<u64>,
}

impl Default for Policy {
    fn default() -> Self {
        Policy {
            full_every: 10,
            rebase_above: 0.95,
            max_chain: 16,
            keep_last: None,
            keep_every: None,
            state_last: None,
        }
    }
}

with_methods! {
    Policy {
        with_full_every full_every: u64,
        with_rebase_above rebase_above: f64,
        with_max_chain max_chain: u64,
        with_keep_last keep_last: Option<u64>,
        with_keep_every keep_every: Option<u64>,
        with_state_last state_last: Option<u64>,
    }
}

impl Policy {
    /// Whether `gc` keeps `step`, the `rank`th highest (counted from 0), for its own sake.
    /// The highest one is always kept.
    pub fn keeps(&self, step: u64, rank: u64) -> bool {
        match (self.keep_last, self.keep_every) {
            (None, None) => true,
            (last, every) => {
                rank < last.unwrap_or(0).max(1)
                    || every.is_some_and(|every| step.is_multiple_of(every))
            }
        }
    }

    /// Which steps `gc` keeps, in words.
    pub(super) fn kept(&self) -> String {
        let last = match self.keep_last.unwrap_or(0).max(1) {
            1 => "the highest step".to_owned(),
            n => format!("the {n} highest steps"),
        };
        match (self.keep_last, self.keep_every) {
            (None, None) => "every step".into(),
            (_, None) => last,
            (_, Some(every)) => format!("{last} and the multiples of {every}"),
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let wrong = |what: &str| Err(Error::InvalidArgument(format!("policy: {what}").into()));
        if !(0.0..=1.0).contains(&self.rebase_above) {
            return wrong("rebase_above is a fraction between 0 and 1");
        }
        if !(1..=MAX_CHAIN).contains(&self.max_chain) {
            return wrong("max_chain is between 1 and 100");
        }
        if [self.keep_last, self.keep_every, self.state_last].contains(&Some(0)) {
            return wrong("keep_last, keep_every and state_last are at least 1");
        }
        Ok(())
    }

    pub(super) fn to_json(&self) -> Value {
        serde_json::to_value(self).unwrap_or(Value::Null)
    }

    pub(super) fn from_json(value: Option<&Value>) -> Result<Policy> {
        let policy: Policy = value
            .and_then(|v| Policy::deserialize(v).ok())
            .ok_or_else(|| Error::Corrupt("the policy of the store is damaged".into()))?;
        policy.check().map_err(|e| Error::Corrupt(e.to_string().into()))?;
        Ok(policy)
    }
}
