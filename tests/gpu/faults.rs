//! What goes wrong ends in an error: no hang, no panic.

use super::{device, noise};
use lmc_gpu::{
    Error,
    gpu::{Buffer, Decoder, Device, Encoder, Plan, Planes, Region, Transform, wgpu},
    internals::transform::split::Split,
};

pub fn bf16_plan() -> Plan {
    let fields = Split { word_bits: 16, rest_bits: 8, base: 1, sign: None };
    Plan::new(2)
        .with_transform(Transform::Cascade { fields, sampled: true })
        .with_chunk_words(1 << 14)
}

pub fn tensor(device: &Device, len: usize) -> (Buffer, Vec<u8>) {
    let bytes = noise(len, 1);
    let buffer = device.storage("tensor", len as u64).unwrap();
    device.write_at(&buffer, 0, &bytes).unwrap();
    (buffer, bytes)
}

#[test]
fn a_device_destroyed_in_mid_work_is_an_error_and_stays_one() {
    let Some(device) = device() else { return };
    let (buffer, bytes) = tensor(&device, 1 << 20);
    let region = Region::new(&buffer, 0, bytes.len() as u64).unwrap();
    let mut encoder = Encoder::new(&device, bf16_plan()).unwrap();
    let mut chunks = 0;
    let result = encoder.encode(region, None, |_| {
        chunks += 1;
        if chunks == 3 {
            device.wgpu().destroy();
        }
        Ok(())
    });
    assert!(matches!(result, Err(Error::Device(_))), "{result:?}");
    assert!(matches!(device.check(), Err(Error::Device(_))));
    assert!(matches!(encoder.snapshot(&region), Err(Error::Device(_))));
    assert!(encoder.encode(region, None, |_| Ok(())).is_err());
    assert!(Encoder::new(&device, bf16_plan()).is_err());
    assert!(device.read(&buffer, 4).is_err());
}

#[test]
fn a_lost_device_of_the_caller_is_an_error_too() {
    let Some(ours) = device() else { return };
    let device = Device::from_wgpu(ours.wgpu().clone(), ours.queue().clone()).unwrap();
    let (buffer, bytes) = tensor(&device, 1 << 20);
    let region = Region::new(&buffer, 0, bytes.len() as u64).unwrap();
    let mut encoder = Encoder::new(&device, bf16_plan()).unwrap();
    let result = encoder.encode(region, None, |_| {
        device.wgpu().destroy();
        Ok(())
    });
    // Nobody says that it is lost; the planes do not come.
    assert!(matches!(&result, Err(Error::Device(m)) if m.contains("read back")), "{result:?}");
}

#[test]
fn encoders_and_a_decoder_share_a_device() {
    let Some(device) = device() else { return };
    let (buffer, bytes) = tensor(&device, 1 << 20);
    let region = || Region::new(&buffer, 0, bytes.len() as u64).unwrap();
    let words = || {
        let mut encoder = Encoder::new(&device, Plan::new(1).with_chunk_words(1 << 16)).unwrap();
        for _ in 0..3 {
            let mut got = Vec::new();
            encoder
                .encode(region(), None, |chunk| {
                    let Planes::Words(words) = chunk.planes else { panic!("not words") };
                    got.extend_from_slice(words);
                    Ok(())
                })
                .unwrap();
            assert!(got == bytes);
        }
    };
    let there_and_back = || {
        let mut encoder = Encoder::new(&device, bf16_plan()).unwrap();
        let mut decoder = Decoder::new(&device, bf16_plan()).unwrap();
        for _ in 0..3 {
            let copy = device.storage("copy", bytes.len() as u64).unwrap();
            let to = Region::new(&copy, 0, bytes.len() as u64).unwrap();
            encoder
                .encode(region(), None, |chunk| decoder.put(&to, None, chunk.start, &chunk.planes))
                .unwrap();
            decoder.finish().unwrap();
            assert!(device.read(&copy, copy.size()).unwrap() == bytes);
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(words);
        scope.spawn(words);
        scope.spawn(there_and_back);
    });
}

#[test]
fn an_encoder_may_be_dropped_with_work_in_flight_or_used_again_after_an_error() {
    let Some(device) = device() else { return };
    let (buffer, bytes) = tensor(&device, 1 << 20);
    let region = Region::new(&buffer, 0, bytes.len() as u64).unwrap();
    let mut encoder = Encoder::new(&device, bf16_plan()).unwrap();
    let fail = |_: lmc_gpu::gpu::Chunk<'_>| Err(Error::InvalidArgument("stop".into()));
    let stopped = encoder.encode(region, None, fail);
    assert!(matches!(stopped, Err(Error::InvalidArgument(m)) if m == "stop"));
    let stats = encoder.encode(region, None, |_| Ok(())).unwrap();
    assert_eq!(stats.chunks, 32);
    encoder.encode(region, None, fail).unwrap_err();
    drop(encoder);
    let snapshot = Encoder::new(&device, bf16_plan()).unwrap().snapshot(&region).unwrap();
    drop(snapshot);
    assert_eq!(device.read(&buffer, 8).unwrap(), bytes[..8]);
}

#[test]
fn impossible_requests_are_refused() {
    let Some(device) = device() else { return };
    let (buffer, _) = tensor(&device, 64);
    assert!(Region::new(&buffer, 60, 5).is_err());
    assert!(Region::new(&buffer, u64::MAX, 5).is_err());
    let mut encoder = Encoder::new(&device, bf16_plan()).unwrap();
    let odd = Region::new(&buffer, 0, 7).unwrap();
    assert!(matches!(encoder.encode(odd, None, |_| Ok(())), Err(Error::InvalidArgument(_))));
    let whole = Region::new(&buffer, 0, 64).unwrap();
    let base = Some(whole.into());
    assert!(matches!(encoder.encode(whole, base, |_| Ok(())), Err(Error::InvalidArgument(_))));
    assert!(Encoder::new(&device, Plan::new(3)).is_err());
    assert!(Encoder::new(&device, Plan::new(2).with_chunk_words(100)).is_err());
    // A buffer that nothing can be copied from.
    let closed = device.create_buffer("closed", 64, wgpu::BufferUsages::STORAGE).unwrap();
    let region = Region::new(&closed, 0, 64).unwrap();
    assert!(matches!(encoder.snapshot(&region), Err(Error::InvalidArgument(_))));
    assert!(encoder.encode(region, None, |_| Ok(())).is_err());
    // More than a device allows.
    assert!(matches!(device.storage("huge", 1 << 40), Err(Error::Device(_))));
}
