//! Input that others write to while it is read.

use crate::{
    case::{Cases, Draw},
    common::Rng,
    golden, promise,
};
use lmc_gpu::{
    Archive, Base, Error, compress_path,
    internals::archive::Options,
    store::{Policy, SaveOptions, Store},
};
use std::{
    fs,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

const NAMES: [&str; 2] = ["master", "model"];

/// Writes into the files of `dir` until it is told to stop: eight bytes at a time, and now and then
/// a length.
fn meddle(dir: &Path, mut rng: Rng, stop: &AtomicBool) {
    let open = |name: &&str| {
        let path = dir.join(format!("{name}.safetensors"));
        fs::OpenOptions::new().write(true).open(path).unwrap()
    };
    let files: Vec<_> = NAMES.iter().map(open).collect();
    let lens: Vec<_> = files.iter().map(|f| f.metadata().unwrap().len()).collect();
    let (pause, resizes) = (Duration::from_micros(20 << rng.below(6)), rng.one_in(4));
    while !stop.load(Relaxed) {
        let i = rng.below(files.len());
        let at = 400 + rng.below(lens[i] as usize - 500) as u64;
        files[i].write_all_at(&rng.bytes(8), at).unwrap();
        if resizes && rng.one_in(20) {
            files[i].set_len(lens[i] - rng.below(300) as u64).unwrap();
            files[i].set_len(lens[i]).unwrap();
        }
        std::thread::sleep(pause);
    }
}

#[test]
fn input_that_changes_is_refused_or_makes_an_archive_that_verifies() {
    let mut cases = Cases::new("changing input");
    while let Some(mut case) = cases.next() {
        let dir = tempfile::tempdir().unwrap();
        for step in 0..2 {
            fs::create_dir(dir.path().join(step.to_string())).unwrap();
            for (path, bytes) in golden::training(step, &NAMES) {
                fs::write(dir.path().join(step.to_string()).join(path), bytes).unwrap();
            }
        }
        let [base, new] = ["0", "1"].map(|step| dir.path().join(step));
        let options = Options::default().with_threads(1 + case.rng.below(2));
        let (kind, stop) = (case.rng.below(4), AtomicBool::new(false));
        let writer = Rng::new(case.rng.next());
        // The base changes where there is one, else the input.
        let victim = if kind == 1 { &base } else { &new };
        let made: Result<Result<(), String>, String> = std::thread::scope(|scope| {
            let meddling = scope.spawn(|| meddle(victim, writer, &stop));
            let made = match kind {
                0 | 1 => (|| {
                    let base = match kind {
                        1 => Some(Base::open_with(&base, &[], &options)?),
                        _ => None,
                    };
                    let out = dir.path().join("out.lmc");
                    let with_base = options.clone().with_base(base);
                    compress_path(&new, &out, &with_base.compressing())?;
                    Ok((out, kind == 1))
                })()
                .map(|(out, is_delta)| check(&out, is_delta.then_some(&base), &options, &stop)),
                _ => (|| {
                    let store = Store::init(dir.path().join("run"), Policy::default())?;
                    if kind == 3 {
                        store.save(&base, 1, &SaveOptions::default())?;
                    }
                    store.save(&new, 2, &SaveOptions::default())?;
                    let verified = store.verify(&[])?;
                    let whole = verified.is_whole();
                    Ok(whole.then_some(()).ok_or_else(|| format!("{verified:?}")))
                })(),
            };
            stop.store(true, Relaxed);
            meddling.join().unwrap();
            made.map_err(|e: lmc_gpu::Error| e.to_string())
        });
        match made {
            Err(_) => cases.count("refused"),
            Ok(Ok(())) => cases.count("verified"),
            Ok(Err(why)) => {
                let what = "an archive that does not verify";
                cases.broken(promise::CHANGING_INPUT_REQUIRED, what, case.number, &why);
            }
        }
    }
    cases.finish();
}

/// Verifies an archive. A base may have changed after it was read, which is then said.
fn check(
    out: &Path,
    base: Option<&PathBuf>,
    options: &Options,
    stop: &AtomicBool,
) -> Result<(), String> {
    stop.store(true, Relaxed);
    let mut options = options.clone();
    if let Some(base) = base {
        let base = Base::open_with(base, &[], &options).map_err(|e| e.to_string())?;
        options = options.with_base(Some(base));
    }
    let archive = Archive::open(out, &options.restoring()).map_err(|e| e.to_string())?;
    let attached = options.base.as_ref().map_or(Ok(()), |base| archive.attach_base(base));
    match attached.and_then(|()| archive.verify(&options.restoring())) {
        Err(e) if base.is_some() && !matches!(e, Error::BaseMismatch(_)) => Err(e.to_string()),
        Err(e) if base.is_none() => Err(e.to_string()),
        _ => Ok(()),
    }
}
