//! Archives behind URLs, read from a server that counts, and that misbehaves when told to.

#![cfg(all(feature = "remote", feature = "cli"))]

mod common;
#[path = "common/http.rs"]
mod http;

use common::Rng;
use http::{Fault, Server};
use lmc_gpu::{Archive, Base, CompressOptions, RestoreOptions, compress, dtype::Dtype};
use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

/// A safetensors file of tensors of weights, a MiB each.
fn weights(tensors: usize) -> Vec<u8> {
    const LEN: usize = 1 << 20;
    let entries: Vec<String> = (0..tensors)
        .map(|i| {
            let (from, to) = (i * LEN, (i + 1) * LEN);
            format!("\"t{i}\":{{\"dtype\":\"BF16\",\"shape\":[512,1024],\"data_offsets\":[{from},{to}]}}")
        })
        .collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    let words = Rng::new(1).values(Dtype::BF16, LEN / 2, 0);
    for i in 0..tensors {
        let turn = 2 * (i * 4099 % (LEN / 2));
        file.extend_from_slice(&words[turn..]);
        file.extend_from_slice(&words[..turn]);
    }
    file
}

fn run(args: &[&str], at: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lmc-gpu"));
    command.args(args).current_dir(at).output().unwrap()
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

fn open(url: &str) -> lmc_gpu::Result<Archive<'static>> {
    Archive::open(url, &RestoreOptions::default())
}

#[test]
fn commands_read_what_a_url_names() {
    let server = Server::start();
    let file = weights(24);
    server.put("run/w.lmc", compress(&file, &CompressOptions::default()).unwrap());
    server.put("run/w.safetensors", file.clone());
    let url = server.url("run/w.lmc");
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["verify", &url][..],
        &["inspect", &url],
        &["list", &url],
        &["decompress", &url],
        &["extract", &url, "t3"],
        &["inspect", &server.url("run/w.safetensors")],
        &["extract", &server.url("run/w.safetensors"), "t3", "-o", "raw"],
    ] {
        let output = run(args, dir.path());
        assert!(output.status.success(), "{args:?}: {}", text(&output));
    }
    assert_eq!(fs::read(dir.path().join("w")).unwrap(), file);
    let extracted = fs::read(dir.path().join("w.tensors.safetensors")).unwrap();
    assert!(extracted.ends_with(&file[file.len() - (21 << 20)..][..1 << 20]));
    assert_eq!(fs::read(dir.path().join("raw")).unwrap(), extracted);
    let output = run(&["verify", &server.url("none.lmc")], dir.path());
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("there is nothing of this name"), "{}", text(&output));
}

#[test]
fn a_tensor_takes_few_requests_and_few_bytes() {
    let server = Server::start();
    let archive = compress(&weights(100), &CompressOptions::default()).unwrap();
    server.put("w.lmc", archive.clone());
    let opened = open(&server.url("w.lmc")).unwrap();
    let seen = server.seen();
    assert!(seen.len() <= 3, "{seen:?}");
    let mut out = vec![0; 1 << 20];
    opened.tensor_into("t50", &mut out).unwrap();
    let more = server.seen();
    let moved: u64 = seen.iter().chain(&more).map(|s| s.bytes).sum();
    assert!(seen.len() + more.len() <= 6, "{more:?}");
    assert!(moved < 3 << 20, "{moved} bytes");
}

#[test]
fn all_of_an_archive_is_read_in_large_parts_and_once() {
    let server = Server::start();
    let file = weights(60);
    let archive = compress(&file, &CompressOptions::default()).unwrap();
    server.put("w.lmc", archive.clone());
    let opened = open(&server.url("w.lmc")).unwrap();
    opened.verify(&RestoreOptions::default()).unwrap();
    let seen = server.seen();
    let moved: u64 = seen.iter().map(|s| s.bytes).sum();
    assert!(seen.len() <= 3 + archive.len().div_ceil(4 << 20), "{} requests", seen.len());
    assert_eq!(moved, archive.len() as u64);
}

#[test]
fn faults_of_a_server_are_waited_out() {
    let server = Server::start();
    let file = weights(12);
    server.put("w.lmc", compress(&file, &CompressOptions::default()).unwrap());
    let faults = [
        Fault::Status(500),
        Fault::Status(503),
        Fault::Reset,
        Fault::Cut,
        Fault::Slow,
        Fault::Short,
    ];
    for fault in faults {
        server.judge(move |n| (n % 2 == 0).then_some(fault));
        let archive = open(&server.url("w.lmc")).unwrap_or_else(|e| panic!("{fault:?}: {e}"));
        let verified = archive.verify(&RestoreOptions::default());
        assert_eq!(verified.unwrap().bytes, file.len() as u64, "{fault:?}");
    }
}

