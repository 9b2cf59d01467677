//! Files and directories, there and back.

use super::{Place, data, same_tree};
use std::fs;

#[test]
fn files_of_every_kind_come_back() {
    let at = Place::new();
    let inputs = [
        ("empty", vec![]),
        ("seven", b"1234567".to_vec()),
        ("zeros", vec![0; 3_000_000]),
        ("noise", data::noise(2_000_001, 1)),
        ("model.safetensors", data::model()),
        ("cut.safetensors", data::model()[..700_000].to_vec()),
        ("huge.safetensors", [&(1u64 << 63).to_le_bytes()[..], b"{\"a\""].concat()),
        ("text.json", b"{\"layers\": 12}\n".repeat(1000)),
    ];
    for (name, bytes) in &inputs {
        at.write(name, bytes);
        at.ok(&["compress", name]);
        let archive = format!("{name}.lmc");
        let len = at.read(&archive).len();
        assert!(len <= bytes.len() + bytes.len() / 1000 + 1024, "{name}: {len}");
        at.ok(&["verify", &archive]);
        at.ok(&["decompress", &archive, "-o", "back", "--force"]);
        assert!(at.read("back") == *bytes, "{name}");
    }
    assert!(at.read("zeros.lmc").len() < 1000);
}

#[test]
fn directories_come_back_with_all_that_is_below_them() {
    let at = Place::new();
    at.write("ckpt/model.safetensors", &data::model());
    at.write("ckpt/nested/deep/again.safetensors", &data::model());
    at.write("ckpt/nested/empty.txt", b"");
    fs::create_dir_all(at.path("ckpt/hollow/inner")).unwrap();
    for i in 0..1000 {
        at.write(&format!("ckpt/tiny/{i}.json"), format!("{{\"i\": {i}}}").as_bytes());
    }
    for name in ["ckpt", "ckpt/"] {
        at.ok(&["compress", name, "--force", "-q"]);
    }
    // The second copy of the model costs next to nothing.
    assert!(at.read("ckpt.lmc").len() < data::model().len());
    at.ok(&["decompress", "ckpt.lmc", "-o", "back"]);
    same_tree(&at.path("ckpt"), &at.path("back"));
    assert!(at.fails(2, &["decompress", "ckpt.lmc", "-o", "back"]).contains("--force"));
    at.write("back/stale", b"x");
    at.ok(&["decompress", "ckpt.lmc", "-o", "back", "--force-replace-dir"]);
    same_tree(&at.path("ckpt"), &at.path("back"));
    fs::create_dir(at.path("none")).unwrap();
    at.ok(&["compress", "none"]);
    at.ok(&["decompress", "none.lmc", "-o", "none2"]);
    assert_eq!(fs::read_dir(at.path("none2")).unwrap().count(), 0);
}

#[test]
fn archives_do_not_depend_on_threads_or_instruction_sets() {
    let at = Place::new();
    at.write("m/model.safetensors", &data::model());
    at.write("m/array", &data::weights(700_000, 4));
    at.ok(&["compress", "m", "-o", "one.lmc", "--threads", "1"]);
    for threads in ["2", "5"] {
        at.ok(&["compress", "m", "-o", "x.lmc", "--force", "--threads", threads]);
        assert!(at.read("x.lmc") == at.read("one.lmc"), "{threads} threads");
    }
    for level in ["scalar", "avx2"] {
        let args = ["compress", "m", "-o", "x.lmc", "--force"];
        assert!(at.command(&args).env("LMC_SIMD", level).status().unwrap().success());
        assert!(at.read("x.lmc") == at.read("one.lmc"), "{level}");
        let args = ["decompress", "x.lmc", "-o", "back", "--force", "--threads", "3"];
        assert!(at.command(&args).env("LMC_SIMD", level).status().unwrap().success());
        same_tree(&at.path("m"), &at.path("back"));
    }
}

#[test]
fn every_method_restores_the_model() {
    let at = Place::new();
    at.write("m", &data::model());
    for method in lmc_gpu::Method::ALL {
        at.ok(&["compress", "m", "--method", method.name(), "-o", "x.lmc", "--force"]);
        at.ok(&["decompress", "x.lmc", "-o", "back", "--force"]);
        assert!(at.read("back") == data::model(), "{method}");
    }
    assert!(at.fails(2, &["compress", "m", "--method", "best"]).contains("auto"));
}

