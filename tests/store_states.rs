//! Series of training states in a store: every step restores, and older ones give up the state of
//! their optimizer when they are told to.

use lmc_gpu::{
    Overwrite,
    store::{Collecting, Form, GcOptions, Policy, SaveOptions, Store},
};
use std::{
    fs,
    path::{Path, PathBuf},
};

#[path = "common/mod.rs"]
mod common;

const ROWS: u64 = 128;
const COLUMNS: u64 = 160;
const N: usize = (ROWS * COLUMNS) as usize;

/// A training run: AdamW in 32 bits, with gradients and a model in bf16.
struct Run {
    rng: common::Rng,
    w: Vec<f32>,
    m: Vec<f32>,
    v: Vec<f32>,
}

impl Run {
    fn new() -> Run {
        let mut rng = common::Rng::new(7);
        let w = (0..N).map(|_| rng.normal() as f32 * 0.02).collect();
        Run { rng, w, m: vec![0.0; N], v: vec![0.0; N] }
    }

    fn step(&mut self) {
        for ((w, m), v) in self.w.iter_mut().zip(&mut self.m).zip(&mut self.v) {
            let g = half::bf16::from_f32(self.rng.normal() as f32 * 1e-3).to_f32();
            *m = ((1.0 - 0.9f64) as f32).mul_add(g - *m, *m);
            *v = ((1.0 - 0.95f64) as f32 * g).mul_add(g, *v * 0.95);
            *w = *w * 0.99999 + -1e-4 * *m / (v.sqrt() + 1e-8);
        }
    }

    fn files(&self) -> Vec<(&'static str, Vec<u8>)> {
        let wide = |x: &[f32]| x.iter().flat_map(|x| x.to_le_bytes()).collect();
        let narrow = self.w.iter().flat_map(|&w| half::bf16::from_f32(w).to_le_bytes());
        let file = |dtype, data| {
            common::safetensors(&[("layer.w".into(), dtype, vec![ROWS, COLUMNS], data)])
        };
        vec![
            ("exp_avg.safetensors", file("F32", wide(&self.m))),
            ("exp_avg_sq.safetensors", file("F32", wide(&self.v))),
            ("master.safetensors", file("F32", wide(&self.w))),
            ("meta/args.json", br#"{"lr": 1e-4}"#.to_vec()),
            ("model.safetensors", file("BF16", narrow.collect())),
        ]
    }
}

fn write(dir: &Path, files: &[(&str, Vec<u8>)]) -> PathBuf {
    let _ = fs::remove_dir_all(dir);
    for (path, bytes) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir.to_owned()
}

/// Saves the steps from 1 on, and returns the files of each.
fn saved(store: &Store, dir: &Path, steps: u64) -> Vec<Vec<(&'static str, Vec<u8>)>> {
    let mut run = Run::new();
    let mut all = Vec::new();
    for step in 1..=steps {
        run.step();
        let files = run.files();
        store.save(write(&dir.join("now"), &files), step, &SaveOptions::default()).unwrap();
        all.push(files);
    }
    all
}

/// Restores a step, with the files of the optimizer's state or without.
fn assert_restores(store: &Store, step: u64, files: &[(&str, Vec<u8>)], state: bool) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    store.restore(step, &out, Overwrite::Refuse).unwrap_or_else(|e| panic!("step {step}: {e}"));
    for (path, bytes) in files {
        let there = state || !path.starts_with("exp_avg");
        let back = fs::read(out.join(path)).ok();
        assert!(back.as_ref() == Some(bytes).filter(|_| there), "step {step}: {path}");
    }
}

#[test]
fn each_of_thirty_steps_restores_and_costs_a_tenth_of_a_full_one() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::default().with_full_every(0).with_max_chain(20);
    let store = Store::init(dir.path().join("store"), policy).unwrap();
    let all = saved(&store, dir.path(), 30);
    for (step, files) in (1..).zip(&all) {
        assert_restores(&store, step, files, true);
    }
    let stats = store.stats().unwrap();
    assert_eq!(stats.steps.iter().map(|s| s.chain).max(), Some(20));
    let deltas: Vec<_> = stats.steps.iter().filter(|s| s.base.is_some()).collect();
    let bytes: u64 = deltas.iter().map(|s| s.archive_bytes).sum();
    let input: u64 = deltas.iter().map(|s| s.input_bytes).sum();
    let ratio = bytes as f64 / input as f64;
    assert!(deltas.len() == 28 && ratio < 0.13, "{} deltas, {ratio}", deltas.len());
}

