//! What is attacked: small sound archives of every kind, with the bytes they must restore.

use crate::{
    anatomy::{self, Anatomy},
    case::Draw,
    common::Rng,
    golden::{self, Files},
};
use lmc_gpu::{
    Archive, Base, Limits, Method, RestoreOptions, compress, compress_path,
    dtype::Dtype,
    internals::archive::{Options, compress_reader},
};
use std::{collections::HashMap, fs, path::Path, sync::Arc};

/// Limits small enough that what a reader takes beyond them shows.
#[allow(clippy::needless_update, reason = "other limits keep their defaults")]
pub fn limits() -> Limits {
    Limits { chunk_len: 1 << 20, table_len: 1 << 20, ..Limits::default() }
}

pub struct Subject {
    pub name: String,
    pub archive: Vec<u8>,
    pub anatomy: Anatomy,
    /// The archive's address space.
    pub original: Vec<u8>,
    pub manifest: Vec<u8>,
    pub is_directory: bool,
    pub base: Option<Arc<Base>>,
    /// The base's address space.
    pub base_bytes: Vec<u8>,
    _dir: Option<tempfile::TempDir>,
}

impl Subject {
    fn new(name: String, archive: Vec<u8>, original: Vec<u8>, base: Option<Arc<Base>>) -> Subject {
        let manifest = anatomy::manifest_body(&archive).unwrap();
        let subject = Subject {
            name,
            anatomy: Anatomy::read(&archive),
            original,
            is_directory: manifest[0] == 1,
            manifest,
            archive,
            base,
            base_bytes: Vec::new(),
            _dir: None,
        };
        assert!(subject.restored(&subject.archive) == subject.original, "{}", subject.name);
        // Put together again it is still that archive, whatever its tables were compressed by.
        let again = subject.anatomy.bytes();
        assert!(subject.restored(&again) == subject.original, "{}", subject.name);
        subject
    }

    fn restored(&self, archive: &[u8]) -> Vec<u8> {
        let opened =
            Archive::from_bytes(archive, &RestoreOptions::default().with_limits(limits())).unwrap();
        if let Some(base) = &self.base {
            opened.attach_base(base).unwrap();
        }
        let mut out = vec![0; opened.total_len() as usize];
        opened.restore_all_into(&mut out, &self.options().restoring()).unwrap();
        out
    }

    pub fn options(&self) -> Options {
        Options::default().with_threads(1).with_limits(limits()).with_base(self.base.clone())
    }

    fn of_paths(name: &str, method: Method, files: &Files, base: Option<&Files>) -> Subject {
        let dir = tempfile::tempdir().unwrap();
        let options = Options::default().with_threads(1).with_method(method);
        let base_bytes = base.map(laid_out).unwrap_or_default();
        let base = base.map(|files| {
            Base::open_with(&write(&dir.path().join("base"), files), &[], &options).unwrap()
        });
        let new = write(&dir.path().join("new"), files);
        let out = dir.path().join("new.lmc");
        compress_path(&new, &out, &options.with_base(base.clone()).compressing()).unwrap();
        let subject = Subject::new(name.into(), fs::read(out).unwrap(), laid_out(files), base);
        Subject { _dir: Some(dir), base_bytes, ..subject }
    }
}

/// Files as they lie in an address space.
fn laid_out(files: &Files) -> Vec<u8> {
    let mut files: Vec<_> = files.iter().collect();
    files.sort_by(|a, b| a.0.split('/').cmp(b.0.split('/')));
    files.iter().flat_map(|f| f.1.iter().copied()).collect()
}

