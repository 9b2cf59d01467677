//! Devices with less than ours ask for, and work as large as there can be.

use super::{
    Buffer::{In, Out},
    device, noise, run_folded,
};
use lmc_gpu::{
    Accelerator, Error, Method,
    dtype::Dtype,
    gpu::{
        Device, Encoder, Plan, Planes, Recorder, Region, Resident, Transform, Transformer, wgpu,
    },
    internals::{
        archive::Options,
        shader::*,
        simd::Level,
        source::Source,
        transform::{delta, split::Split},
    },
};
use std::sync::Arc;

/// A device like those of other programs: without any feature, with these limits.
fn plain_device(limits: wgpu::Limits) -> Option<Device> {
    let ours = device()?;
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    let adapter = found.into_iter().find(|a| a.get_info().name == ours.info().name)?;
    let (device, queue) = pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
        label: None,
        required_features: wgpu::Features::empty(),
        required_limits: limits,
        ..Default::default()
    }))
    .unwrap();
    Some(Device::from_wgpu(device, queue).unwrap())
}

#[test]
fn a_device_without_a_clock_or_any_other_feature_does_the_same() {
    let Some(device) = plain_device(wgpu::Limits::defaults()) else { return };
    assert!(device.timestamp_period().is_none() && device.wgpu().features().is_empty());
    let bytes = noise(600_000, 3);
    let buffer = device.storage("tensor", bytes.len() as u64).unwrap();
    device.write_at(&buffer, 0, &bytes).unwrap();
    let region = Region::new(&buffer, 0, bytes.len() as u64).unwrap();
    let fields = Split { word_bits: 16, rest_bits: 8, base: 1, sign: None };
    let plan = Plan::new(2).with_transform(Transform::Split(fields));
    let mut encoder = Encoder::new(&device, plan).unwrap();
    let stats = encoder.encode(region, None, |_| Ok(())).unwrap();
    assert_eq!((stats.transform, stats.bytes), (None, bytes.len() as u64));

    let cpu = Options::default().with_dtype(Some(Dtype::F32)).with_method(Method::Auto);
    let gpu: Arc<dyn Accelerator> = Arc::new(Transformer::new(device));
    let on_gpu = cpu.clone().with_device(Some(gpu.clone()));
    let want = lmc_gpu::compress(&bytes, &cpu.compressing()).unwrap();
    assert!(lmc_gpu::compress(&bytes, &on_gpu.compressing()).unwrap() == want);
    let usage = gpu.usage();
    assert!(usage.done > 0 && usage.failed == 0 && usage.transform.is_none(), "{usage:?}");
}

#[test]
fn bytes_of_any_number_are_written_in_order_before_anything_else() {
    let Some(device) = device() else { return };
    const MOST: usize = 8 << 20;
    let buffer = device.storage("test", 2 * MOST as u64 + 64).unwrap();
    let copy = device.storage("copy", buffer.size()).unwrap();
    let mut want = vec![0; buffer.size() as usize];
    let long = noise(2 * MOST + 9, 3);
    for len in [0, 1, 3, 4, 5, 16 << 10, MOST - 1, MOST, MOST + 1, 2 * MOST + 9] {
        let mut recorder = Recorder::for_copies(&device);
        let size = buffer.size();
        recorder.encoder().copy_buffer_to_buffer(&buffer, 0, &copy, 0, size);
        // The second lies over a part of the first.
        for (at, bytes) in [(4, &long[..len]), (8, &long[1..][..len / 2])] {
            recorder.write(&buffer, at as u64, bytes).unwrap();
            want[at..][..bytes.len()].copy_from_slice(bytes);
            want[at + bytes.len()..at + bytes.len().next_multiple_of(4)].fill(0);
        }
        recorder.submit().unwrap();
        assert!(device.read(&copy, size).unwrap() == want, "{len}");
    }
    let beyond = device.write_at(&buffer, buffer.size() - 4, &[0; 5]);
    assert!(matches!(beyond, Err(Error::Device(_))), "{beyond:?}");
    device.check().unwrap();
}

#[test]
fn a_device_with_too_low_limits_is_refused_by_name() {
    let limits = wgpu::Limits { max_storage_buffers_per_shader_stage: 4, ..Default::default() };
    let Some(ours) = device() else { return };
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let found = pollster::block_on(instance.enumerate_adapters(wgpu::Backends::all()));
    let adapter = found.into_iter().find(|a| a.get_info().name == ours.info().name).unwrap();
    let (device, queue) =
        pollster::block_on(adapter.request_device(&wgpu::DeviceDescriptor {
            required_limits: limits,
            ..Default::default()
        }))
        .unwrap();
    let e = Device::from_wgpu(device, queue).unwrap_err().to_string();
    assert!(e.contains("storage_buffers"), "{e}");
}