#[test]
fn headerless_arrays_take_a_type() {
    let at = Place::new();
    at.write("array", &[&data::weights(500_000, 7)[..], b"x"].concat());
    at.ok(&["compress", "array", "-o", "plain.lmc", "--method", "zstd"]);
    at.ok(&["compress", "array", "-o", "typed.lmc", "--dtype", "bf16"]);
    let (plain, typed) = (at.read("plain.lmc").len(), at.read("typed.lmc").len());
    assert!(typed < plain);
    // Without a type, it is guessed.
    let notes = crate::stderr(&at.run(&["compress", "array", "-o", "guessed.lmc"]));
    assert!(notes.contains("look like BF16"), "{notes}");
    assert!(at.read("guessed.lmc").len() < (typed + plain) / 2);
    at.ok(&["decompress", "typed.lmc", "-o", "back"]);
    assert!(at.read("back") == at.read("array"));
    at.fails(2, &["compress", "array", "--dtype", "bf15"]);
}

#[test]
fn several_inputs_become_several_archives() {
    let at = Place::new();
    at.write("a", b"first");
    at.write("sub/b", b"second");
    at.write("sub/a", b"third");
    at.ok(&["compress", "a", "sub/b", "-o", "out/archives"]);
    at.ok(&["decompress", "out/archives/b.lmc"]);
    assert_eq!(at.read("out/archives/b"), b"second");
    assert!(at.fails(2, &["compress", "a", "sub/a", "-o", "out"]).contains("two inputs"));
    at.fails(2, &["compress", "a", "sub/b", "-o", "a"]);
    at.ok(&["compress", "a", "-o", "out"]);
    assert!(at.path("out/a.lmc").exists());
}

#[test]
fn nothing_is_overwritten_without_force() {
    let at = Place::new();
    at.write("a", b"new");
    at.write("a.lmc", b"old");
    assert!(at.fails(2, &["compress", "a"]).contains("--force"));
    assert_eq!(at.read("a.lmc"), b"old");
    at.ok(&["compress", "a", "--force"]);
    assert!(at.fails(2, &["decompress", "a.lmc"]).contains("--force"));
    at.ok(&["decompress", "a.lmc", "--force"]);
    assert_eq!(at.names(), ["a", "a.lmc"]);
}

