//! What a store promises when things go wrong: kills, full disks, damage, races. After each,
//! every step that was saved before restores exactly, and the next save works.
//!
//! `LMC_KILLS` sets how many saves are killed (default 20); `LMC_SEED` chooses their instants.

#![cfg(feature = "cli")]
#![cfg(unix)]

mod series;

use lmc_gpu::{
    Overwrite,
    internals::container::hash64,
    store::{GcOptions, Policy, SaveOptions, Store},
};
use series::{assert_restores, checkpoint, fill};
use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

const TOOL: &str = env!("CARGO_BIN_EXE_lmc-gpu");

struct Series {
    dir: tempfile::TempDir,
    store: Store,
}

impl Series {
    /// A store with these steps.
    fn new(steps: &[u64]) -> Series {
        Series::within(tempfile::tempdir().unwrap(), steps)
    }

    fn within(dir: tempfile::TempDir, steps: &[u64]) -> Series {
        let policy = Policy::default().with_rebase_above(1.0);
        let store = Store::init(dir.path().join("run"), policy).unwrap();
        let series = Series { dir, store };
        for &step in steps {
            let source = series.source(step);
            series.store.save(&source, step, &SaveOptions::default()).unwrap();
        }
        series
    }

    /// The checkpoint of a step, made where it does not exist.
    fn source(&self, step: u64) -> PathBuf {
        let path = self.dir.path().join(step.to_string());
        if !path.exists() {
            checkpoint(&path, step);
        }
        path
    }

    /// `lmc-gpu store save`, not started yet.
    fn save(&self, step: u64) -> Command {
        let mut command = Command::new(TOOL);
        command.args(["store", "save", "--threads", "1", "--step", &step.to_string()]);
        command.arg(self.store.root()).arg(self.source(step));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        command
    }

    fn saves(&self, step: u64) {
        let output = self.save(step).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert_restores(&self.store, step);
    }

    fn steps(&self) -> Vec<u64> {
        self.store.list().unwrap().steps.iter().map(|r| r.step).collect()
    }

    /// Everything in `steps` that is not an archive or record of a listed step.
    fn left_over(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.store.root().join("steps")).unwrap();
        let mut names: Vec<String> =
            names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        for record in self.store.list().unwrap().steps {
            let own = [format!("{:010}.json", record.step), record.archive];
            names.retain(|n| !own.contains(n));
        }
        names
    }

    fn archive(&self, step: u64) -> PathBuf {
        let record = self.store.record(step).unwrap().unwrap();
        self.store.root().join("steps").join(record.archive)
    }

    /// Steps that need another one, itself left out.
    fn dependents(&self, step: u64) -> Vec<u64> {
        let steps = self.store.list().unwrap().steps;
        let needs = |r: &&lmc_gpu::store::StepRecord| r.chain.iter().any(|l| l.step == step);
        steps.iter().filter(needs).map(|r| r.step).collect()
    }
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

struct Random(u64);

impl Random {
    fn new(salt: u64) -> Random {
        let seed = std::env::var("LMC_SEED").ok().and_then(|s| s.parse().ok());
        let seed: u64 = seed.unwrap_or_else(|| {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            now.unwrap().as_nanos() as u64
        });
        println!("LMC_SEED={seed}");
        Random(seed ^ salt)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n.max(1)
    }
}

