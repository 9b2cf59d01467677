//! What fingers know from zstd, gzip and tar.

use super::{Place, data, same_tree};
use std::fs;

#[test]
fn short_flags_mean_what_they_mean_elsewhere() {
    let at = Place::new();
    at.write("m", &data::model());
    at.ok(&["compress", "-k", "-T1", "m", "-o", "x.lmc"]);
    at.ok(&["compress", "-f", "-T", "2", "m", "-o", "x.lmc"]);
    assert!(at.ok(&["-t", "x.lmc"]).contains("every checksum matches"));
    at.ok(&["-d", "x.lmc", "-o", "back"]);
    at.ok(&["-dkf", "-T0", "x.lmc", "-o", "back"]);
    assert!(at.read("back") == data::model() && at.path("x.lmc").exists());
    let list = at.ok(&["-l", "x.lmc"]);
    assert!(list.contains(&data::model().len().to_string()) && list.contains(" m"), "{list}");
    for verb in ["decompress", "verify", "list"] {
        assert!(at.ok(&["--help"]).contains(verb));
    }
}

#[test]
fn list_shows_files_without_decoding_them() {
    let at = Place::new();
    at.write("d/a/model.safetensors", &data::model());
    at.write("d/empty", b"");
    at.ok(&["compress", "d"]);
    let text = at.ok(&["list", "d.lmc"]);
    for part in ["a/", "a/model.safetensors", "empty", "in 2 files"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let told = at.json(&["list", "d.lmc", "--json"]);
    let files = told["files"].as_array().unwrap();
    let model = files.iter().find(|f| f["path"] == "a/model.safetensors").unwrap();
    assert_eq!(model["bytes"], data::model().len());
    assert!(model["stored_bytes"].as_u64().unwrap() <= told["stored_bytes"].as_u64().unwrap());
    let both = at.json(&["list", "d.lmc", "d.lmc", "--json"]);
    assert_eq!(both["archives"].as_array().unwrap().len(), 2);
    let out = at.piped(&["list", "-"], &at.read("d.lmc"));
    assert!(String::from_utf8_lossy(&out.stdout).contains("model.safetensors"));
    at.fails(1, &["list", "d/a/model.safetensors"]);
}

#[test]
fn cat_writes_files_of_archives() {
    let at = Place::new();
    at.write("d/model.safetensors", &data::model());
    at.write("d/deep/conf:ig.json", b"{}");
    at.ok(&["compress", "d", "-o", "x:y.lmc"]);
    let args = ["cat", "x:y.lmc:model.safetensors", "x:y.lmc:deep/conf:ig.json"];
    assert!(at.run(&args).stdout == [&data::model()[..], b"{}"].concat());
    let error = at.fails(2, &["cat", "x:y.lmc:none"]);
    assert!(error.contains("none") && error.contains("deep/conf:ig.json"), "{error}");
    assert!(at.fails(2, &["cat", "x:y.lmc"]).contains("X.lmc:FILE"));
    at.ok(&["compress", "d/model.safetensors", "-o", "one.lmc"]);
    assert!(at.run(&["cat", "one.lmc"]).stdout == data::model());
    let piped = at.piped(&["cat", "--", "-:deep/conf:ig.json"], &at.read("x:y.lmc"));
    assert_eq!(piped.stdout, b"{}");
    at.fails(1, &["cat", "absent.lmc:x"]);
}

#[test]
fn rm_removes_what_the_archive_restores_and_nothing_else() {
    let at = Place::new();
    at.write("m", &data::model());
    at.write("d/a", b"a");
    at.write("d/sub/b", b"b");
    at.write("d/sub/left.tmp", b"left out");
    fs::create_dir(at.path("d/none")).unwrap();
    at.ok(&["compress", "m", "--rm"]);
    assert_eq!(at.names(), ["d", "m.lmc"]);
    let out = at.run(&["compress", "d", "--rm", "--exclude", "*.tmp"]);
    assert!(out.status.success() && super::stderr(&out).contains("stays"));
    assert_eq!(at.read("d/sub/left.tmp"), b"left out");
    assert!(!at.path("d/a").exists() && !at.path("d/sub/b").exists());
    at.ok(&["decompress", "m.lmc", "--rm"]);
    assert!(at.read("m") == data::model() && !at.path("m.lmc").exists());
    at.ok(&["decompress", "d.lmc", "-o", "e", "--rm"]);
    assert!(at.path("e/none").is_dir() && !at.path("d.lmc").exists());
    // What cannot be checked, or would be needed, is not removed.
    at.fails(2, &["compress", "m", "-o", "-", "--rm"]);
    assert!(at.fails(2, &["compress", "m", "--base", "m", "--rm"]).contains("base"));
    at.fails(2, &["compress", "m", "--rm", "--keep"]);
    at.ok(&["compress", "m"]);
    at.fails(2, &["compress", "m", "--rm"]);
    at.fails(2, &["decompress", "m.lmc", "-o", "-", "--rm"]);
    assert!(at.path("m").exists() && at.path("m.lmc").exists());
}

#[test]
fn exclude_leaves_out_what_matches_and_all_below_it() {
    let at = Place::new();
    for name in ["a.bin", "b.tmp", "log/1", "log/deep/2", "x/log/3", "x/y/c.tmp", "x/y/keep"] {
        at.write(&format!("d/{name}"), name.as_bytes());
    }
    at.ok(&["compress", "d", "--exclude", "*.tmp", "--exclude", "x/log/", "-o", "one.lmc"]);
    let files = |archive: &str| -> Vec<String> {
        let told = at.json(&["list", archive, "--json"]);
        let files = told["files"].as_array().unwrap().iter();
        let files = files.filter(|f| f["directory"] == false);
        files.map(|f| f["path"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(files("one.lmc"), ["a.bin", "log/1", "log/deep/2", "x/y/keep"]);
    at.ok(&["compress", "d", "--exclude", "log", "--exclude", "**/y/*", "-o", "two.lmc"]);
    assert_eq!(files("two.lmc"), ["a.bin", "b.tmp"]);
    at.ok(&["decompress", "one.lmc", "-o", "back"]);
    at.ok(&["compress", "back", "-o", "three.lmc"]);
    at.ok(&["decompress", "three.lmc", "-o", "again"]);
    same_tree(&at.path("back"), &at.path("again"));
    at.fails(2, &["compress", "d", "--exclude", "a[", "-o", "bad.lmc"]);
    assert!(at.fails(2, &["compress", "d/a.bin", "--exclude", "b"]).contains("directory"));
}

#[test]
fn completions_and_man_pages_name_every_verb() {
    let at = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let text = at.ok(&["completions", shell]);
        for word in ["compress", "decompress", "rebase", "exclude"] {
            assert!(text.contains(word), "{shell}: {word}");
        }
    }
    at.fails(2, &["completions", "tcsh"]);
    at.ok(&["man", "new/man1"]);
    for page in ["lmc-gpu.1", "lmc-gpu-compress.1", "lmc-gpu-store-save.1", "lmc-gpu-man.1"] {
        let text = String::from_utf8(at.read(&format!("new/man1/{page}"))).unwrap();
        assert!(text.contains(".TH"), "{page}");
    }
    let compress = String::from_utf8(at.read("new/man1/lmc-gpu-compress.1")).unwrap();
    assert!(compress.contains("exclude") && compress.contains("Examples"), "{compress}");
    assert!(at.fails(2, &["man", "new/man1"]).contains("--force"));
    at.ok(&["man", "new/man1", "--force"]);
}
