//! What a step is a delta to: chosen, given, and changed afterwards, whatever happens meanwhile.

mod series;

use lmc_gpu::{
    Error,
    store::{Existing, Form, GcOptions, Locking, Needed, Onto, Policy, SaveOptions, Store},
};
use series::{assert_restores, assert_restores_as, checkpoint, files};
use std::path::Path;

fn store_of(dir: &Path, steps: &[u64]) -> Store {
    let policy = Policy::default().with_rebase_above(1.0);
    let store = Store::init(dir.join("run"), policy).unwrap();
    for &step in steps {
        checkpoint(&dir.join(step.to_string()), step);
        store.save(dir.join(step.to_string()), step, &SaveOptions::default()).unwrap();
    }
    store
}

fn bases(store: &Store) -> Vec<(u64, Option<u64>)> {
    store.list().unwrap().steps.iter().map(|r| (r.step, r.base())).collect()
}

/// Files in `steps` that are neither the record nor the archive of a step.
fn left_over(store: &Store) -> Vec<String> {
    let names = std::fs::read_dir(store.root().join("steps")).unwrap();
    let mut names: Vec<String> =
        names.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    for r in store.list().unwrap().steps {
        names.retain(|n| *n != r.archive && *n != format!("{:010}.json", r.step));
    }
    names
}

#[test]
fn after_a_step_of_the_model_alone_a_whole_one_is_a_delta_to_the_whole_one_before() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[1]);
    for step in 2..6 {
        let source = dir.path().join(step.to_string());
        checkpoint(&source, step);
        if step % 2 == 0 {
            for (path, _) in files(step).iter().filter(|f| f.0 != "model.safetensors") {
                std::fs::remove_file(source.join(path)).unwrap();
            }
        }
        store.save(&source, step, &SaveOptions::default()).unwrap();
    }
    assert_eq!(bases(&store), [(1, None), (2, Some(1)), (3, Some(1)), (4, Some(3)), (5, Some(3))]);
    for step in [1, 3, 5] {
        assert_restores(&store, step);
    }
    assert!(store.verify(&[]).unwrap().is_whole());
}

#[test]
fn a_base_that_is_asked_for_is_taken_or_refused_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[1, 2, 3]);
    checkpoint(&dir.path().join("4"), 4);
    let onto = |base| SaveOptions::default().with_base(base);
    let saved = store.save(dir.path().join("4"), 4, &onto(1)).unwrap();
    assert_eq!((saved.record.base(), saved.record.chain.len()), (Some(1), 1));
    assert_restores(&store, 4);
    for (step, options) in [(5, onto(5)), (5, onto(9)), (5, onto(1).with_form(Form::Full))] {
        let refused = store.save(dir.path().join("4"), step, &options);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    }
    assert_eq!(bases(&store).len(), 4);
}

#[test]
fn a_step_that_is_stored_anew_restores_and_so_does_what_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[1, 2, 3, 4]);
    let saved_at = store.record(3).unwrap().unwrap().saved_at;
    let rebased = store.rebase(3, Onto::Full, Locking::Wait).unwrap();
    assert_eq!((rebased.record.base(), rebased.record.saved_at), (None, saved_at));
    assert_eq!(bases(&store), [(1, None), (2, Some(1)), (3, None), (4, Some(3))]);
    assert_eq!(store.record(4).unwrap().unwrap().chain.len(), 1);
    store.rebase(3, Onto::Step(1), Locking::Wait).unwrap();
    assert_eq!(store.record(4).unwrap().unwrap().chain.len(), 2);
    for step in 1..=4 {
        assert_restores(&store, step);
    }
    assert_eq!(left_over(&store), [""; 0]);
    // Another content under an old number does not mix with what needs the former.
    store
        .save(dir.path().join("1"), 3, &SaveOptions::default().with_existing(Existing::Replace))
        .unwrap();
    store.rebase(3, Onto::Full, Locking::Wait).unwrap();
    assert_restores_as(&store, 3, 1);
    assert_restores(&store, 4);
    for (step, onto) in [(9, Onto::Full), (3, Onto::Step(3)), (3, Onto::Step(4))] {
        let refused = store.rebase(step, onto, Locking::Wait);
        assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    }
}

