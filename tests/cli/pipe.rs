//! Standard input and output.

use super::{Place, data, open};

#[test]
fn a_pipe_carries_a_model_there_and_back() {
    let at = Place::new();
    let model = data::model();
    for input in [&model[..], b"", b"short", &model[..500_000]] {
        let archive = at.piped(&["compress", "-"], input);
        assert!(archive.status.success());
        let back = at.piped(&["decompress", "-"], &archive.stdout);
        assert!(back.status.success() && back.stdout == input);
        at.write("x.lmc", &archive.stdout);
        at.ok(&["verify", "x.lmc"]);
        assert!(at.piped(&["verify", "-"], &archive.stdout).status.success());
        at.ok(&["decompress", "x.lmc", "-o", "back", "--force"]);
        assert!(at.read("back") == input);
    }
}

#[test]
fn pipes_and_files_mix() {
    let at = Place::new();
    at.write("m", &data::model());
    at.ok(&["compress", "m"]);
    let piped = at.run(&["compress", "m", "-o", "-"]);
    assert!(piped.stdout == at.read("m.lmc"), "the archive does not depend on where it goes");
    let out = at.piped(&["compress", "-", "-o", "p.lmc", "--dtype", "bf16"], &data::model());
    assert!(out.status.success());
    at.ok(&["decompress", "p.lmc", "-o", "back"]);
    assert!(at.read("back") == data::model());
    let out = at.run(&["decompress", "m.lmc", "-o", "-"]);
    assert!(out.stdout == data::model());
    let out = at.piped(&["decompress", "-", "-o", "back2"], &piped.stdout);
    assert!(out.status.success() && at.read("back2") == data::model());
    let mut command = at.command(&["compress", "-", "--json"]);
    let out = command.stdin(open(&at.path("m"))).output().unwrap();
    let told: serde_json::Value = serde_json::from_str(&super::stderr(&out)).unwrap();
    assert_eq!(told["input_bytes"], data::model().len());
}

#[test]
fn a_directory_goes_through_a_pipe_but_not_to_one() {
    let at = Place::new();
    at.write("d/one", &data::model());
    at.write("d/two", &data::model());
    let archive = at.run(&["compress", "d", "-o", "-"]).stdout;
    let out = at.piped(&["decompress", "-", "-o", "back"], &archive);
    assert!(out.status.success());
    super::same_tree(&at.path("d"), &at.path("back"));
    let out = at.piped(&["decompress", "-"], &archive);
    assert_eq!(out.status.code(), Some(2));
    assert!(super::stderr(&out).contains("directory"));
}

#[test]
fn a_piped_archive_that_is_cut_or_damaged_leaves_no_output() {
    let at = Place::new();
    at.write("m", &data::model());
    at.ok(&["compress", "m"]);
    let good = at.read("m.lmc");
    for n in [0, 10, 24, 60, good.len() / 2, good.len() - 40, good.len() - 1] {
        let out = at.piped(&["decompress", "-", "-o", "back"], &good[..n]);
        assert_eq!(out.status.code(), Some(1), "{n} bytes: {}", super::stderr(&out));
        assert!(!at.path("back").exists());
    }
    let mut bad = good.clone();
    bad[good.len() / 2] ^= 16;
    let out = at.piped(&["decompress", "-", "-o", "back"], &bad);
    assert_eq!(out.status.code(), Some(1));
    let text = super::stderr(&out);
    assert!(text.contains("big.weight") && text.contains("chunk"), "{text}");
    assert_eq!(at.names(), ["m", "m.lmc"]);
}

#[test]
#[cfg(unix)]
fn a_reader_that_goes_away_is_met_with_silence() {
    let at = Place::new();
    at.write("m", &data::noise(4 << 20, 1));
    at.ok(&["compress", "m"]);
    for args in [&["compress", "m", "-o", "-", "-q"][..], &["decompress", "m.lmc", "-o", "-"]] {
        let mut child = at
            .command(args)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let out = child.wait_with_output().unwrap();
        assert_eq!(super::stderr(&out), "");
    }
}

#[test]
#[cfg(unix)]
fn a_signal_ends_a_run_that_waits_for_a_pipe() {
    let at = Place::new();
    let mut child = at
        .command(&["compress", "-", "-o", "x.lmc"])
        .stdin(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .unwrap();
    // Waiting would close it, and the run might then end before the signal is seen.
    let held = child.stdin.take();
    while at.names().is_empty() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let kill = ["-TERM", &child.id().to_string()].map(String::from);
    std::process::Command::new("kill").args(kill).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    drop(held);
    assert!(at.names().is_empty());
}
