//! Deltas.

use super::{Place, data, same_tree};

/// Two models of which the second differs a little from the first, and an archive of each, the
/// second a delta.
fn series() -> Place {
    let at = Place::new();
    let first = data::model();
    let mut second = first.clone();
    let n = second.len();
    second[n - 1_000_000..].iter_mut().step_by(400).for_each(|b| *b ^= 1);
    at.write("step1/model.safetensors", &first);
    at.write("step2/model.safetensors", &second);
    at.write("step2/notes.txt", b"second");
    at.ok(&["compress", "step1"]);
    at.ok(&["compress", "step2", "--base", "step1.lmc"]);
    at
}

#[test]
fn a_delta_is_small_and_comes_back_with_its_base() {
    let at = series();
    assert!(at.read("step2.lmc").len() < at.read("step1.lmc").len() / 4);
    for base in ["step1.lmc", "step1"] {
        at.ok(&["verify", "step2.lmc", "--base", base]);
        at.ok(&["decompress", "step2.lmc", "-o", "back", "--base", base, "--force"]);
        same_tree(&at.path("step2"), &at.path("back"));
    }
    // The base is found beside the delta, too.
    at.ok(&["verify", "step2.lmc"]);
    at.ok(&["extract", "step2.lmc", "big.weight", "-o", "big", "--base", "step1"]);
    let second = at.read("step2/model.safetensors");
    let at_big = second.len() - 1_200_000 - 200 - 40 - 8;
    assert!(at.read("big").ends_with(&second[at_big..at_big + 1_200_000]));
    let archive = at.read("step2.lmc");
    let out = at.piped(&["decompress", "-", "-o", "piped", "--base", "step1.lmc"], &archive);
    assert!(out.status.success(), "{}", super::stderr(&out));
    same_tree(&at.path("step2"), &at.path("piped"));
}

#[test]
fn a_missing_or_wrong_base_is_named() {
    let at = series();
    std::fs::rename(at.path("step1.lmc"), at.path("elsewhere.lmc")).unwrap();
    let text = at.fails(1, &["decompress", "step2.lmc", "-o", "back"]);
    assert!(text.contains("step1.lmc") && text.contains("--base"), "{text}");
    at.write("other/model.safetensors", &data::model().repeat(2));
    let text = at.fails(1, &["decompress", "step2.lmc", "-o", "back", "--base", "other"]);
    assert!(text.contains("other"), "{text}");
    let mut wrong = data::model();
    wrong.iter_mut().step_by(1000).for_each(|b| *b ^= 64);
    at.write("wrong/model.safetensors", &wrong);
    at.fails(1, &["decompress", "step2.lmc", "-o", "back", "--base", "wrong"]);
    assert!(!at.path("back").exists());
    let out = at.piped(&["compress", "-", "--base", "wrong"], b"x");
    assert_eq!(out.status.code(), Some(2));
}