#[test]
fn answers_that_are_no_range_are_refused() {
    let server = Server::start();
    server.put("w.lmc", compress(&weights(2), &CompressOptions::default()).unwrap());
    for (fault, why) in [
        (Fault::NoRange, "does not give ranges"),
        (Fault::Shifted, "Requested"),
        (Fault::Status(403), "credentials"),
    ] {
        server.judge(move |_| Some(fault));
        let e = open(&server.url("w.lmc")).unwrap_err().to_string();
        assert!(e.contains(why), "{fault:?}: {e}");
    }
}

#[test]
fn an_object_that_is_replaced_is_never_mixed() {
    let server = Server::start();
    let options = CompressOptions::default();
    server.put("w.lmc", compress(&weights(12), &options).unwrap());
    let archive = open(&server.url("w.lmc")).unwrap();
    server.put("w.lmc", compress(&weights(13), &options).unwrap());
    let e = archive.verify(&RestoreOptions::default()).unwrap_err().to_string();
    assert!(e.contains("replaced while it was being read"), "{e}");
}

#[test]
fn bases_are_found_beside_a_delta() {
    let server = Server::start();
    let old = weights(3);
    let mut new = old.clone();
    let middle = new.len() / 2;
    new[middle] ^= 1;
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("old.safetensors"), &old).unwrap();
    let base = Base::open(dir.path().join("old.safetensors")).unwrap();
    let options = CompressOptions::default().with_base(base);
    server.put("run/delta.lmc", compress(&new, &options).unwrap());
    let url = server.url("run/delta.lmc");
    let e = open(&url).unwrap().verify(&RestoreOptions::default()).unwrap_err().to_string();
    assert!(e.contains("old.safetensors"), "{e}");
    server.put("run/old.safetensors", old.clone());
    let verified = open(&url).unwrap().verify(&RestoreOptions::default()).unwrap();
    assert_eq!(verified.bytes, new.len() as u64);
    server.put("elsewhere.lmc", compress(&old, &CompressOptions::default()).unwrap());
    let base = Base::open(server.url("elsewhere.lmc")).unwrap();
    let options = RestoreOptions::default().with_base(base);
    assert_eq!(open(&url).unwrap().verify(&options).unwrap().bytes, new.len() as u64);
}

#[test]
fn nothing_that_is_secret_in_a_url_is_shown() {
    let server = Server::start();
    server.put("w.lmc", compress(&weights(2), &CompressOptions::default()).unwrap());
    let dir = tempfile::tempdir().unwrap();
    let of = |name: &str| format!("http://user:hushed@{}/{name}?sig=hidden", server.address);
    let (there, none) = (of("w.lmc"), of("none.lmc"));
    let equals = format!("--base={none}");
    for args in [
        &["verify", &there][..],
        &["verify", &there, "--json"],
        &["verify", &none, "--json"],
        &["inspect", &there],
        &["decompress", &there, "-o", "w", "--force"],
        &["verify", &there, &equals],
        &["verify", &there, "--wrong", &none],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lmc-gpu"));
        command.args(args).current_dir(dir.path()).env("RUST_LOG", "trace");
        let shown = text(&command.output().unwrap());
        assert!(shown.contains(&server.address) || args.len() > 2, "{args:?}: {shown}");
        assert!(!shown.contains("hushed") && !shown.contains("hidden"), "{args:?}: {shown}");
        // As it is encoded for the header.
        assert!(!shown.contains("dXNlcjpodXNoZWQ"), "{args:?}: {shown}");
    }
    let seen = server.seen();
    assert!(seen.iter().all(|s| s.target.ends_with("?sig=hidden")), "{seen:?}");
    let basic = "Basic dXNlcjpodXNoZWQ=";
    assert!(seen.iter().all(|s| s.headers.get("authorization").unwrap() == basic), "{seen:?}");
}

#[test]
fn a_file_url_is_a_path() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("w x.lmc");
    fs::write(&path, compress(&[5; 3000], &CompressOptions::default()).unwrap()).unwrap();
    let url = format!("file://{}", path.display()).replace(' ', "%20");
    assert!(open(&url).is_ok());
    let output = run(&["verify", &url], dir.path());
    assert!(output.status.success(), "{}", text(&output));
}

