//! Every kernel equals its CPU twin on a real device, and faults end in errors.
//!
//! Uses the adapter that `LMC_TEST_ADAPTER` names, or else the first there is, software included.
//! Without an adapter the tests say `skipped` and pass, unless `LMC_REQUIRE` contains `gpu`.
#![cfg(feature = "gpu")]

#[path = "gpu/archives.rs"]
mod archives;
#[path = "gpu/cascade.rs"]
mod cascade;
#[path = "gpu/codec.rs"]
mod codec;
#[path = "gpu/faults.rs"]
mod faults;
#[path = "gpu/kernels.rs"]
mod kernels;
#[path = "gpu/limits.rs"]
mod limits;
#[path = "gpu/memory.rs"]
mod memory;
#[path = "gpu/store.rs"]
mod store;

use lmc_gpu::{
    gpu::{Device, Recorder, Selector, adapters},
    internals::shader::Params,
};

/// A device of the test adapter, or none where tests may be skipped.
fn device() -> Option<Device> {
    let selector = match std::env::var("LMC_TEST_ADAPTER") {
        Ok(name) => name.parse().unwrap(),
        Err(_) => Selector::Index(0),
    };
    match Device::request(&selector) {
        Ok(device) => Some(device),
        Err(error) => {
            let required = std::env::var("LMC_REQUIRE").unwrap_or_default();
            assert!(!required.split(',').any(|r| r == "gpu"), "LMC_REQUIRE names gpu: {error}");
            assert!(adapters().is_empty(), "{error}");
            println!("skipped: no adapter");
            None
        }
    }
}

/// A buffer of a dispatch.
enum Buffer<'a> {
    /// Holds these bytes at first.
    In(&'a [u8]),
    /// Holds these bytes at first and is read back.
    InOut(&'a [u8]),
    /// Holds zeros at first; this many bytes are read back.
    Out(usize),
}
use Buffer::{In, InOut, Out};

/// Runs one dispatch, its grid folded at a few workgroups, and returns what is to be read back.
fn run<P: Params>(
    device: &Device,
    entry: &str,
    params: &P,
    invocations: usize,
    buffers: &[Buffer<'_>],
) -> Vec<Vec<u8>> {
    run_folded(device, entry, params, invocations, buffers, 3)
}

fn run_folded<P: Params>(
    device: &Device,
    entry: &str,
    params: &P,
    invocations: usize,
    buffers: &[Buffer<'_>],
    max_groups: u32,
) -> Vec<Vec<u8>> {
    let made: Vec<_> = buffers
        .iter()
        .map(|buffer| match buffer {
            In(bytes) | InOut(bytes) => {
                let buffer = device.storage("in", bytes.len() as u64).unwrap();
                device.write_at(&buffer, 0, bytes).unwrap();
                buffer
            }
            Out(len) => device.storage("out", *len as u64).unwrap(),
        })
        .collect();
    let uniforms = Recorder::uniforms(device).unwrap();
    let mut recorder = Recorder::new(device, &uniforms).folded_at(max_groups);
    let bound: Vec<_> = made.iter().collect();
    recorder.pass(None).dispatch(entry, params, invocations as u64, &bound).unwrap();
    recorder.submit().unwrap();
    let read = |(buffer, made): (&Buffer<'_>, &lmc_gpu::gpu::Buffer)| match *buffer {
        In(_) => None,
        InOut(bytes) => Some(device.read(made, bytes.len() as u64).unwrap()),
        Out(len) => Some(device.read(made, len as u64).unwrap()),
    };
    buffers.iter().zip(&made).filter_map(read).collect()
}

/// Bytes without a pattern.
fn noise(len: usize, seed: u64) -> Vec<u8> {
    let mut x = seed | 1;
    let next = || {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        x.to_le_bytes()
    };
    let mut bytes: Vec<u8> = std::iter::repeat_with(next).take(len / 8 + 1).flatten().collect();
    bytes.truncate(len);
    bytes
}

/// Numbers of words around everything that kernels count in.
const LENGTHS: [usize; 22] = [
    0, 1, 2, 3, 4, 5, 31, 32, 33, 63, 64, 65, 127, 128, 129, 1023, 1024, 1025, 4095, 4096, 4097,
    20_001,
];
