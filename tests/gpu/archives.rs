//! Archives whose transforms a device made are those of the CPU, whatever becomes of the device.

use super::{device, noise};
use lmc_gpu::{
    Accelerator, Base, Method,
    dtype::Dtype,
    gpu::{Device, Transformer},
    internals::{archive::Options, simd::Level},
};
use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

/// About normally distributed weights of a type.
pub fn weights(dtype: Dtype, n: usize, seed: u64) -> Vec<u8> {
    let uniform = noise(12 * n, seed);
    let normal = |b: &[u8]| b.iter().map(|x| f32::from(*x) - 127.5).sum::<f32>() / 256.0 * 0.02;
    let mut out = Vec::with_capacity(n * dtype.word_len());
    for b in uniform.chunks_exact(12) {
        let x = normal(b);
        match dtype.name() {
            "BF16" => out.extend(((x.to_bits() >> 16) as u16).to_le_bytes()),
            "F16" => out.extend(half::f16::from_f32(x).to_le_bytes()),
            "F32" => out.extend(x.to_le_bytes()),
            "F64" => out.extend((f64::from(x) * 1.000_000_1).to_le_bytes()),
            "I32" => out.extend(((x * 1e5) as i32).to_le_bytes()),
            // Sign, the exponent of the 16-bit float moved into range, three bits of mantissa.
            _ => {
                let bits = half::f16::from_f32(x * 64.0).to_bits();
                let exponent = (bits >> 10 & 31).saturating_sub(8).min(15);
                out.push((bits >> 15 << 7 | exponent << 3 | bits >> 7 & 7) as u8);
            }
        }
    }
    out
}

/// The words moved a little, a tenth of them not at all.
fn moved(dtype: Dtype, words: &[u8], seed: u64) -> Vec<u8> {
    let by = noise(words.len(), seed);
    let word = dtype.word_len();
    let mut out = words.to_vec();
    for (w, by) in out.chunks_exact_mut(word).zip(by.chunks_exact(word)) {
        if by[0] > 25 {
            w[0] = w[0].wrapping_add(by[0] % 7).wrapping_sub(3);
        }
    }
    out
}

pub fn options(dtype: Dtype, method: Method) -> Options {
    Options::default().with_dtype(Some(dtype)).with_method(method).with_threads(2)
}

pub fn transformer(device: &Device) -> Arc<dyn Accelerator> {
    Arc::new(Transformer::new(device.clone()))
}

fn base(dir: &Path, bytes: &[u8], options: &Options) -> Arc<Base> {
    let path = dir.join("base");
    std::fs::write(&path, bytes).unwrap();
    Base::open_with(&path, &[], options).unwrap()
}

#[test]
fn archives_by_device_and_by_cpu_are_the_same_files() {
    let Some(device) = device() else { return };
    let dir = tempfile::tempdir().unwrap();
    for name in ["bf16", "f16", "f32", "f8_e4m3", "f64", "i32"] {
        let dtype = Dtype::parse(name).unwrap();
        // Two chunks, the last word of the second one on its own.
        let words = weights(dtype, 300_001, 3);
        let before = moved(dtype, &words, 5);
        for method in [Method::Fast, Method::Auto, Method::Max, Method::Xor, Method::Rans] {
            let cpu = options(dtype, method);
            for base in [None, Some(base(dir.path(), &before, &cpu))] {
                let cpu = cpu.clone().with_base(base);
                let gpu = transformer(&device);
                let on_gpu = cpu.clone().with_device(Some(gpu.clone()));
                let (want, got) = (
                    lmc_gpu::compress(&words, &cpu.compressing()),
                    lmc_gpu::compress(&words, &on_gpu.compressing()),
                );
                let with = if cpu.base.is_some() { "with" } else { "without" };
                assert!(want.unwrap() == got.unwrap(), "{name} {method} {with} base");
                let usage = gpu.usage();
                assert_eq!((usage.failed, gpu.take_fault()), (0, None));
                assert!(usage.done >= 1, "{name} {method} {with} base: {usage:?}");
            }
        }
    }
}

#[test]
fn archives_by_device_do_not_depend_on_instruction_sets_or_threads() {
    let Some(device) = device() else { return };
    let words = weights(Dtype::BF16, 700_000, 9);
    let want =
        lmc_gpu::compress(&words, &options(Dtype::BF16, Method::Fast).compressing()).unwrap();
    for level in Level::available() {
        for threads in [1, 3] {
            let options = options(Dtype::BF16, Method::Fast)
                .with_level(level)
                .with_threads(threads)
                .with_device(Some(transformer(&device)));
            assert!(lmc_gpu::compress(&words, &options.compressing()).unwrap() == want);
        }
    }
}

#[test]
fn words_that_do_not_shrink_are_stored_by_device_as_by_cpu() {
    let Some(device) = device() else { return };
    for (words, dtype) in [
        (noise(700_000, 4), Dtype::BF16),
        (noise(700_000, 4), Dtype::F32),
        (noise(700_000, 4), Dtype::F16),
        (vec![0; 700_000], Dtype::BF16),
    ] {
        for method in [Method::Fast, Method::Auto] {
            let cpu = options(dtype, method);
            let gpu = cpu.clone().with_device(Some(transformer(&device)));
            let want = lmc_gpu::compress(&words, &cpu.compressing()).unwrap();
            assert!(lmc_gpu::compress(&words, &gpu.compressing()).unwrap() == want);
        }
    }
}

#[test]
fn a_device_that_is_lost_in_mid_work_costs_nothing_but_a_note() {
    let Some(device) = device() else { return };
    let words = weights(Dtype::BF16, 3_000_000, 3);
    let cpu = options(Dtype::BF16, Method::Fast);
    let want = lmc_gpu::compress(&words, &cpu.compressing()).unwrap();
    let gpu = transformer(&device);
    let lose = {
        let device = device.clone();
        Arc::new(move |_| device.wgpu().destroy())
    };
    let on_gpu = cpu.with_device(Some(gpu.clone())).with_progress(Some(lose));
    let begun = Instant::now();
    let mut got = Vec::new();
    let summary = lmc_gpu::compress_into(&words, &on_gpu.compressing(), &mut got).unwrap();
    assert!(got == want);
    assert!(begun.elapsed() < Duration::from_secs(30));
    let faults: Vec<_> = summary.notes.iter().filter(|n| n.contains("device")).collect();
    assert_eq!(faults.len(), 1, "{:?}", summary.notes);
    let usage = gpu.usage();
    assert!(usage.done >= 1 && usage.failed >= 1, "{usage:?}");
    // Said once.
    let summary = lmc_gpu::compress_into(&words, &on_gpu.compressing(), &mut got).unwrap();
    assert!(got == want && summary.notes.is_empty(), "{:?}", summary.notes);
}
