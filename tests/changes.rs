//! Input and bases that change while they are read.

use lmc_gpu::{
    Archive, Base, Changes, Error, Overwrite, Summary, compress_path,
    internals::{
        archive::{Input, Options, compress_files},
        source::Source,
    },
    store::{Policy, SaveOptions, Store},
};
use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
};

#[path = "common/mod.rs"]
mod common;

/// Rows of 128 words, enough for a span of its own.
const WORDS: usize = 160 * 128;

fn safetensors(dtype: &str, bytes: &[u8]) -> Vec<u8> {
    let (rows, len) = (WORDS / 128, bytes.len());
    let header = format!(
        "{{\"w\":{{\"dtype\":\"{dtype}\",\"shape\":[{rows},128],\"data_offsets\":[0,{len}]}}}}"
    );
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), bytes].concat()
}

fn values(seed: u64, size: f32) -> Vec<f32> {
    let mut rng = common::Rng::new(seed);
    (0..WORDS).map(|_| ((rng.next() >> 40) as f32 / (1u64 << 24) as f32 - 0.5) * size).collect()
}

fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|v| v.to_le_bytes()).collect()
}

/// A training state whose tensors predict each other, and two files that are equal.
fn files(step: u64) -> Vec<(&'static str, Vec<u8>)> {
    let moved = values(100 + step, 1e-3);
    let w: Vec<f32> = values(1, 0.1).iter().zip(&moved).map(|(w, m)| w + m).collect();
    let v: Vec<f32> = moved.iter().map(|m| m * m).collect();
    let narrow: Vec<u8> = w.iter().flat_map(|w| half::bf16::from_f32(*w).to_le_bytes()).collect();
    let same: Vec<u8> = f32s(&values(7, 1.0));
    vec![
        ("exp_avg.safetensors", safetensors("F32", &f32s(&moved))),
        ("exp_avg_sq.safetensors", safetensors("F32", &f32s(&v))),
        ("master.safetensors", safetensors("F32", &f32s(&w))),
        ("model.safetensors", safetensors("BF16", &narrow)),
        ("same/a.npy", same.clone()),
        ("same/b.npy", same),
    ]
}

fn write(dir: &Path, step: u64) -> PathBuf {
    for (name, bytes) in files(step) {
        let path = dir.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir.to_owned()
}

/// A file whose bytes are others from the `turn`-th read on, counted over all files; with
/// `restless` they are others at every read.
struct Turning {
    bytes: Vec<u8>,
    /// What stays: a header.
    head: usize,
    reads: Arc<AtomicUsize>,
    turn: usize,
    restless: bool,
}

impl Source for Turning {
    fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let n = self.reads.fetch_add(1, Ordering::Relaxed);
        self.bytes.read_at(offset, buf)?;
        if n < self.turn {
            return Ok(());
        }
        let change = if self.restless { n as u8 | 0x40 } else { 0x55 };
        for (i, byte) in buf.iter_mut().enumerate() {
            let at = offset as usize + i;
            // High bytes of words here and there.
            if at >= self.head && at % 4 == 3 && (at / 4).is_multiple_of(50) {
                *byte ^= change;
            }
        }
        Ok(())
    }
}

/// The files of a step, those that `which` names turning.
fn turning(
    step: u64,
    turn: usize,
    restless: bool,
    which: &str,
) -> (Input<'static>, Arc<AtomicUsize>) {
    let reads = Arc::new(AtomicUsize::new(0));
    let sources = files(step).into_iter().map(|(name, bytes)| {
        let head = bytes.len() % 128;
        let turn = if name.contains(which) { turn } else { usize::MAX };
        let source = Turning { bytes, head, reads: reads.clone(), turn, restless };
        (name.to_owned(), Box::new(source) as Box<dyn Source>)
    });
    (Input::from_files(sources.collect()).unwrap(), reads)
}

fn options() -> Options {
    Options::default().with_threads(1).with_overwrite(Overwrite::Files)
}

fn verify(path: &Path, options: &Options) {
    let archive = Archive::open(path, &options.restoring()).unwrap();
    archive.verify(&options.restoring()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
}

#[test]
fn whenever_the_bytes_change_the_archive_restores_what_was_read() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.lmc");
    let base = Base::open_with(&write(&dir.path().join("base"), 1), &[], &options()).unwrap();
    for options in [options(), options().with_base(Some(base))] {
        let (input, reads) = turning(2, usize::MAX, false, "");
        compress_files(&input, &out, &options.compressing()).unwrap();
        let unchanged = fs::metadata(&out).unwrap().len();
        for which in ["", "master", "model", "exp_avg.", "exp_avg_sq", "same/a", "same/b"] {
            for turn in 0..reads.load(Ordering::Relaxed) {
                let (input, _) = turning(2, turn, false, which);
                compress_files(&input, &out, &options.compressing()).unwrap();
                verify(&out, &options);
            }
        }
        let (input, _) = turning(2, usize::MAX, false, "");
        compress_files(&input, &out, &options.compressing()).unwrap();
        assert_eq!(fs::metadata(&out).unwrap().len(), unchanged);
    }
}

