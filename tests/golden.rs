//! Archives that earlier versions wrote: they must decode for ever, and the encoder still makes
//! the same bytes.
//!
//! `tests/golden/v2` holds an archive for each case below, and `inputs.txt` the hash of each input,
//! which is generated. Where the encoder's choices change on purpose, while the format version
//! stays, `LMC_BLESS=1 cargo test --test golden` writes the archives anew: the old ones must
//! decode first. Hashes of inputs are only ever added.

#![cfg(feature = "study")]

mod common;
#[path = "golden/input.rs"]
mod input;

use input::Files;
use lmc_gpu::{
    Archive, Base, Error, Method, Overwrite, RestoreOptions, compress, compress_path, decompress,
    dtype::Dtype,
    internals::{
        archive::{Options, compress_reader, decompress_stream},
        container::hash64,
        simd::Level,
        source::Source,
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

/// How the input is handed over, and so what the archive is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    File,
    Stream,
    Directory,
}

struct Case {
    name: String,
    kind: Kind,
    method: Method,
    dtype: Option<Dtype>,
    files: Files,
    base: Option<Files>,
}

fn cases() -> Vec<Case> {
    let case = |name: &str, kind, method, files, base| Case {
        name: name.into(),
        kind,
        method,
        dtype: None,
        files,
        base,
    };
    let mut cases = Vec::new();
    for method in Method::ALL {
        if !matches!(method, Method::Xor | Method::Diff) {
            cases.push(case(method.name(), Kind::File, method, input::mixed(), None));
        }
    }
    for name in ["max", "lmc"] {
        let method = Method::parse(name).unwrap();
        cases.push(case(&format!("long-{name}"), Kind::File, method, input::long(), None));
    }
    let auto = Method::Auto;
    cases.push(case("big-endian", Kind::File, auto, input::big_endian(), None));
    use Dtype::{Q2_K, Q3_K, Q4_0, Q5_1, Q5_K, Q6_K, Q8_K};
    for dtype in [Q4_0, Q5_1, Q2_K, Q3_K, Q5_K, Q6_K, Q8_K] {
        let name = format!("quantised-{}", dtype.name().to_lowercase());
        let case = case(&name, Kind::File, auto, input::quantised(dtype), None);
        cases.push(Case { dtype: Some(dtype), ..case });
    }
    let integers = input::big_endian_integers();
    cases.push(case("big-endian-integers", Kind::File, auto, integers, None));
    cases.push(case("scales", Kind::File, auto, input::scales(), None));
    cases.push(case("rows-fast", Kind::File, Method::Fast, input::rows(), None));
    cases.push(case("stream", Kind::Stream, auto, input::mixed(), None));
    cases.push(case("directory", Kind::Directory, auto, input::directory(), None));
    let whole: &[&str] = &[];
    let narrow: &[&str] = &["exp_avg", "model"];
    cases.push(case("group", Kind::Directory, auto, input::training(1, whole), None));
    for (name, files) in [("delta", whole), ("delta-signed", narrow)] {
        let (new, base) = (input::training(1, files), input::training(0, files));
        cases.push(case(name, Kind::Directory, auto, new, Some(base)));
    }
    for method in [auto, Method::Xor, Method::Diff] {
        let name = format!("delta-{method}");
        cases.push(case(&name, Kind::File, method, input::tuned(1), Some(input::tuned(0))));
    }
    let (new, base) = (input::widened(1), Some(input::widened(0)));
    cases.push(case("delta-widen", Kind::File, auto, new, base));
    let (new, base) = (input::clipped(1), Some(input::clipped(0)));
    cases.push(case("delta-gradient", Kind::Directory, auto, new, base));
    let (new, base) = (input::fused(1), Some(input::clipped(0)));
    cases.push(case("delta-fused", Kind::Directory, auto, new, base));
    cases.push(case("derived", Kind::Directory, auto, input::derived(), None));
    let (new, base) = (input::averaged(1), Some(input::averaged(0)));
    cases.push(case("delta-average", Kind::Directory, auto, new, base));
    let (new, base) = (input::wide(1), Some(input::wide(0)));
    cases.push(case("delta-wide", Kind::File, auto, new, base));
    let (new, base) = (input::stepped(1), Some(input::stepped(0)));
    cases.push(case("delta-masked", Kind::File, auto, new, base));
    let (new, base) = (input::sizes(1), Some(input::sizes(0)));
    cases.push(case("delta-sizes", Kind::File, auto, new, base));
    // The bases of deltas as archives, for decoders that can't make the input.
    for (name, kind, files) in [
        ("averaged", Kind::Directory, input::averaged(0)),
        ("clipped", Kind::Directory, input::clipped(0)),
        ("sizes", Kind::File, input::sizes(0)),
        ("stepped", Kind::File, input::stepped(0)),
        ("training", Kind::Directory, input::training(0, whole)),
        ("tuned", Kind::File, input::tuned(0)),
        ("wide", Kind::File, input::wide(0)),
        ("widened", Kind::File, input::widened(0)),
    ] {
        cases.push(case(&format!("base-{name}"), kind, auto, files, None));
    }
    cases
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v2")
}

fn write(dir: &Path, files: &Files) -> PathBuf {
    fs::create_dir_all(dir).unwrap();
    for (path, bytes) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    dir.to_owned()
}

impl Case {
    fn options(&self, dir: &Path) -> Options {
        let options =
            Options::default().with_method(self.method).with_threads(2).with_dtype(self.dtype);
        let base = self.base.as_ref().map(|files| match self.kind {
            Kind::Directory => {
                Base::open_with(&write(&dir.join("base"), files), &[], &options).unwrap()
            }
            _ => Base::from_bytes("base", Arc::from(&files[0].1[..]), None),
        });
        options.with_base(base)
    }

    fn archive(&self, options: &Options, dir: &Path) -> Vec<u8> {
        match self.kind {
            Kind::File => compress(&self.files[0].1, &options.compressing()).unwrap(),
            Kind::Stream => {
                let mut archive = Vec::new();
                compress_reader(
                    &mut &self.files[0].1[..],
                    "data",
                    &mut archive,
                    &options.compressing(),
                )
                .unwrap();
                archive
            }
            Kind::Directory => {
                let (new, out) = (write(&dir.join("new"), &self.files), dir.join("new.lmc"));
                compress_path(
                    &new,
                    &out,
                    &options.clone().with_overwrite(Overwrite::Files).compressing(),
                )
                .unwrap();
                fs::read(out).unwrap()
            }
        }
    }

    /// Decodes an archive in every way and compares with the input.
    fn check(&self, archive: &[u8], options: &Options) {
        let name = &self.name;
        let dir = tempfile::tempdir().unwrap();
        for level in Level::available() {
            let options = options.clone().with_level(level);
            if self.kind != Kind::Directory {
                let back = decompress(archive, &options.restoring()).unwrap();
                assert!(back == self.files[0].1, "{name} differs, {level:?}");
            }
            let out = dir.path().join(format!("{level:?}"));
            decompress_stream(&mut &archive[..], &out, &options.restoring()).unwrap();
            for (path, bytes) in &self.files {
                let path = if self.kind == Kind::Directory { out.join(path) } else { out.clone() };
                assert!(fs::read(&path).unwrap() == *bytes, "{name}: {} differs", path.display());
            }
        }
        let opened = Archive::from_bytes(archive, &options.restoring()).unwrap();
        if let Some(base) = &options.base {
            opened.attach_base(base).unwrap();
        }
        for (i, entry) in opened.entries().iter().enumerate() {
            let file = self.files.iter().find(|f| self.files.len() == 1 || f.0 == entry.path);
            if let Some((_, bytes)) = file {
                assert!(
                    opened.file(i).unwrap().read_vec(0, entry.len).unwrap() == *bytes,
                    "{name}"
                );
            }
        }
    }
}

/// The hash of every input, by the name of its case.
fn known_inputs() -> Vec<(String, String)> {
    let text = fs::read_to_string(folder().join("inputs.txt")).unwrap_or_default();
    let pair = |line: &str| line.split_once(' ').map(|(a, b)| (a.to_owned(), b.to_owned()));
    text.lines().filter_map(pair).collect()
}

fn hash_of(files: &Files) -> String {
    let mut all = Vec::new();
    let by_path: BTreeMap<_, _> = files.iter().map(|(path, bytes)| (path, bytes)).collect();
    for (path, bytes) in by_path {
        all.extend_from_slice(path.as_bytes());
        all.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        all.extend_from_slice(bytes);
    }
    format!("{:016x}", hash64(&all))
}

#[test]
fn stored_archives_decode_and_the_encoder_still_makes_them() {
    let bless = std::env::var_os("LMC_BLESS").is_some();
    let mut inputs = known_inputs();
    let mut changed = Vec::new();
    for case in cases() {
        let dir = tempfile::tempdir().unwrap();
        let hash = hash_of(&case.files) + &case.base.as_ref().map_or(String::new(), hash_of);
        match inputs.iter().find(|(name, _)| *name == case.name) {
            Some((name, known)) => assert_eq!(hash, *known, "the input of {name} has changed"),
            None if bless => inputs.push((case.name.clone(), hash)),
            None => panic!("the input of {} has no hash", case.name),
        }
        let options = case.options(dir.path());
        let path = folder().join(format!("{}.lmc", case.name));
        let stored = fs::read(&path).ok();
        if let Some(stored) = &stored {
            case.check(stored, &options);
        }
        let made = case.archive(&options, dir.path());
        if stored.as_ref() == Some(&made) {
            continue;
        }
        if bless {
            case.check(&made, &options);
            fs::write(&path, made).unwrap();
        } else {
            changed.push(case.name);
        }
    }
    if bless {
        let lines: String = inputs.iter().map(|(name, hash)| format!("{name} {hash}\n")).collect();
        fs::write(folder().join("inputs.txt"), lines).unwrap();
    }
    assert!(changed.is_empty(), "other bytes than the stored ones: {changed:?}");
}

/// Forms, element types, predictors, recipes and orders of the format's pages that encoders seldom or
/// never pick, each in a chunk or a few: these archives were put together by other code.
#[test]
fn stored_archives_of_what_encoders_seldom_pick_decode() {
    let read = |name: &str| fs::read(folder().join(format!("{name}.lmc"))).unwrap();
    for name in ["branches", "branches-derived"] {
        let base = read(&format!("base-{name}"));
        let base = decompress(&base, &RestoreOptions::default()).unwrap();
        let known = known_inputs().into_iter().find(|known| known.0 == name).expect("no hash").1;
        for level in Level::available() {
            let options = RestoreOptions::default()
                .with_level(level)
                .with_base(Some(Base::from_bytes("base", Arc::from(&base[..]), None)));
            let data = decompress(&read(name), &options).unwrap();
            let of = |bytes: &[u8]| hash_of(&vec![("data".into(), bytes.to_vec())]);
            assert_eq!(of(&data) + &of(&base), known, "{name} {level:?}");
        }
    }
}

/// Names that are no text, and entries without bytes, which have no digest in the index.
#[cfg(target_os = "linux")]
#[test]
fn a_stored_directory_of_odd_names_restores_and_is_still_made() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt};
    let names: [(&[u8], &[u8]); 4] = [
        (b"back\\slash", b"1"),
        (b"line\nend \x1b[2J", b"22"),
        (b"not text \xff\xfe", b"333"),
        (b"nothing", b""),
    ];
    let dir = tempfile::tempdir().unwrap();
    let (source, out) = (dir.path().join("odd"), dir.path().join("out"));
    fs::create_dir_all(source.join("empty")).unwrap();
    for (name, bytes) in names {
        fs::write(source.join(OsStr::from_bytes(name)), bytes).unwrap();
    }
    let options = Options::default();
    let made = dir.path().join("odd.lmc");
    compress_path(&source, &made, &options.compressing()).unwrap();
    let path = folder().join("names.lmc");
    if std::env::var_os("LMC_BLESS").is_some() {
        fs::copy(&made, &path).unwrap();
    }
    assert!(fs::read(&made).unwrap() == fs::read(&path).unwrap(), "other bytes than the stored");
    Archive::open(&path, &options.restoring())
        .unwrap()
        .restore(&out, &options.restoring())
        .unwrap();
    for (name, bytes) in names {
        assert_eq!(fs::read(out.join(OsStr::from_bytes(name))).unwrap(), bytes);
    }
    assert!(out.join("empty").is_dir());
    assert_eq!(fs::read_dir(&out).unwrap().count(), 5);
}

