//! What a store promises when nothing goes wrong; `store_faults.rs` has the rest.

mod series;

use lmc_gpu::{
    Error, Overwrite,
    dtype::Dtype,
    internals::archive::Options,
    store::{
        Bytes, Checkpointer, CheckpointerOptions, Collecting, Existing, GcOptions, LastSaved,
        Locking, Policy, SaveOptions, Snapshot, Store, Tensor,
    },
};
use series::{assert_restores, checkpoint, fill};
use std::{path::Path, time::Duration};

fn store_of(dir: &Path, policy: Policy, steps: &[u64]) -> Store {
    let store = Store::init(dir.join("run"), policy).unwrap();
    for &step in steps {
        checkpoint(&dir.join(step.to_string()), step);
        store.save(dir.join(step.to_string()), step, &SaveOptions::default()).unwrap();
    }
    store
}

fn steps(store: &Store) -> Vec<u64> {
    let listing = store.list().unwrap();
    assert!(listing.unreadable.is_empty());
    listing.steps.iter().map(|r| r.step).collect()
}

#[test]
fn every_step_of_a_series_restores_exactly() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), Policy::default(), &[1, 2, 3, 10, 20, 21]);
    assert_eq!(steps(&store), [1, 2, 3, 10, 20, 21]);
    let again = Store::open(store.root()).unwrap();
    for step in [1, 2, 3, 10, 20, 21] {
        assert_restores(&again, step);
    }
    assert!(again.verify(&[]).unwrap().is_whole());
    for record in again.list().unwrap().steps {
        let files: u64 = record.files.iter().map(|f| f.stored_bytes).sum();
        assert!(files <= record.archive_bytes && files > record.archive_bytes / 2);
        assert_eq!(record.files.iter().map(|f| f.bytes).sum::<u64>(), record.input_bytes);
    }
}

#[test]
fn a_single_file_restores_as_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init(dir.path().join("run"), Policy::default()).unwrap();
    let source = dir.path().join("weights.bin");
    for step in 0..3u64 {
        std::fs::write(&source, fill(step, 50_000)).unwrap();
        store.save(&source, step, &SaveOptions::default()).unwrap();
    }
    for step in 0..3u64 {
        let out = dir.path().join(format!("out{step}"));
        store.restore(step, &out, Overwrite::Refuse).unwrap();
        assert_eq!(std::fs::read(&out).unwrap(), fill(step, 50_000));
        assert!(matches!(
            store.restore(step, &out, Overwrite::Refuse),
            Err(Error::InvalidArgument(_))
        ));
        store.restore(step, &out, Overwrite::Files).unwrap();
    }
}

#[test]
fn steps_may_come_in_any_order() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), Policy::default(), &[50, 10, 30, 40, 20]);
    for step in [10, 20, 30, 40, 50] {
        assert_restores(&store, step);
    }
}

#[test]
fn a_step_is_not_saved_twice_unless_it_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), Policy::default(), &[1, 2, 3]);
    let other = dir.path().join("other");
    checkpoint(&other, 77);
    let e = store.save(&other, 2, &SaveOptions::default()).unwrap_err();
    assert!(e.is_usage() && e.to_string().contains("step 2"), "{e}");
    assert_restores(&store, 2);
    for step in [2, 2, 3, 1] {
        store.save(&other, step, &SaveOptions::default().with_existing(Existing::Replace)).unwrap();
        series::assert_restores_as(&store, step, 77);
        assert!(store.verify(&[]).unwrap().is_whole());
    }
    let removed = store.gc(&GcOptions::default()).unwrap();
    assert!(removed.steps.is_empty());
    assert!(store.verify(&[]).unwrap().is_whole());
    assert_eq!(steps(&store), [1, 2, 3]);
}

#[test]
fn policies_make_full_steps_and_cap_chains() {
    let dir = tempfile::tempdir().unwrap();
    let numbers: Vec<u64> = (1..=7).collect();
    let policy = Policy::default().with_full_every(3).with_rebase_above(1.0);
    let by_count = store_of(dir.path(), policy, &numbers);
    let chains = |store: &Store| -> Vec<usize> {
        store.list().unwrap().steps.iter().map(|r| r.chain.len()).collect()
    };
    assert_eq!(chains(&by_count), [0, 1, 2, 0, 1, 2, 0]);
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::default().with_full_every(0).with_max_chain(4).with_rebase_above(1.0);
    let capped = store_of(dir.path(), policy, &numbers);
    assert_eq!(chains(&capped), [0, 1, 2, 3, 4, 0, 1]);
    let dir = tempfile::tempdir().unwrap();
    let never = store_of(dir.path(), Policy::default().with_rebase_above(0.0), &[1, 2, 3]);
    assert_eq!(chains(&never), [0, 0, 0]);
}

