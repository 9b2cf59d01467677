//! Names that hold what a terminal would obey, or what cannot be seen.

use super::{Place, data};
use std::process::Output;

const TENSOR: &str = "\u{1b}[2J\nforged\u{202e}\u{9b}";
const FILE: &str = "f\u{1b}]0;x\u{7}\n\u{200b}\u{202e}.st";
const ESCAPED: &str = "\\x1b[2J\\nforged\\u{202e}\\u{9b}";

/// A checkpoint `d` with such a file and such a tensor in it, of `n` words.
fn checkpoint(at: &Place, n: usize) {
    let file = data::safetensors(&[(TENSOR, "BF16", vec![n as u64], data::weights(n, 1))]);
    at.write(&format!("d/{FILE}"), &file);
    at.write("d/plain.txt", b"text");
}

/// What a command printed, which must be fit for a terminal.
fn fit(out: &Output) -> String {
    let text = [&out.stdout[..], &out.stderr[..]].concat();
    let text = String::from_utf8(text).unwrap();
    for line in text.lines() {
        assert!(lmc_gpu::internals::text::is_shown_as_is(line), "{line:?} of {text:?}");
        assert!(!line.starts_with("forged"), "{text:?}");
    }
    text
}

#[test]
fn names_are_escaped_for_people_and_exact_for_programs() {
    let at = Place::new();
    checkpoint(&at, 400_000);
    let raw = format!("d/{FILE}");
    fit(&at.run(&["compress", &raw, "-o", "one.lmc"]));
    fit(&at.run(&["compress", "d"]));
    for x in ["d", "d.lmc", &raw] {
        let text = fit(&at.run(&["inspect", x]));
        assert!(text.contains(ESCAPED), "{text}");
        let out = at.run(&["inspect", x, "--json"]);
        fit(&out);
        let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let spans = told["spans"].as_array().unwrap();
        assert!(spans.iter().any(|s| s["name"] == TENSOR), "{told}");
        if x != raw {
            let files = told["files"].as_array().unwrap();
            assert!(files.iter().any(|f| f["path"] == FILE), "{told}");
        }
    }
    fit(&at.run(&["verify", "d.lmc"]));
    fit(&at.run(&["extract", "d.lmc", "none"]));
    fit(&at.run(&["list", "d.lmc"]));
    fit(&at.run(&["cat", "d.lmc"]));
    fit(&at.run(&["cat", "d.lmc:none\u{1b}[2J"]));
    let told = at.json(&["list", "d.lmc", "--json"]);
    assert!(told["files"].as_array().unwrap().iter().any(|f| f["path"] == FILE), "{told}");
    let other = data::safetensors(&[(TENSOR, "BF16", vec![400_000], data::weights(400_000, 2))]);
    at.write(&format!("other/{FILE}"), &other);
    let text = fit(&at.run(&["diff", "d.lmc", "other"]));
    assert!(text.contains(ESCAPED), "{text}");
    let out = at.run(&["diff", "d.lmc", "other", "--json"]);
    fit(&out);
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(told["changed"].as_array().unwrap().iter().any(|c| c["name"] == TENSOR), "{told}");
    fit(&at.run(&["compress", "d", "--exclude", "x\u{1b}[2J", "-o", "dd.lmc"]));
    fit(&at.run(&["man", "m\u{1b}[2J\n"]));
    let out = at.run(&["extract", "d.lmc", TENSOR, "-o", "t.safetensors", "--json"]);
    fit(&out);
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(told["tensors"][0], TENSOR);
    fit(&at.run(&["decompress", "d.lmc", "-o", "e\u{1b}c\n"]));
    fit(&at.run(&["compress", "d", "-o", "d.lmc"]));
    fit(&at.run(&["compress", "not there\u{1b}[31m"]));
    fit(&at.run(&["compress", "--no-such\u{1b}[31m"]));
    fit(&at.run(&["bench", &raw, "--methods", "raw"]));
    let mut debug = at.command(&["decompress", "d.lmc", "-o", "f\u{1b}c\n"]);
    fit(&debug.env("RUST_LOG", "lmc_gpu=debug").output().unwrap());
}

#[test]
fn damage_is_told_in_names_that_are_escaped() {
    let at = Place::new();
    checkpoint(&at, 400_000);
    at.ok(&["compress", "d"]);
    let mut bytes = at.read("d.lmc");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    at.write("d.lmc", &bytes);
    for args in [
        &["verify", "d.lmc"][..],
        &["verify", "d.lmc", "--keep-going"],
        &["decompress", "d.lmc", "-o", "x"],
        &["decompress", "d.lmc", "-o", "x", "--keep-going"],
    ] {
        let text = fit(&at.run(args));
        assert!(text.contains(ESCAPED), "{text}");
    }
}

#[test]
fn what_a_broken_file_says_is_escaped() {
    let at = Place::new();
    for (name, header) in [
        ("a", "{\"t\":{\"dtype\":\"\u{202e}F\\u001b[31m\",\"shape\":[1],\"data_offsets\":[0,4]}}"),
        ("b", "{\"t\":{\"dt\\u001b[2J\\n\u{202e}ype\":\"F32\"}}"),
        ("c", "{\"t\":\"\\u001b[2J\\nx\"}"),
    ] {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.extend_from_slice(&[0; 4]);
        at.write(name, &file);
        let text = fit(&at.run(&["inspect", name]));
        assert!(text.contains("note:"), "{text}");
        fit(&at.run(&["compress", name]));
    }
}

#[test]
fn a_store_tells_of_odd_names_in_escapes() {
    let at = Place::new();
    checkpoint(&at, 400);
    let dir = "s\u{1b}[2J\nforged";
    fit(&at.run(&["store", "init", dir]));
    fit(&at.run(&["store", "save", dir, "d", "--step", "1"]));
    fit(&at.run(&["store", "save", dir, "d", "--step", "1"]));
    fit(&at.run(&["store", "inspect", dir, "1"]));
    fit(&at.run(&["store", "extract", dir, "1", TENSOR, "-o", "t\u{1b}c"]));
    fit(&at.run(&["store", "rebase", dir, "1", "--full"]));
    fit(&at.run(&["store", "rm", dir, "7"]));
    fit(&at.run(&["verify", dir]));
    at.write(&format!("{dir}/steps/9.json"), b"{\"\\u001b[2J\\n\": 1}");
    for verb in ["list", "verify", "stats", "gc"] {
        fit(&at.run(&["store", verb, dir]));
        fit(&at.run(&["store", verb, dir, "--json"]));
    }
}
