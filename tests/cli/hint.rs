//! What a new user stumbles over works, or says what to do.

use super::{Place, data, stderr};
use std::fs;

#[test]
fn an_archive_that_is_compressed_again_is_said_to_be_one() {
    let at = Place::new();
    at.write("m", &data::model());
    at.ok(&["compress", "m"]);
    let out = at.run(&["compress", "m.lmc"]);
    assert!(out.status.success() && stderr(&out).contains("archive of lmc-gpu already"));
    let told = at.json(&["compress", "m.lmc", "-f", "--json"]);
    assert!(told["notes"].to_string().contains("already"));
    assert!(!stderr(&at.run(&["compress", "m", "-f"])).contains("already"));
}

#[test]
fn a_dtype_that_does_not_fit_a_file_gets_a_note() {
    let at = Place::new();
    at.write("m.safetensors", &data::model());
    at.write("odd", &data::noise(1001, 1));
    for verb in ["compress", "inspect"] {
        let said = stderr(&at.run(&[verb, "m.safetensors", "--dtype", "f32"]));
        assert!(said.contains("safetensors file") && said.contains("leave it out"), "{said}");
        let said = stderr(&at.run(&[verb, "odd", "--dtype", "bf16"]));
        assert!(said.contains("not whole words of BF16"), "{said}");
    }
    at.write("even", &data::weights(1000, 1));
    let said = stderr(&at.run(&["compress", "even", "--dtype", "bf16"]));
    assert!(!said.contains("note"), "{said}");
    at.write("floats", &data::weights(100_000, 1));
    assert!(stderr(&at.run(&["compress", "floats"])).contains("coded as such"));
}

#[test]
fn inspect_says_what_an_archive_is_a_delta_to() {
    let at = Place::new();
    let mut moved = data::model();
    let n = moved.len();
    moved[n - 100_000..].iter_mut().step_by(400).for_each(|b| *b ^= 1);
    at.write("one/m", &data::model());
    at.write("two/m", &moved);
    at.ok(&["compress", "one"]);
    at.ok(&["compress", "two", "--base", "one.lmc"]);
    let told = at.json(&["inspect", "two.lmc", "--json"]);
    let base = &told["base"];
    assert_eq!((&base["name"], &base["path"]), (&"one.lmc".into(), &"one.lmc".into()));
    assert_eq!((&base["bytes"], &base["needed"]), (&n.into(), &true.into()));
    assert_eq!(base["files"][0]["path"], "m");
    let digest = base["files"][0]["digest"].as_str().unwrap();
    assert_eq!(digest.len(), 32);
    let text = at.ok(&["inspect", "two.lmc"]);
    for part in ["a delta", "base: one.lmc", digest, &n.to_string()] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let full = at.json(&["inspect", "one.lmc", "--json"]);
    assert!(full["base"].is_null());
    fs::rename(at.path("one.lmc"), at.path("else.lmc")).unwrap();
    assert!(at.ok(&["inspect", "two.lmc"]).contains("not found: --base"));
    // Errors about a wrong base say what both are.
    at.write("wrong/m", &[data::model(), vec![0]].concat());
    let error = at.fails(1, &["verify", "two.lmc", "--base", "wrong"]);
    for part in ["wrong", "one.lmc", &n.to_string(), &(n + 1).to_string()] {
        assert!(error.contains(part), "{part}: {error}");
    }
    let mut other = data::model();
    other.iter_mut().skip(1000).step_by(64).for_each(|b| *b ^= 64);
    at.write("other/m", &other);
    let error = at.fails(1, &["verify", "two.lmc", "--base", "other"]);
    assert!(error.contains("digest") && error.contains("expected"), "{error}");
}

#[test]
fn standard_input_can_be_looked_into() {
    let at = Place::new();
    at.write("m", &data::model());
    at.ok(&["compress", "m"]);
    for bytes in [data::model(), at.read("m.lmc")] {
        let out = at.piped(&["inspect", "-", "--json"], &bytes);
        let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(told["bytes"], data::model().len());
        let out = at.piped(&["extract", "-", "big.weight", "-o", "-"], &bytes);
        assert!(out.stdout.ends_with(&data::weights(600_000, 1)), "{}", stderr(&out));
        let out = at.piped(&["extract", "-", "big.weight"], &bytes);
        assert!(out.status.code() == Some(2) && stderr(&out).contains("-o"));
    }
    let mut redirected = at.command(&["inspect", "-"]);
    let out = redirected.stdin(super::open(&at.path("m.lmc"))).output().unwrap();
    assert!(String::from_utf8_lossy(&out.stdout).contains("big.weight"));
    assert_eq!(at.names(), ["m", "m.lmc"]);
}

