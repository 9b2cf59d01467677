//! Writing `lmc-store.json` anew.
//!
//! It holds the policy and nothing else: which steps there are, and what they need, stands in
//! their own records. So all that can be lost with it is the policy.

use super::{Locking, Policy, STEPS, Store, record::parse_stem};
use crate::{Error, Result, archive::Overwrite};
use std::{fs, path::Path};

impl Store {
    /// Opens a store, and where its `lmc-store.json` is damaged or missing writes that anew, with
    /// this policy or, without one, the default policy, by which `gc` keeps every step. Steps are
    /// not touched. A store that is whole keeps its policy, unless one is given.
    ///
    /// # Errors
    /// `InvalidArgument` where there are no steps either, or the policy makes no sense;
    /// `Unsupported` for a store of a newer version; `Io`.
    pub fn repair(root: impl AsRef<Path>, policy: Option<Policy>) -> Result<Store> {
        let root = root.as_ref();
        let fault = match (Store::open(root), policy.clone()) {
            (Ok(store), None) => return Ok(store),
            (Ok(mut store), Some(policy)) => {
                store.set_policy(policy)?;
                return Ok(store);
            }
            (Err(e), _) => e,
        };
        let is_damaged = match fault {
            Error::Corrupt(_) => true,
            Error::InvalidArgument(_) => has_steps(root),
            _ => false,
        };
        if !is_damaged {
            return Err(fault);
        }
        let policy = policy.unwrap_or_default();
        policy.check()?;
        let steps = root.join(STEPS);
        fs::create_dir_all(&steps).map_err(|e| Error::io("create", &steps, e))?;
        let store = Store::at(root, policy);
        let _lock = store.lock(Locking::Wait)?;
        store.write_policy(Overwrite::Files)?;
        Ok(store)
    }
}

/// Whether a directory has records of steps.
pub(super) fn has_steps(root: &Path) -> bool {
    let is_record = |name: &str| name.strip_suffix(".json").and_then(parse_stem).is_some();
    fs::read_dir(root.join(STEPS)).is_ok_and(|entries| {
        entries.flatten().any(|e| e.file_name().to_str().is_some_and(is_record))
    })
}
