//! Memory: what a device that has too little costs, and that none is kept.

use super::{
    archives::{options, transformer, weights},
    device,
    faults::{bf16_plan, tensor},
    store::{self, Page, checkpointer, same},
};
use lmc_gpu::{
    Accelerator, Error, Method,
    dtype::Dtype,
    gpu::{Decoder, Encoder, Region, Resident, Tensor, Transformer, wgpu},
    internals::{archive::Options, source::Source},
    store::{Checkpointer, CheckpointerOptions, Policy, Store},
};
use std::{process::Command, sync::Arc};

/// Set in the process of a test that runs alone.
const ALONE: &str = "LMC_TEST_ALONE";

/// Whether this process runs the named test and nothing else. If not, such a process is started,
/// where `limit` is given by a shell with that address space in KiB, and must succeed.
fn alone(test: &str, limit: Option<u64>) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(if limit.is_some() { "sh".as_ref() } else { &*program });
    if let Some(kib) = limit {
        command.args(["-c", &format!("ulimit -v {kib} && exec \"$0\" \"$@\"")]).arg(&program);
    }
    let output = command
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{out}");
    assert!(output.status.success() && out.contains("1 passed"), "{out}{err}");
    false
}

/// Memory pages of this process, where the system says so.
fn resident_pages() -> Option<u64> {
    std::fs::read_to_string("/proc/self/statm").ok()?.split(' ').nth(1)?.parse().ok()
}

#[test]
fn buffers_count_until_the_last_clone_is_dropped() {
    let Some(device) = device() else { return };
    assert_eq!(device.memory(), 0);
    let buffer = device.storage("test", 100).unwrap();
    let clones = (buffer.clone(), device.clone());
    drop(buffer);
    assert_eq!(device.memory(), 112);
    device.set_memory_limit(1000);
    assert!(matches!(clones.1.storage("test", 900), Err(Error::Device(m)) if m.contains("1000")));
    device.write_at(&clones.0, 0, &[1; 100]).unwrap();
    // Reading back takes none.
    device.set_memory_limit(0);
    assert_eq!(device.read(&clones.0, 100).unwrap(), [1; 100]);
    drop(clones);
    assert_eq!(device.memory(), 0);
}

#[test]
fn an_encoder_or_decoder_without_memory_says_so_wherever_that_is() {
    let Some(device) = device() else { return };
    let (buffer, bytes) = tensor(&device, 100_000);
    let region = Region::new(&buffer, 0, bytes.len() as u64).unwrap();
    let target = device.storage("target", bytes.len() as u64).unwrap();
    let to = Region::new(&target, 0, bytes.len() as u64).unwrap();
    let before = device.memory();
    let there_and_back = || -> lmc_gpu::Result<u64> {
        let mut encoder = Encoder::new(&device, bf16_plan())?;
        let mut decoder = Decoder::new(&device, bf16_plan())?;
        let snapshot = encoder.snapshot(&region)?;
        encoder
            .encode(&snapshot, None, |chunk| decoder.put(&to, None, chunk.start, &chunk.planes))?;
        decoder.finish()?;
        assert!(device.read(&target, bytes.len() as u64).unwrap() == bytes);
        Ok(device.memory() - before)
    };
    let needed = there_and_back().unwrap();
    let (mut failed, parts) = (0, 40);
    for part in 0..=parts {
        device.write_at(&target, 0, &vec![0; bytes.len()]).unwrap();
        device.set_memory_limit(before + needed * part / parts);
        match there_and_back() {
            Ok(_) => assert_eq!(part, parts),
            Err(e) => {
                assert!(matches!(&e, Error::Device(m) if m.contains("device memory")), "{e}");
                failed += 1;
            }
        }
        assert_eq!(device.memory(), before);
    }
    assert_eq!(failed, parts);
}

#[test]
fn a_snapshot_takes_the_place_of_others_that_are_not_needed() {
    let Some(device) = device() else { return };
    let (buffer, bytes) = tensor(&device, 1 << 20);
    let mut encoder = Encoder::new(&device, bf16_plan()).unwrap();
    let part = |len| Region::new(&buffer, 0, len).unwrap();
    let small = encoder.snapshot(&part(400_000)).unwrap();
    encoder.recycle(small);
    device.set_memory_limit(device.memory() + bytes.len() as u64 - 100_000);
    let snapshot = encoder.snapshot(&part(bytes.len() as u64)).unwrap();
    assert!(encoder.snapshot(&part(bytes.len() as u64)).is_err());
    encoder.encode(&snapshot, None, |_| Ok(())).unwrap();
}