#[test]
fn gc_keeps_what_the_policy_names_and_the_bases_it_needs() {
    let dir = tempfile::tempdir().unwrap();
    let numbers: Vec<u64> = (1..=9).collect();
    let policy = Policy::default().with_full_every(4).with_rebase_above(1.0);
    let store = store_of(dir.path(), policy.clone(), &numbers);
    assert!(store.gc(&GcOptions::default()).unwrap().steps.is_empty());
    let keep = policy.with_keep_last(Some(1)).with_keep_every(Some(3));
    let options = GcOptions::default().with_policy(Some(keep)).with_collecting(Collecting::DryRun);
    let dry = store.gc(&options).unwrap();
    assert_eq!(steps(&store), numbers);
    let removed = store.gc(&options.clone().with_collecting(Collecting::Remove)).unwrap();
    assert_eq!(removed, dry);
    // Full are 1, 5 and 9; kept are 3, 6 and 9; 3 needs 2 and 1, 6 needs 5.
    assert_eq!(removed.steps, [8, 7, 4]);
    assert_eq!(removed.kept_as_base, [5, 2, 1]);
    for step in steps(&store) {
        assert_restores(&store, step);
    }
    let removed = store.gc(&GcOptions::default().with_drop_after(Some(3))).unwrap();
    assert_eq!(removed.steps, [9, 6, 5]);
    assert_eq!(steps(&store), [1, 2, 3]);
    assert!(store.verify(&[]).unwrap().is_whole());
}

#[test]
fn a_missing_step_names_the_nearest_and_a_missing_store_says_how_to_make_one() {
    let dir = tempfile::tempdir().unwrap();
    let e = Store::open(dir.path()).unwrap_err();
    assert!(e.is_usage() && e.to_string().contains("store init"), "{e}");
    let store = store_of(dir.path(), Policy::default(), &[10, 20]);
    let e = store.restore(17, dir.path().join("out"), Overwrite::Refuse).unwrap_err();
    assert!(e.is_usage() && e.to_string().contains("20"), "{e}");
    assert!(Store::init(store.root(), Policy::default()).unwrap_err().is_usage());
    assert!(Store::init(dir.path().join("x"), Policy::default().with_max_chain(0)).is_err());
}

#[test]
fn stats_count_every_stream() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), Policy::default(), &[1, 2, 3]);
    let stats = store.stats().unwrap();
    assert_eq!(stats.steps.len(), 3);
    for name in ["model", "master"] {
        assert!(stats.streams.iter().any(|s| s == name), "{:?}", stats.streams);
    }
    for step in &stats.steps {
        assert_eq!(step.stream_bytes.iter().sum::<u64>(), step.input_bytes);
    }
    assert!(stats.to_html("run").contains("<svg"));
    let of = |base: bool| -> Vec<_> {
        stats.steps.iter().filter(|s| s.base.is_some() == base).collect()
    };
    let (full, deltas) = (of(false), of(true));
    assert_eq!(stats.full_cost().unwrap(), (full[0].archive_bytes, full[0].ratio()));
    let all: u64 = deltas.iter().map(|s| s.archive_bytes).sum();
    assert_eq!(stats.delta_cost().unwrap().0, all / deltas.len() as u64);
}

fn snapshot(seed: u64) -> Snapshot {
    let weights: Vec<f32> = fill(seed, 40_000).iter().map(|&b| f32::from(b) / 256.0).collect();
    let tensor = Tensor::new("w", Dtype::F32, &[400, 100], Bytes::from_words(weights)).unwrap();
    let step = Tensor::new("step", Dtype::I64, &[], seed.to_le_bytes().to_vec()).unwrap();
    Snapshot::new()
        .with_tensors("optimizer/state.safetensors", vec![tensor, step])
        .with_bytes("meta.json", format!("{{\"seed\": {seed}}}").into_bytes())
}

#[test]
fn a_checkpointer_saves_in_the_background_and_gives_tensors_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init(dir.path(), Policy::default()).unwrap();
    let store = store.with_options(Options::default().with_threads(1));
    let checkpointer =
        Checkpointer::new(store.clone(), CheckpointerOptions::default().with_queue(2)).unwrap();
    let mut tickets = Vec::new();
    for step in 1..=5 {
        tickets.push(checkpointer.save(step, snapshot(step)).unwrap());
    }
    for (ticket, step) in tickets.into_iter().zip(1..) {
        assert_eq!(ticket.wait().unwrap().record.step, step);
    }
    for step in 1..=5u64 {
        let (back, made) = (checkpointer.restore(step).unwrap(), snapshot(step));
        for name in ["w", "step"] {
            let path = "optimizer/state.safetensors";
            let (a, b) = (back.tensor(path, name).unwrap(), made.tensor(path, name).unwrap());
            assert_eq!((a.dtype, &a.shape, &*a.bytes), (b.dtype, &b.shape, &*b.bytes));
        }
        assert_eq!(**back.bytes("meta.json").unwrap(), **made.bytes("meta.json").unwrap());
    }
    let report = checkpointer.finish().unwrap();
    assert_eq!((report.saved, report.failed), (5, 0));
    assert!(report.bytes_per_second() > 0.0 && report.archive_bytes < report.input_bytes);
    assert!(store.verify(&[]).unwrap().is_whole());
}