#[test]
fn directories_that_are_not_there_are_made_or_asked_for() {
    let at = Place::new();
    at.write("m", &data::model());
    at.ok(&["compress", "m", "-o", "new/dir/"]);
    at.ok(&["verify", "new/dir/m.lmc"]);
    at.ok(&["decompress", "new/dir/m.lmc", "-o", "back/"]);
    assert!(at.read("back/m") == data::model());
    at.ok(&["extract", "m", "scale", "-o", "some/"]);
    assert!(at.path("some/m.tensors.safetensors").exists());
    at.ok(&["store", "init", "st"]);
    at.ok(&["store", "save", "st", "m", "--step", "1"]);
    for args in [
        &["store", "restore", "st", "1", "-o", "no/b"][..],
        &["compress", "m", "-o", "no/b"],
        &["decompress", "new/dir/m.lmc", "-o", "no/b"],
        &["extract", "m", "scale", "-o", "no/b"],
    ] {
        let error = at.fails(1, args);
        assert!(error.contains("there is no directory no: make it first"), "{error}");
        assert!(!error.contains(".tmp"), "{error}");
    }
    let out = at.piped(&["compress", "-", "-o", "made/"], b"x");
    assert!(out.status.code() == Some(2) && stderr(&out).contains("name the archive"));
}

#[test]
fn verify_takes_several_archives_and_says_what_a_directory_is() {
    let at = Place::new();
    at.write("m", &data::model());
    at.ok(&["compress", "m", "-o", "a.lmc"]);
    at.ok(&["compress", "m", "-o", "b.lmc"]);
    assert_eq!(at.ok(&["verify", "a.lmc", "b.lmc"]).lines().count(), 2);
    let mut bad = at.read("a.lmc");
    let middle = bad.len() / 2;
    bad[middle] ^= 1;
    at.write("c.lmc", &bad);
    let out = at.run(&["verify", "c.lmc", "b.lmc", "--json"]);
    assert_eq!(out.status.code(), Some(1));
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(
        (&told["archives"][0]["ok"], &told["archives"][1]["ok"]),
        (&false.into(), &true.into())
    );
    at.write("d/a", b"a");
    assert!(at.fails(2, &["verify", "d"]).contains("d/*.lmc"));
    at.ok(&["store", "init", "st"]);
    assert!(at.fails(2, &["verify", "st"]).contains("lmc-gpu store verify st"));
}

#[test]
fn options_stand_only_where_they_act() {
    let at = Place::new();
    at.write("m", &data::model());
    at.ok(&["compress", "m"]);
    for args in [
        &["decompress", "m.lmc", "-o", "x", "--device", "cpu"][..],
        &["verify", "m.lmc", "--device", "cpu"],
        &["inspect", "m.lmc", "--device", "cpu"],
        &["extract", "m.lmc", "scale", "--device", "cpu"],
        &["devices", "--memory", "1G"],
    ] {
        assert!(at.fails(2, args).contains("unexpected argument"), "{args:?}");
    }
    at.ok(&["compress", "m", "-f", "--device", "cpu"]);
}

#[test]
fn one_thing_is_not_called_several() {
    let at = Place::new();
    at.write("m", &data::model());
    let said = [
        at.ok(&["compress", "m"]),
        at.ok(&["verify", "m.lmc"]),
        at.ok(&["inspect", "m.lmc"]),
        at.ok(&["list", "m.lmc"]),
        at.ok(&["extract", "m.lmc", "scale"]),
        at.ok(&["decompress", "m.lmc", "-o", "back"]),
        at.ok(&["store", "init", "st"]),
        at.ok(&["store", "save", "st", "m", "--step", "1"]),
        at.ok(&["store", "verify", "st"]),
        at.ok(&["store", "stats", "st"]),
        at.ok(&["store", "restore", "st", "1", "-o", "again"]),
    ];
    for text in said {
        for noun in ["files", "tensors", "steps"] {
            assert!(!text.contains(&format!(" 1 {noun}")), "{text}");
        }
    }
}

#[test]
#[cfg(feature = "study")]
fn bench_tells_files_of_one_name_apart_adds_them_up_and_overwrites_nothing() {
    let at = Place::new();
    at.write("d/a/m.safetensors", &data::model());
    at.write("d/b/m.safetensors", &data::model());
    let args =
        ["bench", "d", "--methods", "fast,raw", "--json", "out.json", "--report", "out.html"];
    let text = at.ok(&args);
    for part in ["d/a/m.safetensors", "d/b/m.safetensors", "Total", "all 2 inputs"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let page = String::from_utf8(at.read("out.html")).unwrap();
    assert!(page.contains("<nav>") && page.contains("href=\"#s0\"") && page.contains("id=\"s0\""));
    let told: serde_json::Value = serde_json::from_slice(&at.read("out.json")).unwrap();
    assert_eq!(told["results"].as_array().unwrap().len(), 4);
    at.write("out.html", b"mine");
    assert!(at.fails(2, &args).contains("--force"));
    assert_eq!(at.read("out.html"), b"mine");
    at.ok(&[&args[..], &["--force", "-q"]].concat());
    assert!(at.read("out.html").len() > 1000);
}
