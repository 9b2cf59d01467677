//! `store`: verbs for single steps, and what they say.

use super::{Place, data, stderr};

/// A store `st` of three steps, each a delta to the one before, and their checkpoints.
fn store() -> Place {
    let at = Place::new();
    at.ok(&["store", "init", "st", "--rebase-above", "1"]);
    for step in 1..=3u8 {
        let mut model = data::model();
        let n = model.len();
        model[n - 200_000..].iter_mut().step_by(300).for_each(|b| *b ^= step);
        at.write(&format!("{step}/m.safetensors"), &model);
        let number = step.to_string();
        at.ok(&["store", "save", "st", &number, "--step", &number]);
    }
    at
}

fn restores(at: &Place, steps: &[&str]) {
    for step in steps {
        at.ok(&["store", "restore", "st", step, "-o", "back", "--force-replace-dir"]);
        super::same_tree(&at.path(step), &at.path("back"));
    }
    at.ok(&["store", "verify", "st"]);
}

#[test]
fn a_step_can_be_looked_into() {
    let at = store();
    let told = at.json(&["store", "inspect", "st", "last", "--json"]);
    assert!(told["spans"].as_array().unwrap().iter().any(|s| s["name"] == "big.weight"));
    assert_eq!(told["base"]["name"], "0000000002.lmc");
    assert!(at.ok(&["store", "inspect", "st", "1"]).contains("big.weight"));
    at.ok(&["store", "extract", "st", "2", "scale", "-o", "s"]);
    assert!(
        at.read("s")
            .ends_with(&at.read("2/m.safetensors")[at.read("2/m.safetensors").len() - 48..][..40])
    );
    let error = at.fails(2, &["store", "extract", "st", "2", "scael", "-o", "t"]);
    assert!(error.contains("scale"), "{error}");
    at.fails(2, &["store", "extract", "st", "2", "scale", "-o", "st/x"]);
}

#[test]
fn a_step_that_is_none_is_told_of_last() {
    let at = store();
    for verb in [&["restore", "st", "latest", "-o", "x"][..], &["inspect", "st", "latest"]] {
        let error = at.fails(2, &[&["store"], verb].concat());
        assert!(error.contains("latest") && error.contains("or last for the highest"), "{error}");
    }
    at.ok(&["store", "init", "none"]);
    assert!(at.fails(2, &["store", "restore", "none", "last", "-o", "x"]).contains("no step yet"));
}

#[test]
fn steps_are_stored_anew_and_removed() {
    let at = store();
    assert!(at.ok(&["store", "rebase", "st", "2", "--full"]).contains("full"));
    restores(&at, &["1", "2", "3"]);
    let error = at.fails(2, &["store", "rm", "st", "2"]);
    assert!(error.contains("deltas to step 2") || error.contains("delta to step 2"), "{error}");
    assert!(error.contains("3") && error.contains("--rebase"), "{error}");
    at.ok(&["store", "rebase", "st", "3", "--onto", "1"]);
    let told = at.json(&["store", "rm", "st", "2", "--json"]);
    assert_eq!(told["steps"], serde_json::json!([2]));
    restores(&at, &["1", "3"]);
    let told = at.json(&["store", "rm", "st", "1", "--rebase", "--json"]);
    assert_eq!(told["rebased"], serde_json::json!([3]));
    restores(&at, &["3"]);
    at.fails(2, &["store", "rm", "st", "7"]);
    at.fails(2, &["store", "rebase", "st", "3"]);
}

#[test]
fn gc_frees_bases_when_asked() {
    let at = store();
    let text = at.ok(&["store", "gc", "st", "--keep-last", "1"]);
    assert!(text.contains("stay as bases"), "{text}");
    at.ok(&["store", "gc", "st", "--keep-last", "1", "--rebase", "--dry-run"]);
    restores(&at, &["1", "2", "3"]);
    let told = at.json(&["store", "gc", "st", "--keep-last", "1", "--rebase", "--json"]);
    assert_eq!(told["steps"], serde_json::json!([2, 1]));
    assert_eq!(told["rebased"], serde_json::json!([3]));
    restores(&at, &["3"]);
    let steps = std::fs::read_dir(at.path("st/steps")).unwrap().count();
    assert_eq!(steps, 2);
}

#[test]
fn save_takes_the_base_that_it_is_given() {
    let at = store();
    let told = at.json(&["store", "save", "st", "3", "--step", "4", "--base", "1", "--json"]);
    assert_eq!(told["base"], 1);
    at.fails(2, &["store", "save", "st", "3", "--step", "5", "--base", "5"]);
    assert!(
        at.fails(2, &["store", "save", "st", "3", "--step", "9", "--base", "7"])
            .contains("no step 7")
    );
    at.fails(2, &["store", "save", "st", "3", "--step", "5", "--base", "1", "--full"]);
}

#[test]
fn what_is_left_of_a_damaged_step_is_restored_with_keep_going() {
    let at = store();
    let archive = "st/steps/0000000001.lmc";
    let mut bytes = at.read(archive);
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    at.write(archive, &bytes);
    let error = at.fails(1, &["store", "restore", "st", "1", "-o", "x"]);
    assert!(error.contains("--keep-going") && !at.path("x").exists(), "{error}");
    let out = at.run(&["store", "restore", "st", "1", "-o", "x", "--keep-going", "--json"]);
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(told["ok"], false);
    let (back, whole) = (at.read("x/m.safetensors"), at.read("1/m.safetensors"));
    assert!(back.len() == whole.len() && back[..100] == whole[..100]);
    // Through a delta, too.
    let out = at.run(&["store", "restore", "st", "3", "-o", "y", "--keep-going"]);
    assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
    assert_eq!(at.read("y/m.safetensors").len(), whole.len());
    // Of a chain, an error names the step that was asked for and the archive at fault, once.
    let error = at.fails(1, &["store", "restore", "st", "3", "-o", "z"]);
    assert_eq!(error.matches("base mismatch").count(), 1, "{error}");
    assert_eq!(error.matches("the base ").count(), 1, "{error}");
    assert!(error.contains("step 3") && error.contains("0000000001.lmc"), "{error}");
    std::fs::remove_file(at.path(archive)).unwrap();
    let error = at.fails(1, &["store", "restore", "st", "3", "-o", "z"]);
    assert_eq!(error.matches("step 1").count(), 1, "{error}");
    assert!(error.contains("step 3: needs step 1: "), "{error}");
    let text = at.run(&["store", "verify", "st"]).stdout;
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("steps 2, 3 need it") && text.contains("step 3 needs it"), "{text}");
}
