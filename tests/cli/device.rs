//! `--device`: the same archives, and clear words where there is no such device.

use super::{Place, data};

#[test]
fn a_device_that_is_not_there_is_named_with_those_that_are() {
    let at = Place::new();
    at.write("m.safetensors", &data::model());
    let error = at.fails(2, &["compress", "m.safetensors", "--device", "toaster"]);
    let said = if cfg!(feature = "gpu") { "no adapter is named toaster; found" } else { "feature" };
    assert!(error.contains(said), "{error}");
    assert_eq!(at.names(), ["m.safetensors"]);
    let error = at.fails(2, &["compress", "m.safetensors", "--device", "999"]);
    assert!(!error.contains("panic"), "{error}");
}

#[cfg(not(feature = "gpu"))]
#[test]
fn a_build_without_gpu_support_says_so() {
    let at = Place::new();
    at.write("m.safetensors", &data::model());
    for verb in ["compress", "bench"] {
        let error = at.fails(2, &[verb, "m.safetensors", "--device", "gpu"]);
        assert!(error.contains("no GPU support"), "{error}");
    }
    at.ok(&["compress", "m.safetensors", "--device", "auto"]);
}

/// Whether there is an adapter; prints that a test is skipped where there is none.
#[cfg(feature = "gpu")]
fn has_adapter(at: &Place) -> bool {
    let found = !at.json(&["devices", "--json"])["adapters"].as_array().unwrap().is_empty();
    let required = std::env::var("LMC_REQUIRE").unwrap_or_default();
    assert!(found || !required.split(',').any(|r| r == "gpu"), "LMC_REQUIRE names gpu");
    if !found {
        println!("skipped: no adapter");
    }
    found
}

#[cfg(feature = "gpu")]
#[test]
fn archives_by_device_are_those_by_cpu_and_say_who_made_them() {
    let at = Place::new();
    at.write("step1/m.safetensors", &data::model());
    let mut moved = data::model();
    let n = moved.len();
    moved[n / 2..].iter_mut().step_by(64).for_each(|b| *b ^= 1);
    at.write("step2/m.safetensors", &moved);
    if !has_adapter(&at) {
        return;
    }
    at.ok(&["compress", "step1", "-o", "base.lmc"]);
    for method in ["fast", "auto", "max"] {
        for base in [&[][..], &["--base", "base.lmc"]] {
            let compress = |device: &str, out: &str| {
                let args = ["compress", "step2", "--method", method, "--device", device, "--json"];
                at.json(&[&args[..], &["--force", "-o", out], base].concat())
            };
            assert_eq!(compress("cpu", "cpu.lmc")["device"], "cpu");
            let told = compress("0", "gpu.lmc");
            assert!(told["device"] != "cpu" && told["notes"].as_array().unwrap().is_empty());
            assert!(at.read("cpu.lmc") == at.read("gpu.lmc"), "{method} {base:?}");
        }
    }
    at.ok(&["decompress", "gpu.lmc", "--base", "base.lmc", "-o", "back"]);
    super::same_tree(&at.path("step2"), &at.path("back"));
    // From a pipe, and into a store.
    let args = ["compress", "-", "-o", "-", "--method", "fast", "--device"];
    let piped = |device| at.piped(&[&args[..], &[device]].concat(), &moved).stdout;
    assert!(piped("0") == piped("cpu"));
    at.ok(&["store", "init", "st"]);
    at.ok(&["store", "save", "st", "step1", "--step", "1", "--device", "0"]);
    at.ok(&["store", "restore", "st", "1", "-o", "again"]);
    super::same_tree(&at.path("step1"), &at.path("again"));
}

#[cfg(feature = "gpu")]
#[test]
fn gpu_means_hardware_unless_the_environment_names_software() {
    let at = Place::new();
    at.write("m.safetensors", &data::model());
    if !has_adapter(&at) {
        return;
    }
    let adapters = at.json(&["devices", "--json"])["adapters"].clone();
    let software = adapters.as_array().unwrap().iter().find(|a| a["software"] == true);
    let Some(software) = software else { return };
    let name = software["name"].as_str().unwrap();
    let out = at
        .command(&["compress", "m.safetensors", "--device", "gpu", "--json"])
        .env("WGPU_ADAPTER_NAME", name)
        .output()
        .unwrap();
    assert!(out.status.success(), "{}", super::stderr(&out));
    assert!(String::from_utf8_lossy(&out.stdout).contains(name));
    if adapters.as_array().unwrap().iter().all(|a| a["software"] == true) {
        let args = ["compress", "m.safetensors", "--force", "--device"];
        at.ok(&[&args[..], &["auto"]].concat());
        let auto = at.read("m.safetensors.lmc");
        let out = at.command(&[&args[..], &["gpu"]].concat()).output().unwrap();
        assert!(out.status.success() && at.read("m.safetensors.lmc") == auto);
        assert_eq!(super::stderr(&out).matches("no hardware adapter").count(), 1);
    }
}

#[cfg(feature = "gpu")]
#[test]
fn without_a_gpu_the_cpu_does_it_and_says_so_once() {
    let at = Place::new();
    at.write("a.safetensors", &data::model());
    at.write("b.safetensors", &data::model());
    let without = |args: &[&str]| {
        let nowhere = ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].map(|key| (key, "/nonexistent"));
        at.command(args).env("WGPU_BACKEND", "vulkan").envs(nowhere).output().unwrap()
    };
    let args = ["compress", "a.safetensors", "b.safetensors", "-o", "out", "--device", "gpu"];
    let out = without(&args);
    assert!(out.status.success(), "{}", super::stderr(&out));
    let said = super::stderr(&out);
    assert_eq!(said.matches("no hardware adapter; found: none at all").count(), 1, "{said}");
    let json = without(&["compress", "a.safetensors", "--device", "gpu", "--json"]);
    let told: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((&told["device"], told["notes"].as_array().unwrap().len()), (&"cpu".into(), 1));
    let back = without(&["decompress", "a.safetensors.lmc", "-o", "back"]);
    assert!(back.status.success() && at.read("back") == data::model());
    // What asks for one adapter, or for its speed, is told that it cannot be had.
    for (args, code) in [
        (["compress", "a.safetensors", "--force", "--device", "0"], 2),
        (["bench", "a.safetensors", "-q", "--device", "gpu"], 1),
    ] {
        assert_eq!(without(&args).status.code(), Some(code), "{args:?}");
    }
}

#[cfg(feature = "gpu")]
#[test]
fn bench_tells_where_the_time_of_a_device_goes() {
    let at = Place::new();
    at.write("m.safetensors", &data::model());
    if !has_adapter(&at) {
        return;
    }
    let args = ["bench", "m.safetensors", "--methods", "fast", "--device", "0"];
    let told = at.json(&[&args[..], &["--json", "-", "-q"]].concat());
    let stages = &told["stages"][0];
    assert_eq!(stages["method"], "fast");
    for time in ["transfer", "coding", "writing", "elapsed", "elapsed_cpu"] {
        assert!(stages[time].as_f64().is_some_and(|t| t >= 0.0), "{time}: {stages}");
    }
    let hidden = stages["hidden"].as_f64().unwrap();
    assert!((0.0..=1.0).contains(&hidden), "{stages}");
    assert!(stages["received_bytes"].as_u64().unwrap() > 0);
    assert_eq!(told["device"], stages["device"]);
    let text = at.ok(&args);
    assert!(text.contains("Stages on") && text.contains("hidden"), "{text}");
}
