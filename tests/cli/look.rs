//! Looking in without restoring.

use super::{Place, data};

fn checkpoint() -> Place {
    let at = Place::new();
    at.write("d/a.safetensors", &data::model());
    let other = data::safetensors(&[
        ("other", "F32", vec![2, 3], data::noise(24, 1)),
        ("scale", "F32", vec![2], data::noise(8, 2)),
        ("odd", "U8", vec![3], vec![1, 2, 3]),
    ]);
    at.write("d/b.safetensors", &other);
    at.ok(&["compress", "d"]);
    at
}

#[test]
fn inspect_lists_files_and_spans_of_archives_and_raw_files() {
    let at = checkpoint();
    let (raw, archive) =
        (at.json(&["inspect", "d", "--json"]), at.json(&["inspect", "d.lmc", "--json"]));
    for found in [&raw, &archive] {
        let files = found["files"].as_array().unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!(files[0]["path"], "a.safetensors");
        let spans = found["spans"].as_array().unwrap();
        let big = spans.iter().find(|s| s["name"] == "big.weight").unwrap();
        assert_eq!(big["file"], "a.safetensors");
        assert_eq!(big["format"], "safetensors");
        assert_eq!(big["dtype"], "BF16");
        assert_eq!(big["shape"], serde_json::json!([600, 1000]));
        assert_eq!(big["bytes"], 1_200_000);
        assert!(big["offset"].as_u64().unwrap() > 8 && big["method"].is_string());
        let bytes: u64 = spans.iter().map(|s| s["bytes"].as_u64().unwrap()).sum();
        assert_eq!(found["bytes"], bytes);
    }
    let spans = archive["spans"].as_array().unwrap();
    let stored: u64 = spans.iter().map(|s| s["stored_bytes"].as_u64().unwrap()).sum();
    let len = at.read("d.lmc").len() as u64;
    assert!(stored < len && stored > len * 9 / 10, "{stored} of {len}");
    assert_eq!(archive["stored_bytes"], len);
    let estimate = raw["estimated_bytes"].as_f64().unwrap();
    assert!((estimate / len as f64 - 1.0).abs() < 0.02, "{estimate} for {len}");
    let entropy = raw["spans"][1]["exponent_entropy"].as_f64().unwrap();
    assert!((2.9..3.1).contains(&entropy), "{entropy}");
    for x in ["d", "d.lmc"] {
        let text = at.ok(&["inspect", x]);
        assert!(text.contains("big.weight") && text.contains("600x1000"), "{text}");
    }
}

#[test]
fn extract_takes_single_tensors_out() {
    let at = checkpoint();
    for x in ["d", "d.lmc"] {
        at.ok(&["extract", x, "other", "odd", "count", "-o", "some.safetensors", "--force"]);
        let spans = at.json(&["inspect", "some.safetensors", "--json"]);
        let spans = spans["spans"].as_array().unwrap();
        let names: Vec<_> = spans.iter().filter_map(|s| s["name"].as_str()).collect();
        assert_eq!(names, ["count", "other", "odd"]);
        let file = at.read("some.safetensors");
        let other = spans.iter().find(|s| s["name"] == "other").unwrap();
        let offset = other["offset"].as_u64().unwrap() as usize;
        assert_eq!(file[offset..offset + 24], data::noise(24, 1));
        assert_eq!(offset % 8, 0);
    }
    let out = at.run(&["extract", "d.lmc", "big.weight", "-o", "-"]);
    assert!(out.stdout.ends_with(&data::weights(600_000, 1)));
}

#[test]
fn names_that_are_unknown_or_ambiguous_are_explained() {
    let at = checkpoint();
    let text = at.fails(2, &["extract", "d.lmc", "scale"]);
    assert!(text.contains("a.safetensors:scale") && text.contains("b.safetensors:scale"), "{text}");
    at.ok(&["extract", "d.lmc", "b.safetensors:scale", "-o", "s"]);
    assert!(at.read("s").ends_with(&data::noise(8, 2)));
    let text = at.fails(2, &["extract", "d.lmc", "big.wieght"]);
    assert!(text.contains("big.weight"), "{text}");
    at.ok(&["extract", "d.lmc", "odd"]);
    assert!(at.path("d.tensors.safetensors").exists());
}

#[test]
fn bench_and_devices_answer() {
    let at = Place::new();
    let list = at.ok(&["bench", "--list"]);
    assert!(list.lines().any(|l| l == "auto") && list.lines().any(|l| l == "fast"));
    assert!(at.ok(&["devices"]).contains("SIMD"));
    at.write("m.safetensors", &data::model());
    let args = ["bench", "m.safetensors", "--methods", "fast,raw", "--json", "out.json", "-q"];
    at.ok(&args);
    let told: serde_json::Value = serde_json::from_slice(&at.read("out.json")).unwrap();
    let results = told["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    for key in ["ratio", "bits_per_weight", "entropy_bits_per_weight", "encode_gb_s", "decode_gb_s"]
    {
        assert!(results.iter().all(|r| r[key].as_f64().unwrap() > 0.0), "{key}");
    }
    assert!(results.iter().all(|r| r["verified"] == true && r["dtype"] == "BF16"));
    assert!(told["memcpy_gb_s"].as_f64().unwrap() > 0.0 && told["simd"].is_string());
    at.fails(2, &["bench", "m.safetensors", "--methods", "none"]);
}
