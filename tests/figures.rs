//! Figures of the checkpoint series, printed: `cargo test --release --test figures -- --ignored
//! --nocapture`. The series is found in `LMC_DATA/series`.

use lmc_gpu::{
    Options,
    archive::{Archive, Base, compress_path},
    compress_into, decompress_into,
    dtype::Dtype,
};
use std::{
    fs,
    path::{Path, PathBuf},
};

fn series() -> Option<PathBuf> {
    let dir = PathBuf::from(std::env::var_os("LMC_DATA")?).join("series");
    dir.is_dir().then_some(dir)
}

/// A copy of a step without its `.pt`, or with the model alone.
fn copy(from: &Path, to: &Path, model_only: bool) -> PathBuf {
    let target = to.join(from.file_name().unwrap());
    fs::create_dir_all(&target).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.ends_with(".pt") || (model_only && name != "model.safetensors") {
            continue;
        }
        fs::copy(&path, target.join(&name)).unwrap();
    }
    target
}

#[test]
#[ignore = "prints figures"]
fn print_the_ratios_of_the_series() {
    let Some(series) = series() else {
        println!("skipped: LMC_DATA has no series");
        return;
    };
    let cases = [
        ("step00600", None, false, 0.695),
        ("step00601", Some("step00600"), false, 0.112),
        ("step00301", Some("step00300"), false, 0.114),
        ("step00650", Some("step00600"), false, 0.650),
        ("step00320", Some("step00300"), false, 0.672),
        ("step00601", Some("step00600"), true, 0.078),
        ("step00650", Some("step00600"), true, 0.285),
        ("finetune-full-step030", Some("step00700"), true, 0.250),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (step, base, model_only, most) in cases {
        let place = dir.path().join(if model_only { "model" } else { "whole" });
        let new = copy(&series.join(step), &place, model_only);
        let options = Options::default();
        let base = base.map(|b| copy(&series.join(b), &place, model_only));
        let base = base.map(|b| Base::open(&b, &[], &options).unwrap());
        let shown = base.as_ref().map_or(String::new(), |b| format!("{b:?}"));
        let options = options.with_base(base).with_force(true);
        let out = dir.path().join("x.lmc");
        let started = std::time::Instant::now();
        let summary = compress_path(&new, &out, &options).unwrap();
        let took = started.elapsed();
        let ratio = summary.output_bytes as f64 / summary.input_bytes as f64;
        let archive = Archive::open(&out, options.limits).unwrap();
        let started = std::time::Instant::now();
        archive.verify(&options, false).unwrap();
        let back = dir.path().join("back");
        archive.restore(&back, &options, false).unwrap();
        for entry in fs::read_dir(&new).unwrap() {
            let path = entry.unwrap().path();
            assert!(
                fs::read(&path).unwrap() == fs::read(back.join(path.file_name().unwrap())).unwrap()
            );
        }
        let good = if ratio <= most { "ok" } else { "ABOVE" };
        let took = (took.as_secs_f64(), started.elapsed().as_secs_f64());
        println!("{step} {shown} {ratio:.4} (at most {most}) {good} {took:.2?} s");
        if std::env::var_os("LMC_DETAIL").is_some() {
            let mut by: std::collections::BTreeMap<(String, u8), (u64, u64)> = Default::default();
            let mut end = 0;
            let ends: Vec<u64> = archive
                .manifest
                .entries
                .iter()
                .map(|e| {
                    end += e.len;
                    end
                })
                .collect();
            for c in &archive.chunks {
                let file = ends.partition_point(|&e| e <= c.meta.offset());
                let t = by
                    .entry((archive.manifest.entries[file].path.to_string(), c.meta.form))
                    .or_default();
                t.0 += c.meta.len();
                t.1 += c.stored_len;
            }
            for ((file, form), (len, stored)) in by {
                println!(
                    "    {file} form {form}: {len} -> {stored} {:.4}",
                    stored as f64 / len as f64
                );
            }
        }
        fs::remove_dir_all(&back).unwrap();
    }
}

/// Least processor time of a few runs: other programs' share of it does not count.
fn best(mut f: impl FnMut()) -> f64 {
    let clock = std::time::Instant::now();
    let now = || match fs::read_to_string("/proc/thread-self/schedstat") {
        Ok(text) => text.split(' ').next().unwrap().parse::<f64>().unwrap() / 1e9,
        Err(_) => clock.elapsed().as_secs_f64(),
    };
    let one = |_| {
        let started = now();
        f();
        now() - started
    };
    (0..5).map(one).fold(f64::MAX, f64::min)
}

/// Compresses and restores words against a base in memory, and prints multiples of memcpy.
fn measure(what: &str, dtype: Dtype, base: Vec<u8>, new: &[u8]) {
    let base = Base::from_bytes("base", base.into(), Some(dtype));
    let options = Options::default().with_threads(1).with_dtype(Some(dtype)).with_base(Some(base));
    let (mut out, mut back) = (Vec::new(), vec![0u8; new.len()]);
    let copy = best(|| back.copy_from_slice(new));
    let encode = best(|| drop(compress_into(new, &options, &mut out).unwrap()));
    let decode = best(|| decompress_into(&out, &mut back, &options).unwrap());
    assert!(back == new);
    println!(
        "{what}: ratio {:.5}, memcpy {:.2} GB/s, encode {:.3}, decode {:.3} of it",
        out.len() as f64 / new.len() as f64,
        new.len() as f64 / copy / 1e9,
        copy / encode,
        copy / decode
    );
}

#[test]
#[ignore = "prints figures"]
fn print_the_speed_of_deltas() {
    let mut x = 1u64;
    let mut next = move || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x
    };
    let n = 16 << 20;
    let base: Vec<u8> = (0..n)
        .flat_map(|_| {
            let r = next();
            let sum = (0..4).map(|k| (r >> (16 * k) & 0xffff) as f32).sum::<f32>();
            let value = (sum / 131_072.0 - 1.0) * 0.05;
            ((value.to_bits() >> 16) as u16).to_le_bytes()
        })
        .collect();
    for (what, one_in, reach) in [("sparse bf16", 200, 1), ("dense bf16", 2, 5)] {
        let mut new = base.clone();
        for word in new.as_chunks_mut::<2>().0 {
            let r = next();
            if r >> 32 < (1 << 32) / one_in {
                let by = (r % reach + 1) as u16;
                let w = u16::from_le_bytes(*word);
                let w = if r & 1 << 20 == 0 { w.wrapping_add(by) } else { w.wrapping_sub(by) };
                *word = w.to_le_bytes();
            }
        }
        measure(what, Dtype::BF16, base.clone(), &new);
    }
    let base: Vec<u8> = base.as_chunks::<2>().0[..n / 2]
        .iter()
        .flat_map(|w| [next() as u8, next() as u8, w[0], w[1]])
        .collect();
    let mut new = base.clone();
    for word in new.as_chunks_mut::<4>().0 {
        let w = u32::from_le_bytes(*word).wrapping_add(next() as u32 % 2048).wrapping_sub(1024);
        *word = w.to_le_bytes();
    }
    measure("dense f32", Dtype::F32, base, &new);
}