#[test]
fn bytes_that_are_others_at_every_read_are_stored_as_one_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.lmc");
    let base = Base::open_with(&write(&dir.path().join("base"), 1), &[], &options()).unwrap();
    for threads in [1, 3] {
        for options in [options(), options().with_base(Some(base.clone()))] {
            let options = options.with_threads(threads);
            for which in ["", "master", "model", "exp_avg", "same/a", "same"] {
                let (input, _) = turning(2, 0, true, which);
                compress_files(&input, &out, &options.compressing()).unwrap();
                verify(&out, &options);
            }
        }
    }
}

#[test]
fn copies_that_are_none_any_more_are_stored_by_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.lmc");
    let (input, reads) = turning(2, usize::MAX, false, "");
    compress_files(&input, &out, &options().compressing()).unwrap();
    let same = fs::metadata(&out).unwrap().len();
    // The last read is the copy's.
    let (input, _) = turning(2, reads.load(Ordering::Relaxed) - 1, false, "same/b");
    compress_files(&input, &out, &options().compressing()).unwrap();
    verify(&out, &options());
    assert!(fs::metadata(&out).unwrap().len() > same + 40_000);
    let archive = Archive::open(&out, &options().restoring()).unwrap();
    let file = |path: &str| {
        let i = archive.entries().iter().position(|e| e.path == path).unwrap();
        archive.file(i).unwrap().read_vec(0, archive.entries()[i].len).unwrap()
    };
    assert!(file("same/a.npy") == f32s(&values(7, 1.0)));
    assert!(file("same/b.npy") != file("same/a.npy"));
}

#[test]
fn a_store_keeps_what_was_read_whenever_the_bytes_change() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init(dir.path().join("run"), Policy::default()).unwrap();
    let store = store.with_options(options());
    let (input, reads) = turning(1, usize::MAX, false, "");
    store.save_input(&input, 0, &SaveOptions::default()).unwrap();
    let reads = reads.load(Ordering::Relaxed);
    for (step, turn) in (1..).zip((0..reads).step_by(reads / 12)) {
        let (input, _) = turning(step, turn, step % 2 == 0, "");
        store.save_input(&input, step, &SaveOptions::default()).unwrap();
    }
    assert!(store.verify(&[]).unwrap().is_whole());
}

/// What may happen to a file: its path, another path, and the bytes it has.
type Change = fn(&Path, &Path, &[u8]);

const CHANGES: [(&str, Change); 6] = [
    ("written to", |path, _, _| {
        let file = File::options().write(true).open(path).unwrap();
        io::Write::write_all(&mut &file, b"8 bytes.").unwrap();
    }),
    ("longer", |path, _, _| {
        let file = File::options().append(true).open(path).unwrap();
        io::Write::write_all(&mut &file, b"more").unwrap();
    }),
    ("shorter", |path, _, bytes| {
        File::options().write(true).open(path).unwrap().set_len(bytes.len() as u64 - 1).unwrap();
    }),
    ("replaced", |path, other, bytes| {
        fs::write(other, bytes).unwrap();
        fs::rename(other, path).unwrap();
    }),
    ("removed", |path, _, _| fs::remove_file(path).unwrap()),
    ("written to, and its time set back", |path, _, _| {
        let file = File::options().write(true).open(path).unwrap();
        let time = file.metadata().unwrap().modified().unwrap();
        io::Write::write_all(&mut &file, b"8 bytes.").unwrap();
        file.set_modified(time).unwrap();
    }),
];

/// Options with which a file changes once some of the input has been dealt with.
fn changing(path: &Path, change: Change) -> Options {
    let (path, other) = (path.to_owned(), path.with_extension("other"));
    let bytes = fs::read(&path).unwrap();
    let done = AtomicBool::new(false);
    options().with_progress(Some(Arc::new(move |_| {
        if !done.swap(true, Ordering::Relaxed) {
            change(&path, &other, &bytes);
        }
    })))
}

fn names(e: &Error) -> bool {
    let text = e.to_string();
    text.contains("model.safetensors") && text.contains("while it was being read")
}

