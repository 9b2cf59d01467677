//! Figures of the checkpoint series, printed: `cargo test --release --test figures -- --ignored
//! --nocapture`. The series is found in `LMC_DATA/series`.

use lmc_gpu::{
    Options,
    archive::{Archive, Base, compress_path},
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
        ("step00601", Some("step00600"), false, 0.238),
        ("step00301", Some("step00300"), false, 0.242),
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
                    .entry((archive.manifest.entries[file].path.clone(), c.meta.form))
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
