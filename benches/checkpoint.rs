//! Whole archives in memory, one thread, warm buffers, checksums on: multiples of a warm memcpy of
//! the same buffer in the same run.
//!
//! `cargo bench --bench checkpoint -- [FILE DTYPE [METHOD,METHOD]]`; without a file, 64 MiB of
//! normally distributed bf16. On Linux it counts the CPU time of the thread, so that other work on
//! the machine disturbs the figures less.

use lmc_gpu::{
    Options,
    bench::synthetic::{self, Family, Spec},
    codec::Method,
    compress_into, decompress_into,
    dtype::Dtype,
};
use std::time::{Duration, Instant};

const RUNS: usize = 7;

fn now() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let wall = || START.get_or_init(Instant::now).elapsed();
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|s| s.split(' ').next()?.parse().ok())
        .map_or_else(wall, Duration::from_nanos)
}

fn best(mut f: impl FnMut()) -> f64 {
    let once = |_| {
        let start = now();
        f();
        (now() - start).as_secs_f64()
    };
    (0..RUNS).map(once).fold(f64::MAX, f64::min)
}

fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let methods = if args.len() > 2 { args.remove(2) } else { "fast,auto,max".into() };
    let (data, dtype) = match &args[..] {
        [file, dtype] => (std::fs::read(file).expect("the file can be read"), dtype.as_str()),
        _ => {
            let n = 32 << 20;
            let spec = Spec {
                dtype: Dtype::BF16,
                family: Family::Gaussian,
                scale: 0.02,
                correlation: 0.0,
                n,
            };
            (synthetic::generate(&spec, 1), "bf16")
        }
    };
    let dtype = Dtype::parse(dtype).expect("a dtype like bf16");
    let mut back = vec![1u8; data.len()];
    let memcpy = best(|| back.copy_from_slice(&data));
    let gb = data.len() as f64 / 1e9;
    println!("memcpy {:.2} GB/s, {:?}", gb / memcpy, Options::default().level);
    for name in methods.split(',') {
        let method = Method::parse(name).expect("a method of `lmc-gpu bench --list`");
        let options =
            Options::default().with_method(method).with_dtype(Some(dtype)).with_threads(1);
        let mut out = Vec::new();
        let encode = best(|| {
            compress_into(&data, &options, &mut out).expect("compresses");
        });
        let decode = best(|| decompress_into(&out, &mut back, &options).expect("decompresses"));
        assert!(back == data, "decode differs");
        println!(
            "{name:8} ratio {:.5}  encode {:6.2} GB/s = {:.3} memcpy  decode {:6.2} GB/s = {:.3} memcpy",
            out.len() as f64 / data.len() as f64,
            gb / encode,
            memcpy / encode,
            gb / decode,
            memcpy / decode
        );
    }
}
