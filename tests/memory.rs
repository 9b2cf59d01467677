//! Memory is bounded by what the caller allows, and by what has to be known, not by what a file
//! makes of it. One test at a time, so that each sees its own.

use lmc_gpu::{
    Archive, Base, Error, Limits, Method, OnDamage, Overwrite, RestoreOptions, compress_path,
    dtype::Dtype,
    internals::{
        archive::{
            Options, compress_reader, decompress_stream, decompress_to_writer, inspect,
            verify_stream,
        },
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

#[test]
fn a_chunk_that_does_not_fit_is_listed_by_whoever_keeps_going() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (path, one, files) =
        (dir.path().join("d.lmc"), dir.path().join("x.lmc"), dir.path().join("d"));
    std::fs::create_dir(&files).unwrap();
    std::fs::write(files.join("text"), b"short").unwrap();
    File::create(files.join("zeros")).unwrap().set_len(2 * 128 * MIB as u64).unwrap();
    let plmc = Options::default().with_method(Method::parse("plmc").unwrap()).with_threads(1);
    compress_path(&files, &path, &plmc.compressing()).unwrap();
    compress_path(files.join("zeros"), &one, &plmc.compressing()).unwrap();
    let limits = Limits { memory: 100 * MIB as u64, ..Limits::default() };
    for threads in [1, 3] {
        let options = Options::default()
            .with_threads(threads)
            .with_limits(limits)
            .with_damage(OnDamage::Fill)
            .restoring();
        let (back, forward) = (dir.path().join("back"), dir.path().join("forward"));
        let open = |path: &Path| Archive::open(path, &options).unwrap();
        let (peak, all) = peak_of(|| {
            let mut read = [&path, &path].map(|path| File::open(path).unwrap());
            [
                open(&path).verify(&options),
                open(&path).restore(&back, &options),
                open(&one).restore_to_writer(&mut io::sink(), &options),
                verify_stream(&mut read[0], &options),
                decompress_stream(&mut read[1], &forward, &options),
            ]
        });
        assert!(peak < 100 * MIB, "{peak}");
        for damage in all.into_iter().map(|restored| restored.unwrap().damage) {
            assert_eq!(damage.len(), 2, "{damage:?}");
            for (i, d) in damage.iter().enumerate() {
                assert_eq!((d.file.to_string().as_str(), d.len), ("zeros", 128 * MIB as u64));
                assert_eq!(d.offset, 128 * (i * MIB) as u64);
                assert!(d.reason.contains("Limits::memory"), "{}", d.reason);
            }
        }
        for made in [back, forward] {
            assert_eq!(std::fs::read(made.join("text")).unwrap(), b"short");
            assert_eq!(std::fs::metadata(made.join("zeros")).unwrap().len(), 256 * MIB as u64);
            std::fs::remove_dir_all(made).unwrap();
        }
    }
}

/// Floats of every magnitude, so that no method has it easy.
fn floats(n: u32) -> Vec<u8> {
    let word = |i: u32| f32::from_bits(0x3d00_0000 + (i.wrapping_mul(2_654_435_761) >> 7));
    (0..n).flat_map(|i| word(i).to_le_bytes()).collect()
}

#[test]
fn chunks_are_coded_within_the_limit_at_any_number_of_threads() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (raw, out) = (dir.path().join("raw"), dir.path().join("out"));
    std::fs::write(&raw, floats(3 << 20)).unwrap();
    let limit = 40 * MIB;
    let limits = Limits { memory: limit as u64, ..Limits::default() };
    for (method, dtype) in [
        ("auto", "f32"),
        ("auto", "u8"),
        ("fast", "bf16"),
        ("max", "bf16"),
        ("max", "f64"),
        ("zstd", "f32"),
        ("raw", "f64"),
    ] {
        for threads in [1, 2, 8] {
            let options = Options::default()
                .with_method(Method::parse(method).unwrap())
                .with_dtype(Dtype::parse(dtype))
                .with_threads(threads)
                .with_limits(limits)
                .with_overwrite(Overwrite::Files);
            let (file, _) = peak_of(|| compress_path(&raw, &out, &options.compressing()).unwrap());
            let (pipe, _) = peak_of(|| {
                let mut raw = File::open(&raw).unwrap();
                compress_reader(&mut raw, "x", &mut io::sink(), &options.compressing()).unwrap()
            });
            let made = file.max(pipe);
            assert!(made <= limit, "{method}, {threads} threads: {file} and {pipe} bytes");
        }
    }
}

#[test]
fn a_chunk_that_cannot_be_coded_within_the_limit_is_refused_with_what_to_do() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (raw, out) = (dir.path().join("raw"), dir.path().join("out"));
    std::fs::write(&raw, floats(1 << 20)).unwrap();
    let limits = Limits { memory: 4 * MIB as u64, ..Limits::default() };
    for threads in [1, 2] {
        let options = Options::default().with_threads(threads).with_limits(limits);
        let mut read = File::open(&raw).unwrap();
        let made = [
            compress_path(&raw, &out, &options.compressing()),
            compress_reader(&mut read, "raw", &mut io::sink(), &options.compressing()),
        ];
        for e in made.map(|made| made.unwrap_err()) {
            let text = e.to_string();
            assert!(matches!(e, Error::LimitExceeded(_)), "{text}");
            assert!(text.contains("raw") && text.contains("--memory"), "{text}");
        }
        assert!(!out.exists());
    }
}

#[test]
fn chains_of_deltas_are_coded_and_decoded_within_the_limit() {
    const LINKS: usize = 4;
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (raw, limit) = (dir.path().join("raw"), 64 * MIB);
    let limits = Limits { memory: limit as u64, ..Limits::default() };
    let mut bytes = floats(3 << 20);
    let options = Options::default().with_dtype(Some(Dtype::F32)).with_limits(limits);
    let mut last: Option<std::path::PathBuf> = None;
    for link in 0..LINKS {
        (link..bytes.len()).step_by(4096).for_each(|at| bytes[at] ^= 1);
        std::fs::write(&raw, &bytes).unwrap();
        let path = dir.path().join(format!("{link}.lmc"));
        for threads in [1, 2, 4] {
            let options = options.clone().with_threads(threads).with_overwrite(Overwrite::Files);
            let (peak, _) = peak_of(|| {
                let base = last.as_ref().map(|last| Base::open_with(last, &[], &options).unwrap());
                compress_path(&raw, &path, &options.clone().with_base(base).compressing()).unwrap()
            });
            assert!(peak <= limit, "compress {link}, {threads} threads: {peak}");
            let (peak, _) = peak_of(|| {
                Archive::open(&path, &options.restoring())
                    .unwrap()
                    .verify(&options.restoring())
                    .unwrap()
            });
            assert!(peak <= limit, "verify {link}, {threads} threads: {peak}");
        }
        last = Some(path);
    }
}

const TENSORS: usize = 200_000;

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
    8 * header + 16 * MIB
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
