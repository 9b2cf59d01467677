//! Memory is bounded by what the caller allows, and by what has to be known, not by what a file
//! makes of it. One test at a time, so that each sees its own.

use lmc_gpu::{
    Archive, Error, Limits, Method, RestoreOptions, compress_path,
    internals::{
        archive::{Options, decompress_stream, decompress_to_writer, inspect, verify_stream},
        source::Source,
    },
};
use std::{
    alloc::{GlobalAlloc, Layout, System},
    fs::File,
    io,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

/// Bytes allocated now, and the most since that was last set to the former.
static NOW: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

struct Counting;

fn count(more: usize) {
    let now = NOW.fetch_add(more, Ordering::Relaxed) + more;
    PEAK.fetch_max(now, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes that `f` takes at most, beside those that are there before.
fn peak_of<T>(f: impl FnOnce() -> T) -> (usize, T) {
    let before = NOW.load(Ordering::Relaxed);
    PEAK.store(before, Ordering::Relaxed);
    let done = f();
    (PEAK.load(Ordering::Relaxed) - before, done)
}

const MIB: usize = 1 << 20;

/// An archive of a few hundred bytes with six chunks of 128 MiB.
fn write_large_chunks(out: &Path) {
    let options = Options::default().with_method(Method::parse("plmc").unwrap()).with_threads(1);
    // A file that is one hole takes no space.
    let zeros = out.with_extension("zeros");
    File::create(&zeros).unwrap().set_len(6 * 128 * MIB as u64).unwrap();
    compress_path(&zeros, out, &options.compressing()).unwrap();
    assert!(std::fs::metadata(out).unwrap().len() < 10_000);
    let archive = Archive::open(out, &RestoreOptions::default()).unwrap();
    assert_eq!(archive.chunks().iter().map(|c| c.meta.len()).max(), Some(128 * MIB as u64));
}

#[test]
fn large_chunks_are_decoded_within_the_limit_at_any_number_of_threads() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("x.lmc"), dir.path().join("out"));
    write_large_chunks(&path);
    // Two at once, a forward reader keeps one more until it knows that it needs it no longer.
    let limit = 300 * MIB;
    let limits = Limits { memory: limit as u64, ..Limits::default() };
    for threads in [1, 2, 4] {
        let options = Options::default().with_threads(threads).with_limits(limits);
        let archive = Archive::open(&path, &RestoreOptions::default().with_limits(limits)).unwrap();
        let mut file = File::open(&path).unwrap();
        let mut again = File::open(&path).unwrap();
        let seen = [
            ("verify", peak_of(|| drop(archive.verify(&options.restoring()).unwrap()))),
            (
                "pipe",
                peak_of(|| {
                    drop(archive.restore_to_writer(&mut io::sink(), &options.restoring()).unwrap())
                }),
            ),
            (
                "verify forward",
                peak_of(|| drop(verify_stream(&mut file, &options.restoring()).unwrap())),
            ),
            (
                "pipe forward",
                peak_of(|| {
                    drop(
                        decompress_to_writer(&mut again, &mut io::sink(), &options.restoring())
                            .unwrap(),
                    )
                }),
            ),
        ];
        for (what, (peak, ())) in seen {
            assert!(peak <= limit + 8 * MIB, "{what}, {threads} threads: {} MiB", peak / MIB);
        }
        // The cache of a file that is read in places, too.
        let (peak, ()) = peak_of(|| {
            let file = archive.file(0).unwrap();
            for i in 0..6 {
                file.read_at(i * 128 * MIB as u64 + 5, &mut [0; 9]).unwrap();
            }
        });
        assert!(peak <= limit + 8 * MIB, "file: {} MiB", peak / MIB);
    }
    let options = Options::default().with_threads(4).with_limits(limits);
    let (peak, restored) =
        peak_of(|| decompress_stream(&mut File::open(&path).unwrap(), &out, &options.restoring()));
    assert_eq!(restored.unwrap().bytes, 6 * 128 * MIB as u64);
    assert!(peak <= limit + 8 * MIB, "to a file: {} MiB", peak / MIB);
}

#[test]
fn a_chunk_that_does_not_fit_into_the_limit_is_refused_with_its_number_and_what_to_do() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.lmc");
    write_large_chunks(&path);
    let limits = Limits { memory: 100 * MIB as u64, ..Limits::default() };
    let options = Options::default().with_limits(limits);
    let archive = Archive::open(&path, &RestoreOptions::default().with_limits(limits)).unwrap();
    let (peak, errors) = peak_of(|| {
        let mut file = File::open(&path).unwrap();
        [archive.verify(&options.restoring()), verify_stream(&mut file, &options.restoring())]
    });
    for e in errors {
        let e = e.unwrap_err();
        let text = e.to_string();
        assert!(matches!(e, Error::LimitExceeded(_)), "{text}");
        assert!(text.contains("chunk 0") && text.contains("Limits::memory"), "{text}");
    }
    assert!(archive.file(0).unwrap().read_at(0, &mut [0; 1]).is_err());
    assert!(peak < 100 * MIB, "{peak}");
}