#[test]
fn older_steps_give_up_their_state_and_keep_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::default().with_full_every(4).with_state_last(Some(2));
    let store = Store::init(dir.path().join("store"), policy).unwrap();
    let all = saved(&store, dir.path(), 10);
    // Steps 9 and 10 are a full one and a delta; all others give theirs up.
    let would = store.gc(&GcOptions::default().with_collecting(Collecting::DryRun)).unwrap();
    assert_eq!(would.without_state, (1..=8).collect::<Vec<_>>());
    let before = store.stats().unwrap().archive_bytes;
    let removed = store.gc(&GcOptions::default()).unwrap();
    assert_eq!(removed.without_state, (1..=8).collect::<Vec<_>>());
    assert!(removed.steps.is_empty() && removed.bytes > 0);
    assert!(store.stats().unwrap().archive_bytes < before);
    for (step, files) in (1..).zip(&all) {
        assert_restores(&store, step, files, step > 8);
    }
    let names: Vec<_> = fs::read_dir(dir.path().join("store/steps")).unwrap().collect();
    assert_eq!(names.len(), 20, "an archive and a record a step: {names:?}");
    assert!(store.gc(&GcOptions::default()).unwrap().without_state.is_empty());
    assert!(store.verify(&[]).is_ok());
}

#[test]
fn what_a_step_with_state_is_a_delta_to_keeps_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::default().with_full_every(4).with_state_last(Some(1));
    let store = Store::init(dir.path().join("store"), policy).unwrap();
    let all = saved(&store, dir.path(), 7);
    let removed = store.gc(&GcOptions::default()).unwrap();
    assert_eq!(removed.without_state, [1, 2, 3, 4]);
    for (step, files) in (1..).zip(&all) {
        assert_restores(&store, step, files, step > 4);
    }
}

#[test]
fn no_chain_grows_because_it_gives_up_its_state() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::default().with_full_every(0).with_state_last(Some(1));
    let store = Store::init(dir.path().join("store"), policy).unwrap();
    let all = saved(&store, dir.path(), 19);
    let before = store.stats().unwrap().archive_bytes;
    let gave_up = store.gc(&GcOptions::default()).unwrap().without_state;
    assert!(store.stats().unwrap().archive_bytes <= before);
    for (step, files) in (1..).zip(&all) {
        assert_restores(&store, step, files, !gave_up.contains(&step));
    }
    assert!(store.gc(&GcOptions::default()).unwrap().without_state.is_empty());
}

#[test]
fn a_kill_between_two_steps_leaves_each_with_its_state_or_without() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::default().with_full_every(0).with_state_last(Some(1));
    let store = Store::init(dir.path().join("store"), policy.clone()).unwrap();
    let all = saved(&store, dir.path(), 3);
    let steps = dir.path().join("store/steps");
    let full = SaveOptions::default().with_form(Form::Full);
    store.save(write(&dir.path().join("now"), &all[2]), 4, &full).unwrap();
    let old: Vec<_> = fs::read_dir(&steps).unwrap().map(|e| e.unwrap().path()).collect();
    let old: Vec<_> = old.into_iter().map(|p| (p.clone(), fs::read(p).unwrap())).collect();
    assert_eq!(store.gc(&GcOptions::default()).unwrap().without_state, [1, 2, 3]);
    // The later records are as they were, and nothing was removed: the kill came after step 1.
    let later = |name: &str| name.starts_with("0000000002.j") || name.starts_with("0000000003.j");
    for (path, bytes) in old {
        let name = path.file_name().unwrap().to_str().unwrap();
        if !path.exists() || later(name) {
            fs::write(&path, bytes).unwrap();
        }
    }
    for (step, files) in (1..=3).zip(&all) {
        assert_restores(&store, step, files, step > 1);
    }
    assert_eq!(store.gc(&GcOptions::default()).unwrap().without_state, [2, 3]);
    for (step, files) in (1..=3).zip(&all) {
        assert_restores(&store, step, files, false);
    }
}
