//! Names that filesystems allow and programs stumble over.

use crate::{
    case::{Cases, Draw},
    common::Rng,
    promise,
};
use lmc_gpu::{
    Archive, Base, compress_path,
    internals::archive::{Options, compress_reader, verify_stream},
};
use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fs,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

const NASTY: [&[u8]; 30] = [
    b"q\r.bin",
    b"back\\slash",
    b"\\",
    b"..\\up",
    b"new\nline",
    b"tab\t",
    b"\x1b[2J\x1b]0;title\x07",
    b"\x01",
    b"\x7f",
    b"\xff\xfe",
    b"half \xc3",
    b"\xed\xa0\x80",
    b"\xc2\x9b31m",
    b"\xe2\x80\xaegnp.exe",
    b"\xef\xbb\xbfbom",
    b"e\xcc\x81",
    b"\xc3\xa9",
    b" leading",
    b"trailing ",
    b"dot.",
    b"...",
    b"-o",
    b"--",
    b"~",
    b"*?[a]",
    b"C:",
    b"CON",
    b"a\"b'c`d$e",
    b"%s%n%00",
    b".lmc-x.tmp",
];

/// Names that are none, which only a caller can make up.
const NONE: [&str; 9] = ["", ".", "..", "/", "/abs", "a/b", "a/../b", "nul\0", "a//b"];

fn name(rng: &mut Rng) -> Vec<u8> {
    match rng.below(4) {
        0 => {
            let most = if rng.one_in(8) { 255 } else { 12 };
            let n = 1 + rng.below(most);
            let bytes = rng.bytes(n);
            let name: Vec<u8> = bytes.into_iter().map(|b| if b == 0 { 1 } else { b }).collect();
            if name.contains(&b'/') || name == b"." || name == b".." {
                return b"plain".to_vec();
            }
            name
        }
        _ => rng.pick(&NASTY).to_vec(),
    }
}

type Tree = BTreeMap<PathBuf, Option<Vec<u8>>>;

/// Every path below a directory, with the bytes of files.
fn tree(dir: &Path) -> Tree {
    fn walk(dir: &Path, root: &Path, found: &mut Tree) {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            let below = path.strip_prefix(root).unwrap().to_owned();
            if path.is_dir() {
                found.insert(below, None);
                walk(&path, root, found);
            } else {
                found.insert(below, Some(fs::read(&path).unwrap()));
            }
        }
    }
    let mut found = Tree::new();
    walk(dir, dir, &mut found);
    found
}

/// Makes a file or directory with such names below `dir`.
fn plant(dir: &Path, rng: &mut Rng) -> PathBuf {
    let at = dir.join(OsStr::from_bytes(&name(rng)));
    if rng.one_in(2) {
        fs::write(&at, rng.bytes(40)).unwrap();
        return at;
    }
    fs::create_dir(&at).unwrap();
    for _ in 0..1 + rng.below(5) {
        let mut below = at.clone();
        for _ in 0..rng.below(3) {
            below.push(OsStr::from_bytes(&name(rng)));
        }
        // Two names may be in each other's way.
        if fs::create_dir_all(&below).is_ok() {
            let _ = fs::write(below.join(OsStr::from_bytes(&name(rng))), rng.bytes(40));
        }
    }
    at
}

/// Compresses what is at `from` and restores it: `false` where it is refused.
fn round_trip(dir: &Path, from: &Path, base: Option<&Path>) -> Result<bool, String> {
    let options = Options::default().with_threads(1);
    let base = match base.map(|base| Base::open_with(base, &[], &options)) {
        Some(Err(_)) => return Ok(false),
        base => base.and_then(Result::ok),
    };
    let options = options.with_base(base);
    let out = dir.join("out.lmc");
    if compress_path(from, &out, &options.compressing()).is_err() {
        return match out.exists() {
            true => Err("refused, and an archive is there".into()),
            false => Ok(false),
        };
    }
    let archive = Archive::open(&out, &options.restoring()).map_err(|e| e.to_string())?;
    if let Some(base) = &options.base {
        archive.attach_base(base).map_err(|e| e.to_string())?;
    }
    let bytes = fs::read(&out).unwrap();
    verify_stream(&mut &bytes[..], &options.restoring()).map_err(|e| format!("forward: {e}"))?;
    let back = dir.join("back");
    archive.restore(&back, &options.restoring()).map_err(|e| e.to_string())?;
    let same = match from.is_dir() {
        true => tree(from) == tree(&back),
        false => fs::read(from).unwrap() == fs::read(&back).unwrap(),
    };
    same.then_some(true).ok_or_else(|| "another tree comes back".into())
}

/// An archive of a pipe called `name`.
fn piped(name: &str) -> Result<bool, String> {
    let (options, mut bytes) = (Options::default().with_threads(1), Vec::new());
    if compress_reader(&mut &b"some bytes"[..], name, &mut bytes, &options.compressing()).is_err() {
        return Ok(false);
    }
    Archive::from_bytes(&bytes, &options.restoring()).map_err(|e| format!("{name:?}: {e}"))?;
    verify_stream(&mut &bytes[..], &options.restoring()).map_err(|e| format!("{name:?}: {e}"))?;
    Ok(true)
}

#[test]
fn names_come_back_or_are_refused_when_writing() {
    let mut cases = Cases::new("names");
    while let Some(mut case) = cases.next() {
        let dir = tempfile::tempdir().unwrap();
        let [new, base] = ["new", "base"].map(|name| dir.path().join(name));
        fs::create_dir(&new).unwrap();
        fs::create_dir(&base).unwrap();
        let from = plant(&new, &mut case.rng);
        let done = match case.rng.below(6) {
            0 => piped(NONE[case.rng.below(NONE.len())]),
            1 => {
                let base = plant(&base, &mut case.rng);
                round_trip(dir.path(), &from, Some(&base))
            }
            _ => round_trip(dir.path(), &from, None),
        };
        match done {
            Ok(true) => cases.count("came back"),
            Ok(false) => cases.count("refused"),
            Err(why) => {
                let why = why.escape_debug().to_string();
                let what = "an archive that cannot be read";
                cases.broken(promise::NAMES_REQUIRED, what, case.number, &why);
            }
        }
    }
    cases.finish();
}
