//! What --force may replace, and what it must not.

use super::{Place, data, same_tree};
use std::fs;

/// Two steps of a model, the second one changed a little.
fn steps(at: &Place) {
    let mut model = data::model();
    at.write("step1", &model);
    let at_end = model.len() - 5000;
    model[at_end..].iter_mut().for_each(|b| *b ^= 1);
    at.write("step2", &model);
    model[at_end..].iter_mut().for_each(|b| *b ^= 3);
    at.write("step3", &model);
}

/// A run that must be refused, name both paths and change nothing.
fn refused(at: &Place, args: &[&str], names: [&str; 2]) {
    let before = snapshot(&at.path(""));
    for force in [&["--force"][..], &[]] {
        let text = at.fails(2, &[args, force].concat());
        assert!(names.iter().all(|n| text.contains(n)), "{args:?}: {text}");
        assert!(text.contains("needed as it is"), "{args:?}: {text}");
        assert_eq!(snapshot(&at.path("")), before, "{args:?}");
    }
}

/// Every path below a directory, with the bytes of files.
fn snapshot(dir: &std::path::Path) -> Vec<(std::path::PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(snapshot(&path)),
            false => all.push((path.clone(), fs::read(&path).unwrap_or_default())),
        }
    }
    all.sort();
    all
}

#[test]
fn no_base_of_the_chain_is_ever_replaced() {
    let at = Place::new();
    steps(&at);
    at.ok(&["compress", "step1", "-o", "a.lmc"]);
    at.ok(&["compress", "step2", "--base", "a.lmc", "-o", "b.lmc"]);
    refused(&at, &["compress", "step3", "--base", "a.lmc", "-o", "a.lmc"], ["a.lmc", "a.lmc"]);
    refused(&at, &["compress", "step3", "--base", "step1", "-o", "step1"], ["step1", "step1"]);
    refused(&at, &["compress", "step3", "--base", "b.lmc", "-o", "a.lmc"], ["a.lmc", "a.lmc"]);
    refused(&at, &["compress", "step3", "--base", "b.lmc", "-o", "./b.lmc"], ["./b.lmc", "b.lmc"]);
    // The default name.
    at.write("d/a", b"x");
    fs::rename(at.path("d/a"), at.path("d/step3")).unwrap();
    fs::copy(at.path("a.lmc"), at.path("step3.lmc")).unwrap();
    refused(&at, &["compress", "step3", "--base", "step3.lmc"], ["step3.lmc", "step3.lmc"]);
    refused(&at, &["decompress", "b.lmc", "--base", "a.lmc", "-o", "a.lmc"], ["a.lmc", "a.lmc"]);
    // Found beside it, not named.
    refused(&at, &["decompress", "b.lmc", "-o", "a.lmc"], ["a.lmc", "a.lmc"]);
    refused(&at, &["decompress", "b.lmc", "-o", "b.lmc"], ["b.lmc", "b.lmc"]);
    refused(&at, &["extract", "b.lmc", "scale", "-o", "a.lmc"], ["a.lmc", "a.lmc"]);
    refused(&at, &["extract", "step1", "scale", "-o", "step1"], ["step1", "step1"]);
}

#[test]
#[cfg(unix)]
fn links_do_not_hide_what_is_needed() {
    let at = Place::new();
    steps(&at);
    at.ok(&["compress", "step1", "-o", "a.lmc"]);
    std::os::unix::fs::symlink("a.lmc", at.path("link")).unwrap();
    fs::hard_link(at.path("a.lmc"), at.path("hard")).unwrap();
    fs::create_dir(at.path("dir")).unwrap();
    std::os::unix::fs::symlink(at.path(""), at.path("dir/up")).unwrap();
    for out in ["link", "hard", "dir/up/a.lmc", "dir/../a.lmc"] {
        refused(&at, &["compress", "step2", "--base", "a.lmc", "-o", out], [out, "a.lmc"]);
    }
    // A file of the input that is the output through a link.
    at.write("in/one", b"1");
    at.write("other", b"2");
    std::os::unix::fs::symlink("../other", at.path("in/two")).unwrap();
    refused(&at, &["compress", "in", "--follow", "-o", "other"], ["other", "in/two"]);
}

#[test]
fn output_neither_holds_nor_lies_in_what_is_read() {
    let at = Place::new();
    at.write("ck/m", &data::model());
    at.write("ck/n", b"n");
    refused(&at, &["compress", "ck", "-o", "ck/x.lmc"], ["ck/x.lmc", "ck"]);
    at.ok(&["compress", "ck"]);
    fs::rename(at.path("ck.lmc"), at.path("ck/x.lmc")).unwrap();
    refused(&at, &["decompress", "ck/x.lmc", "-o", "ck"], ["ck", "ck/x.lmc"]);
    refused(&at, &["decompress", "ck/x.lmc", "-o", "."], [".", "ck/x.lmc"]);
    let replace = ["decompress", "ck/x.lmc", "-o", "ck", "--force-replace-dir"];
    refused(&at, &replace, ["ck", "ck/x.lmc"]);
    // Several inputs: no output may be another's input.
    at.write("a", b"a");
    at.write("out/a.lmc", b"an input by that name");
    refused(&at, &["compress", "a", "out/a.lmc", "-o", "out"], ["out/a.lmc", "out/a.lmc"]);
    at.write("in/b", b"b");
    refused(&at, &["compress", "a", "in", "-o", "in"], ["in/a.lmc", "in"]);
    // Raw directories as bases.
    fs::rename(at.path("ck/x.lmc"), at.path("x.lmc")).unwrap();
    at.write("ck2/m", &data::model());
    let args = ["compress", "ck2", "--base", "ck", "-o", "ck/y.lmc"];
    refused(&at, &args, ["ck/y.lmc", "ck"]);
}

