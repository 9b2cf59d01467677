//! The same promises against servers of others, started here: `s3s-fs` as S3, nginx for ranges over
//! HTTP. Skipped where a server is not installed, unless `LMC_REQUIRE` names it; `.ci/remote`
//! installs both.

#![cfg(all(feature = "remote", feature = "cli", unix))]

mod common;

use common::Rng;
use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

/// A server, which ends with the test.
struct Server {
    child: Child,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a program is that may be installed; nothing where the test is to be skipped.
fn program(name: &str) -> Option<PathBuf> {
    let mut places: Vec<PathBuf> =
        std::env::var_os("LMC_SERVERS").map(PathBuf::from).into_iter().collect();
    places.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    places.push("/usr/sbin".into());
    let found = places.into_iter().map(|dir| dir.join(name)).find(|path| path.is_file());
    if found.is_none() {
        let required = std::env::var("LMC_REQUIRE").unwrap_or_default();
        assert!(!required.split(',').any(|r| r == name), "LMC_REQUIRE names {name}");
        println!("skipped: {name} is not installed");
    }
    found
}

/// Starts a server on a port that is free, and waits until it listens.
fn start(command: impl FnOnce(u16) -> Command) -> Server {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = command(port).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let server = Server { child, port };
    for _ in 0..400 {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return server;
        }
        thread::sleep(Duration::from_millis(50));
    }
    panic!("the server does not listen");
}

fn bucket(dir: &Path) -> Option<Server> {
    let program = program("s3s-fs")?;
    fs::create_dir_all(dir.join("bucket")).unwrap();
    Some(start(|port| {
        let mut command = Command::new(program);
        command.args(["--host", "127.0.0.1", "--port", &port.to_string()]);
        command.args(["--access-key", "key", "--secret-key", "hushed"]).arg(dir);
        command
    }))
}

fn nginx(dir: &Path, root: &Path) -> Option<Server> {
    let program = program("nginx")?;
    Some(start(|port| {
        let (at, root) = (dir.display(), root.display());
        let config = format!(
            "daemon off; master_process off; pid {at}/pid; error_log {at}/error.log;\n\
             events {{ }}\n\
             http {{ access_log off; client_body_temp_path {at}/t1; proxy_temp_path {at}/t2;\n\
             fastcgi_temp_path {at}/t3; uwsgi_temp_path {at}/t4; scgi_temp_path {at}/t5;\n\
             server {{ listen 127.0.0.1:{port}; root {root};\n\
             location /whole/ {{ max_ranges 0; alias {root}/; }}\n\
             location /moved/ {{ return 302 /$arg_to; }} }} }}\n"
        );
        fs::write(dir.join("nginx.conf"), config).unwrap();
        let mut command = Command::new(program);
        command.arg("-e").arg(dir.join("error.log")).arg("-p").arg(dir);
        command.arg("-c").arg(dir.join("nginx.conf"));
        command
    }))
}

/// Runs the command; its exit code and all that it printed.
fn run(server: &Server, secret: &str, at: &Path, args: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lmc-gpu"));
    command.args(args).current_dir(at).env("AWS_REGION", "us-east-1");
    command.env("AWS_ENDPOINT", format!("http://127.0.0.1:{}", server.port));
    command.env("AWS_ALLOW_HTTP", "true");
    command.env("AWS_ACCESS_KEY_ID", "key").env("AWS_SECRET_ACCESS_KEY", secret);
    let output = command.output().unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let shown = format!("{out}{err}");
    assert!(!shown.contains(secret), "{shown}");
    (output.status.code(), shown)
}

#[test]
fn archives_go_to_an_s3_server_and_come_back() {
    let place = tempfile::tempdir().unwrap();
    let Some(server) = bucket(place.path()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let run = |args: &[&str]| run(&server, "hushed", dir.path(), args);
    let bytes = Rng::new(5).bytes(40 << 20);
    fs::write(dir.path().join("large"), &bytes).unwrap();
    fs::write(dir.path().join("small"), &bytes[..9000]).unwrap();
    for (name, bytes) in [("large", &bytes[..]), ("small", &bytes[..9000])] {
        let url = format!("s3://bucket/run/{name}.lmc");
        let done = run(&["compress", name, "-o", &url]);
        assert_eq!(done.0, Some(0), "{}", done.1);
        for verb in ["verify", "inspect", "list"] {
            let done = run(&[verb, &url]);
            assert_eq!(done.0, Some(0), "{}", done.1);
        }
        let done = run(&["decompress", &url, "-o", "back", "--force"]);
        assert_eq!(done.0, Some(0), "{}", done.1);
        assert!(fs::read(dir.path().join("back")).unwrap() == bytes);
        let done = run(&["compress", name, "-o", &url]);
        assert_eq!(done.0, Some(2), "{}", done.1);
        let done = run(&["compress", name, "-o", &url, "--force"]);
        assert_eq!(done.0, Some(0), "{}", done.1);
        let delta = format!("s3://bucket/run/{name}-again.lmc");
        let done = run(&["compress", name, "--base", &url, "-o", &delta]);
        assert_eq!(done.0, Some(0), "{}", done.1);
        let done = run(&["verify", &delta]);
        assert_eq!(done.0, Some(0), "{}", done.1);
    }
    let done = run(&["verify", "s3://bucket/none.lmc"]);
    assert_eq!(done.0, Some(1), "{}", done.1);
    assert!(done.1.contains("nothing of this name"), "{}", done.1);
}

#[test]
fn an_s3_server_that_refuses_the_credentials_is_told_so() {
    let place = tempfile::tempdir().unwrap();
    let Some(server) = bucket(place.path()) else { return };
    let args = ["verify", "s3://bucket/x.lmc"];
    let (code, shown) = run(&server, "mistaken", place.path(), &args);
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("credentials"), "{shown}");
}

#[test]
fn nginx_gives_ranges_of_archives() {
    let (place, dir) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let Some(server) = nginx(place.path(), dir.path()) else { return };
    let run = |args: &[&str]| run(&server, "hushed", dir.path(), args);
    let bytes = Rng::new(5).bytes(30 << 20);
    fs::write(dir.path().join("w"), &bytes).unwrap();
    assert_eq!(run(&["compress", "w"]).0, Some(0));
    let url = |path: &str| format!("http://127.0.0.1:{}/{path}", server.port);
    for path in ["w.lmc", "w.lmc?a=b", "moved/x?to=w.lmc"] {
        let done = run(&["decompress", &url(path), "-o", "back", "--force"]);
        assert_eq!(done.0, Some(0), "{}", done.1);
        assert!(fs::read(dir.path().join("back")).unwrap() == bytes);
    }
    let done = run(&["verify", &url("whole/w.lmc")]);
    assert_eq!(done.0, Some(1), "{}", done.1);
    assert!(done.1.contains("does not give ranges"), "{}", done.1);
}
