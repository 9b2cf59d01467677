//! The public interface: what it promises of its types, and every way in and out.

mod common;

use common::{Rng, safetensors, sample_file};
use lmc_gpu::{
    Archive, ArchivedFile, Base, Cancel, CompressOptions, Damage, Detail, Entry, Error, Limits,
    Method, Name, OnDamage, Overwrite, Reader, RestoreOptions, Restored, Summary, TensorInfo,
    Usage, Writer, compress, compress_into, compress_path, decompress, decompress_into,
    dtype::{Dtype, Fields},
    store::{
        Bytes, Checkpointer, CheckpointerOptions, Content, GcOptions, Link, Listing, Policy,
        Removed, Report, SaveOptions, Saved, Snapshot, Stats, StepHealth, StepRecord, StepStats,
        Store, StoredFile, Tensor, Ticket, Verified,
    },
};
use std::{
    fmt::Debug,
    fs,
    io::{self, Cursor, Read, Seek, SeekFrom, Write},
};

fn compressing() -> CompressOptions {
    CompressOptions::default().with_threads(2)
}

fn restoring() -> RestoreOptions {
    RestoreOptions::default().with_threads(2)
}

#[test]
fn public_types_can_be_shown_and_go_to_other_threads() {
    fn good<T: Debug + Send + Sync + ?Sized>() {}
    good::<Archive<'static>>();
    good::<ArchivedFile<'static, 'static>>();
    good::<TensorInfo>();
    good::<(Writer<Vec<u8>>, Reader<Cursor<Vec<u8>>>)>();
    good::<(CompressOptions, RestoreOptions, Base, Limits, Cancel, Method, Usage)>();
    good::<(Summary, Restored, Damage, Entry, Name)>();
    good::<(Error, Detail)>();
    good::<(Dtype, Fields)>();
    good::<(Store, Policy, Listing, StepRecord, Link, StoredFile, Stats, StepStats)>();
    good::<(SaveOptions, Saved, GcOptions, Removed, StepHealth, Verified)>();
    good::<(Checkpointer, CheckpointerOptions, Report, Ticket)>();
    good::<(Snapshot, Content, Tensor, Bytes)>();
}

#[cfg(feature = "gpu")]
#[test]
fn types_of_devices_can_be_shown_and_go_to_other_threads() {
    use lmc_gpu::{
        gpu::{Adapter, Buffer, Decoder, Device, Encoder, Region, Resident, Selector, Transformer},
        store::DeviceTensor,
    };
    fn good<T: Debug + Send + Sync>() {}
    good::<(Device, Adapter, Selector, Buffer, Region<'static>, Resident, Transformer)>();
    good::<DeviceTensor>();
    // One thread at a time works with these.
    fn moves<T: Debug + Send>() {}
    moves::<(Encoder, Decoder)>();
}

/// Three tensors, one of many chunks and one gathered with others.
fn model() -> (Vec<u8>, Vec<u8>) {
    let big = Rng::new(1).values(Dtype::BF16, 1_500_000, 0);
    let small = Rng::new(2).values(Dtype::F32, 10, 0);
    let tensors = [
        ("small".into(), "F32", vec![2, 5], small.clone()),
        ("big".into(), "BF16", vec![1500, 1000], big.clone()),
        ("other".into(), "F32", vec![10], small),
    ];
    (safetensors(&tensors), big)
}

#[test]
fn a_tensor_is_found_by_name_and_decoded_on_any_number_of_threads() {
    let (file, big) = model();
    let bytes = compress(&file, &compressing()).unwrap();
    for threads in [1, 2, 5] {
        let archive = Archive::from_bytes(&bytes, &restoring().with_threads(threads)).unwrap();
        let names: Vec<&str> = archive.tensors().unwrap().iter().map(TensorInfo::name).collect();
        assert_eq!(names.len(), 3);
        let (info, elements) = archive.tensor("big").unwrap();
        assert_eq!((info.dtype(), info.shape()), (Dtype::BF16, &[1500, 1000][..]));
        assert!(elements == big, "{threads}");
        let mut out = vec![0; info.byte_len() as usize];
        assert_eq!(archive.tensor_into("big", &mut out).unwrap().name(), "big");
        assert!(out == big, "{threads}");
    }
}

#[test]
fn tensors_and_files_that_are_not_there_are_errors_that_say_what_is() {
    let (file, _) = model();
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("checkpoint"), dir.path().join("c.lmc"));
    fs::create_dir(&from).unwrap();
    fs::create_dir(from.join("sub")).unwrap();
    fs::write(from.join("model.safetensors"), &file).unwrap();
    compress_path(&from, &to, &compressing()).unwrap();
    let archive = Archive::open(&to, &restoring()).unwrap();
    let argument = |e: Error, text: &str| {
        assert!(matches!(&e, Error::InvalidArgument(m) if m.contains(text)), "{e}");
    };
    argument(archive.tensor("bigg").unwrap_err(), "\"big\"");
    argument(archive.tensor_into("big", &mut [0; 7]).unwrap_err(), "7 bytes");
    argument(archive.file(9).map(drop).unwrap_err(), "there are 2");
    argument(archive.file_named("model").map(drop).unwrap_err(), "model.safetensors");
    argument(archive.file_named("sub").map(drop).unwrap_err(), "a directory");
    assert!(archive.tensor("model.safetensors:big").is_ok());
    assert!(archive.is_directory() && !archive.is_delta());
}

