//! The program, killed at any instant, and two of it at once.

use crate::{
    case::{Case, Cases, Draw},
    promise,
    store::{holds, restores, source, steps},
};
use lmc_gpu::store::{Policy, SaveOptions, Store};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Steps that gc keeps.
const KEPT: usize = 4;

pub fn start(args: &[&str], paths: &[&Path]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lmc-gpu"));
    command.args(args).args(paths);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

/// Kills a program after a while. Whether it had ended well before that.
pub fn kill(mut child: Child, after: Duration) -> bool {
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap().success()
}

/// Files in `dir` that killed runs left.
fn temporaries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap());
    let stale = entries.filter(|e| e.file_name().to_string_lossy().starts_with(".lmc-"));
    stale.map(|e| e.path()).collect()
}

struct Attacked {
    dir: tempfile::TempDir,
    store: Store,
    /// Steps that a save acknowledged, and their versions.
    model: BTreeMap<u64, u64>,
    next: u64,
    /// About how long a save takes.
    span: Duration,
}

impl Attacked {
    fn new() -> Attacked {
        let dir = tempfile::tempdir().unwrap();
        let policy = Policy::default().with_rebase_above(1.0).with_keep_last(Some(KEPT as u64));
        let store = Store::init(dir.path().join("run"), policy).unwrap();
        let span = Duration::from_millis(40);
        let mut attacked = Attacked { dir, store, model: BTreeMap::new(), next: 1, span };
        let begun = Instant::now();
        let (_, child) = attacked.save(0);
        assert!({ child }.wait().unwrap().success());
        attacked.span = begun.elapsed() * 5 / 4;
        attacked.model.insert(1, 0);
        attacked
    }

    /// Starts saving the next step.
    fn save(&mut self, version: u64) -> (u64, Child) {
        let (step, source) = (self.next, source(self.dir.path(), version));
        self.next += 1;
        let args = ["store", "save", "--threads", "1", "--step", &step.to_string()];
        (step, start(&args, &[self.store.root(), &source]))
    }

    fn instant(&self, case: &mut Case) -> Duration {
        self.span.mul_f64(case.rng.below(1000) as f64 / 1000.0)
    }

    /// A step whose save may or may not have come to its end.
    fn settle(&mut self, step: u64, version: u64, acknowledged: bool) -> Result<(), String> {
        let exists = steps(&self.store)?.contains(&step);
        if acknowledged && !exists {
            return Err(format!("step {step} was acknowledged and is gone"));
        }
        if exists {
            self.model.insert(step, version);
            restores(&self.store, step, version)?;
        }
        Ok(())
    }

    fn round(&mut self, case: &mut Case) -> Result<&'static str, String> {
        let [version, other] = [(); 2].map(|()| case.rng.below(6) as u64);
        let instant = self.instant(case);
        match case.rng.below(6) {
            0 | 1 => {
                let (step, child) = self.save(version);
                let done = kill(child, instant);
                self.settle(step, version, done)?;
                Ok(if done { "save that was done" } else { "save killed" })
            }
            2 => {
                let child = start(&["store", "gc"], &[self.store.root()]);
                let done = kill(child, instant / 4);
                let left = steps(&self.store)?;
                let due: Vec<u64> = self.model.keys().rev().take(KEPT).copied().collect();
                if let Some(step) = due.iter().find(|step| !left.contains(step)) {
                    return Err(format!("gc removed step {step}, which it keeps"));
                }
                self.model.retain(|step, _| left.contains(step));
                Ok(if done { "gc that was done" } else { "gc killed" })
            }
            n => {
                let (first, a) = self.save(version);
                let (second, mut b) = self.save(other);
                // One is killed, or none.
                let killed = n == 3;
                let done = if killed { kill(a, instant) } else { { a }.wait().unwrap().success() };
                if !b.wait().unwrap().success() || !(done || killed) {
                    return Err("one of two saves at once failed".into());
                }
                self.settle(first, version, done)?;
                self.settle(second, other, true)?;
                Ok(if killed { "two saves, one killed" } else { "two saves" })
            }
        }
    }

    /// The next save works, and leaves nothing beside what counts.
    fn recovers(&mut self) -> Result<(), String> {
        let (step, version) = (self.next, self.next % 6);
        self.next += 1;
        let from = source(self.dir.path(), version);
        self.store.save(&from, step, &SaveOptions::default()).map_err(|e| e.to_string())?;
        self.model.insert(step, version);
        let listing = self.store.list().map_err(|e| e.to_string())?;
        let mut names: Vec<_> = fs::read_dir(self.store.root().join("steps"))
            .unwrap()
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        for record in &listing.steps {
            names.retain(|n| *n != record.archive && *n != format!("{:010}.json", record.step));
        }
        if !names.is_empty() {
            return Err(format!("left over: {names:?}"));
        }
        let listed: Vec<u64> = listing.steps.iter().map(|r| r.step).collect();
        let lost = self.model.keys().find(|step| !listed.contains(step));
        lost.map_or(Ok(()), |step| Err(format!("step {step} was lost")))
    }
}

