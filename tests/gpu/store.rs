//! Checkpoints of tensors that lie in device memory.

use super::{device, noise};
use lmc_gpu::{
    Accelerator, Error,
    dtype::Dtype,
    gpu::{Buffer, Device, Resident, Transformer, wgpu},
    internals::archive::Options,
    store::{
        Checkpointer, CheckpointerOptions, DeviceTensor, Policy, Snapshot, Store, Tensor, Ticket,
    },
};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// Weights in one page of the device, at odd places, with other things between them.
pub struct Page {
    device: Device,
    pub buffer: Buffer,
    /// Name, type, shape and offset of each tensor.
    tensors: Vec<(&'static str, Dtype, Vec<u64>, u64)>,
}

impl Page {
    pub fn new(device: &Device) -> Page {
        let of = |name| Dtype::parse(name).unwrap();
        let tensors = vec![
            ("w", of("bf16"), vec![300, 111], 0),
            ("odd", of("bf16"), vec![70_001], 66_601),
            ("m", of("f32"), vec![40_000], 206_604 + 3),
            ("small", of("f16"), vec![3], 366_611),
            ("none", of("f32"), vec![0, 4], 366_620),
            ("byte", of("f8_e4m3"), vec![20_001], 366_625),
        ];
        let buffer = device.storage("page", 400_000).unwrap();
        Page { device: device.clone(), buffer, tensors }
    }

    pub fn len(&self) -> usize {
        self.buffer.size() as usize
    }

    pub fn fill(&self, bytes: &[u8]) {
        self.device.write_at(&self.buffer, 0, bytes).unwrap();
    }

    pub fn on_device(&self) -> Snapshot {
        let tensor = |(name, dtype, shape, offset): &(&str, Dtype, Vec<u64>, u64)| {
            let len = dtype.tensor_len(shape).unwrap();
            let place = Resident::new(&self.device, &self.buffer, *offset, len).unwrap();
            DeviceTensor::new(*name, *dtype, shape, place).unwrap()
        };
        let tensors = self.tensors.iter().map(tensor).collect();
        Snapshot::new()
            .with_device_tensors("model.safetensors", tensors)
            .with_bytes("meta.json", b"{\"step\": 1}".to_vec())
    }

    /// The same tensors in host memory, where the page holds `bytes`.
    pub fn on_host(&self, bytes: &[u8]) -> Snapshot {
        let tensor = |(name, dtype, shape, offset): &(&str, Dtype, Vec<u64>, u64)| {
            let (from, len) = (*offset as usize, dtype.tensor_len(shape).unwrap() as usize);
            Tensor::new(*name, *dtype, shape, bytes[from..from + len].to_vec()).unwrap()
        };
        let tensors = self.tensors.iter().map(tensor).collect();
        Snapshot::new()
            .with_tensors("model.safetensors", tensors)
            .with_bytes("meta.json", b"{\"step\": 1}".to_vec())
    }
}

/// Bytes that make floats like weights of any type.
pub fn weights(len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = noise(len, seed);
    bytes.iter_mut().skip(1).step_by(2).for_each(|b| *b = *b & 0x81 | 0x3a | (*b >> 5 & 1) << 2);
    bytes
}

/// The weights moved a little.
pub fn moved(bytes: &[u8], by: u8) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes.iter_mut().step_by(6).for_each(|b| *b = b.wrapping_add(by));
    bytes
}

pub fn checkpointer(root: &Path, device: Option<&Device>) -> Checkpointer {
    let store = Store::init(root, Policy::default()).unwrap();
    let transformer = |d: &Device| Arc::new(Transformer::new(d.clone())) as Arc<dyn Accelerator>;
    let options = Options::default().with_device(device.map(transformer));
    Checkpointer::new(store.with_options(options), CheckpointerOptions::default()).unwrap()
}

