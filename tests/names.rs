//! Names of files: what a file system has comes back, what leads elsewhere is refused.

#![cfg(unix)]

use lmc_gpu::{
    Archive, Base, CompressOptions, Error, Overwrite, compress_path,
    internals::{
        archive::{
            Input, Options, compress_files, compress_reader, compress_stream, decompress_stream,
            inspect,
        },
        source::Source,
    },
};
use std::{
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

/// Parts of names that are allowed, each in its own way odd.
const ODD: [&[u8]; 14] = [
    b"q\\r.bin",
    b"..\\up",
    b"C:\\x",
    b"new\nline",
    b"\x1b[2J",
    b"\x01\x7f",
    b"\xff\xfe",
    b"half \xc3",
    b" ",
    b"...",
    b"-o",
    "\u{202e}gpj.exe".as_bytes(),
    b"CON",
    b"a.",
];

fn os(bytes: &[u8]) -> &OsStr {
    OsStr::from_bytes(bytes)
}

/// Every file and directory below `dir`, with what files hold.
fn tree(dir: &Path) -> Vec<(PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut open = vec![dir.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(dir).unwrap().to_owned();
            match path.is_dir() {
                true => {
                    found.push((below, None));
                    open.push(path);
                }
                false => found.push((below, Some(fs::read(path).unwrap()))),
            }
        }
    }
    found.sort();
    found
}

#[test]
fn directories_of_odd_names_come_back_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("in");
    for (i, part) in ODD.iter().enumerate() {
        let below = root.join(os(b"d")).join(os(ODD[(i + 3) % ODD.len()]));
        fs::create_dir_all(&below).unwrap();
        fs::create_dir_all(root.join(os(part))).unwrap();
        fs::write(below.join(os(part)), [i as u8; 100]).unwrap();
        fs::write(root.join(os(part)).join(os(part)), [i as u8; 7]).unwrap();
    }
    // Orders that differ between bytes and parts.
    for name in ["d-", "d.x", "d0"] {
        fs::write(root.join(name), name).unwrap();
    }
    let (archive, options) = (dir.path().join("x.lmc"), Options::default());
    compress_path(&root, &archive, &options.compressing()).unwrap();
    let opened = Archive::open(&archive, &options.restoring()).unwrap();
    assert!(opened.entries().is_sorted_by(|a, b| a.path < b.path));
    opened.restore(dir.path().join("back"), &options.restoring()).unwrap();
    assert_eq!(tree(&root), tree(&dir.path().join("back")));
    let piped = fs::read(&archive).unwrap();
    decompress_stream(&mut &piped[..], &dir.path().join("piped"), &options.restoring()).unwrap();
    assert_eq!(tree(&root), tree(&dir.path().join("piped")));
    let mut again = Vec::new();
    compress_stream(&root, &mut again, &options.compressing()).unwrap();
    assert!(again == piped);
}

#[test]
fn single_files_of_odd_names_keep_them() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::default().with_overwrite(Overwrite::Files);
    for part in ODD {
        let (file, archive) = (dir.path().join(os(part)), dir.path().join("x.lmc"));
        fs::write(&file, part).unwrap();
        compress_path(&file, &archive, &options.compressing()).unwrap();
        let opened = Archive::open(&archive, &options.restoring()).unwrap();
        assert_eq!(opened.entries()[0].path.as_bytes(), part);
        assert_eq!(
            lmc_gpu::decompress(&fs::read(&archive).unwrap(), &options.restoring()).unwrap(),
            part
        );
        let found = inspect(&archive, &options).unwrap();
        assert_eq!(found.files[0].path.as_bytes(), part);
        let shown = found.files[0].path.to_string();
        assert!(!shown.contains(|c: char| c.is_control() || c == '\u{202e}'), "{shown:?}");
    }
}

#[test]
fn a_base_of_an_odd_name_is_found_beside_its_delta() {
    let bytes = vec![7u8; 300_000];
    for part in ODD {
        let dir = tempfile::tempdir().unwrap();
        let (base, new) = (dir.path().join(os(part)), dir.path().join("new"));
        fs::create_dir(&base).unwrap();
        fs::create_dir(&new).unwrap();
        fs::write(base.join(os(part)), [&noise(300_000)[..], &bytes].concat()).unwrap();
        fs::write(new.join(os(part)), [&noise(300_000)[..], &bytes].concat()).unwrap();
        let out = dir.path().join("new.lmc");
        let options = Options::default();
        let with_base = Base::open_with(&base, &[], &options).unwrap();
        compress_path(&new, &out, &options.clone().with_base(Some(with_base)).compressing())
            .unwrap();
        let archive = Archive::open(&out, &options.restoring()).unwrap();
        assert!(archive.refers_to_base(), "{:?}", os(part));
        archive.restore(dir.path().join("back"), &options.restoring()).unwrap();
        assert_eq!(tree(&new), tree(&dir.path().join("back")));
    }
}

fn noise(n: usize) -> Vec<u8> {
    let mut x = 1u32;
    let mut next = || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x as u8
    };
    (0..n).map(|_| next()).collect()
}

/// Names that are none.
const NONE: [&str; 9] = ["", ".", "..", "/abs", "a//b", "a/", "a/../b", "nul\0", "./a"];

#[test]
fn names_that_are_none_are_refused_when_they_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let (out, options) = (dir.path().join("x.lmc"), Options::default());
    let refused = |made: Result<(), Error>, name: &str| {
        assert!(matches!(made, Err(Error::InvalidArgument(_))), "{name:?}: {made:?}");
        assert!(!out.exists());
    };
    for name in NONE {
        let input = Input::from_bytes(name, b"abc", None);
        refused(compress_files(&input, &out, &options.compressing()).map(drop), name);
        let files: Vec<(String, Box<dyn Source>)> = vec![(name.into(), Box::new(vec![1, 2]))];
        refused(Input::from_files(files).map(drop), name);
        let mut archive = Vec::new();
        let made = compress_reader(&mut &b"abc"[..], name, &mut archive, &options.compressing());
        refused(made.map(drop), name);
        assert!(archive.is_empty());
        let base = Base::from_bytes(name, (&b"abc"[..]).into(), None);
        let options = options.clone().with_base(Some(base));
        let input = Input::from_bytes("good", b"abc", None);
        refused(compress_files(&input, &out, &options.compressing()).map(drop), name);
    }
}

#[test]
fn a_path_that_stands_twice_is_refused() {
    for paths in [["a", "a"], ["a", "a/b"], ["a/b", "a"]] {
        let file = |path: &str| (path.to_owned(), Box::new(vec![1u8]) as Box<dyn Source>);
        let made = Input::from_files(paths.map(file).into());
        assert!(matches!(made, Err(Error::InvalidArgument(_))), "{paths:?}");
    }
    let mut input = Input::from_bytes("a", b"abc", None);
    let entry = lmc_gpu::Entry { len: 0, ..input.manifest.entries[0].clone() };
    input.manifest.entries.push(entry);
    input.manifest.is_directory = true;
    let out = tempfile::tempdir().unwrap();
    let made = compress_files(&input, &out.path().join("x.lmc"), &CompressOptions::default());
    assert!(matches!(made, Err(Error::InvalidArgument(_))));
}