#[test]
fn chunks_that_a_device_has_no_memory_for_are_the_cpus() {
    let Some(device) = device() else { return };
    for (dtype, method) in [(Dtype::BF16, Method::Fast), (Dtype::F32, Method::Auto)] {
        let words = weights(dtype, 700_000, 3);
        let cpu = options(dtype, method);
        let want = lmc_gpu::compress(&words, &cpu.compressing()).unwrap();
        for limit in [0, 100_000, 1 << 20, 3 << 20, 5 << 20, 12 << 20] {
            device.set_memory_limit(limit);
            let gpu = transformer(&device);
            let on_gpu = cpu.clone().with_device(Some(gpu.clone()));
            let mut got = Vec::new();
            let summary = lmc_gpu::compress_into(&words, &on_gpu.compressing(), &mut got).unwrap();
            assert!(got == want, "{limit}");
            let notes = summary.notes.iter().filter(|n| n.contains("device memory")).count();
            let usage = gpu.usage();
            assert_eq!(notes, usage.failed.min(1) as usize, "{:?} {usage:?}", summary.notes);
            assert!(usage.failed > 0 || limit > 1 << 20, "{limit} {usage:?}");
            // Said once.
            let summary = lmc_gpu::compress_into(&words, &on_gpu.compressing(), &mut got).unwrap();
            assert!(notes == 0 || summary.notes.is_empty(), "{:?}", summary.notes);
            assert_eq!(device.memory(), 0);
        }
    }
}

#[test]
fn tensors_without_room_for_copies_are_read_by_save() {
    let Some(device) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = Page::new(&device);
    let first = store::weights(page.len(), 3);
    let steps: Vec<_> = (0..4).map(|step| store::moved(&first, step)).collect();
    let of_host = checkpointer(&dir.path().join("host"), None);
    for (step, bytes) in steps.iter().enumerate() {
        of_host.save(step as u64, page.on_host(bytes)).unwrap();
    }
    of_host.flush().unwrap();
    let before = device.memory();
    // No copy; some; all of one save, but not those of the two that are kept at a time.
    for (room, least, most) in [(0, 4, 4), (100_000, 4, 4), (250_000, 4, 4), (500_000, 1, 3)] {
        for transforms in [None, Some(&device)] {
            let root = dir.path().join(format!("{room}-{}", transforms.is_some()));
            let of_device = checkpointer(&root, transforms);
            device.set_memory_limit(before + room);
            for (step, bytes) in steps.iter().enumerate() {
                page.fill(bytes);
                let ticket = of_device.save(step as u64, page.on_device()).unwrap();
                page.fill(&vec![0x55; page.len()]);
                ticket.wait().unwrap();
                let archive = format!("steps/{step:010}.lmc");
                let read = |root| std::fs::read(dir.path().join(root).join(&archive)).unwrap();
                assert!(read(root.clone()) == read(dir.path().join("host")), "{room} {step}");
            }
            assert!((least..=most).contains(&of_device.report().spilled), "{room}");
            assert!(device.memory() <= before + room);
            // What is written back needs room for a chunk.
            device.set_memory_limit(device.memory() + 200_000);
            let around = vec![7; page.len()];
            page.fill(&around);
            of_device.restore_to(2, &page.on_device()).unwrap();
            same(&of_device.restore(2).unwrap(), &page.on_host(&steps[2]));
            of_device.finish().unwrap();
            assert_eq!(device.memory(), before);
        }
    }
}

#[test]
fn memory_is_steady_over_a_thousand_saves_of_an_encoder() {
    if !alone("memory::memory_is_steady_over_a_thousand_saves_of_an_encoder", None) {
        return;
    }
    let Some(device) = device() else { return };
    let (buffer, bytes) = tensor(&device, 1 << 15);
    let region = Region::new(&buffer, 0, bytes.len() as u64).unwrap();
    let mut encoder = Encoder::new(&device, bf16_plan()).unwrap();
    let mut pages = Vec::new();
    let mut save = || {
        let snapshot = encoder.snapshot(&region).unwrap();
        encoder.encode(&snapshot, None, |_| Ok(())).unwrap();
        encoder.recycle(snapshot);
        device.memory()
    };
    let memory = save();
    for n in 1..1000 {
        assert_eq!(save(), memory);
        if n % 50 == 49 {
            pages.extend(resident_pages());
        }
    }
    is_steady(&pages);
}