fn wait_for(mut child: Child, at_most: Duration) -> bool {
    let started = Instant::now();
    while started.elapsed() < at_most {
        if let Some(status) = child.try_wait().unwrap() {
            return status.success();
        }
        std::thread::sleep(Duration::from_micros(200));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}

#[test]
fn a_save_killed_at_any_instant_loses_no_earlier_step() {
    let kills = std::env::var("LMC_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(20);
    let series = Series::new(&[1]);
    let mut random = Random::new(1);
    let mut save = series.save(2);
    let started = Instant::now();
    assert!(save.status().unwrap().success());
    let whole = started.elapsed().as_micros() as u64;
    let mut known = vec![1, 2];
    let mut killed = 0;
    for step in 3..3 + kills {
        let child = series.save(step).spawn().unwrap();
        let instant = Duration::from_micros(random.below(whole * 6 / 5));
        let finished = wait_for(child, instant);
        let now = series.steps();
        if now.last() == Some(&step) {
            known.push(step);
            assert_restores(&series.store, step);
        } else {
            assert!(!finished);
            killed += 1;
        }
        assert_eq!(now, known);
        assert_restores(&series.store, known[random.below(known.len() as u64) as usize]);
    }
    println!("{killed} of {kills} saves were killed before their step existed");
    series.saves(1000);
    assert!(series.left_over().is_empty(), "{:?}", series.left_over());
    let verified = series.store.verify(&[]).unwrap();
    assert!(verified.is_whole() && verified.strays.is_empty());
    assert_eq!(verified.steps.len(), known.len() + 1);
}

#[test]
fn what_every_stage_of_a_save_leaves_is_invisible_and_cleaned_up() {
    let series = Series::new(&[1, 2]);
    let steps = series.store.root().join("steps");
    let archive = std::fs::read(series.archive(2)).unwrap();
    for (name, bytes) in [
        (".lmc-a1b2c3.tmp", &archive[..100]),
        ("0000000003.lmc", &archive[..]),
        ("0000000003-1.lmc", &archive[..50]),
        (".lmc-d4e5f6.tmp", &b"{\"format\": \"lmc-store-st"[..]),
    ] {
        std::fs::write(steps.join(name), bytes).unwrap();
    }
    assert_eq!(series.steps(), [1, 2]);
    let verified = series.store.verify(&[]).unwrap();
    assert!(verified.is_whole());
    assert_eq!(verified.strays.len(), 4);
    series.saves(3);
    assert_eq!(series.left_over(), [""; 0]);
    std::fs::write(steps.join(".lmc-x.tmp"), b"").unwrap();
    std::fs::write(series.store.root().join(".lmc-y.tmp"), b"").unwrap();
    let removed = series.store.gc(&GcOptions::default()).unwrap();
    assert_eq!(removed.files, [".lmc-x.tmp"]);
    assert!(!series.store.root().join(".lmc-y.tmp").exists());
    for step in [1, 2, 3] {
        assert_restores(&series.store, step);
    }
}

#[test]
fn a_file_that_cannot_grow_fails_the_save_and_leaves_nothing() {
    let series = Series::new(&[1, 2]);
    let mut random = Random::new(2);
    let blocks = std::fs::metadata(series.archive(1)).unwrap().len() / 512;
    for (i, ignored) in [true, true, true, false, true, false].into_iter().enumerate() {
        // Ignored, the signal becomes an error; otherwise it kills like any other.
        let trap = if ignored { "trap '' XFSZ; " } else { "" };
        let limit = if i == 0 { 0 } else { random.below(blocks / 12) };
        let script = format!("{trap}ulimit -f {limit}; exec \"$@\"");
        let save = series.save(3);
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", &script, "sh"]).arg(save.get_program()).args(save.get_args());
        let output = shell.stdout(Stdio::null()).stderr(Stdio::piped()).output().unwrap();
        assert!(!output.status.success(), "with {limit} blocks");
        if ignored {
            assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
            assert!(stderr(&output).contains("write"), "{}", stderr(&output));
            assert!(series.left_over().is_empty(), "{:?}", series.left_over());
        }
        assert_eq!(series.steps(), [1, 2]);
    }
    assert_restores(&series.store, 1);
    assert_restores(&series.store, 2);
    series.saves(3);
}

/// A file system of its own that is unmounted when dropped.
struct Mount(PathBuf);

impl Mount {
    fn new(path: &Path, options: &str) -> Option<Mount> {
        std::fs::create_dir_all(path).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", options, "none"]).arg(path).stderr(Stdio::null());
        if mount.status().is_ok_and(|s| s.success()) {
            return Some(Mount(path.to_owned()));
        }
        let required = std::env::var("LMC_REQUIRE").is_ok_and(|r| r.contains("mount"));
        assert!(!required, "LMC_REQUIRE asks for mount");
        println!("skipped: no file system can be mounted here");
        None
    }

    fn remount(&self, options: &str) {
        let mut mount = Command::new("mount");
        mount.arg("-o").arg(format!("remount,{options}")).arg(&self.0);
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn a_full_disk_fails_the_save_and_room_makes_the_next_one_work() {
    let outer = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::new(&outer.path().join("disk"), "size=4m") else { return };
    let series = Series::within(tempfile::tempdir_in(&mount.0).unwrap(), &[]);
    let mut random = Random::new(3);
    let checkpoints = tempfile::tempdir().unwrap();
    let mut known = Vec::new();
    let mut failures = 0;
    for step in 1..60 {
        let source = checkpoints.path().join(step.to_string());
        checkpoint(&source, step);
        // What something else took of the disk meanwhile, by any number of bytes.
        let other = mount.0.join(format!("other{step}"));
        std::fs::write(&other, vec![1; random.below(120_000) as usize]).ok();
        match series.store.save(&source, step, &SaveOptions::default()) {
            Ok(_) => known.push(step),
            Err(e) => {
                assert!(e.to_string().contains("space"), "{e}");
                failures += 1;
                assert!(series.left_over().is_empty(), "{:?}", series.left_over());
            }
        }
        assert_eq!(series.steps(), known);
        if failures == 6 {
            break;
        }
    }
    assert!(failures > 0);
    for &step in &known {
        assert_restores(&series.store, step);
    }
    mount.remount("size=64m");
    series.saves(100);
    assert!(series.store.verify(&[]).unwrap().is_whole());
}

#[test]
fn a_store_that_cannot_be_written_to_can_be_read() {
    let outer = tempfile::tempdir().unwrap();
    let Some(mount) = Mount::new(&outer.path().join("disk"), "size=16m") else { return };
    let series = Series::within(tempfile::tempdir_in(&mount.0).unwrap(), &[1, 2]);
    series.source(3);
    mount.remount("ro");
    let output = series.save(3).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("ead-only"), "{}", stderr(&output));
    assert_restores(&series.store, 1);
    assert_restores(&series.store, 2);
    assert!(series.store.verify(&[]).unwrap().is_whole());
    mount.remount("rw");
    series.saves(3);
}

#[test]
fn a_store_whose_directory_is_a_file_says_so() {
    let series = Series::new(&[]);
    let steps = series.store.root().join("steps");
    std::fs::remove_dir(&steps).unwrap();
    std::fs::write(&steps, b"").unwrap();
    let output = series.save(1).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("steps"), "{}", stderr(&output));
}

#[test]
fn two_savers_at_once_both_get_their_way() {
    let series = Series::new(&[1]);
    let children: Vec<_> = (2..6).map(|step| series.save(step).spawn().unwrap()).collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
    }
    assert_eq!(series.steps(), [1, 2, 3, 4, 5]);
    for step in 1..6 {
        assert_restores(&series.store, step);
    }
    let children: Vec<_> = (0..3).map(|_| series.save(9).spawn().unwrap()).collect();
    let mut won = 0;
    for child in children {
        let output = child.wait_with_output().unwrap();
        won += u32::from(output.status.success());
        assert!(output.status.success() || stderr(&output).contains("already"));
    }
    assert_eq!(won, 1);
    assert_restores(&series.store, 9);
    assert!(series.left_over().is_empty());
}

#[test]
fn a_saver_that_is_told_not_to_wait_says_who_is_writing() {
    let series = Series::new(&[1]);
    let lock = std::fs::File::create(series.store.root().join("lock")).unwrap();
    lock.lock().unwrap();
    let output = series.save(2).args(["--lock", "fail"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("another process"), "{}", stderr(&output));
    drop(lock);
    series.saves(2);
}

/// Damages the archive of step 2 and checks that this is noticed, named and survived.
fn damage(how: impl Fn(&Path), harmless: bool) {
    let series = Series::new(&[1, 2, 3, 4]);
    let dependents = series.dependents(2);
    how(&series.archive(2));
    let verified = series.store.verify(&[]).unwrap();
    let health = |step: u64| verified.steps.iter().find(|s| s.step == step).unwrap();
    assert_eq!(health(2).dependents, dependents);
    assert!(health(1).is_whole());
    if !harmless {
        assert!(!health(2).is_whole() && !verified.is_whole());
    }
    for step in [1, 2, 3, 4] {
        let out = series.dir.path().join(format!("out{step}"));
        let restored = series.store.restore(step, &out, Overwrite::Refuse);
        assert_eq!(restored.is_ok(), health(step).is_whole(), "step {step}: {restored:?}");
        match restored {
            Ok(_) => assert_restores(&series.store, step),
            Err(e) => {
                assert!(step == 2 || dependents.contains(&step), "step {step}: {e}");
                assert!(e.to_string().contains(&step.to_string()), "{e}");
                assert!(!out.exists());
                if step != 2 {
                    assert_eq!(health(step).through, health(step).needs[..(step - 2) as usize]);
                }
            }
        }
    }
    let output = Command::new(TOOL).args(["store", "verify"]).arg(series.store.root()).output();
    assert_eq!(output.unwrap().status.code(), Some(i32::from(!verified.is_whole())));
    series.saves(5);
    series.saves(6);
    let again = series.store.verify(&[5, 6]).unwrap();
    assert!(again.is_whole(), "{again:?}");
}

#[test]
fn a_deleted_base_is_named_with_what_needs_it() {
    damage(|path| std::fs::remove_file(path).unwrap(), false);
}

#[test]
fn a_truncated_base_is_named_with_what_needs_it() {
    let mut random = Random::new(4);
    for part in [0, 1 + random.below(98), 99] {
        damage(
            |path| {
                let bytes = std::fs::read(path).unwrap();
                std::fs::write(path, &bytes[..bytes.len() * part as usize / 100]).unwrap();
            },
            false,
        );
    }
}

#[test]
fn a_flipped_bit_in_a_base_is_named_with_what_needs_it() {
    let mut random = Random::new(5);
    for _ in 0..4 {
        let at = random.below(1 << 30);
        damage(
            |path| {
                let mut bytes = std::fs::read(path).unwrap();
                let bit = at as usize % (bytes.len() * 8);
                bytes[bit / 8] ^= 1 << (bit % 8);
                std::fs::write(path, &bytes).unwrap();
            },
            true,
        );
    }
}

#[test]
fn another_archive_in_a_bases_place_is_named_with_what_needs_it() {
    let other = Series::new(&[7]);
    let bytes = std::fs::read(other.archive(7)).unwrap();
    damage(|path| std::fs::write(path, &bytes).unwrap(), false);
}

#[test]
fn a_damaged_record_hides_its_step_alone_and_stops_gc() {
    let series = Series::new(&[1, 2, 3]);
    let path = series.store.root().join("steps/0000000002.json");
    let good = std::fs::read(&path).unwrap();
    for bad in [&good[..good.len() / 2], &b""[..], &fill(3, 300)[..]] {
        std::fs::write(&path, bad).unwrap();
        assert_eq!(series.steps(), [1, 3]);
        assert_restores(&series.store, 1);
        assert_restores(&series.store, 3);
        let verified = series.store.verify(&[]).unwrap();
        assert!(!verified.is_whole());
        assert!(verified.unreadable[0].contains("0000000002.json"), "{:?}", verified.unreadable);
        let options = GcOptions::default();
        let e = series.store.gc(&options.with_drop_after(Some(0))).unwrap_err();
        assert!(e.to_string().contains("0000000002.json"), "{e}");
    }
    series.saves(4);
    std::fs::write(&path, &good).unwrap();
    for step in 1..5 {
        assert_restores(&series.store, step);
    }
}

#[test]
fn a_clock_that_goes_backwards_changes_nothing() {
    let series = Series::new(&[1, 2]);
    let path = series.store.root().join("steps/0000000002.json");
    let mut object: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let map = object.as_object_mut().unwrap();
    map.remove("check");
    map.insert("saved_at".into(), u64::from(u32::MAX).into());
    let check = format!("{:016x}", hash64(&serde_json::to_vec(map).unwrap()));
    map.insert("check".into(), check.into());
    std::fs::write(&path, serde_json::to_vec(&object).unwrap()).unwrap();
    series.saves(3);
    let steps = series.store.list().unwrap().steps;
    assert!(steps[1].saved_at > steps[2].saved_at);
    assert_eq!(series.steps(), [1, 2, 3]);
    assert!(steps[2].chain.first().is_none_or(|link| link.step == 2));
    let keep = Policy::default().with_keep_last(Some(1));
    series.store.gc(&GcOptions::default().with_policy(Some(keep))).unwrap();
    assert_restores(&series.store, 3);
}

#[test]
fn a_trainer_that_died_goes_on_bit_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let train = |name: &str, more: &[&str]| {
        let path = Path::new(TOOL).parent().unwrap().join("examples/train");
        assert!(path.exists(), "build it first: cargo build --example train");
        let mut command = Command::new(path);
        command.arg(dir.path().join(name)).args(["--steps", "24", "--every", "3"]).args(more);
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        (output.status.success(), text.lines().last().unwrap_or("").to_owned())
    };
    let (ok, digest) = train("whole", &[]);
    assert!(ok && digest.starts_with("digest "), "{digest}");
    for stop in ["8", "13", "20"] {
        let (ok, last) = train("broken", &["--stop-after", stop]);
        assert!(!ok, "{last}");
    }
    assert_eq!(train("broken", &[]), (true, digest));
}
