//! Runs that are stopped or killed, and what the next one finds.
#![cfg(unix)]

use super::{Place, data};
use std::{
    fs,
    io::Write,
    process::{Child, Command, Stdio},
};

fn start(at: &Place, args: &[&str]) -> Child {
    let mut command = at.command(args);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

fn moment() {
    std::thread::sleep(std::time::Duration::from_millis(5));
}

#[test]
fn a_run_that_waits_for_a_pipe_to_be_opened_ends_when_it_is_stopped() {
    let at = Place::new();
    at.write("m", b"m");
    assert!(Command::new("mkfifo").arg(at.path("pipe")).status().unwrap().success());
    for args in [
        &["decompress", "pipe", "-o", "x"][..],
        &["verify", "pipe"],
        &["compress", "m", "-o", "pipe"],
    ] {
        for name in ["-TERM", "-INT"] {
            let mut child = start(&at, args);
            // Only when it waits in the kernel is the handler in place.
            while !waits_for_a_pipe(&child) {
                assert!(child.try_wait().unwrap().is_none(), "{args:?} does not wait");
                moment();
            }
            signal(&child, name);
            assert_eq!(child.wait().unwrap().code(), Some(130), "{args:?}");
        }
    }
    assert_eq!(at.names(), ["m", "pipe"]);
}

fn waits_for_a_pipe(child: &Child) -> bool {
    let tasks = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
    let within = |task: fs::DirEntry| {
        let number = |call: String| call.split(' ').next().and_then(|n| n.parse::<u32>().ok());
        // open and openat, on x86-64 and on aarch64.
        fs::read_to_string(task.path().join("syscall"))
            .ok()
            .and_then(number)
            .is_some_and(|n| [2, 257, 56].contains(&n))
    };
    // Once could be by chance.
    tasks.into_iter().any(within) && {
        moment();
        let again = fs::read_dir(format!("/proc/{}/task", child.id()));
        again.into_iter().flatten().flatten().any(within)
    }
}

#[test]
fn a_bench_deep_in_a_coder_ends_when_it_is_stopped() {
    let at = Place::new();
    at.write("noise", &data::noise(24 << 20, 1));
    let args = ["bench", "noise", "--dtype", "bf16", "--methods", "xz", "--baselines", "xz-6"];
    let mut child = start(&at, &args);
    std::thread::sleep(std::time::Duration::from_secs(2));
    signal(&child, "-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(at.names(), ["noise"]);
}

#[test]
fn what_a_killed_run_left_is_removed_by_the_next_and_what_a_live_one_has_is_not() {
    let at = Place::new();
    at.write("m", b"m");
    at.write(".lmc-mine.tmp", b"not one of these names");
    let mut killed = start_reading(&at, "x.lmc");
    let left = temporary_beside(&at, &mut killed, &[]);
    let mut alive = start_reading(&at, "y.lmc");
    let held = temporary_beside(&at, &mut alive, &[&left]);
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(at.path(&left).exists());
    at.ok(&["compress", "m"]);
    assert_eq!(at.names(), sorted([".lmc-mine.tmp", &held, "m", "m.lmc"]));
    drop(alive.stdin.take());
    assert!(alive.wait().unwrap().success());
    at.ok(&["verify", "y.lmc"]);
    assert_eq!(at.names(), [".lmc-mine.tmp", "m", "m.lmc", "y.lmc"]);
}

/// A run that waits for standard input.
fn start_reading(at: &Place, out: &str) -> Child {
    let mut command = at.command(&["compress", "-", "-o", out]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn temporary_beside(at: &Place, child: &mut Child, others: &[&str]) -> String {
    loop {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it could be stopped");
        let is_new = |n: &String| {
            n.starts_with(".lmc-") && n != ".lmc-mine.tmp" && !others.contains(&n.as_str())
        };
        match at.names().into_iter().find(is_new) {
            Some(name) => {
                // It is locked a moment after it was made.
                for _ in 0..20 {
                    moment();
                }
                return name;
            }
            None => moment(),
        }
    }
}

fn sorted<const N: usize>(names: [&str; N]) -> Vec<String> {
    let mut names: Vec<String> = names.map(String::from).into();
    names.sort();
    names
}

#[test]
fn a_killed_restore_of_a_directory_leaves_nothing_for_the_next() {
    let at = Place::new();
    at.write("ck/noise", &data::noise(4 << 20, 1));
    at.write("ck/other", b"other");
    at.ok(&["compress", "ck"]);
    let archive = at.read("ck.lmc");
    for stop in ["-KILL", "-QUIT", "-TERM"] {
        let left = at.names();
        let left: Vec<&str> = left.iter().map(|n| &**n).collect();
        let mut command = at.command(&["decompress", "-", "-o", "back"]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        // Half of the archive: it waits for the rest, in the middle of its work.
        let mut pipe = child.stdin.take().unwrap();
        pipe.write_all(&archive[..archive.len() / 2]).unwrap();
        temporary_beside(&at, &mut child, &left);
        signal(&child, stop);
        let code = child.wait().unwrap().code();
        if stop == "-TERM" {
            assert_eq!(code, Some(130));
            assert_eq!(at.names(), ["ck", "ck.lmc"]);
        }
    }
    at.ok(&["decompress", "ck.lmc", "-o", "back"]);
    assert_eq!(at.names(), ["back", "ck", "ck.lmc"]);
    assert_eq!(at.read("back/noise"), at.read("ck/noise"));
}

#[test]
fn what_a_killed_run_had_set_aside_is_put_back() {
    let at = Place::new();
    at.write("m", b"m");
    at.write(".lmc-a1b2c3.old/out/precious", b"precious");
    at.write(".lmc-d4e5f6.tmp/half", b"half");
    at.ok(&["compress", "m"]);
    assert_eq!(at.names(), ["m", "m.lmc", "out"]);
    assert_eq!(at.read("out/precious"), b"precious");
    // Where the new one has the name already, the old one goes.
    at.write(".lmc-a1b2c3.old/out/older", b"older");
    at.ok(&["compress", "m", "--force"]);
    assert_eq!(at.names(), ["m", "m.lmc", "out"]);
    assert_eq!(at.read("out/precious"), b"precious");
}