/// The command, with a server as its S3.
fn with_bucket(server: &Server, args: &[&str], at: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lmc-gpu"));
    command.args(args).current_dir(at);
    command.env("AWS_ENDPOINT", server.url("").trim_end_matches('/')).env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_ACCESS_KEY_ID", "lookalike").env("AWS_SECRET_ACCESS_KEY", "hushed");
    command.env("AWS_SESSION_TOKEN", "hidden").env("AWS_REGION", "nowhere");
    command
}

/// A file of bytes that hardly get smaller, so that its archive takes several parts.
fn noise(len: usize, at: &Path) -> Vec<u8> {
    let bytes = Rng::new(3).bytes(len);
    fs::write(at, &bytes).unwrap();
    bytes
}

#[test]
fn archives_are_written_to_a_bucket() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    for (name, len) in [("small", 5000), ("large", 40 << 20)] {
        let bytes = noise(len, &dir.path().join(name));
        let url = format!("s3://bucket/run/{name}.lmc");
        let run = |args: &[&str]| {
            let output = with_bucket(&server, args, dir.path()).output().unwrap();
            let shown = text(&output);
            assert!(!shown.contains("hushed") && !shown.contains("hidden"), "{shown}");
            (output.status.code(), shown)
        };
        let (code, shown) = run(&["compress", name, "-o", "s3://bucket/run/"]);
        assert_eq!(code, Some(0), "{shown}");
        assert_eq!(run(&["verify", &url]).0, Some(0));
        assert_eq!(run(&["decompress", &url, "-o", "back", "--force"]).0, Some(0));
        assert_eq!(fs::read(dir.path().join("back")).unwrap(), bytes);
        let before = server.get(&format!("bucket/run/{name}.lmc")).unwrap();
        let (code, shown) = run(&["compress", name, "-o", &url]);
        assert_eq!(code, Some(2), "{shown}");
        assert!(shown.contains("exists already"), "{shown}");
        // Somebody is faster: it is not there yet when the work begins, nor right before its end.
        let late = format!("s3://bucket/run/late-{name}.lmc");
        server.judge(|_| Some(Fault::Taken));
        let (code, shown) = run(&["compress", name, "-o", &late]);
        assert_eq!(code, Some(2), "{shown}");
        server.judge(|_| None);
        assert_eq!(server.get(&format!("bucket/run/late-{name}.lmc")).unwrap(), [1]);
        let (code, shown) = run(&["compress", name, "-o", &url, "--force", "--method", "fast"]);
        assert_eq!(code, Some(0), "{shown}");
        assert_eq!(run(&["verify", &url]).0, Some(0));
        assert!(!before.is_empty());
        assert_eq!(server.unfinished(), 0);
    }
}

#[test]
fn uploads_survive_faults_and_are_aborted_where_they_fail() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    noise(40 << 20, &dir.path().join("large"));
    let args = ["compress", "large", "-o", "s3://bucket/x.lmc"];
    server.judge(|n| match n % 4 {
        1 => Some(Fault::Status(503)),
        2 => Some(Fault::Reset),
        _ => None,
    });
    let output = with_bucket(&server, &args, dir.path()).output().unwrap();
    assert!(output.status.success(), "{}", text(&output));
    assert_eq!(server.unfinished(), 0);
    // From some request on all fail but the last, which aborts.
    for first in [2, 4, 7] {
        let name = format!("s3://bucket/{first}.lmc");
        server.judge(move |n| (n == first).then_some(Fault::Status(400)));
        let args = ["compress", "large", "-o", &name];
        let output = with_bucket(&server, &args, dir.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{first}: {}", text(&output));
        assert_eq!(server.unfinished(), 0, "{first}");
        assert_eq!(server.get(&format!("bucket/{first}.lmc")), None, "{first}");
    }
}

#[cfg(unix)]
#[test]
fn an_upload_that_is_interrupted_is_aborted() {
    let server = Server::start();
    let dir = tempfile::tempdir().unwrap();
    noise(40 << 20, &dir.path().join("large"));
    server.judge(|n| (n >= 2).then_some(Fault::Late));
    let args = ["compress", "large", "-o", "s3://bucket/x.lmc"];
    let mut child = with_bucket(&server, &args, dir.path()).spawn().unwrap();
    while server.unfinished() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(kill.success());
    server.judge(|_| None);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(server.unfinished(), 0);
    assert_eq!(server.get("bucket/x.lmc"), None);
}
