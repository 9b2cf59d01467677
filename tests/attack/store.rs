//! A store against a model of it: saves, restores, gc and verify in any order.

use crate::{
    case::{Cases, Draw},
    common::{Rng, safetensors},
};
use lmc_gpu::{
    Overwrite,
    dtype::Dtype,
    store::{Existing, Form, GcOptions, Policy, SaveOptions, Store},
};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// The files of a small checkpoint; neighbours differ little.
pub fn files(version: u64) -> Vec<(&'static str, Vec<u8>)> {
    let mut still = Rng::new(41).values(Dtype::F32, 3000, 0);
    let mut moved = Rng::new(1000 + version);
    for word in still.chunks_exact_mut(4) {
        if moved.one_in(4) {
            word[0] = word[0].wrapping_add(moved.below(5) as u8);
        }
    }
    let narrow = still.chunks_exact(4).flat_map(|w| [w[2], w[3]]).collect();
    vec![
        ("master.safetensors", safetensors(&[("w".into(), "F32", vec![60, 50], still)])),
        ("model.safetensors", safetensors(&[("w".into(), "BF16", vec![60, 50], narrow)])),
        ("rng/state.bin", moved.bytes(500)),
        ("meta.json", format!("{{\"step\": {version}}}").into_bytes()),
    ]
}

/// The checkpoint of a version, written where it is not yet.
pub fn source(dir: &Path, version: u64) -> PathBuf {
    let at = dir.join(format!("source-{version}"));
    if !at.exists() {
        for (path, bytes) in files(version) {
            let path = at.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }
    at
}

/// Whether a directory holds exactly the files of a version.
pub fn holds(dir: &Path, version: u64) -> bool {
    fn count(dir: &Path) -> usize {
        let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap().path());
        entries.map(|p| if p.is_dir() { count(&p) } else { 1 }).sum()
    }
    let want = files(version);
    count(dir) == want.len()
        && want.iter().all(|(path, bytes)| fs::read(dir.join(path)).is_ok_and(|b| b == *bytes))
}

/// Whether a step restores exactly, and why not.
pub fn restores(store: &Store, step: u64, version: u64) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    store.restore(step, &out, Overwrite::Refuse).map_err(|e| format!("step {step}: {e}"))?;
    holds(&out, version).then_some(()).ok_or_else(|| format!("step {step} restores other bytes"))
}

pub fn steps(store: &Store) -> Result<Vec<u64>, String> {
    let listing = store.list().map_err(|e| e.to_string())?;
    match listing.unreadable.first() {
        Some((path, e)) => Err(format!("{}: {e}", path.display())),
        None => Ok(listing.steps.iter().map(|r| r.step).collect()),
    }
}

fn policy(rng: &mut Rng) -> Policy {
    Policy::default()
        .with_full_every(rng.below(5) as u64)
        .with_max_chain(1 + rng.below(6) as u64)
        .with_rebase_above(if rng.one_in(2) { 1.0 } else { 0.5 })
}

/// Does one thing to the store and to the model.
fn act(
    store: &Store,
    dir: &Path,
    model: &mut BTreeMap<u64, u64>,
    rng: &mut Rng,
) -> Result<&'static str, String> {
    let last = model.last_key_value().map_or(0, |(step, _)| *step);
    let any = *rng.pick(&model.keys().copied().chain([0]).collect::<Vec<_>>());
    let words = |e: lmc_gpu::Error| e.to_string();
    match rng.below(10) {
        0..4 => {
            let step = if rng.one_in(4) { rng.below(60) as u64 } else { last + 1 };
            let (version, replace) = (rng.below(8) as u64, rng.one_in(3));
            let options = SaveOptions::default()
                .with_existing(if replace { Existing::Replace } else { Existing::Refuse })
                .with_form(if rng.one_in(6) { Form::Full } else { Form::ByPolicy });
            let saved = store.save(source(dir, version), step, &options);
            if model.contains_key(&step) && !replace {
                return saved.map_or(Ok("save refused"), |_| Err(format!("{step} was replaced")));
            }
            saved.map_err(words)?;
            model.insert(step, version);
            Ok("save")
        }
        4 | 5 => match model.get(&any) {
            Some(version) => restores(store, any, *version).map(|()| "restore"),
            None => store
                .restore(any, dir.join("none"), Overwrite::Refuse)
                .map_or(Ok("restore refused"), |_| Err(format!("{any} does not exist"))),
        },
        6 | 7 => {
            let (last, every) = (1 + rng.below(6) as u64, 2 + rng.below(6) as u64);
            let mut policy = Policy::default().with_keep_last(Some(last));
            if rng.one_in(2) {
                policy = policy.with_keep_every(Some(every));
            }
            let removed = store.gc(&GcOptions::default().with_policy(Some(policy.clone())));
            let removed = removed.map_err(words)?;
            let left = steps(store)?;
            for (rank, step) in model.keys().rev().enumerate() {
                let kept = left.contains(step);
                let due = (rank as u64) < last
                    || policy.keep_every.is_some_and(|n| step.is_multiple_of(n));
                if due && !kept || kept == removed.steps.contains(step) {
                    return Err(format!("gc of {step}: kept {kept}, {removed:?}"));
                }
            }
            model.retain(|step, _| left.contains(step));
            Ok("gc")
        }
        8 => {
            let removed = store.gc(&GcOptions::default().with_drop_after(Some(any)));
            removed.map_err(words)?;
            model.retain(|step, _| *step <= any);
            Ok("drop")
        }
        _ => {
            let verified = store.verify(&[]).map_err(words)?;
            match verified.is_whole() {
                true => Ok("verify"),
                false => Err(format!("{verified:?}")),
            }
        }
    }
}

#[test]
fn a_store_does_what_a_model_of_it_does() {
    let mut cases = Cases::new("store");
    while let Some(mut case) = cases.next() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("run");
        let mut store = Store::init(&root, policy(&mut case.rng)).unwrap();
        let mut model = BTreeMap::new();
        for _ in 0..1 + case.rng.below(30) {
            if case.rng.one_in(8) {
                store = Store::open(&root).unwrap();
            }
            let done = act(&store, dir.path(), &mut model, &mut case.rng).and_then(|what| {
                let listed = steps(&store)?;
                let same = listed.iter().eq(model.keys());
                same.then_some(what).ok_or_else(|| format!("{listed:?}, not {model:?}"))
            });
            match done {
                Ok(what) => cases.count(what),
                Err(e) => {
                    cases.broken(true, "store", case.number, &e);
                    break;
                }
            }
        }
        for (step, version) in &model {
            if let Err(e) = restores(&store, *step, *version) {
                cases.broken(true, "at the end", case.number, &e);
            }
        }
    }
    cases.finish();
}