#[test]
fn memory_is_steady_over_a_thousand_checkpoints() {
    if !alone("memory::memory_is_steady_over_a_thousand_checkpoints", None) {
        return;
    }
    let Some(device) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = Page::new(&device);
    page.fill(&store::weights(page.len(), 3));
    let policy = Policy::default().with_keep_last(Some(3)).with_full_every(2);
    let store = Store::init(dir.path().join("store"), policy).unwrap();
    let transformer: Arc<dyn Accelerator> = Arc::new(Transformer::new(device.clone()));
    let store = store.with_options(Options::default().with_device(Some(transformer)));
    let of_store = store.clone();
    let of_device = Checkpointer::new(store, CheckpointerOptions::default()).unwrap();
    let (mut pages, mut memory) = (Vec::new(), Vec::new());
    for step in 0..1000 {
        let ticket = of_device.save(step, page.on_device()).unwrap();
        if step % 50 == 49 {
            ticket.wait().unwrap();
            of_store.gc(&Default::default()).unwrap();
            assert!(of_store.list().unwrap().steps.len() <= 4);
            memory.push(device.memory());
            pages.extend(resident_pages());
        }
    }
    let report = of_device.finish().unwrap();
    assert_eq!((report.saved, report.spilled), (1000, 0));
    assert!(memory.iter().all(|m| *m == memory[0]), "{memory:?}");
    is_steady(&pages);
}

/// Whether the pages of many moments of a work do not grow once the first quarter has warmed up
/// everything. Allocators and drivers waver by a few MiB, so the least of each part counts; the
/// smallest buffer, lost at each of the 500 saves between them, would be 8 MiB.
fn is_steady(pages: &[u64]) {
    println!("resident pages: {pages:?}");
    let least = |part: &[u64]| part.iter().min().copied().unwrap_or_default();
    let n = pages.len();
    let (warm, last) = (least(&pages[n / 4..n / 2]), least(&pages[3 * n / 4..]));
    assert!(last <= warm + (6 << 20) / 4096, "{pages:?}");
}

#[test]
fn a_device_that_has_run_out_of_memory_costs_time_alone() {
    if !cfg!(target_os = "linux") {
        println!("skipped: an address space is limited on Linux");
        return;
    }
    if !alone("memory::a_device_that_has_run_out_of_memory_costs_time_alone", Some(4_000_000)) {
        return;
    }
    let Some(device) = device() else { return };
    if device.info().device_type != wgpu::DeviceType::Cpu {
        println!("skipped: only a software adapter's memory is the process's");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let page = Page::new(&device);
    let bytes = store::weights(page.len(), 3);
    page.fill(&bytes);
    let of_device = checkpointer(&dir.path().join("store"), Some(&device));
    of_device.save(0, page.on_device()).unwrap().wait().unwrap();
    let mut encoder = Encoder::new(&device, bf16_plan()).unwrap();
    let mut encode = || encoder.encode(Tensor::Host(&bytes), None, |_| Ok(())).map(|s| s.chunks);
    let n_chunks = encode().unwrap();
    // The device takes all there is but what the host has set aside, which is less than it asks
    // for at a time.
    let reserve: Vec<u8> = Vec::with_capacity(100 << 20);
    let mut taken = Vec::new();
    for len in [64 << 20, 1 << 20, 64 << 10] {
        let more = std::iter::from_fn(|| device.storage("taken", len).ok());
        taken.extend(more.take(1000));
    }
    drop(reserve);
    // What is sent to the device needs memory on the way, and the want of that is no loss of it.
    let sent = device.write_at(&taken[0], 0, &vec![1; 48 << 20]);
    assert!(matches!(&sent, Err(Error::Device(m)) if m.contains("upload")), "{sent:?}");
    device.check().unwrap();
    // What has worked before needs no more.
    (0..10).for_each(|_| assert_eq!(encode().unwrap(), n_chunks));
    let place = Resident::new(&device, &page.buffer, 0, page.buffer.size()).unwrap();
    let refused = Resident::copies(&[&place]);
    assert!(matches!(refused, Err(Error::Device(_))), "{} buffers", taken.len());
    let saved = of_device.save(1, page.on_device()).unwrap();
    // Training goes on, as far as it needs no memory.
    let mut encoder = device.wgpu().create_command_encoder(&Default::default());
    encoder.clear_buffer(&page.buffer, 0, None);
    device.queue().submit([encoder.finish()]);
    saved.wait().unwrap();
    assert_eq!(of_device.report().spilled, 1);
    same(&of_device.restore(1).unwrap(), &page.on_host(&bytes));
    drop(taken);
    page.fill(&bytes);
    of_device.save(2, page.on_device()).unwrap().wait().unwrap();
    assert_eq!(of_device.report().spilled, 1);
    assert!(place.read_vec(0, 1000).unwrap() == bytes[..1000]);
}
