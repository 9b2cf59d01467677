//! Training states in the layouts in which people have them, one step after their base: small tensors,
//! optimizers in files of their own whose keys are numbers, flat shards.

#[path = "common/mod.rs"]
mod common;

use lmc_gpu::{
    Archive, Base, compress_path,
    internals::{
        archive::{Options, decompress_stream},
        codec::Form,
    },
};
use std::{fs, path::Path};

/// A parameter of AdamW in 32 bits, with gradients in bf16.
struct Parameter {
    w: Vec<f32>,
    m: Vec<f32>,
    v: Vec<f32>,
}

impl Parameter {
    fn new(rng: &mut common::Rng, n: usize) -> Parameter {
        let mut of =
            |size: f64| -> Vec<f32> { (0..n).map(|_| (rng.normal() * size) as f32).collect() };
        let (w, m, v) = (of(0.02), of(1e-4), of(1e-3));
        Parameter { w, m, v: v.iter().map(|x| x * x + 1e-9).collect() }
    }

    fn step(&mut self, rng: &mut common::Rng) {
        for ((w, m), v) in self.w.iter_mut().zip(&mut self.m).zip(&mut self.v) {
            let g = half::bf16::from_f32(rng.normal() as f32 * 1e-3).to_f32();
            *m = ((1.0 - 0.9f64) as f32).mul_add(g - *m, *m);
            *v = ((1.0 - 0.95f64) as f32 * g).mul_add(g, *v * 0.95);
            *w = *w * 0.99999 + -1e-4 * *m / (v.sqrt() + 1e-8);
        }
    }
}

type Files = Vec<(String, Vec<u8>)>;

/// A safetensors file of vectors or matrices.
fn file(tensors: &[(String, Vec<u64>, &[f32])]) -> Vec<u8> {
    let tensors: Vec<_> = tensors
        .iter()
        .map(|(name, shape, x)| {
            let bytes = x.iter().flat_map(|x| x.to_le_bytes()).collect();
            (name.clone(), "F32", shape.clone(), bytes)
        })
        .collect();
    common::safetensors(&tensors)
}

/// Files before and after a step of parameters of these shapes, as `layout` has them.
fn steps(shapes: &[&[u64]], layout: impl Fn(&[Parameter]) -> Files) -> [Files; 2] {
    let mut rng = common::Rng::new(11);
    let mut all: Vec<Parameter> = shapes
        .iter()
        .map(|shape| Parameter::new(&mut rng, shape.iter().product::<u64>() as usize))
        .collect();
    let before = layout(&all);
    all.iter_mut().for_each(|p| p.step(&mut rng));
    [before, layout(&all)]
}