pub fn same(a: &Snapshot, b: &Snapshot) {
    for (path, _) in &a.files {
        assert_eq!(a.bytes(path).map(|b| b.to_vec()), b.bytes(path).map(|b| b.to_vec()));
    }
    for name in ["w", "odd", "m", "small", "none", "byte"] {
        let of = |s: &Snapshot| s.tensor("model.safetensors", name).unwrap().clone();
        let (a, b) = (of(a), of(b));
        assert!((a.dtype, &a.shape, &*a.bytes) == (b.dtype, &b.shape, &*b.bytes), "{name}");
    }
}

#[test]
fn device_tensors_are_saved_as_they_were_when_save_returned() {
    let Some(device) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    for (root, transforms) in [("a", None), ("b", Some(&device))] {
        let page = Page::new(&device);
        let (first, host) = (weights(page.len(), 3), dir.path().join(format!("{root}-host")));
        let steps = [first.clone(), moved(&first, 1), moved(&first, 3)];
        let of_device = checkpointer(&dir.path().join(root), transforms);
        let of_host = checkpointer(&host, None);
        let mut tickets = Vec::new();
        for (step, bytes) in steps.iter().enumerate() {
            page.fill(bytes);
            tickets.push(of_device.save(step as u64, page.on_device()).unwrap());
            // Training goes on.
            page.fill(&noise(page.len(), 99));
            of_host.save(step as u64, page.on_host(bytes)).unwrap();
        }
        of_host.flush().unwrap();
        for (step, (bytes, ticket)) in steps.iter().zip(tickets).enumerate() {
            let stalled = ticket.stalled();
            let saved = ticket.wait().unwrap();
            assert!(!stalled.is_zero() && saved.seconds > 0.0);
            assert_eq!(saved.record.base(), (step as u64).checked_sub(1));
            same(&of_device.restore(step as u64).unwrap(), &page.on_host(bytes));
            // Where tensors lie does not matter to the archive.
            let archive = format!("steps/{step:010}.lmc");
            let read = |root: &Path| std::fs::read(root.join(&archive)).unwrap();
            assert!(read(&dir.path().join(root)) == read(&host), "{step}");
        }
        assert_eq!(of_device.report().spilled, 0);

        // Back into the page, between its neighbours.
        let around = noise(page.len(), 7);
        page.fill(&around);
        of_device.restore_to(1, &page.on_device()).unwrap();
        let got = device.read(&page.buffer, page.buffer.size()).unwrap();
        let mut want = around;
        for (_, dtype, shape, offset) in &page.tensors {
            let (from, len) = (*offset as usize, dtype.tensor_len(shape).unwrap() as usize);
            want[from..from + len].copy_from_slice(&steps[1][from..from + len]);
        }
        assert!(got == want);
    }
}

#[test]
fn copies_that_span_segments_read_back_at_any_place() {
    let Some(device) = device() else { return };
    let len = (65 << 20) + 13;
    let buffer = device.storage("large", len + 8).unwrap();
    let bytes = noise(buffer.size() as usize, 5);
    device.write_at(&buffer, 0, &bytes).unwrap();
    let place = |offset, len| Resident::new(&device, &buffer, offset, len).unwrap();
    let tensors = [place(3, 70_001), place(5, len), place(1, 0), place(2, 1)];
    let copies = Resident::copies(&tensors.each_ref()).unwrap();
    device.write_at(&buffer, 0, &vec![0; bytes.len()]).unwrap();
    let read = |copy: &Resident, offset: u64, len: u64| {
        lmc_gpu::internals::source::Source::read_vec(copy, offset, len).unwrap()
    };
    assert!(read(&copies[0], 0, 70_001) == bytes[3..70_004]);
    assert!(read(&copies[1], 0, len) == bytes[5..5 + len as usize]);
    for (offset, n) in [(1, 2), (63 << 20, 2 << 20), (len - 1, 1), (len, 0), (67_040_000, 200_000)]
    {
        let from = 5 + offset as usize;
        assert!(read(&copies[1], offset, n) == bytes[from..from + n as usize], "{offset}");
    }
    assert!(read(&copies[2], 0, 0).is_empty() && read(&copies[3], 0, 1) == bytes[2..3]);
    let past = lmc_gpu::internals::source::Source::read_vec(&copies[3], 0, 2);
    assert_eq!(past.unwrap_err().kind(), std::io::ErrorKind::UnexpectedEof);
}