#[test]
fn force_replaces_only_the_files_of_the_archive() {
    let at = Place::new();
    at.write("ck/model", &data::model());
    at.write("ck/sub/deep/config", b"new");
    at.ok(&["compress", "ck"]);
    at.write("out/model", b"old");
    at.write("out/precious", b"precious");
    at.write("out/sub/precious", b"precious");
    let text = at.fails(2, &["decompress", "ck.lmc", "-o", "out"]);
    assert!(text.contains("--force"), "{text}");
    at.ok(&["decompress", "ck.lmc", "-o", "out", "--force"]);
    assert_eq!(at.read("out/precious"), b"precious");
    assert_eq!(at.read("out/sub/precious"), b"precious");
    assert!(at.read("out/model") == data::model());
    assert_eq!(at.read("out/sub/deep/config"), b"new");
    assert_eq!(fs::read_dir(at.path("out")).unwrap().count(), 3, "nothing temporary stays");
    // What is of another kind is refused before anything is written.
    at.write("other/sub", b"a file");
    at.write("other/model", b"old");
    let text = at.fails(2, &["decompress", "ck.lmc", "-o", "other", "--force"]);
    assert!(text.contains("other/sub") && text.contains("--force-replace-dir"), "{text}");
    assert_eq!(at.read("other/model"), b"old");
    at.write("third/model/x", b"a directory");
    at.fails(2, &["decompress", "ck.lmc", "-o", "third", "--force"]);
    assert_eq!(at.read("third/model/x"), b"a directory");
    at.fails(2, &["decompress", "ck.lmc", "-o", "out/precious", "--force"]);
    assert_eq!(at.read("out/precious"), b"precious");
    // The whole directory goes where that is asked for.
    at.ok(&["decompress", "ck.lmc", "-o", "out", "--force-replace-dir"]);
    same_tree(&at.path("ck"), &at.path("out"));
    // A damaged archive replaces nothing.
    let mut bad = at.read("ck.lmc");
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    at.write("bad.lmc", &bad);
    at.write("out/model", b"old");
    at.fails(1, &["decompress", "bad.lmc", "-o", "out", "--force"]);
    assert_eq!(at.read("out/model"), b"old");
}

#[test]
fn a_store_restores_beside_other_files_and_never_over_itself() {
    let at = Place::new();
    at.write("ck/model", &data::model());
    at.ok(&["store", "init", "run"]);
    at.ok(&["store", "save", "run", "ck", "--step", "1"]);
    at.write("out/model", b"old");
    at.write("out/precious", b"precious");
    at.ok(&["store", "restore", "run", "1", "-o", "out", "--force"]);
    assert!(at.read("out/model") == data::model());
    assert_eq!(at.read("out/precious"), b"precious");
    at.ok(&["store", "restore", "run", "1", "-o", "out", "--force-replace-dir"]);
    same_tree(&at.path("ck"), &at.path("out"));
    for out in ["run", "run/steps", "run/steps/0000000001.lmc", "run/new", "."] {
        refused(&at, &["store", "restore", "run", "1", "-o", out], [out, "run"]);
    }
    let plot = ["store", "stats", "run", "--plot", "run/lmc-store.json"];
    refused(&at, &plot, ["run/lmc-store.json", "run"]);
}

#[test]
#[cfg(target_os = "linux")]
fn devices_and_pipes_are_written_to_and_never_replaced() {
    use std::os::unix::fs::FileTypeExt;
    let at = Place::new();
    at.write("m", &data::model());
    at.ok(&["compress", "m"]);
    at.ok(&["compress", "m", "-o", "/dev/null"]);
    at.ok(&["decompress", "m.lmc", "-o", "/dev/null", "--force"]);
    assert!(fs::metadata("/dev/null").unwrap().file_type().is_char_device());
    let archive = at.read("m.lmc");
    for (args, expected) in [
        (&["compress", "m", "-q", "-o"][..], &archive),
        (&["decompress", "m.lmc", "-q", "-o"], &at.read("m")),
    ] {
        let out = at.run(&[args, &["/dev/stdout"]].concat());
        assert!(out.status.success() && out.stdout == *expected, "{}", super::stderr(&out));
        // Standard output that is a file is written to where it stands.
        let file = at.write("redirected", b"before");
        let mut file = fs::File::options().append(true).open(file).unwrap();
        std::io::Write::flush(&mut file).unwrap();
        let mut command = at.command(&[args, &["/dev/stdout", "--force"]].concat());
        assert!(command.stdout(file).status().unwrap().success());
        assert!(at.read("redirected") == [&b"before"[..], expected].concat());
        // A named pipe takes what a reader gets, and stays one.
        let made = std::process::Command::new("mkfifo").arg(at.path("pipe")).status().unwrap();
        assert!(made.success());
        let path = at.path("pipe");
        let reader = std::thread::spawn(move || fs::read(path).unwrap());
        at.ok(&[args, &["pipe", "--force"]].concat());
        assert!(reader.join().unwrap() == *expected);
        assert!(fs::metadata(at.path("pipe")).unwrap().file_type().is_fifo());
        fs::remove_file(at.path("pipe")).unwrap();
    }
    let socket = std::os::unix::net::UnixListener::bind(at.path("socket")).unwrap();
    assert!(at.fails(2, &["compress", "m", "-o", "socket", "--force"]).contains("socket"));
    drop(socket);
    fs::create_dir(at.path("d")).unwrap();
    assert!(at.fails(2, &["decompress", "m.lmc", "-o", "d", "--force"]).contains("directory"));
}
