//! What becomes of a store whose policy file is damaged, and of steps that its policy would not
//! keep.

mod series;

use lmc_gpu::{
    Archive, Error, compress_path,
    internals::archive::Options,
    store::{AfterSave, Policy, SaveOptions, Store},
};
use series::{assert_restores, checkpoint};
use std::fs;

#[test]
fn a_damaged_or_missing_policy_file_is_written_anew_and_every_step_stays() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("run");
    let store = Store::init(&root, Policy::default()).unwrap();
    for step in [1, 2, 3] {
        let source = dir.path().join(step.to_string());
        checkpoint(&source, step);
        store.save(&source, step, &SaveOptions::default()).unwrap();
    }
    let file = root.join("lmc-store.json");
    let whole = fs::read(&file).unwrap();
    let cases: [Option<&[u8]>; 5] =
        [Some(b""), Some(b"\xff\0garbage"), Some(b"{}"), Some(&whole[..whole.len() / 2]), None];
    for case in cases {
        match case {
            Some(bytes) => fs::write(&file, bytes).unwrap(),
            None => fs::remove_file(&file).unwrap(),
        }
        let Err(e) = Store::open(&root) else { panic!("{case:?} opens") };
        assert!(e.to_string().contains("store repair"), "{e}");
        let store = Store::repair(&root, None).unwrap();
        let listed: Vec<u64> = store.list().unwrap().steps.iter().map(|r| r.step).collect();
        assert_eq!(listed, [1, 2, 3]);
        for step in listed {
            assert_restores(&Store::open(&root).unwrap(), step);
        }
    }
}

#[test]
fn a_directory_that_is_no_store_is_not_made_one_by_a_repair() {
    let dir = tempfile::tempdir().unwrap();
    assert!(matches!(Store::repair(dir.path(), None), Err(Error::InvalidArgument(_))));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_step_that_gc_would_remove_at_once_is_refused_before_anything_is_written() {
    let dir = tempfile::tempdir().unwrap();
    let policy = Policy::default().with_keep_last(Some(1));
    let store = Store::init(dir.path().join("run"), policy).unwrap();
    let saving = |step: u64, after: AfterSave| {
        let source = dir.path().join(step.to_string());
        checkpoint(&source, step);
        store.save(&source, step, &SaveOptions::default().with_after(after))
    };
    saving(30, AfterSave::Collect).unwrap();
    let files = || fs::read_dir(store.root().join("steps")).unwrap().count();
    let before = files();
    let Err(Error::InvalidArgument(why)) = saving(20, AfterSave::Collect) else { panic!("saved") };
    assert!(why.contains("step 20") && why.contains("without --gc"), "{why}");
    assert_eq!(files(), before);
    saving(20, AfterSave::Nothing).unwrap();
    assert_restores(&store, 20);
    saving(40, AfterSave::Collect).unwrap();
    assert_restores(&store, 40);
}

#[test]
fn many_files_come_back_when_their_file_system_is_synced_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("many");
    for i in 0..300u32 {
        let path = source.join(format!("{}/{i}.bin", i % 7));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, i.to_le_bytes().repeat(i as usize)).unwrap();
    }
    let (archive, out) = (dir.path().join("many.lmc"), dir.path().join("out"));
    let options = Options::default();
    compress_path(&source, &archive, &options.compressing()).unwrap();
    Archive::open(&archive, &options.restoring())
        .unwrap()
        .restore(&out, &options.restoring())
        .unwrap();
    for i in 0..300u32 {
        let bytes = fs::read(out.join(format!("{}/{i}.bin", i % 7))).unwrap();
        assert_eq!(bytes, i.to_le_bytes().repeat(i as usize));
    }
}
