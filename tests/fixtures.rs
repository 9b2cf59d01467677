//! Real checkpoints: the state of a small language model in training, at two steps in a row.
//!
//! `tests/fixtures` holds the first rows of a few of its tensors: weights in bf16 and f32 and both
//! moments of AdamW. Where `LMC_DATA` names a folder with the whole series, that is tried too.

use lmc_gpu::{Archive, Base, compress_path, internals::archive::Options};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Bounds on the length of an archive for each byte of input: of a step alone, and with the step
/// before as its base.
const ALONE: f64 = 0.72;
const DELTA: f64 = 0.20;
/// The same of whole tensors.
const WHOLE_DELTA: f64 = 0.112;

/// Compresses a directory, alone or with a base, checks that it comes back, and returns how long
/// the archive is for each byte of input.
fn ratio(new: &Path, base: Option<&Path>) -> f64 {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.lmc");
    let options = Options::default();
    let base = base.map(|base| Base::open_with(base, &[], &options).unwrap());
    let options = options.with_base(base);
    let summary = compress_path(new, &out, &options.compressing()).unwrap();
    let archive = Archive::open(&out, &options.restoring()).unwrap();
    let back = dir.path().join("back");
    archive.restore(&back, &options.restoring()).unwrap();
    for entry in archive.entries() {
        let same =
            fs::read(back.join(&entry.path)).unwrap() == fs::read(new.join(&entry.path)).unwrap();
        assert!(same, "{} differs", entry.path);
    }
    let ratio = summary.output_bytes as f64 / summary.input_bytes as f64;
    println!("{} {} bytes, ratio {ratio:.4}", new.display(), summary.input_bytes);
    ratio
}

#[test]
fn a_step_of_real_training_costs_a_fraction_of_a_checkpoint() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let (base, new) = (fixtures.join("step00600"), fixtures.join("step00601"));
    let alone = ratio(&new, None);
    let delta = ratio(&new, Some(&base));
    assert!(alone < ALONE, "{alone}");
    assert!(delta < DELTA, "{delta}");
}

/// A folder of the whole series with only the files that the fixtures have too.
fn whole(from: &Path, to: &Path) -> PathBuf {
    fs::create_dir_all(to).unwrap();
    for name in ["model", "master", "exp_avg", "exp_avg_sq"] {
        let name = format!("{name}.safetensors");
        fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
    fs::copy(from.join("meta.json"), to.join("meta.json")).unwrap();
    to.to_owned()
}

#[test]
fn the_whole_series_round_trips_within_the_same_bounds() {
    let series = std::env::var_os("LMC_DATA").map(|dir| Path::new(&dir).join("series"));
    let Some(series) = series.filter(|dir| dir.is_dir()) else {
        return println!("skipped: LMC_DATA names no folder with the series");
    };
    let dir = tempfile::tempdir().unwrap();
    let of = |step: &str| whole(&series.join(step), &dir.path().join(step));
    let (base, new) = (of("step00600"), of("step00601"));
    let alone = ratio(&new, None);
    let delta = ratio(&new, Some(&base));
    assert!(alone < ALONE && delta < WHOLE_DELTA, "{alone} {delta}");
}
