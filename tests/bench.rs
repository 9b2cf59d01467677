//! `lmc-gpu bench`: what it prints, what it survives, and that it repeats itself.

#![cfg(all(feature = "cli", feature = "study"))]

use std::{
    path::Path,
    process::{Command, Output},
};

fn bench(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_lmc-gpu")).arg("bench").args(args).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// A safetensors file with one BF16 tensor of `n` values.
fn safetensors(path: &Path, n: usize, seed: u32) {
    let header =
        format!(r#"{{"w":{{"dtype":"BF16","shape":[{n}],"data_offsets":[0,{}]}}}}"#, 2 * n);
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    for i in 0..n as u32 {
        let noise = (i.wrapping_mul(0x9E37_79B1) ^ seed) >> 20;
        bytes.extend((0x3C00 | noise as u16 & 0x81FF).to_le_bytes());
    }
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn list_names_the_methods_one_a_line() {
    let out = bench(&["--list"]);
    let names = text(&out.stdout);
    assert!(out.status.success());
    for name in ["auto", "fast", "lmc", "plmc", "bitplane-xz", "sem"] {
        assert!(names.lines().any(|l| l == name), "{name}");
    }
}

#[test]
fn every_listed_method_is_measured_and_verified_and_ratios_repeat() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("flat.bin");
    let bytes: Vec<u8> =
        (0..40_000u32).flat_map(|i| ((i * i) >> 9 & 0x81FF | 0x3C00).to_le_bytes()).collect();
    std::fs::write(&file, &bytes).unwrap();
    let names = text(&bench(&["--list"]).stdout).trim().replace('\n', ",");
    let file = file.to_str().unwrap();
    let once = |out: &str| {
        let path = dir.path().join(out);
        let args = ["--dtype", "f32", "--methods", &names, "--baselines", "--json"];
        let out = bench(&[&[file][..], &args, &[path.to_str().unwrap()]].concat());
        assert!(out.status.success(), "{}", text(&out.stderr));
        json(&path)
    };
    let (first, second) = (once("a.json"), once("b.json"));
    let results = first["results"].as_array().unwrap();
    assert_eq!(results.len(), names.split(',').count() + 10);
    for (result, again) in results.iter().zip(second["results"].as_array().unwrap()) {
        assert_eq!(result["ratio"], again["ratio"], "{}", result["method"]);
        assert_eq!(result["verified"], true);
        assert_eq!(result["bytes"], bytes.len());
        assert!(result["encode_gb_s"].as_f64().unwrap() > 0.0);
    }
    assert!(first["memcpy_gb_s"].as_f64().unwrap() > 0.0);
}

#[test]
fn unknown_names_and_studies_without_data_are_usage_errors() {
    for args in [
        &["--methods", "nonsense"][..],
        &["--baselines", "nonsense"],
        &["--study", "nonsense"],
        &["--study", "lmc"],
    ] {
        assert_eq!(bench(args).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(bench(&["/nowhere/at/all"]).status.code(), Some(1));
}

#[test]
fn a_place_that_cannot_be_written_to_is_refused_before_the_run() {
    let dir = tempfile::tempdir().unwrap();
    let missing = dir.path().join("none").join("r.json");
    for (flag, path) in
        [("--json", &missing), ("--report", &missing), ("--json", &dir.path().to_owned())]
    {
        let begun = std::time::Instant::now();
        let path = path.to_str().unwrap();
        let out = bench(&["--study", "fields", "--full", flag, path]);
        assert_eq!(out.status.code(), Some(1), "{flag} {path}");
        assert!(text(&out.stderr).contains(path), "{}", text(&out.stderr));
        assert!(begun.elapsed().as_secs() < 60, "it measured first");
    }
}

#[test]
fn a_series_with_missing_and_odd_steps_is_measured_as_far_as_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let at = |step: &str, name: &str| dir.path().join(step).join(name);
    safetensors(&at("step1", "w.safetensors"), 3000, 1);
    safetensors(&at("step2", "w.safetensors"), 3000, 2);
    safetensors(&at("step4", "w.safetensors"), 5000, 3);
    safetensors(&at("step5", "w.safetensors"), 5000, 3);
    safetensors(&at("step4", "only-here.safetensors"), 100, 3);
    std::fs::write(at("step1", "meta.json"), "{}").unwrap();
    for step in ["step1", "step2"] {
        std::fs::write(at(step, "notes.txt"), "words beside the weights").unwrap();
    }
    std::fs::create_dir(dir.path().join("step6")).unwrap();
    std::fs::write(at("step6", "w.safetensors"), "broken").unwrap();
    let (page, figures) = (dir.path().join("r.html"), dir.path().join("r.json"));
    let out = bench(&[
        "--study",
        "lmc",
        dir.path().to_str().unwrap(),
        "--methods",
        "lmc",
        "--baselines",
        "bg-bzip2",
        "--report",
        page.to_str().unwrap(),
        "--json",
        figures.to_str().unwrap(),
    ]);
    // Step 4 has another shape than step 2, and step 6 none: the rest is there, the same steps
    // under every delta.
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    let found = json(&figures);
    let failures: Vec<&str> =
        found["failures"].as_array().unwrap().iter().map(|f| f.as_str().unwrap()).collect();
    assert_eq!(failures.len(), 2, "{failures:?}");
    assert!(failures[0].contains("step 2 to 4") && failures[1].contains("holds no tensors"));
    let results = found["results"].as_array().unwrap();
    assert_eq!(results.len(), 2 * (4 + 4));
    assert!(results.iter().all(|r| r["step"] == 2 || r["step"] == 5));
    assert!(text(&out.stdout).contains("BG-LMC is smaller than BG-BZ2"));
    assert!(text(&out.stdout).contains("only-here.safetensors is in 1 of 5 steps only."));
    assert!(text(&out.stdout).contains("notes.txt holds no tensors and was left out."));
    assert!(std::fs::read_to_string(page).unwrap().contains("</svg>"));
}

#[test]
fn a_file_that_cannot_be_read_is_reported_and_the_others_are_measured() {
    let dir = tempfile::tempdir().unwrap();
    let (good, figures) = (dir.path().join("good.safetensors"), dir.path().join("r.json"));
    safetensors(&good, 3000, 1);
    let missing = dir.path().join("missing.safetensors");
    let paths = [&missing, &good, &figures].map(|p| p.to_str().unwrap());
    let out = bench(&[paths[0], paths[1], "--methods", "lmc,sem", "--json", paths[2]]);
    assert_eq!(out.status.code(), Some(1), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains("missing.safetensors"));
    let found = json(&figures);
    assert_eq!(found["failures"].as_array().unwrap().len(), 1);
    assert_eq!(found["results"].as_array().unwrap().len(), 2);
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_writes_what_was_measured() {
    let dir = tempfile::tempdir().unwrap();
    let (file, figures) = (dir.path().join("w.safetensors"), dir.path().join("r.json"));
    safetensors(&file, 1 << 18, 1);
    let names = text(&bench(&["--list"]).stdout).trim().replace('\n', ",");
    let paths = [&file, &figures].map(|p| p.to_str().unwrap());
    // How long a machine takes for the first measurement is not known: wait longer if too short.
    for seconds in [2, 4, 8, 16, 32] {
        let mut run = Command::new(env!("CARGO_BIN_EXE_lmc-gpu"))
            .args(["bench", paths[0], "--methods", &names, "--baselines", "-q", "--json", paths[1]])
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_secs(seconds));
        let id = run.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let Some(code) = run.wait().unwrap().code() else { continue };
        assert_eq!(code, 130);
        // It was deep inside a measurement, and had to be ended from outside.
        if !figures.exists() {
            continue;
        }
        let found = json(&figures);
        assert_eq!(found["interrupted"], true);
        let results = found["results"].as_array().unwrap();
        assert!(results.len() < names.split(',').count() + 10);
        assert!(results.iter().all(|r| r["verified"] == true));
        if !results.is_empty() {
            return;
        }
    }
    panic!("nothing is measured in half a minute");
}