#[test]
fn a_device_lost_in_mid_save_fails_that_save_and_harms_no_other() {
    let Some(device) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = Page::new(&device);
    let bytes = weights(page.len(), 3);
    page.fill(&bytes);
    let checkpointer = checkpointer(&dir.path().join("store"), Some(&device));
    checkpointer.save(1, page.on_device()).unwrap().wait().unwrap();
    let begun = Instant::now();
    let ticket = checkpointer.save(2, page.on_device()).unwrap();
    device.wgpu().destroy();
    // It may have been done by then.
    let failed = ticket.wait().err();
    assert!(failed.as_ref().is_none_or(|e| matches!(e, Error::Device(_))), "{failed:?}");
    let result = checkpointer.save(3, page.on_device()).and_then(Ticket::wait);
    assert!(matches!(result, Err(Error::Device(_))), "{result:?}");
    assert!(begun.elapsed() < Duration::from_secs(30));
    same(&checkpointer.restore(1).unwrap(), &page.on_host(&bytes));
    assert!(checkpointer.restore_to(1, &page.on_device()).is_err());
    // Host memory is still saved.
    let saved = checkpointer
        .save(4, page.on_host(&moved(&bytes, 1)))
        .or_else(|_| checkpointer.save(4, page.on_host(&moved(&bytes, 1))));
    saved.unwrap().wait().unwrap();
    same(&checkpointer.restore(4).unwrap(), &page.on_host(&moved(&bytes, 1)));
}

#[test]
fn tensors_that_do_not_fit_are_refused() {
    let Some(device) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = Page::new(&device);
    page.fill(&weights(page.len(), 3));
    let f32 = Dtype::F32;
    let place = |len| Resident::new(&device, &page.buffer, 0, len).unwrap();
    assert!(DeviceTensor::new("t", f32, &[3], place(8)).is_err());
    assert!(Resident::new(&device, &page.buffer, page.buffer.size(), 1).is_err());
    let closed = device.create_buffer("closed", 64, wgpu::BufferUsages::STORAGE).unwrap();
    assert!(matches!(Resident::new(&device, &closed, 0, 64), Err(Error::InvalidArgument(_))));
    let checkpointer = checkpointer(&dir.path().join("store"), None);
    let model = |name, shape: &[u64]| {
        let t = DeviceTensor::new(name, f32, shape, place(48)).unwrap();
        Snapshot::new().with_device_tensors("model.safetensors", vec![t])
    };
    checkpointer.save(1, model("t", &[3, 4])).unwrap().wait().unwrap();
    checkpointer.restore_to(1, &model("t", &[3, 4])).unwrap();
    for wrong in [model("u", &[3, 4]), model("t", &[12])] {
        let e = checkpointer.restore_to(1, &wrong).unwrap_err();
        assert!(matches!(&e, Error::InvalidArgument(m) if m.contains("has no tensor")), "{e}");
    }
}

#[test]
fn giving_up_with_tensors_in_flight_leaves_neither_files_nor_memory() {
    let Some(device) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    let page = Page::new(&device);
    let bytes = weights(page.len(), 3);
    page.fill(&bytes);
    let before = device.memory();
    let root = dir.path().join("store");
    let of_device = checkpointer(&root, Some(&device));
    of_device.save(1, page.on_device()).unwrap().wait().unwrap();
    let tickets: Vec<_> =
        (2..5).map(|step| of_device.save(step, page.on_device()).unwrap()).collect();
    let begun = Instant::now();
    of_device.abandon();
    assert!(begun.elapsed() < Duration::from_secs(30));
    let saved = 1 + tickets.into_iter().filter_map(|ticket| ticket.wait().ok()).count();
    assert_eq!(device.memory(), before);
    let store = Store::open(&root).unwrap();
    assert_eq!(store.list().unwrap().steps.len(), saved);
    same(&store.snapshot(1).unwrap(), &page.on_host(&bytes));
}