fn write(dir: &Path, files: &Files) {
    for (path, bytes) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

/// Compresses a step with the one before as its base, restores it, and returns the bits that a
/// parameter takes, weights and moments together, and how many chunks are stored as gradients.
fn bits([before, after]: &[Files; 2]) -> (f64, usize) {
    let dir = tempfile::tempdir().unwrap();
    let (from, to, out) = (dir.path().join("0"), dir.path().join("1"), dir.path().join("x.lmc"));
    write(&from, before);
    write(&to, after);
    let options = Options::default().with_threads(2);
    let options = options.clone().with_base(Some(Base::open_with(&from, &[], &options).unwrap()));
    compress_path(&to, &out, &options.compressing()).unwrap();
    let forward = dir.path().join("forward");
    let mut bytes = &fs::read(&out).unwrap()[..];
    decompress_stream(&mut bytes, &forward, &options.restoring()).unwrap();
    let back = dir.path().join("back");
    let archive = Archive::open(&out, &options.restoring()).unwrap();
    archive.restore(&back, &options.restoring()).unwrap();
    let mut bytes = 0;
    for (path, want) in after {
        for restored in [&back, &forward] {
            assert!(fs::read(restored.join(path)).unwrap() == *want, "{path}");
        }
        bytes += want.len();
    }
    let chunks = archive.chunks().iter();
    let gradients = chunks.filter(|c| c.meta.form == Form::Gradient).count();
    (8.0 * fs::metadata(&out).unwrap().len() as f64 / (bytes as f64 / 12.0), gradients)
}

/// A file for each role, with the same names.
fn by_role(all: &[Parameter], shapes: &[&[u64]]) -> Files {
    let of = |get: fn(&Parameter) -> &[f32]| {
        let tensors: Vec<_> = all
            .iter()
            .zip(shapes)
            .enumerate()
            .map(|(i, (p, shape))| (format!("layers.{i:02}.weight"), shape.to_vec(), get(p)))
            .collect();
        file(&tensors)
    };
    vec![
        ("exp_avg.safetensors".into(), of(|p| &p.m)),
        ("exp_avg_sq.safetensors".into(), of(|p| &p.v)),
        ("master.safetensors".into(), of(|p| &p.w)),
    ]
}

/// A model, and its optimizer beside it with numbers for keys, in another order.
fn numbered(all: &[Parameter], shapes: &[&[u64]], names: [&str; 2]) -> Files {
    let weights: Vec<_> = all
        .iter()
        .zip(shapes)
        .enumerate()
        .map(|(i, (p, shape))| (format!("layers.{i}.weight"), shape.to_vec(), &p.w[..]))
        .collect();
    let state = all.iter().zip(shapes).rev().enumerate().flat_map(|(i, (p, shape))| {
        [("exp_avg", &p.m[..]), ("exp_avg_sq", &p.v[..])]
            .map(|(leaf, x)| (format!("state.{i}.{leaf}"), shape.to_vec(), x))
    });
    let state: Vec<_> = state.collect();
    vec![(names[0].into(), file(&weights)), (names[1].into(), file(&state))]
}

#[test]
fn one_small_tensor_is_stored_as_its_gradient() {
    let shapes: &[&[u64]] = &[&[64, 128]];
    let (bits, gradients) = bits(&steps(shapes, |all| by_role(all, shapes)));
    assert!(gradients == 1 && bits < 18.0, "{bits} bits, {gradients}");
}

#[test]
fn many_small_tensors_are_stored_as_their_gradients_together() {
    // Layer norms, and matrices of a low rank.
    let kinds: [&[u64]; 3] = [&[192], &[192], &[8, 192]];
    let shapes: Vec<&[u64]> = (0..40).map(|i| kinds[i % 3]).collect();
    let (bits, gradients) = bits(&steps(&shapes, |all| by_role(all, &shapes)));
    assert!(gradients == 1 && bits < 18.0, "{bits} bits, {gradients}");
}

#[test]
fn small_tensors_beside_large_ones_follow_from_them() {
    let shapes: &[&[u64]] = &[&[128, 256], &[256], &[256], &[128, 256], &[256], &[256]];
    let (bits, gradients) = bits(&steps(shapes, |all| by_role(all, shapes)));
    assert!(gradients == 3 && bits < 17.0, "{bits} bits, {gradients}");
}

#[test]
fn small_tensors_that_no_step_leads_to_share_chunks_as_without_moments() {
    let shapes: Vec<&[u64]> = (0..12).map(|_| &[300][..]).collect();
    let [before, _] = steps(&shapes, |all| by_role(all, &shapes));
    let mut rng = common::Rng::new(99);
    let other: Vec<_> = shapes.iter().map(|_| Parameter::new(&mut rng, 300)).collect();
    let (bits, gradients) = bits(&[before, by_role(&other, &shapes)]);
    assert!(gradients == 0 && bits < 98.0, "{bits} bits");
}

#[test]
fn weights_are_found_for_moments_whose_keys_are_numbers() {
    let shapes: &[&[u64]] = &[&[128, 256][..]; 5];
    for names in [
        ["model.safetensors", "optimizer.safetensors"],
        ["pytorch_model_fsdp_0/0.safetensors", "optimizer_0/0.safetensors"],
    ] {
        let (bits, gradients) = bits(&steps(shapes, |all| numbered(all, shapes, names)));
        assert!(gradients == 5 && bits < 16.5, "{names:?}: {bits} bits, {gradients}");
    }
}

#[test]
fn flat_shards_are_matched_with_the_moments_of_their_length() {
    // Two ranks with as many words, of which only the optimizer's file says which is whose.
    let shapes: &[&[u64]] = &[&[40_000], &[40_000]];
    let (bits, gradients) = bits(&steps(shapes, |all| {
        let ranks = all.iter().zip(shapes).enumerate();
        let of = |(rank, (p, shape)): (usize, (&Parameter, &&[u64]))| {
            let flat = |name: &str, x| (name.to_owned(), shape.to_vec(), x);
            let weights = file(&[flat("_fsdp_wrapped_module._flat_param", &p.w[..])]);
            let state = [flat("state.0.exp_avg", &p.m[..]), flat("state.0.exp_avg_sq", &p.v[..])];
            [
                (format!("model_rank{rank}.safetensors"), weights),
                (format!("optim_rank{}.safetensors", 1 - rank), file(&state)),
            ]
        };
        ranks.flat_map(of).collect()
    }));
    assert!(gradients == 2 && bits < 17.0, "{bits} bits, {gradients}");
}