#[test]
fn a_file_of_an_archive_is_read_from_any_place() {
    let (file, _) = model();
    let bytes = compress(&file, &compressing()).unwrap();
    let archive = Archive::from_bytes(&bytes, &restoring()).unwrap();
    let mut opened = archive.file(0).unwrap();
    let mut all = Vec::new();
    opened.read_to_end(&mut all).unwrap();
    assert!(all == file);
    for (to, at) in [
        (SeekFrom::Start(700_001), 700_001),
        (SeekFrom::Current(-1000), 699_101),
        (SeekFrom::End(-100), file.len() - 100),
    ] {
        opened.seek(to).unwrap();
        let mut part = [0; 100];
        opened.read_exact(&mut part).unwrap();
        assert!(part[..] == file[at..at + 100], "{to:?}");
    }
    assert_eq!(opened.read(&mut [0; 10]).unwrap(), 0);
    assert!(opened.seek(SeekFrom::Current(i64::MIN)).is_err());
    opened.seek(SeekFrom::Start(u64::MAX)).unwrap();
    assert_eq!(opened.read(&mut [0; 10]).unwrap(), 0);
}

#[test]
fn an_error_names_file_tensor_and_chunk_as_data() {
    let (file, _) = model();
    let bytes = compress(&file, &compressing()).unwrap();
    let at = bytes.len() / 2;
    let mut bad = bytes.clone();
    bad[at] ^= 1;
    let archive = Archive::from_bytes(&bad, &restoring()).unwrap();
    let e = archive.tensor("big").unwrap_err();
    assert!(matches!(e, Error::Corrupt(_)), "{e}");
    assert_eq!((e.file(), e.tensor()), (Some("data"), Some("big")));
    let chunk = e.chunk().unwrap();
    let e = archive.verify(&restoring()).unwrap_err();
    assert_eq!((e.file(), e.tensor(), e.chunk()), (Some("data"), Some("big"), Some(chunk)));
    let filled = archive.verify(&restoring().with_damage(OnDamage::Fill)).unwrap();
    assert_eq!(filled.damage.len(), 1);
    assert!(archive.tensor("small").is_ok());
}

/// Writes in pieces of many lengths.
fn written(bytes: &[u8], options: &CompressOptions) -> Vec<u8> {
    let mut writer = Writer::named(Vec::new(), "model.safetensors", options).unwrap();
    let mut rest = bytes;
    for n in (0..).map(|i| (i * 7919 + 1) % 100_003) {
        let (head, tail) = rest.split_at(n.min(rest.len()));
        writer.write_all(head).unwrap();
        rest = tail;
        if rest.is_empty() {
            break;
        }
    }
    writer.flush().unwrap();
    let (archive, summary) = writer.finish().unwrap();
    assert_eq!(summary.input_bytes, bytes.len() as u64);
    assert_eq!(summary.output_bytes, archive.len() as u64);
    archive
}

#[test]
fn writer_and_reader_are_each_others_inverse() {
    for bytes in [Vec::new(), vec![7], sample_file(3), model().0] {
        let archive = written(&bytes, &compressing());
        let mut back = Vec::new();
        let mut reader = Reader::new(Cursor::new(archive.clone()), &restoring()).unwrap();
        reader.read_to_end(&mut back).unwrap();
        assert!(back == bytes);
        assert_eq!(reader.into_inner().unwrap().position(), archive.len() as u64);
        assert!(decompress(&archive, &restoring()).unwrap() == bytes);
        let through = compress(&bytes, &compressing()).unwrap();
        back.clear();
        Reader::new(Cursor::new(through), &restoring()).unwrap().read_to_end(&mut back).unwrap();
        assert!(back == bytes);
    }
    let archive = written(&model().0, &compressing());
    let archive = Archive::from_bytes(&archive, &restoring()).unwrap();
    assert_eq!(archive.entries()[0].path, *"model.safetensors");
    assert!(archive.tensor("big").is_ok());
}

#[test]
fn what_a_writer_did_not_finish_is_no_archive() {
    struct Shared(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);
    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let out = std::sync::Arc::default();
    let mut writer = Writer::new(Shared(std::sync::Arc::clone(&out)), &compressing()).unwrap();
    writer.write_all(&[3; 100_000]).unwrap();
    drop(writer);
    let begun = out.lock().unwrap().clone();
    assert!(decompress(&begun, &restoring()).is_err());
    let mut reader = Reader::new(Cursor::new(begun), &restoring()).unwrap();
    assert!(reader.read_to_end(&mut Vec::new()).is_err());
}

