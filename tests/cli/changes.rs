//! Files that somebody writes to while they are read.

use super::{Place, data};
use std::{
    fs::File,
    io::{Seek, Write},
    sync::atomic::{AtomicBool, Ordering},
};

/// Runs `body` while another thread writes to a file all the time.
fn while_written(at: &Place, name: &str, body: impl FnOnce()) {
    let mut file = File::options().write(true).open(at.path(name)).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0u64.. {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                file.seek(std::io::SeekFrom::Start(1000 + i % 1000)).unwrap();
                file.write_all(&i.to_le_bytes()).unwrap();
                std::thread::yield_now();
            }
        });
        body();
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn a_file_that_changes_ends_with_1_unless_that_is_allowed() {
    let at = Place::new();
    at.write("ckpt/model.safetensors", &data::model());
    at.write("ckpt/notes.txt", b"still");
    at.ok(&["store", "init", "run"]);
    while_written(&at, "ckpt/model.safetensors", || {
        let text = at.fails(1, &["compress", "ckpt"]);
        let names = |text: &str| text.contains("model.safetensors") && text.contains("changed");
        assert!(names(&text) && text.contains("--allow-changes"), "{text}");
        assert!(!at.path("ckpt.lmc").exists());
        let text = at.fails(1, &["store", "save", "run", "ckpt", "--step", "1"]);
        assert!(names(&text), "{text}");
        let saved = ["store", "save", "run", "ckpt", "--step", "2", "--allow-changes"];
        assert!(at.run(&saved).status.success());
        let written = at.run(&["compress", "ckpt", "--allow-changes"]);
        assert!(written.status.success() && names(&super::stderr(&written)), "{written:?}");
    });
    at.ok(&["verify", "ckpt.lmc"]);
    at.ok(&["store", "verify", "run"]);
    at.ok(&["compress", "ckpt", "--force"]);
}