#[test]
fn a_base_that_is_damaged_stops_a_rebase_and_nothing_changes() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[1, 2, 3]);
    let archive = store.root().join("steps/0000000001.lmc");
    let whole = std::fs::read(&archive).unwrap();
    let mut bad = whole.clone();
    let n = bad.len();
    bad[n / 8..n * 7 / 8].iter_mut().for_each(|b| *b ^= 1);
    std::fs::write(&archive, &bad).unwrap();
    let before = bases(&store);
    assert!(store.rebase(2, Onto::Full, Locking::Wait).is_err());
    let policy = Policy::default().with_keep_last(Some(1));
    let options = GcOptions::default().with_policy(policy).with_needed(Needed::Go);
    assert!(store.gc(&options).is_err());
    assert_eq!((bases(&store), left_over(&store)), (before, vec![]));
    std::fs::write(&archive, &whole).unwrap();
    for step in 1..=3 {
        assert_restores(&store, step);
    }
}

#[test]
fn gc_keeps_nothing_but_what_the_policy_names_when_bases_are_to_go() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[1, 2, 3, 4, 5, 6]);
    let policy = Policy::default().with_keep_last(Some(2)).with_keep_every(Some(3));
    let options = GcOptions::default().with_policy(policy).with_needed(Needed::Go);
    let removed = store.gc(&options).unwrap();
    assert_eq!(removed.steps, [4, 2, 1]);
    assert_eq!(removed.rebased, [3, 5]);
    assert!(removed.kept_as_base.is_empty() && removed.written_bytes > 0);
    // Step 5 was a delta to 4, which was one to 3.
    assert_eq!(bases(&store), [(3, None), (5, Some(3)), (6, Some(5))]);
    for step in [3, 5, 6] {
        assert_restores(&store, step);
    }
    assert_eq!(left_over(&store), [""; 0]);
}

#[test]
fn steps_that_others_need_are_removed_only_when_those_are_stored_anew() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[1, 2, 3]);
    let refused = store.remove(&[1], Needed::Stay, Locking::Wait);
    assert!(matches!(refused, Err(Error::InvalidArgument(_))), "{refused:?}");
    assert_eq!(bases(&store).len(), 3);
    let removed = store.remove(&[1], Needed::Go, Locking::Wait).unwrap();
    assert_eq!((removed.steps, removed.rebased), (vec![1], vec![2]));
    assert_eq!(bases(&store), [(2, None), (3, Some(2))]);
    store.remove(&[3, 2], Needed::Stay, Locking::Wait).unwrap();
    assert!(bases(&store).is_empty() && left_over(&store).is_empty());
}

#[cfg(all(feature = "cli", unix))]
#[test]
fn a_collection_killed_at_any_instant_loses_no_kept_step_and_the_next_one_ends_it() {
    use std::{
        process::{Command, Stdio},
        time::{Duration, Instant},
    };
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), &[1, 2, 3, 4, 5, 6, 7]);
    let copy = |name: &str| -> Store {
        let root = dir.path().join(name);
        std::fs::create_dir_all(root.join("steps")).unwrap();
        std::fs::copy(store.root().join("lmc-store.json"), root.join("lmc-store.json")).unwrap();
        for entry in std::fs::read_dir(store.root().join("steps")).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), root.join("steps").join(entry.file_name())).unwrap();
        }
        Store::open(root).unwrap()
    };
    let collect = |store: &Store| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lmc-gpu"));
        command.args(["store", "gc", "--keep-every", "2", "--rebase", "-T1"]).arg(store.root());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let whole = copy("whole");
    let started = Instant::now();
    assert!(collect(&whole).status().unwrap().success());
    let time = started.elapsed();
    let kept = [2, 4, 6, 7];
    let n: u32 = std::env::var("LMC_KILLS").ok().and_then(|n| n.parse().ok()).unwrap_or(16);
    for i in 0..n {
        let store = copy(&format!("run{i}"));
        let mut child = collect(&store).spawn().unwrap();
        std::thread::sleep(time * i / n + Duration::from_micros(u64::from(i)));
        let _ = child.kill();
        child.wait().unwrap();
        for step in kept {
            assert_restores(&store, step);
        }
        assert!(store.verify(&[]).unwrap().is_whole());
        assert!(collect(&store).status().unwrap().success());
        let listed: Vec<u64> = store.list().unwrap().steps.iter().map(|r| r.step).collect();
        assert_eq!(listed, kept);
        assert_eq!(left_over(&store), [""; 0]);
        for step in kept {
            assert_restores(&store, step);
        }
    }
}
