//! Averaged copies of weights a step after their base, made by exact simulation: they cost next to
//! nothing beside the weights, whatever the order of operations and the decay rate.

use lmc_gpu::{
    Base, compress_path,
    internals::{
        archive::{Options, decompress_stream},
        simd::Level,
    },
};
use std::{
    fs,
    path::{Path, PathBuf},
};

#[path = "common/mod.rs"]
mod common;

const ROWS: usize = 256;
const COLUMNS: usize = 128;
const N: usize = ROWS * COLUMNS;

/// How a trainer averages.
#[derive(Clone, Copy, Debug)]
enum Rule {
    /// `s.sub_(one_minus_decay * (s - p))`, of diffusers and timm.
    Sub,
    /// `lerp`, where a product and a sum are one instruction.
    LerpFused,
    /// `decay * s + (1 - decay) * p`.
    MulAdd,
}

impl Rule {
    fn apply(self, s: f32, p: f32, decay: f64) -> f32 {
        let gain = (1.0 - decay) as f32;
        match self {
            Rule::Sub => s - gain * (s - p),
            Rule::LerpFused => gain.mul_add(p - s, s),
            Rule::MulAdd => decay as f32 * s + gain * p,
        }
    }
}

fn values(seed: u64, size: f32) -> Vec<f32> {
    let mut rng = common::Rng::new(seed);
    (0..N).map(|_| rng.normal() as f32 * size).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn tensor(name: &str, data: Vec<u8>) -> (String, &'static str, Vec<u64>, Vec<u8>) {
    (name.into(), "F32", vec![ROWS as u64, COLUMNS as u64], data)
}

/// Writes weights and copy into files of their own, or into one.
fn write(dir: &Path, apart: bool, w: &[f32], a: &[f32]) -> PathBuf {
    fs::create_dir_all(dir).unwrap();
    let (w, a) = (bytes(w), bytes(a));
    if apart {
        let model = common::safetensors(&[tensor("layer.w", w)]);
        fs::write(dir.join("model.safetensors"), model).unwrap();
        let copy = common::safetensors(&[tensor("layer.w", a)]);
        fs::write(dir.join("ema.safetensors"), copy).unwrap();
    } else {
        let all = [tensor("model.layer.w", w), tensor("ema.layer.w", a)];
        fs::write(dir.join("state.safetensors"), common::safetensors(&all)).unwrap();
    }
    dir.to_owned()
}

/// Bits an element of an archive of `new`, which is restored at every level.
fn bits(new: &Path, base: Option<&Path>) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().with_threads(2);
    let base = base.map(|base| Base::open_with(base, &[], &options).unwrap());
    let options = options.with_base(base);
    let out = dir.path().join("x.lmc");
    compress_path(new, &out, &options.compressing()).unwrap();
    let archive = fs::read(&out).unwrap();
    for level in Level::available() {
        let back = dir.path().join(format!("{level:?}"));
        let options = options.clone().with_level(level);
        decompress_stream(&mut &archive[..], &back, &options.restoring()).unwrap();
        for file in fs::read_dir(new).unwrap() {
            let path = file.unwrap().path();
            let restored = back.join(path.file_name().unwrap());
            assert!(fs::read(&path).unwrap() == fs::read(restored).unwrap(), "{level:?}");
        }
    }
    8.0 * archive.len() as f64 / N as f64
}

#[test]
fn a_copy_one_step_on_costs_next_to_nothing_beside_its_weights() {
    let dir = tempfile::tempdir().unwrap();
    let w0 = values(1, 0.02);
    let w1: Vec<f32> = w0.iter().zip(values(2, 1e-4)).map(|(w, by)| w + by).collect();
    let a0: Vec<f32> = w0.iter().zip(values(3, 1e-3)).map(|(w, by)| w + by).collect();
    for apart in [true, false] {
        let with = |name: &str, w: &[f32], a: &[f32]| {
            write(&dir.path().join(format!("{name}-{apart}")), apart, w, a)
        };
        let base = with("0", &w0, &a0);
        let alone = bits(&with("same", &w1, &a0), Some(&base));
        for rule in [Rule::Sub, Rule::LerpFused, Rule::MulAdd] {
            for decay in [0.9999, 0.995, 0.912_345] {
                let step = |(&a, &w): (&f32, &f32)| rule.apply(a, w, decay);
                let mut a1: Vec<f32> = a0.iter().zip(&w1).map(step).collect();
                // Words that no average makes.
                (a1[7], a1[8], a1[9]) = (f32::NAN, f32::INFINITY, -0.0);
                let all = bits(&with("1", &w1, &a1), Some(&base));
                assert!(all < alone + 0.3, "{rule:?} {decay} {apart}: {all}, {alone} without");
            }
        }
    }
}

#[test]
fn a_copy_without_a_base_is_told_by_its_weights() {
    let dir = tempfile::tempdir().unwrap();
    let w = values(1, 0.02);
    let a: Vec<f32> = w.iter().zip(values(3, 1e-5)).map(|(w, by)| w + by).collect();
    for apart in [true, false] {
        let bits = bits(&write(&dir.path().join("0"), apart, &w, &a), None);
        assert!(bits < 26.5 + 20.0, "{bits} bits for both");
        fs::remove_dir_all(dir.path().join("0")).unwrap();
    }
}
