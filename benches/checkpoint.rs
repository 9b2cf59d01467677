//! Whole archives in memory, one thread, warm buffers, checksums on: multiples of a warm memcpy of
//! the same buffer in the same run.
//!
//! `cargo bench --bench checkpoint -- [FILE DTYPE [METHOD,METHOD]]`; without a file, 64 MiB of
//! normally distributed bf16. Copies and runs take turns, so that other work on the machine disturbs
//! both alike.

use lmc_gpu::{
    Method, compress_into, decompress_into,
    dtype::Dtype,
    internals::{
        archive::Options,
        study::bench::synthetic::{self, Family, Spec},
    },
};
use std::time::{Duration, Instant};

const RUNS: usize = 15;
const MOST: Duration = Duration::from_secs(3);

/// The fastest of several runs, in seconds, and the fastest copy of as many bytes between them:
/// machines change their pace from second to second.
fn best(data: &[u8], mut f: impl FnMut()) -> (f64, f64) {
    let mut copy = vec![1u8; data.len()];
    let once = |f: &mut dyn FnMut()| {
        let start = Instant::now();
        f();
        start.elapsed().as_secs_f64()
    };
    let (mut least, mut least_copy) = (f64::MAX, f64::MAX);
    let begin = Instant::now();
    for run in 0..RUNS {
        least_copy = least_copy.min(once(&mut || copy.copy_from_slice(data)));
        least = least.min(once(&mut f));
        if run > 2 && begin.elapsed() > MOST {
            break;
        }
    }
    (least, least_copy)
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
    let gb = data.len() as f64 / 1e9;
    println!("{:?}", Options::default().level);
    for name in methods.split(',') {
        let method = Method::parse(name).expect("a method of `lmc-gpu bench --list`");
        let options =
            Options::default().with_method(method).with_dtype(Some(dtype)).with_threads(1);
        let mut out = Vec::new();
        let (encode, memcpy) = best(&data, || {
            compress_into(&data, &options.compressing(), &mut out).expect("compresses");
        });
        let (decode, memcpy_2) = best(&data, || {
            decompress_into(&out, &mut back, &options.restoring()).expect("decompresses")
        });
        assert!(back == data, "decode differs");
        println!(
            "{name:8} ratio {:.5}  encode {:6.2} GB/s = {:.3} memcpy ({:.2})  decode {:6.2} GB/s = {:.3} memcpy",
            out.len() as f64 / data.len() as f64,
            gb / encode,
            memcpy / encode,
            gb / memcpy,
            gb / decode,
            memcpy_2 / decode
        );
    }
}