#[test]
fn a_snapshot_kept_in_memory_makes_the_same_archives_as_one_decoded() {
    let dir = tempfile::tempdir().unwrap();
    let archives = [LastSaved::Keep, LastSaved::Forget].map(|keep| {
        let root = dir.path().join(format!("{keep:?}"));
        let store = Store::init(&root, Policy::default().with_rebase_above(1.0)).unwrap();
        let options = CheckpointerOptions::default().with_last_saved(keep);
        let checkpointer = Checkpointer::new(store.clone(), options).unwrap();
        for step in 1..6 {
            checkpointer.save(step, snapshot(step / 3)).unwrap();
        }
        checkpointer.finish().unwrap();
        assert!(store.verify(&[]).unwrap().is_whole());
        let records = store.list().unwrap().steps;
        assert!(records.iter().skip(1).any(|r| r.base().is_some()));
        let read = |r: &lmc_gpu::store::StepRecord| {
            std::fs::read(root.join("steps").join(&r.archive)).unwrap()
        };
        records.iter().map(read).collect::<Vec<_>>()
    });
    assert!(archives[0] == archives[1]);
}

#[test]
fn a_full_queue_blocks_and_says_how_long() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init(dir.path(), Policy::default()).unwrap();
    let lock = std::fs::File::create(dir.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let options = CheckpointerOptions::default().with_queue(1);
    let checkpointer = Checkpointer::new(store, options).unwrap();
    let first = checkpointer.save(1, snapshot(1)).unwrap();
    assert!(!first.is_done());
    let unlock = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(120));
        drop(lock);
    });
    checkpointer.save(2, snapshot(2)).unwrap();
    let third = checkpointer.save(3, snapshot(3)).unwrap();
    assert!(third.stalled() >= Duration::from_millis(50), "{:?}", third.stalled());
    unlock.join().unwrap();
    third.wait().unwrap();
    assert!(first.is_done());
    assert!(checkpointer.report().stalled >= Duration::from_millis(50));
}

#[test]
fn a_save_that_would_wait_for_room_can_have_its_snapshot_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init(dir.path(), Policy::default()).unwrap();
    let lock = std::fs::File::create(dir.path().join("lock")).unwrap();
    lock.lock().unwrap();
    let options = CheckpointerOptions::default().with_queue(1);
    let checkpointer = Checkpointer::new(store, options).unwrap();
    let mut tickets = Vec::new();
    let back = loop {
        // The first is in the worker's hands, or in the queue; the second in the queue.
        match checkpointer.try_save(1 + tickets.len() as u64, snapshot(1)).unwrap() {
            Ok(ticket) => tickets.push(ticket),
            Err(snapshot) => break snapshot,
        }
    };
    assert!((1..=2).contains(&tickets.len()));
    drop(lock);
    tickets.push(checkpointer.save(9, back).unwrap());
    for ticket in tickets {
        ticket.wait().unwrap();
    }
    assert_eq!(checkpointer.restore(9).unwrap().len(), snapshot(1).len());
}

#[test]
fn a_failed_save_shows_on_its_ticket_and_on_the_next_save() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init(dir.path(), Policy::default()).unwrap();
    let checkpointer = Checkpointer::new(store.clone(), CheckpointerOptions::default()).unwrap();
    checkpointer.save(1, snapshot(1)).unwrap().wait().unwrap();
    let e = checkpointer.save(1, snapshot(2)).unwrap().wait().unwrap_err();
    assert!(e.to_string().contains("step 1"), "{e}");
    let e = checkpointer.save(2, snapshot(2)).unwrap_err();
    assert!(e.to_string().contains("earlier"), "{e}");
    checkpointer.save(2, snapshot(2)).unwrap();
    drop(checkpointer);
    assert_eq!(steps(&store), [1, 2]);
}

#[test]
fn an_abandoned_checkpointer_leaves_nothing_half_done() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::init(dir.path(), Policy::default()).unwrap();
    let checkpointer =
        Checkpointer::new(store.clone(), CheckpointerOptions::default().with_queue(9)).unwrap();
    let tickets: Vec<_> =
        (1..9).map(|step| checkpointer.save(step, snapshot(step)).unwrap()).collect();
    checkpointer.abandon();
    let saved = tickets.into_iter().filter_map(|t| t.wait().ok()).count();
    assert_eq!(steps(&store).len(), saved);
    assert!(store.verify(&[]).unwrap().is_whole());
    store.save_input(&snapshot(50).to_input().unwrap(), 50, &SaveOptions::default()).unwrap();
}

#[test]
fn a_second_writer_waits_or_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = store_of(dir.path(), Policy::default(), &[1]);
    let lock = std::fs::File::create(store.root().join("lock")).unwrap();
    lock.lock().unwrap();
    let input = snapshot(5).to_input().unwrap();
    let fail = SaveOptions::default().with_locking(Locking::Fail);
    let e = store.save_input(&input, 5, &fail).unwrap_err();
    assert!(e.to_string().contains("another process"), "{e}");
    assert_restores(&store, 1);
    drop(lock);
    store.save_input(&input, 5, &fail).unwrap();
}
