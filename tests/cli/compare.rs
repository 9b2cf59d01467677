//! `diff`.

use super::{Place, data, stderr};

/// Two models: of `big.weight` 3 words differ, in known bits; `gone` and `new` are in one each, and
/// `scale` has another shape.
fn pair() -> Place {
    let at = Place::new();
    let big = data::weights(300_000, 1);
    let mut moved = big.clone();
    moved[0] ^= 1; // the lowest bit of a mantissa
    moved[2000] ^= 0x44; // bits 2 and 6
    moved[4001] ^= 0x80; // a sign
    let same = ("same", "F32", vec![100], data::noise(400, 4));
    let a = data::safetensors(&[
        ("big.weight", "BF16", vec![300, 1000], big),
        ("gone", "U8", vec![3], vec![1, 2, 3]),
        ("scale", "F32", vec![2, 5], data::noise(40, 3)),
        same.clone(),
    ]);
    let b = data::safetensors(&[
        ("big.weight", "BF16", vec![300, 1000], moved),
        ("new", "U8", vec![3], vec![1, 2, 3]),
        ("scale", "F32", vec![10], data::noise(40, 3)),
        same,
    ]);
    at.write("a/m.safetensors", &a);
    at.write("b/m.safetensors", &b);
    for name in ["a", "b"] {
        at.ok(&["compress", name]);
    }
    at
}

#[test]
fn diff_tells_which_tensors_differ_by_how_many_words_and_in_which_bits() {
    let at = pair();
    at.ok(&["compress", "b", "--base", "a.lmc", "-o", "delta.lmc"]);
    let pairs = [
        ("a", "b"),
        ("a.lmc", "b"),
        ("a.lmc", "delta.lmc"),
        ("a/m.safetensors", "b/m.safetensors"),
    ];
    for (a, b) in pairs {
        let out = at.run(&["diff", a, b, "--json"]);
        assert_eq!(out.status.code(), Some(1), "{}", stderr(&out));
        let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let changed = told["changed"].as_array().unwrap();
        let big = changed.iter().find(|c| c["name"] == "big.weight").unwrap();
        assert_eq!((&big["words"], &big["changed"]), (&300_000.into(), &3.into()));
        let bits: Vec<u64> =
            big["bits"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
        assert_eq!(bits, [1, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        let scale = changed.iter().find(|c| c["name"] == "scale").unwrap();
        assert!(scale["incomparable"].as_str().unwrap().contains("shape"), "{scale}");
        assert!(changed.iter().all(|c| c["name"] != "same"));
        assert!(told["only_first"].to_string().contains(":gone"), "{told}");
        assert!(told["only_second"].to_string().contains(":new"), "{told}");
        let [delta, full] = ["estimated_delta_bytes", "estimated_bytes"].map(|k| told[k].as_u64());
        assert!(delta.unwrap() * 20 < full.unwrap(), "{told}");
        let text = at.run(&["diff", a, b]);
        assert_eq!(text.status.code(), Some(1));
        let text = String::from_utf8(text.stdout).unwrap();
        for part in ["big.weight", "sign (1)", "low 7 of 7 mantissa bits", "only in", "delta"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}

#[test]
fn what_is_the_same_is_said_to_be_and_ends_with_0() {
    let at = pair();
    for (a, b) in [("a", "a"), ("a", "a.lmc"), ("a.lmc", "a")] {
        assert!(at.ok(&["diff", a, b]).contains("the same"));
        assert_eq!(at.json(&["diff", a, b, "--json"])["same"], true);
    }
    let out = at.piped(&["diff", "a", "-"], &at.read("a.lmc"));
    assert!(out.status.success(), "{}", stderr(&out));
    at.fails(1, &["diff", "a", "absent"]);
    at.fails(2, &["diff", "-", "-"]);
}

#[test]
fn bytes_that_are_no_tensor_are_compared_too() {
    let at = Place::new();
    at.write("a/text", b"one and the same");
    at.write("a/more", b"x");
    at.write("b/text", b"one and The same");
    at.write("b/more", b"longer");
    let out = at.run(&["diff", "a", "b", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
    let changed = told["changed"].as_array().unwrap();
    let text = changed.iter().find(|c| c["file"] == "text").unwrap();
    assert_eq!((&text["changed"], &text["name"]), (&1.into(), &serde_json::Value::Null));
    let more = changed.iter().find(|c| c["file"] == "more").unwrap();
    assert_eq!(more["incomparable"], "6 bytes instead of 1");
}