#[test]
fn what_cannot_be_written_leaves_nothing() {
    let at = Place::new();
    at.write("a", &data::model());
    at.fails(1, &["compress", "a", "-o", "a/below.lmc"]);
    at.fails(1, &["compress", "a", "-o", "missing/x.lmc"]);
    at.fails(1, &["compress", "absent"]);
    at.ok(&["compress", "a"]);
    at.fails(1, &["decompress", "a.lmc", "-o", "a/below"]);
    at.fails(2, &["decompress", "a"]);
    assert_eq!(at.names(), ["a", "a.lmc"]);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_disk_is_reported_and_leaves_nothing() {
    let at = Place::new();
    at.write("a", &data::noise(400_000, 1));
    // Standard output on a full device.
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let out = at.command(&["compress", "a", "-o", "-"]).stdout(full).output().unwrap();
    assert_eq!(out.status.code(), Some(1));
    // A file system of 256 KiB, where one can be mounted.
    fs::create_dir(at.path("small")).unwrap();
    let mount = "mount -t tmpfs -o size=256k tmpfs small && \"$@\"; c=$?; ls -A small; exit $c";
    let bin = env!("CARGO_BIN_EXE_lmc-gpu");
    let unshare = |args: &[&str]| {
        let mut command = std::process::Command::new("unshare");
        command.args(["-m", "sh", "-c", mount, "sh"]).args(args).current_dir(at.path("."));
        command.output()
    };
    match unshare(&["true"]) {
        Ok(out) if out.status.success() => {
            let out = unshare(&[bin, "compress", "a", "-o", "small/a.lmc"]).unwrap();
            assert_eq!(out.status.code(), Some(1), "{}", super::stderr(&out));
            assert_eq!(out.stdout, b"", "something was left behind");
        }
        _ => println!("skipped: no file system can be mounted here"),
    }
}

#[test]
#[cfg(unix)]
fn symbolic_links_are_refused_or_followed() {
    let at = Place::new();
    at.write("real", b"content");
    at.write("dir/file", b"x");
    std::os::unix::fs::symlink("../real", at.path("dir/link")).unwrap();
    std::os::unix::fs::symlink("real", at.path("link")).unwrap();
    assert!(at.fails(2, &["compress", "dir"]).contains("--follow"));
    assert!(at.fails(2, &["compress", "link"]).contains("--follow"));
    at.ok(&["compress", "dir", "--follow"]);
    at.ok(&["decompress", "dir.lmc", "-o", "back"]);
    assert_eq!(at.read("back/link"), b"content");
    std::os::unix::fs::symlink(".", at.path("dir/loop")).unwrap();
    at.fails(2, &["compress", "dir", "--follow", "--force"]);
}

#[test]
#[cfg(unix)]
fn an_interrupted_run_leaves_nothing_behind() {
    let at = Place::new();
    at.write("a", &data::noise(1 << 20, 1).repeat(96));
    let interrupt = |args: &[&str]| {
        let mut child = at.command(args).stderr(std::process::Stdio::null()).spawn().unwrap();
        // Until the temporary file is there, and a moment longer.
        let is_temporary = |n: &String| n.starts_with(".lmc-");
        while !at.names().iter().any(is_temporary) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let kill = ["-INT", &child.id().to_string()].map(String::from);
        std::process::Command::new("kill").args(kill).status().unwrap();
        child.wait().unwrap().code()
    };
    assert_eq!(interrupt(&["compress", "a", "--method", "xz", "--threads", "1"]), Some(130));
    assert_eq!(at.names(), ["a"]);
    at.write("tiny", b"x");
    at.ok(&["compress", "tiny"]);
}

#[test]
fn usage_errors_exit_with_2_and_help_with_0() {
    let at = Place::new();
    at.write("a", b"x");
    for args in [
        &["compress"][..],
        &["frobnicate"],
        &["compress", "a", "--threads", "many"],
        &["compress", "a", "--device", "toaster"],
        &["compress", "-", "a"],
        &["extract", "a"],
    ] {
        at.fails(2, args);
    }
    for args in [&["--help"][..], &["compress", "--help"], &["--version"]] {
        assert!(!at.ok(args).is_empty());
    }
    let help = at.ok(&["compress", "--help"]);
    assert!(help.contains("not kept") && help.contains("cascade"), "{help}");
}

#[test]
fn compress_tells_what_it_did() {
    let at = Place::new();
    at.write("m.safetensors", &data::model());
    let told = at.json(&["compress", "m.safetensors", "--json"]);
    assert_eq!(told["input_bytes"], data::model().len());
    assert_eq!(told["output_bytes"], at.read("m.safetensors.lmc").len());
    let ratio = told["output_bytes"].as_f64().unwrap() / told["input_bytes"].as_f64().unwrap();
    assert_eq!(told["ratio"], ratio);
    assert_eq!(told["files"], 1);
    assert_eq!(told["spans"], 5);
    for key in ["seconds", "gb_per_s", "threads"] {
        assert!(told[key].as_f64().unwrap() > 0.0, "{key}");
    }
    assert!(told["device"].is_string() && told["simd"].is_string());
    let line = at.ok(&["compress", "m.safetensors", "--force"]);
    assert!(line.contains("ratio 0.") && line.lines().count() == 1, "{line}");
    assert_eq!(at.ok(&["compress", "m.safetensors", "--force", "-q"]), "");
}

#[test]
fn odd_files_are_noted_and_stored() {
    let at = Place::new();
    let mut long = data::model();
    long.push(0);
    at.write("long.safetensors", &long);
    let out = at.run(&["compress", "long.safetensors"]);
    assert!(out.status.success());
    assert!(super::stderr(&out).contains("follow the last tensor"));
    let out = at.run(&["compress", "long.safetensors", "--force", "-q"]);
    assert_eq!(super::stderr(&out), "");
}
