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

/// The control register of floating point, which a host process may have changed.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod register {
    use std::arch::asm;

    /// Denormals flushed or taken for zero, and every way to round.
    #[cfg(target_arch = "x86_64")]
    pub const STATES: [u64; 6] = [0x9fc0, 0x9f80, 0x1fc0, 0x3f80, 0x5f80, 0xffc0];
    #[cfg(target_arch = "aarch64")]
    pub const STATES: [u64; 5] = [1 << 24, 1 << 22, 2 << 22, 3 << 22, 1 << 24 | 3 << 22];

    /// The state without what says what happened.
    pub fn read() -> u64 {
        #[cfg(target_arch = "x86_64")]
        {
            let mut state = 0u32;
            // SAFETY: stores the register's four bytes.
            unsafe { asm!("stmxcsr [{}]", in(reg) &mut state, options(nostack)) };
            u64::from(state & !0x3f)
        }
        #[cfg(target_arch = "aarch64")]
        {
            let state;
            // SAFETY: reads a register that programs may read.
            unsafe { asm!("mrs {}, fpcr", out(reg) state, options(nostack)) };
            state
        }
    }

    pub fn write(state: u64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: no reserved bit is set in any of the states.
        unsafe {
            asm!("ldmxcsr [{}]", in(reg) &(state as u32), options(nostack));
        }
        #[cfg(target_arch = "aarch64")]
        // SAFETY: as above.
        unsafe {
            asm!("msr fpcr, {}", in(reg) state, options(nostack));
        }
    }
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
#[test]
fn rounding_and_denormal_modes_of_the_host_process_change_nothing_and_stay() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let (base, new) = (fixtures.join("step00600"), fixtures.join("step00601"));
    let dir = tempfile::tempdir().unwrap();
    let made = |threads: usize, name: &str| {
        let options = Options::default().with_threads(threads);
        let options =
            options.clone().with_base(Some(Base::open_with(&base, &[], &options).unwrap()));
        let (out, back) = (dir.path().join(format!("{name}.lmc")), dir.path().join(name));
        compress_path(&new, &out, &options.compressing()).unwrap();
        let archive = Archive::open(&out, &options.restoring()).unwrap();
        archive.restore(&back, &options.restoring()).unwrap();
        let files =
            archive.manifest().entries.iter().map(|e| fs::read(back.join(&e.path)).unwrap());
        (fs::read(&out).unwrap(), files.collect::<Vec<_>>())
    };
    let before = register::read();
    let usual = made(1, "usual");
    for (i, state) in register::STATES.into_iter().enumerate() {
        for threads in [1, 2] {
            // Threads have the state of the one that starts them.
            register::write(state);
            let odd = made(threads, &format!("{i}-{threads}"));
            let after = register::read();
            register::write(before);
            assert_eq!(after, state, "the state stays");
            assert!(odd == usual, "state {state:#x}, {threads} threads");
        }
    }
}