#[test]
fn an_archive_of_version_1_is_refused_with_its_version() {
    let old = include_bytes!("golden/v1/raw.lmc");
    for refused in [
        Archive::from_bytes(old, &RestoreOptions::default()).map(|_| ()),
        decompress(old, &RestoreOptions::default()).map(|_| ()),
        lmc_gpu::internals::archive::verify_stream(&mut &old[..], &RestoreOptions::default())
            .map(|_| ()),
    ] {
        let Err(Error::Unsupported(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("version 1") && why.contains("version 2"), "{why}");
    }
}

#[test]
fn golden_archives_cover_every_form_coder_and_predictor() {
    let [mut forms, mut coders, mut predictors, mut modes] = [const { BTreeSet::new() }; 4];
    for case in cases() {
        let bytes = fs::read(folder().join(format!("{}.lmc", case.name))).unwrap();
        let archive = Archive::from_bytes(&bytes, &RestoreOptions::default()).unwrap();
        for chunk in archive.chunks() {
            forms.insert(chunk.meta.form as u8);
            let record = &bytes[chunk.offset as usize..];
            let meta_len = u32::from_le_bytes(*record[4..].first_chunk().unwrap());
            let payload = &record[16 + meta_len as usize..];
            match chunk.meta.form as u8 {
                4 => _ = coders.insert(payload[0]),
                7 => {
                    predictors.insert(payload[0]);
                    // The others have scalars before the mode.
                    if payload[0] < 2 {
                        modes.insert(payload[1]);
                    }
                }
                _ => {}
            }
        }
    }
    let all: Vec<u8> = (0..=11).chain(128..=135).collect();
    assert!(forms.iter().eq(&all), "{forms:?}");
    assert!(coders.iter().eq(&[2, 3, 4, 5]), "{coders:?}");
    assert!(predictors.iter().eq(&[0, 1, 2, 3, 4, 5, 6, 7]), "{predictors:?}");
    assert!(modes.iter().eq(&[0, 1, 2, 3]), "{modes:?}");
}
