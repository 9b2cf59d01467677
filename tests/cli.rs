//! The command as users run it.

#![cfg(feature = "cli")]

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

#[path = "cli/archive.rs"]
mod archive;
#[path = "cli/base.rs"]
mod base;
#[path = "cli/changes.rs"]
mod changes;
#[path = "cli/compare.rs"]
mod compare;
#[path = "cli/damage.rs"]
mod damage;
#[path = "cli/data.rs"]
mod data;
#[path = "cli/device.rs"]
mod device;
#[path = "cli/habit.rs"]
mod habit;
#[path = "cli/hint.rs"]
mod hint;
#[path = "cli/look.rs"]
mod look;
#[path = "cli/output.rs"]
mod output;
#[path = "cli/pipe.rs"]
mod pipe;
#[path = "cli/shown.rs"]
mod shown;
#[path = "cli/steps.rs"]
mod steps;
#[path = "cli/stop.rs"]
mod stop;

/// A directory that goes away, and the command run in it.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Place {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lmc-gpu"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs the command, which must succeed, and gives its standard output.
    fn ok(&self, args: &[&str]) -> String {
        let out = self.run(args);
        assert!(out.status.success(), "{args:?}: {}", stderr(&out));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// Runs the command, which must end with `code`, and gives its standard error.
    fn fails(&self, code: i32, args: &[&str]) -> String {
        let out = self.run(args);
        assert_eq!(out.status.code(), Some(code), "{args:?}: {}", stderr(&out));
        stderr(&out)
    }

    fn json(&self, args: &[&str]) -> serde_json::Value {
        serde_json::from_str(&self.ok(args)).unwrap()
    }

    fn piped(&self, args: &[&str], input: &[u8]) -> Output {
        let mut child = self
            .command(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = input.to_vec();
        let feed = std::thread::spawn(move || drop(stdin.write_all(&input)));
        let out = child.wait_with_output().unwrap();
        feed.join().unwrap();
        out
    }

    /// Names in the directory, sorted.
    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(self.0.path())
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

/// Everything below two directories is the same.
fn same_tree(a: &Path, b: &Path) {
    let list = |dir: &Path| -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into()).collect();
        all.sort();
        all
    };
    assert_eq!(list(a), list(b), "{}", a.display());
    for name in list(a) {
        let (a, b) = (a.join(&name), b.join(&name));
        match a.is_dir() {
            true => same_tree(&a, &b),
            false => assert!(fs::read(&a).unwrap() == fs::read(&b).unwrap(), "{}", a.display()),
        }
    }
}

fn open(path: &Path) -> File {
    File::open(path).unwrap()
}