#[test]
#[ignore = "takes 1 GiB and a minute on a software adapter"]
fn a_buffer_of_300_mib_is_encoded_copied_and_read_back() {
    let len = (300 << 20) + 24;
    let limits = wgpu::Limits { max_buffer_size: 512 << 20, ..wgpu::Limits::defaults() };
    let Some(device) = plain_device(limits) else { return };
    let buffer = device.storage("large", len).unwrap();
    let word = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let bytes: Vec<u8> = (0..len / 8).flat_map(word).collect();
    device.write_at(&buffer, 0, &bytes).unwrap();
    let (offset, len) = (5, len - 7);
    let want = &bytes[5..][..len as usize];
    let region = Region::new(&buffer, offset, len).unwrap();
    let mut encoder = Encoder::new(&device, Plan::new(1).with_chunk_words(8 << 20)).unwrap();
    encoder
        .encode(region, None, |chunk| {
            let want = &want[chunk.start as usize..][..chunk.len as usize];
            assert!(matches!(chunk.planes, Planes::Words(words) if words == want));
            Ok(())
        })
        .unwrap();
    let place = Resident::new(&device, &buffer, offset, len).unwrap();
    let copy = Resident::copies(&[&place]).unwrap().remove(0);
    assert!(copy.read_vec(0, len).unwrap() == want);
    // And through the transforms of a CPU's coders, by a device of another program.
    let options = Options::default().with_dtype(Some(Dtype::BF16)).with_method(Method::Fast);
    let gpu = options.clone().with_device(Some(Arc::new(Transformer::new(device))));
    let words = &want[..100 << 20];
    assert!(
        lmc_gpu::compress(words, &gpu.compressing()).unwrap()
            == lmc_gpu::compress(words, &options.compressing()).unwrap()
    );
}

#[test]
#[ignore = "takes 1 GiB and a minute on a software adapter"]
fn grids_of_more_groups_than_one_dimension_holds_equal_the_cpu() {
    let Some(device) = device() else { return };
    let run = |entry: &str, params: &DeltaParams, n, buffers: &[super::Buffer<'_>]| {
        run_folded(&device, entry, params, n, buffers, 65_535)
    };
    // The most that a binding holds: 65,536 groups of 256 invocations of eight bytes.
    let len = 128usize << 20;
    let (a, b) = (noise(len, 3), noise(len, 5));
    let mut want = vec![0; len];
    let params = DeltaParams { n_bytes: len as u32, word_bits: 16 };
    delta::diff(Level::best(), 2, &a, &b, &mut want);
    let got = run("diff", &params, len / 8, &[In(&a), In(&b), Out(len)]);
    assert!(got[0] == want, "diff");
    let got = run("undo", &params, len / 8, &[In(&want), In(&b), Out(len)]);
    assert!(got[0] == a, "undo");
    delta::xor(Level::best(), &a, &b, &mut want);
    let got = run("xor", &params, len / 8, &[In(&a), In(&b), Out(len)]);
    assert!(got[0] == want, "xor");

    let params = AlignParams { n_bytes: len as u32 - 4, shift: 3 };
    let buffers = [In(&a), Out(len - 4)];
    let got = run_folded(&device, "take", &params, len / 4 - 1, &buffers, 65_535);
    assert!(got[0] == a[3..len - 1], "take");

    let n = len / 2;
    let params = GroupParams { n_words: n as u32, word_len: 2, stride: n as u32 / 4 };
    let got = run_folded(&device, "split", &params, n / 4, &[In(&a), Out(len)], 65_535);
    let (low, high) = got[0].split_at(n);
    let words = a.as_chunks::<2>().0;
    assert!(words.iter().zip(low).zip(high).all(|((w, l), h)| *w == [*l, *h]), "group");
    let got = run_folded(&device, "join", &params, n / 4, &[Out(len), In(&got[0])], 65_535);
    assert!(got[0] == a, "join");

    let params = BitplaneParams { n_words: n as u32, word_bits: 16 };
    let mut want = vec![0; len];
    lmc_gpu::internals::transform::bitplane::planes(Level::best(), 2, &a, &mut want);
    let buffers = [In(&a), Out(len)];
    let got = run_folded(&device, "planes", &params, len / 4 + 32, &buffers, 65_535);
    assert!(got[0] == want, "bit planes");
}