/// Writes a checkpoint: the file alone where it is called `data`, else a directory.
fn write(at: &Path, files: &Files) -> std::path::PathBuf {
    if let [(name, bytes)] = &files[..]
        && name == "data"
    {
        fs::write(at, bytes).unwrap();
        return at.to_owned();
    }
    for (path, bytes) in files {
        let path = at.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    at.to_owned()
}

/// Archives that were made before.
#[derive(Default)]
pub struct Subjects {
    made: HashMap<(usize, usize, usize), Arc<Subject>>,
}

impl Subjects {
    /// One of them: mostly one of every method and type, the same for several cases, since making
    /// archives takes longer than attacking them.
    pub fn draw(&mut self, number: u64) -> Arc<Subject> {
        let rng = &mut Rng::new(number >> 4 ^ 0xa5a5);
        let method = rng.below(Method::ALL.len());
        let (dtype, variant) = match rng.below(10) {
            0..7 => (rng.below(Dtype::ALL.len()), rng.below(3)),
            _ => (usize::MAX, rng.below(SPECIAL)),
        };
        let slow = Method::ALL[method].name().ends_with("xz") && !rng.one_in(8);
        let method = if slow || (dtype == usize::MAX && variant > 1) { 0 } else { method };
        let make = || match dtype {
            usize::MAX => special(Method::ALL[method], variant),
            _ => typed(Method::ALL[method], Dtype::ALL[dtype], variant),
        };
        self.made.entry((method, dtype, variant)).or_insert_with(|| Arc::new(make())).clone()
    }

    pub fn all_made(&self) -> usize {
        self.made.len()
    }
}

/// Words of one type: weights, mostly zeros, or weights in rows.
fn typed(method: Method, dtype: Dtype, variant: usize) -> Subject {
    let n = if dtype.word_len() > 8 { 60 } else { [700, 1300, 2600][variant] };
    let bytes = Rng::new(7 + variant as u64).values(dtype, n, [0, 2, 4][variant]);
    let options = Options::default().with_method(method).with_dtype(Some(dtype)).with_threads(1);
    let archive = compress(&bytes, &options.compressing()).unwrap();
    Subject::new(format!("{method} {} {variant}", dtype.name()), archive, bytes, None)
}

const SPECIAL: usize = 14;

fn special(method: Method, variant: usize) -> Subject {
    let only = |files: &Files| files[0].1.clone();
    let options = Options::default().with_method(method).with_threads(1);
    let of = |name: &str, files: &Files, base: Option<&Files>| {
        Subject::of_paths(&format!("{name} {method}"), method, files, base)
    };
    match variant {
        0 => {
            let bytes = only(&golden::mixed());
            let archive = compress(&bytes, &options.compressing()).unwrap();
            Subject::new(format!("mixed {method}"), archive, bytes, None)
        }
        1 => {
            let bytes = copies();
            let archive = compress(&bytes, &options.compressing()).unwrap();
            Subject::new(format!("copies {method}"), archive, bytes, None)
        }
        2 | 3 => {
            let bytes = if variant == 2 { only(&golden::mixed()) } else { copies() };
            let mut archive = Vec::new();
            compress_reader(&mut &bytes[..], "stdin", &mut archive, &options.compressing())
                .unwrap();
            Subject::new(format!("stream {variant}"), archive, bytes, None)
        }
        4 => of("directory", &golden::directory(), None),
        5 => of("siblings", &golden::training(1, &["exp_avg", "exp_avg_sq", "meta"]), None),
        6 => of("training", &golden::training(1, &["master", "model", "meta"]), None),
        7 => {
            let files = ["exp_avg", "model"];
            of("signed", &golden::training(1, &files), Some(&golden::training(0, &files)))
        }
        8 => of("wide", &golden::wide(1), Some(&golden::wide(0))),
        9 => of("tuned", &golden::tuned(1), Some(&golden::tuned(0))),
        10 => Subject::of_paths("xor", Method::Xor, &golden::tuned(1), Some(&golden::tuned(0))),
        11 => of("widened", &golden::widened(1), Some(&golden::widened(0))),
        12 => of("gradient", &golden::clipped(1), Some(&golden::clipped(0))),
        _ => of("delta", &golden::training(1, &[]), Some(&golden::training(0, &[]))),
    }
}

/// A file of a few tensors, two of them equal and long enough to be stored once.
fn copies() -> Vec<u8> {
    let mut rng = Rng::new(91);
    let twice = rng.values(Dtype::U8, 17_000, 2);
    crate::common::safetensors(&[
        ("a".into(), "U8", vec![17_000], twice.clone()),
        ("b".into(), "U8", vec![17_000], twice),
        ("c".into(), "F32", vec![16, 16], rng.values(Dtype::F32, 256, 0)),
    ])
}