#[test]
fn kills_and_saves_at_once_lose_no_step() {
    let mut cases = Cases::new("kills");
    let mut attacked = Attacked::new();
    while let Some(mut case) = cases.next() {
        let done = attacked.round(&mut case).and_then(|what| {
            attacked.recovers()?;
            let any: Vec<_> = attacked.model.iter().map(|(a, b)| (*a, *b)).collect();
            let (step, version) = *case.rng.pick(&any);
            restores(&attacked.store, step, version).map(|()| what)
        });
        match done {
            Ok(what) => cases.count(what),
            Err(e) => {
                cases.broken(true, "kills", case.number, &e);
                break;
            }
        }
    }
    for (step, version) in &attacked.model {
        if let Err(e) = restores(&attacked.store, *step, *version) {
            cases.broken(true, "at the end", 0, &e);
        }
    }
    cases.finish();
}

#[test]
fn killed_runs_leave_whole_output_or_none() {
    let mut cases = Cases::new("killed output");
    let dir = tempfile::tempdir().unwrap();
    let (from, sound) = (source(dir.path(), 1), dir.path().join("sound.lmc"));
    let made = start(&["compress", "-q"], &[&from, Path::new("-o"), &sound]).wait().unwrap();
    assert!(made.success());
    let mut number = 0;
    while let Some(mut case) = cases.next() {
        number += 1;
        let work = dir.path().join("work");
        fs::create_dir_all(&work).unwrap();
        let out = work.join(format!("out-{number}"));
        let compresses = case.rng.one_in(2);
        let (verb, input) = if compresses { ("compress", &from) } else { ("decompress", &sound) };
        let run = || start(&[verb, "-q"], &[input, Path::new("-o"), &out]);
        let done = kill(run(), Duration::from_micros(case.rng.below(25_000) as u64));
        let whole = || match compresses {
            false => holds(&out, 1),
            true => {
                let back = work.join("back");
                let done = start(&["decompress", "-q"], &[&out, Path::new("-o"), &back]).wait();
                let whole = done.unwrap().success() && holds(&back, 1);
                let _ = fs::remove_dir_all(back);
                whole
            }
        };
        if done != out.exists() && done || out.exists() && !whole() {
            cases.broken(true, "output", case.number, verb);
        }
        cases.count(if done { "done" } else { "killed" });
        let stale = temporaries(&work);
        if !stale.is_empty() {
            cases.count("left a temporary");
            let again = work.join("again");
            start(&[verb, "-q"], &[input, Path::new("-o"), &again]).wait().unwrap();
            if let Some(path) = temporaries(&work).first() {
                let why = path.display().to_string();
                let required = promise::STALE_TEMPORARIES_REQUIRED;
                cases.broken(required, "temporary kept by the next run", case.number, &why);
            }
        }
        fs::remove_dir_all(work).unwrap();
    }
    cases.finish();
}
