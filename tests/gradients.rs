//! States of optimizers a step after their base, made by exact simulation: first moments are stored
//! as the gradients that made them, whatever the order of operations, and whatever the gradients.

use lmc_gpu::{
    Archive, Base, compress_path,
    internals::{
        archive::{Options, decompress_stream},
        simd::Level,
    },
};
use std::{fs, path::Path};

const ROWS: usize = 256;
const COLUMNS: usize = 128;
const N: usize = ROWS * COLUMNS;

/// How a trainer folds a gradient into the first moment.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fold {
    /// `torch.lerp` where a product and a sum are one instruction.
    LerpFused,
    /// `torch.lerp` where they are two.
    Lerp,
    /// `mul_(β).add_(g, alpha)`, fused.
    MulAddFused,
    /// `β·m + (1−β)·g`, not fused.
    MulAdd,
    /// The same with the first product fused, as compilers for GPUs make it.
    FirstFused,
}

impl Fold {
    fn apply(self, m: f32, g: f32) -> f32 {
        let (beta, gain) = (0.9f32, (1.0 - 0.9f64) as f32);
        let fused = |a: f32, b: f32, c: f32| a.mul_add(b, c);
        match self {
            Fold::LerpFused => fused(gain, g - m, m),
            Fold::Lerp => m + gain * (g - m),
            Fold::MulAddFused => fused(gain, g, beta * m),
            Fold::MulAdd => beta * m + gain * g,
            Fold::FirstFused => fused(beta, m, gain * g),
        }
    }
}

/// What gradients are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// So many of bf16, summed in f32.
    Bf16(u32),
    /// One of fp16, with the loss scaled by 2¹².
    Fp16,
    Fp32,
}

/// A pseudo-random number in −0.5 … 0.5, with more small ones than large ones.
fn random(i: usize, key: u32) -> f32 {
    let bits = |k: u32| {
        let x = ((i as u32).wrapping_mul(0x9E37_79B1) ^ (4 * key + k).wrapping_mul(0x27D4_EB2F))
            .wrapping_mul(0x85EB_CA6B);
        let x = (x ^ x >> 13).wrapping_mul(0xC2B2_AE35);
        (x ^ x >> 16) as f32 / 4294967296.0 - 0.5
    };
    (bits(0) + bits(1) + bits(2)) / 1.5
}

fn gradient(kind: Kind, i: usize, step: u32) -> f32 {
    let raw = |k: u32| random(i, 100 * step + k) * 1e-3 * (1.0 + (i / COLUMNS % 5) as f32);
    match kind {
        Kind::Bf16(n) => (0..n).fold(0.0, |sum, k| sum + half::bf16::from_f32(raw(k)).to_f32()),
        Kind::Fp16 => half::f16::from_f32(raw(0) * 4096.0).to_f32() / 4096.0,
        Kind::Fp32 => raw(0),
    }
}

/// Moments of a tensor.
#[derive(Clone)]
struct State {
    m: Vec<f32>,
    v: Vec<f32>,
}

impl State {
    fn new() -> State {
        let m = (0..N).map(|i| random(i, 1) * 4e-4).collect();
        let v = (0..N).map(|i| (random(i, 2) * random(i, 3)).abs() * 1e-6 + 1e-9).collect();
        State { m, v }
    }

    /// One step of Adam with β of 0.9 and 0.95 and gradients times `clip`.
    fn step(&mut self, fold: Fold, kind: Kind, clip: f32, step: u32) {
        for (i, (m, v)) in self.m.iter_mut().zip(&mut self.v).enumerate() {
            let g = clip * gradient(kind, i, step);
            let gain = (1.0 - 0.95f64) as f32;
            *m = fold.apply(*m, g);
            *v = (gain * g).mul_add(g, *v * 0.95);
        }
    }

    fn write(&self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        for (name, values) in [("exp_avg", &self.m), ("exp_avg_sq", &self.v)] {
            fs::write(dir.join(format!("{name}.safetensors")), file(values)).unwrap();
        }
    }
}

/// A safetensors file of one matrix.
fn file(values: &[f32]) -> Vec<u8> {
    let header = format!(
        "{{\"w\":{{\"dtype\":\"F32\",\"shape\":[{ROWS},{COLUMNS}],\"data_offsets\":[0,{}]}}}}",
        4 * N
    );
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend(values.iter().flat_map(|x| x.to_le_bytes()));
    file
}