const TENSORS: usize = 50_000;

/// A safetensors file of many small tensors, and the length of its header.
fn many_tensors(path: &Path) -> usize {
    let entry = |i: usize| {
        let at = 16 * i;
        let end = at + 16;
        format!("\"t.{i}.w\":{{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[{at},{end}]}}")
    };
    let entries: Vec<String> = (0..TENSORS).map(entry).collect();
    let header = format!("{{{}}}", entries.join(","));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.resize(file.len() + 16 * TENSORS, 0x3c);
    std::fs::write(path, file).unwrap();
    header.len()
}

/// What inspecting a header of so many bytes may take.
fn allowance(header: usize) -> usize {
    12 * header + 24 * MIB
}

#[test]
fn inspecting_many_tensors_takes_a_small_multiple_of_their_header() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (raw, archive) = (dir.path().join("raw"), dir.path().join("raw.lmc"));
    let header = many_tensors(&raw);
    let options = Options::default().with_threads(2);
    let (peak, _) = peak_of(|| compress_path(&raw, &archive, &options.compressing()).unwrap());
    assert!(peak <= allowance(header), "compress: {} of {header}", peak);
    for path in [&raw, &archive] {
        let (peak, found) = peak_of(|| inspect(path, &options).unwrap());
        assert_eq!(found.spans.iter().filter(|s| s.name.is_some()).count(), TENSORS);
        let name = path.display();
        assert!(peak <= allowance(header), "{name}: {peak} of {header}");
    }
    // The command, with what it prints going nowhere: this test again, in a process of its own.
    for args in ["", "--json"] {
        for path in [&raw, &archive] {
            let status = Command::new(std::env::current_exe().unwrap())
                .args(["the_command_prints", "--exact", "--nocapture"])
                .env("INSPECTED", path)
                .env("ARGUMENT", args)
                .env("HEADER", header.to_string())
                .stdout(Stdio::null())
                .status()
                .unwrap();
            assert!(status.success(), "{} {args}", path.display());
        }
    }
}

/// Does something only where the test above runs it.
#[cfg(feature = "cli")]
#[test]
fn the_command_prints() {
    let Ok(path) = std::env::var("INSPECTED") else { return };
    let header: usize = std::env::var("HEADER").unwrap().parse().unwrap();
    let argument = std::env::var("ARGUMENT").unwrap();
    let mut args = vec!["lmc-gpu", "inspect", "-q", &path];
    args.extend(Some(&argument[..]).filter(|a| !a.is_empty()));
    let (peak, _) = peak_of(|| lmc_gpu::cli::run(args.iter().map(Into::into)));
    assert!(peak <= allowance(header), "{args:?}: {peak} of {header}");
}
