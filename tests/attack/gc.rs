//! `store gc` by policies of several kinds, killed at any instant.

use crate::{
    case::{Case, Cases, Draw},
    kill::{kill, start},
    store::{holds, source, steps},
};
use lmc_gpu::{
    Overwrite,
    store::{Policy, SaveOptions, Store},
};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    time::{Duration, Instant},
};

/// Steps of a store, and the versions that they hold.
type Model = BTreeMap<u64, u64>;

/// Stores of many steps, made once and copied for every case.
struct Made {
    dir: tempfile::TempDir,
    stores: Vec<Model>,
    /// How long gc takes about.
    span: Duration,
}

impl Made {
    fn new() -> Made {
        let (dir, mut stores) = (tempfile::tempdir().unwrap(), Vec::new());
        for (k, (full_every, chain)) in [(0, 3), (4, 16), (0, 16)].into_iter().enumerate() {
            let policy = Policy::default()
                .with_full_every(full_every)
                .with_max_chain(chain)
                .with_rebase_above(1.0);
            let store = Store::init(dir.path().join(format!("{k}")), policy).unwrap();
            let mut model = Model::new();
            for i in 0..12 {
                let (step, version) = (1 + i * [2, 3, 5][k] + i % 2, i % 6);
                store.save(source(dir.path(), version), step, &SaveOptions::default()).unwrap();
                model.insert(step, version);
            }
            stores.push(model);
        }
        let mut made = Made { dir, stores, span: Duration::ZERO };
        let (store, _) = made.copy(0);
        let begun = Instant::now();
        let args = ["store", "gc", "-q", "--keep-last", "1"];
        assert!(start(&args, &[store.root()]).wait().unwrap().success());
        made.span = begun.elapsed() * 5 / 4;
        made
    }

    /// A fresh copy of one of the stores.
    fn copy(&self, k: usize) -> (Store, Model) {
        let (from, to) = (self.dir.path().join(k.to_string()), self.dir.path().join("run"));
        let _ = fs::remove_dir_all(&to);
        copy_all(&from, &to);
        (Store::open(&to).unwrap(), self.stores[k].clone())
    }

    fn round(&self, case: &mut Case) -> Result<&'static str, String> {
        let (store, model) = self.copy(case.rng.below(self.stores.len()));
        let last = Some(1 + case.rng.below(5) as u64).filter(|_| !case.rng.one_in(4));
        let every =
            Some(2 + case.rng.below(6) as u64).filter(|_| last.is_none() || case.rng.one_in(2));
        let mut args = vec!["store".to_owned(), "gc".into(), "-q".into()];
        for (name, n) in [("--keep-last", last), ("--keep-every", every)] {
            args.extend(n.into_iter().flat_map(|n| [name.to_owned(), n.to_string()]));
        }
        let args: Vec<&str> = args.iter().map(|a| &a[..]).collect();
        // What the policy names: the highest steps, at least one, and the multiples.
        let due: Vec<u64> = (model.keys().rev().enumerate())
            .filter(|(rank, step)| {
                (*rank as u64) < last.unwrap_or(1) || every.is_some_and(|n| step.is_multiple_of(n))
            })
            .map(|(_, step)| *step)
            .collect();
        let check = |what: &str| {
            let left = steps(&store)?;
            if let Some(step) = due.iter().find(|step| !left.contains(step)) {
                return Err(format!("{what} {args:?} removed step {step}, which it keeps"));
            }
            let verified = store.verify(&[]).map_err(|e| format!("{what} {args:?}: {e}"))?;
            if !verified.is_whole() {
                return Err(format!("{what} {args:?}: {verified:?}"));
            }
            due.iter().try_for_each(|step| restores(&store, self.dir.path(), *step, model[step]))
        };
        let mut ended = false;
        for _ in 0..1 + case.rng.below(2) {
            let instant = self.span.mul_f64(case.rng.below(1000) as f64 / 1000.0);
            ended |= kill(start(&args, &[store.root()]), instant);
            check("killed")?;
        }
        let done = start(&args, &[store.root()]).wait().unwrap();
        if !done.success() {
            return Err(format!("{args:?} fails after a kill"));
        }
        check("after a kill,")?;
        let named = store.list().map_err(|e| e.to_string())?.steps.len();
        let files = fs::read_dir(store.root().join("steps")).unwrap().count();
        if files != 2 * named {
            return Err(format!("{files} files of {named} steps"));
        }
        Ok(if ended { "gc that was done" } else { "gc killed" })
    }
}

fn restores(store: &Store, dir: &Path, step: u64, version: u64) -> Result<(), String> {
    let out = dir.join("out");
    let _ = fs::remove_dir_all(&out);
    store.restore(step, &out, Overwrite::Refuse).map_err(|e| format!("step {step}: {e}"))?;
    holds(&out, version).then_some(()).ok_or_else(|| format!("step {step} restores other bytes"))
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|e| e.unwrap()) {
        let to = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy_all(&entry.path(), &to),
            false => drop(fs::copy(entry.path(), to).unwrap()),
        }
    }
}

#[test]
fn a_killed_gc_leaves_every_step_that_its_policy_keeps() {
    let mut cases = Cases::new("killed gc");
    let made = Made::new();
    while let Some(mut case) = cases.next() {
        match made.round(&mut case) {
            Ok(what) => cases.count(what),
            Err(e) => cases.broken(true, "killed gc", case.number, &e),
        }
    }
    cases.finish();
}