/// Compresses one state with the other as its base, restores it at every level, and returns the
/// bits that an element takes, and how its first moments are stored.
fn bits(base: &State, new: &State) -> (f64, bool) {
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("0"), dir.path().join("1"));
    base.write(&from);
    new.write(&to);
    let options = Options::default().with_threads(2);
    let options = options.clone().with_base(Some(Base::open_with(&from, &[], &options).unwrap()));
    let out = dir.path().join("x.lmc");
    compress_path(&to, &out, &options.compressing()).unwrap();
    let archive = fs::read(&out).unwrap();
    for level in Level::available() {
        let back = dir.path().join(format!("{level:?}"));
        let options = options.clone().with_level(level);
        decompress_stream(&mut &archive[..], &back, &options.restoring()).unwrap();
        for name in ["exp_avg.safetensors", "exp_avg_sq.safetensors"] {
            let same = fs::read(back.join(name)).unwrap() == fs::read(to.join(name)).unwrap();
            assert!(same, "{name} differs, {level:?}");
        }
    }
    let opened = Archive::open(&out, &options.restoring()).unwrap();
    let found =
        opened.chunks().iter().any(|c| c.meta.form == lmc_gpu::internals::codec::Form::Gradient);
    (8.0 * archive.len() as f64 / N as f64, found)
}

const FOLDS: [Fold; 5] =
    [Fold::LerpFused, Fold::Lerp, Fold::MulAddFused, Fold::MulAdd, Fold::FirstFused];

#[test]
fn moments_cost_what_their_gradients_do_whatever_the_order_of_operations() {
    for fold in FOLDS {
        for (kind, most) in [
            (Kind::Bf16(1), 14.0),
            (Kind::Bf16(2), 16.0),
            (Kind::Bf16(8), 20.0),
            (Kind::Fp16, 16.0),
        ] {
            for clip in [1.0, 0.639_577_03, 0.087_654_32] {
                let base = State::new();
                let mut new = base.clone();
                new.step(fold, kind, clip, 1);
                let (bits, found) = bits(&base, &new);
                assert!(found && bits < most, "{fold:?} {kind:?} {clip}: {bits} bits");
            }
        }
    }
}

#[test]
fn gradients_of_32_bits_cost_no_more_than_differences() {
    for fold in FOLDS {
        let base = State::new();
        let mut new = base.clone();
        new.step(fold, Kind::Fp32, 0.77, 1);
        let (bits, _) = bits(&base, &new);
        assert!(bits < 28.5, "{fold:?}: {bits} bits");
    }
}

#[test]
fn words_that_no_gradient_makes_are_restored_too() {
    let mut base = State::new();
    let odd = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, -1e-45, f32::MAX];
    let odd = |i: usize| odd[i % odd.len()];
    let spread = |i: usize| i % 37 == 5;
    (0..N).filter(|&i| spread(i)).for_each(|i| base.m[i] = odd(i / 37));
    (0..N).filter(|&i| i % 41 == 7).for_each(|i| base.v[i] = odd(i / 41).abs());
    let mut new = base.clone();
    new.step(Fold::LerpFused, Kind::Bf16(2), 0.639_577_03, 1);
    // A NaN with bits of its own, words that did not change, and zeros.
    for i in 0..N {
        match i % 53 {
            1 => new.m[i] = f32::from_bits(0xffa0_0000 | i as u32),
            2 => new.m[i] = base.m[i],
            3 => new.m[i] = odd(i / 53),
            4 => new.m[i] = random(i, 77),
            _ => {}
        }
    }
    let (bits, found) = bits(&base, &new);
    assert!(found && bits < 24.0, "{bits} bits");
}

#[test]
fn a_step_that_was_skipped_costs_nothing() {
    let base = State::new();
    let (bits, _) = bits(&base, &base);
    assert!(bits < 0.2, "{bits} bits");
}

#[test]
fn two_steps_cost_no_more_than_differences() {
    let base = State::new();
    let mut new = base.clone();
    new.step(Fold::LerpFused, Kind::Bf16(2), 0.9, 1);
    new.step(Fold::LerpFused, Kind::Bf16(2), 0.8, 2);
    let (bits, _) = bits(&base, &new);
    assert!(bits < 52.0, "{bits} bits");
}

/// How an optimizer without second moments makes its only one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Momentum {
    /// SGD of torch: `buf.mul_(0.9).add_(g)`.
    Sgd,
    /// The same where a compiler fused the product with the sum.
    SgdFused,
    /// SGD with a dampening of 0.9.
    Dampened,
    /// Lion: `exp_avg.lerp_(g, 1 − 0.99)`.
    Lion,
    /// Lion of other authors: `exp_avg.mul_(0.99).add_(g, alpha=1 − 0.99)`.
    LionMulAdd,
    /// Muon: `buf.lerp_(g, 1 − 0.95)`.
    Muon,
}

