//! A series of small checkpoints that is a function of the step.

use lmc_gpu::{Overwrite, store::Store};
use std::path::Path;

/// Bytes that look like nothing in particular.
pub fn fill(seed: u64, len: usize) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let next = |_| {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        (x >> 33) as u8
    };
    (0..len).map(next).collect()
}

/// Weights that move a little with the step, in f32.
fn weights(step: u64) -> Vec<f32> {
    let still = fill(1, 40_000);
    let moved = fill(step + 100, 40_000);
    let value = |(&a, &b): (&u8, &u8)| {
        let moves = if b < 40 { f32::from(b) * 1e-4 } else { 0.0 };
        (f32::from(a) - 127.5) / 997.0 + moves
    };
    still.iter().zip(&moved).map(value).collect()
}

fn safetensors(dtype: &str, n: usize, data: &[u8]) -> Vec<u8> {
    let (half, end) = (data.len() / 2, data.len());
    let shape = n / 2;
    let header = format!(
        "{{\"a\":{{\"dtype\":\"{dtype}\",\"shape\":[{shape}],\"data_offsets\":[0,{half}]}},\
         \"b\":{{\"dtype\":\"{dtype}\",\"shape\":[{shape}],\"data_offsets\":[{half},{end}]}}}}"
    );
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat()
}

/// The files of the checkpoint of `step`.
pub fn files(step: u64) -> Vec<(&'static str, Vec<u8>)> {
    let master = weights(step);
    let wide: Vec<u8> = master.iter().flat_map(|w| w.to_le_bytes()).collect();
    let narrow: Vec<u8> = master.iter().flat_map(|w| w.to_le_bytes()[2..].to_vec()).collect();
    vec![
        ("master.safetensors", safetensors("F32", master.len(), &wide)),
        ("model.safetensors", safetensors("BF16", master.len(), &narrow)),
        ("rng/state.bin", fill(step + 7, 3000)),
        ("meta.json", format!("{{\"step\": {step}}}").into_bytes()),
    ]
}

/// Writes the checkpoint of `step` into a new directory.
pub fn checkpoint(dir: &Path, step: u64) {
    for (path, bytes) in files(step) {
        let path = dir.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
    }
}

/// Restores a step and compares it.
pub fn assert_restores(store: &Store, step: u64) {
    assert_restores_as(store, step, step);
}

/// As [`assert_restores`], where the step was saved from the checkpoint of another one.
pub fn assert_restores_as(store: &Store, step: u64, source: u64) {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    store.restore(step, &out, Overwrite::Refuse).unwrap_or_else(|e| panic!("step {step}: {e}"));
    let mut names = Vec::new();
    walk(&out, &mut names);
    assert_eq!(names.len(), files(source).len());
    for (path, bytes) in files(source) {
        assert!(std::fs::read(out.join(path)).unwrap() == bytes, "step {step}: {path} differs");
    }
}

fn walk(dir: &Path, names: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { walk(&path, names) } else { names.push(path) }
    }
}