#[test]
fn a_file_that_changed_is_named_and_nothing_is_written() {
    for many in [0, 210] {
        for (what, change) in CHANGES {
            let dir = tempfile::tempdir().unwrap();
            let out = dir.path().join("x.lmc");
            let new = dir.path().join("new");
            let again = || {
                let _ = fs::remove_dir_all(&new);
                write(&new, 2);
                (0..many).for_each(|i| fs::write(new.join(format!("z{i}")), b"small").unwrap());
            };
            again();
            let changed = new.join("model.safetensors");
            let e =
                compress_path(&new, &out, &changing(&changed, change).compressing()).unwrap_err();
            assert!(names(&e) && !e.is_usage(), "{what}: {e}");
            assert!(fs::read_dir(dir.path()).unwrap().count() == 1, "{what}");
            again();
            let options = changing(&changed, change).with_changes(Changes::Store);
            let written: Summary = match compress_path(&new, &out, &options.compressing()) {
                // Files that are not kept open, and bytes that are nowhere.
                Err(e) if many > 0 || what == "shorter" => {
                    assert!(e.to_string().contains("model.safetensors"), "{what}: {e}");
                    continue;
                }
                written => written.unwrap(),
            };
            let noted = |n: &String| n.contains("model.safetensors changed while");
            assert!(written.notes.iter().any(noted), "{what}: {:?}", written.notes);
            verify(&out, &self::options());
        }
    }
}

#[test]
fn input_that_stays_as_it_is_brings_no_note() {
    let dir = tempfile::tempdir().unwrap();
    let new = write(&dir.path().join("new"), 2);
    let summary = compress_path(&new, dir.path().join("x.lmc"), &options().compressing()).unwrap();
    assert!(summary.notes.iter().all(|n| !n.contains("changed")), "{:?}", summary.notes);
}

#[test]
fn a_raw_base_that_changed_is_an_error_whatever_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let new = write(&dir.path().join("new"), 3);
    let out = dir.path().join("x.lmc");
    for below in [false, true] {
        for (what, change) in CHANGES {
            let raw = dir.path().join("base");
            let _ = fs::remove_dir_all(&raw);
            write(&raw, 1);
            let mut base = Base::open_with(&raw, &[], &options()).unwrap();
            if below {
                // The raw files are what the base is a delta to.
                let between = dir.path().join("between.lmc");
                let second = write(&dir.path().join("second"), 2);
                compress_path(&second, &between, &options().with_base(Some(base)).compressing())
                    .unwrap();
                base = Base::open_with(&between, &[], &options()).unwrap();
            }
            let options = changing(&raw.join("model.safetensors"), change)
                .with_base(Some(base))
                .with_changes(Changes::Store);
            let e = compress_path(&new, &out, &options.compressing()).unwrap_err();
            assert!(matches!(e, Error::BaseMismatch(_)), "{what}: {e}");
            assert!(e.to_string().contains("base"), "{what}: {e}");
            assert!(!out.exists());
        }
    }
}

#[test]
fn a_store_refuses_a_checkpoint_that_changed_unless_that_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init(dir.path().join("run"), Policy::default()).unwrap();
    let new = write(&dir.path().join("new"), 1);
    store.save(&new, 1, &SaveOptions::default()).unwrap();
    write(&new, 2);
    let changed = new.join("model.safetensors");
    let save = |options: Options, step| {
        store.clone().with_options(options).save(&new, step, &SaveOptions::default())
    };
    let e = save(changing(&changed, CHANGES[0].1), 2).unwrap_err();
    assert!(names(&e), "{e}");
    assert_eq!(fs::read_dir(store.root().join("steps")).unwrap().count(), 2);
    let options = changing(&changed, CHANGES[0].1).with_changes(Changes::Store);
    let saved = save(options, 2).unwrap();
    let noted = |n: &String| n.contains("model.safetensors changed while");
    assert!(saved.notes.iter().any(noted), "{:?}", saved.notes);
    save(self::options(), 3).unwrap();
    assert!(store.verify(&[]).unwrap().is_whole());
}

#[test]
fn whoever_else_writes_an_archive_verifies_or_is_not_there() {
    let dir = tempfile::tempdir().unwrap();
    let new = write(&dir.path().join("new"), 1);
    let out = dir.path().join("x.lmc");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let path = new.join("master.safetensors");
            let len = fs::metadata(&path).unwrap().len();
            let file = File::options().write(true).open(path).unwrap();
            let mut rng = common::Rng::new(3);
            while !stop.load(Ordering::Relaxed) {
                let at = 200 + rng.next() % (len - 300);
                let bytes = rng.next().to_le_bytes();
                #[cfg(unix)]
                std::os::unix::fs::FileExt::write_all_at(&file, &bytes, at).unwrap();
                #[cfg(not(unix))]
                let _ = (&file, at, bytes);
                std::thread::sleep(std::time::Duration::from_micros(200));
            }
        });
        for i in 0..12 {
            let options = options().with_threads(2).with_changes(if i % 2 == 0 {
                Changes::Store
            } else {
                Changes::Refuse
            });
            match compress_path(&new, &out, &options.compressing()) {
                Ok(_) => verify(&out, &options),
                Err(e) if i % 2 == 1 => {
                    assert!(e.to_string().contains("master.safetensors"), "{e}")
                }
                Err(e) => panic!("{e}"),
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