#[test]
fn a_writer_that_cannot_write_says_so_once_and_never_hangs() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut writer = Writer::new(Full, &compressing()).unwrap();
    let bytes = Rng::new(5).bytes(1 << 20);
    let failed = (0..100).find_map(|_| writer.write_all(&bytes).err()).unwrap();
    assert_eq!(failed.kind(), io::ErrorKind::StorageFull, "{failed}");
    let again = writer.finish().map(drop).unwrap_err();
    assert!(again.to_string().contains("an earlier write failed"), "{again}");
    let writer = Writer::new(Full, &compressing()).unwrap();
    let e = writer.finish().map(drop).unwrap_err();
    assert!(matches!(&e, Error::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull));
}

#[test]
fn a_reader_of_damaged_bytes_fails_before_its_end_and_says_where() {
    let (file, _) = model();
    let archive = written(&file, &compressing());
    for (at, cut) in [(archive.len() / 2, archive.len()), (0, archive.len() / 2)] {
        let mut bad = archive[..cut].to_vec();
        bad[at] ^= u8::from(at > 0);
        let mut back = Vec::new();
        let mut reader = Reader::new(Cursor::new(bad), &restoring()).unwrap();
        let e = Error::from(reader.read_to_end(&mut back).unwrap_err());
        assert!(matches!(e, Error::Corrupt(_) | Error::Truncated(_)), "{e}");
        assert!(e.chunk().is_some(), "{e}");
        assert!(file.starts_with(&back));
        assert_eq!(reader.read(&mut [0; 10]).unwrap(), 0);
    }
    // One that is given up does not wait for the rest.
    let mut reader = Reader::new(Cursor::new(archive), &restoring()).unwrap();
    reader.read_exact(&mut [0; 100]).unwrap();
}

#[test]
fn buffers_of_the_callers_are_filled() {
    let bytes = sample_file(4);
    let (mut archive, mut back) = (vec![1, 2, 3], vec![0; bytes.len()]);
    let summary = compress_into(&bytes, &compressing(), &mut archive).unwrap();
    assert_eq!(summary.output_bytes, archive.len() as u64);
    decompress_into(&archive, &mut back, &restoring()).unwrap();
    assert!(back == bytes);
    assert!(decompress_into(&archive, &mut back[1..], &restoring()).is_err());
}

#[test]
fn a_delta_finds_its_base_when_something_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let place = |name: &str| dir.path().join(name);
    let mut bytes = model().0;
    fs::write(place("old"), &bytes).unwrap();
    let at = bytes.len() - 200_000;
    bytes[at..at + 64].fill(0);
    fs::write(place("new"), &bytes).unwrap();
    let base = Base::open(place("old")).unwrap();
    let options = compressing().with_base(base.clone());
    compress_path(place("new"), place("new.lmc"), &options).unwrap();

    let archive = Archive::open(place("new.lmc"), &restoring()).unwrap();
    assert!(archive.is_delta());
    assert!(archive.tensor("big").is_ok(), "beside the archive, under the name it remembers");
    fs::rename(place("old"), place("moved")).unwrap();
    let lost = Archive::open(place("new.lmc"), &restoring()).unwrap();
    assert!(matches!(lost.tensor("big"), Err(Error::BaseMismatch(_))));
    assert!(matches!(lost.file(0).map(drop), Err(Error::BaseMismatch(_))));
    let base = Base::open(place("moved")).unwrap();
    let found = Archive::open(place("new.lmc"), &restoring().with_base(base.clone())).unwrap();
    assert!(found.tensor("big").is_ok());
    let options = restoring().with_base(base).with_overwrite(Overwrite::Files);
    found.restore(place("new"), &options).unwrap();
    assert!(fs::read(place("new")).unwrap() == bytes);
}

/// Whatever is added here is a promise: see that it belongs there, and document it.
#[test]
fn the_library_shows_what_it_promises_and_nothing_else() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/lib.rs");
    let text = fs::read_to_string(path).unwrap();
    let mut shown = Vec::new();
    for item in text.split_inclusive(';').map(|item| item.rsplit("\n\n").next().unwrap()) {
        let Some((attributes, item)) = item.split_once("pub ") else { continue };
        if attributes.contains("doc(hidden)") {
            continue;
        }
        let item = item.trim_end_matches(';');
        let list = match (item.split_once('{'), item.rsplit_once([' ', ':'])) {
            (Some((_, list)), _) => list.trim_end_matches('}'),
            (None, Some((_, last))) => last,
            _ => item,
        };
        shown.extend(list.split(',').map(str::trim).filter(|n| !n.is_empty()).map(str::to_owned));
    }
    shown.sort();
    assert_eq!(
        shown,
        [
            "Accelerator",
            "Archive",
            "ArchivedFile",
            "Base",
            "Cancel",
            "Changes",
            "CompressOptions",
            "Damage",
            "Detail",
            "Entry",
            "EntryKind",
            "Error",
            "Limits",
            "Method",
            "Name",
            "OnDamage",
            "OptimizerHints",
            "Overwrite",
            "Reader",
            "RestoreOptions",
            "Restored",
            "Result",
            "Summary",
            "Symlinks",
            "TensorInfo",
            "Usage",
            "Writer",
            "compress",
            "compress_into",
            "compress_path",
            "decompress",
            "decompress_into",
            "dtype",
            "gpu",
            "remove_temporaries",
            "store",
        ]
    );
}