impl Momentum {
    fn apply(self, m: f32, g: f32) -> f32 {
        let gain = |beta: f64| (1.0 - beta) as f32;
        match self {
            Momentum::Sgd => 0.9 * m + g,
            Momentum::SgdFused => 0.9f32.mul_add(m, g),
            Momentum::Dampened => 0.9 * m + gain(0.9) * g,
            Momentum::Lion => gain(0.99).mul_add(g - m, m),
            Momentum::LionMulAdd => gain(0.99).mul_add(g, 0.99 * m),
            Momentum::Muon => m + gain(0.95) * (g - m),
        }
    }

    /// What the moment is called, and moments before and after a step.
    fn step(self, kind: Kind, clip: f32) -> (&'static str, Vec<f32>, Vec<f32>) {
        let name = match self {
            Momentum::Lion | Momentum::LionMulAdd => "exp_avg",
            _ => "momentum_buffer",
        };
        let before = State::new().m;
        let after = |(i, &m): (usize, &f32)| self.apply(m, clip * gradient(kind, i, 1));
        let after = before.iter().enumerate().map(after).collect();
        (name, before, after)
    }
}

/// [`bits`] of a moment that has no second one.
fn bits_alone(name: &str, base: &[f32], new: &[f32]) -> (f64, bool) {
    let dir = tempfile::tempdir().unwrap();
    let write = |step: &str, values: &[f32]| {
        let dir = dir.path().join(step);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join(format!("{name}.safetensors")), file(values)).unwrap();
        fs::write(dir.join("meta.json"), "{}").unwrap();
        dir
    };
    let (from, to) = (write("0", base), write("1", new));
    let options = Options::default().with_threads(2);
    let options = options.clone().with_base(Some(Base::open_with(&from, &[], &options).unwrap()));
    let out = dir.path().join("x.lmc");
    compress_path(&to, &out, &options.compressing()).unwrap();
    let archive = fs::read(&out).unwrap();
    for level in Level::available() {
        let back = dir.path().join(format!("{level:?}"));
        let options = options.clone().with_level(level);
        decompress_stream(&mut &archive[..], &back, &options.restoring()).unwrap();
        let back = fs::read(back.join(format!("{name}.safetensors"))).unwrap();
        assert!(back == file(new), "{name} differs, {level:?}");
    }
    let opened = Archive::open(&out, &options.restoring()).unwrap();
    let found =
        opened.chunks().iter().any(|c| c.meta.form == lmc_gpu::internals::codec::Form::Gradient);
    (8.0 * archive.len() as f64 / N as f64, found)
}

const MOMENTA: [Momentum; 6] = [
    Momentum::Sgd,
    Momentum::SgdFused,
    Momentum::Dampened,
    Momentum::Lion,
    Momentum::LionMulAdd,
    Momentum::Muon,
];

#[test]
fn moments_without_a_second_one_cost_what_their_gradients_do() {
    for momentum in MOMENTA {
        for (kind, most) in [(Kind::Bf16(1), 15.0), (Kind::Bf16(2), 17.0), (Kind::Fp16, 18.0)] {
            for clip in [1.0, 0.639_577_03] {
                let (name, base, new) = momentum.step(kind, clip);
                let (bits, found) = bits_alone(name, &base, &new);
                assert!(found && bits < most, "{momentum:?} {kind:?} {clip}: {bits} bits");
            }
        }
        let (name, base, new) = momentum.step(Kind::Bf16(8), 1.0);
        let (bits, found) = bits_alone(name, &base, &new);
        assert!(found && bits < 22.0, "{momentum:?}: {bits} bits");
    }
}

#[test]
fn moments_alone_of_gradients_of_32_bits_cost_no_more_than_they_are() {
    for momentum in MOMENTA {
        let (name, base, new) = momentum.step(Kind::Fp32, 0.77);
        let (bits, _) = bits_alone(name, &base, &new);
        assert!(bits < 29.0, "{momentum:?}: {bits} bits");
    }
}

#[test]
fn odd_words_of_moments_alone_are_restored_too() {
    let (name, mut base, mut new) = Momentum::Sgd.step(Kind::Bf16(2), 1.0);
    let odd = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 1e-40, -1e-45, f32::MAX];
    for i in 0..N {
        match i % 53 {
            1 => base[i] = odd[i / 53 % odd.len()],
            2 => new[i] = odd[i / 53 % odd.len()],
            3 => new[i] = f32::from_bits(0xffa0_0000 | i as u32),
            4 => new[i] = base[i],
            _ => {}
        }
    }
    let (bits, found) = bits_alone(name, &base, &new);
    assert!(found && bits < 22.0, "{bits} bits");
    let (bits, _) = bits_alone(name, &base, &base);
    assert!(bits < 0.2, "a step that was skipped: {bits} bits");
}
