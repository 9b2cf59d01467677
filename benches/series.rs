//! Checkpoints with a base, in memory, one thread, warm buffers, checksums on: multiples of a warm
//! memcpy of the same bytes in the same run.
//!
//! ```text
//! cargo bench --bench series -- [MIB [CASE,CASE]]      64 MiB, all cases
//! sparse      bf16, one word in 200 moved by one unit in the last place
//! step-1      bf16 of weights that moved so little that one in 80 words changed
//! step-3      one in 30
//! step-8      one in 12
//! dense-bf16  bf16 weights that moved by a hundredth of their spread
//! dense-f32   the same in f32
//! adam        weights and both moments in f32, one AdamW step on
//! gradient    the same with clipped sums of two gradients in bf16; moment: the first moment alone
//! ```
//!
//! On Linux it counts the CPU time of the thread, so that other work on the machine disturbs the
//! figures less.

use lmc_gpu::{
    Base, compress_into, decompress_into,
    dtype::Dtype,
    internals::{
        archive::Options,
        study::bench::synthetic::{self, Family, Spec},
    },
};
use std::time::{Duration, Instant};

/// Samples of a measurement, of which the shortest counts, and seconds that each lasts.
const SAMPLES: u32 = 4;
const LEAST: f64 = 0.1;
const CASES: &str = "sparse,step-1,step-3,step-8,dense-bf16,dense-f32,adam,gradient,moment";

fn now() -> Duration {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let wall = || START.get_or_init(Instant::now).elapsed();
    std::fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|s| s.split(' ').next()?.parse().ok())
        .map_or_else(wall, Duration::from_nanos)
}

/// The shortest time of one call, of samples long enough for the clock.
fn best(mut f: impl FnMut()) -> f64 {
    let mut times = 1;
    let mut least = f64::MAX;
    let mut samples = 0;
    while samples < SAMPLES {
        let start = now();
        (0..times).for_each(|_| f());
        let took = (now() - start).as_secs_f64();
        if took < LEAST {
            times *= 2;
            continue;
        }
        least = least.min(took / f64::from(times));
        samples += 1;
    }
    least
}

fn normal(dtype: Dtype, scale: f64, n: usize, seed: u64) -> Vec<u8> {
    let family = Family::Gaussian;
    synthetic::generate(&Spec { dtype, family, scale, correlation: 0.0, n }, seed)
}

fn floats(scale: f64, n: usize, seed: u64) -> Vec<f32> {
    let bytes = normal(Dtype::F32, scale, n, seed);
    bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// Base, checkpoint and type of a case.
fn case(name: &str, len: usize) -> (Vec<u8>, Vec<u8>, Option<Dtype>) {
    match name {
        "sparse" => {
            let base = normal(Dtype::BF16, 0.02, len / 2, 1);
            let mut new = base.clone();
            let mut x = 1u64;
            for word in new.as_chunks_mut::<2>().0 {
                x = x
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                if (x >> 40).is_multiple_of(200) {
                    let up = if x >> 39 & 1 == 0 { 1 } else { u16::MAX };
                    *word = u16::from_le_bytes(*word).wrapping_add(up).to_le_bytes();
                }
            }
            (base, new, Some(Dtype::BF16))
        }
        "dense-bf16" | "step-1" | "step-3" | "step-8" => {
            let moved = match name {
                "step-1" => 3.3e-7,
                "step-3" => 9.5e-7,
                "step-8" => 2.6e-6,
                _ => 2e-4,
            };
            let (w, d) = (floats(0.02, len / 2, 1), floats(moved, len / 2, 2));
            let narrow = |x: f32| half::bf16::from_f32(x).to_le_bytes();
            let base = w.iter().flat_map(|&w| narrow(w)).collect();
            let new = w.iter().zip(&d).flat_map(|(&w, &d)| narrow(w + d)).collect();
            (base, new, Some(Dtype::BF16))
        }
        "dense-f32" => {
            let (w, d) = (floats(0.02, len / 4, 1), floats(0.0002, len / 4, 2));
            let new: Vec<f32> = w.iter().zip(&d).map(|(w, d)| w + d).collect();
            (bytes(&w), bytes(&new), Some(Dtype::F32))
        }
        "adam" => adam(len / 12, false, "vw"),
        "gradient" => adam(len / 12, true, "vw"),
        "moment" => adam(len / 4, true, ""),
        other => panic!("no case {other}: there are {CASES}"),
    }
}

/// `n` parameters with their moments before and after a step of AdamW, in a trainer's order of
/// operations.
fn adam(n: usize, short: bool, beside: &str) -> (Vec<u8>, Vec<u8>, Option<Dtype>) {
    let (lr, beta1, beta2, eps, decay, step) = (3e-4f64, 0.9f64, 0.95f64, 1e-8f64, 0.1f64, 600);
    let (mut w, mut m) = (floats(0.02, n, 1), floats(1e-4, n, 2));
    let mut v: Vec<f32> = floats(3e-4, n, 3).iter().map(|x| x * x + 1e-9).collect();
    let before = tensors(&w, &m, &v, beside);
    let keep = (1.0 - lr * decay) as f32;
    let size = (-lr / (1.0 - beta1.powi(step))) as f32;
    let bias = (1.0 - beta2.powi(step)).sqrt() as f32;
    let narrow = |x: f32| half::bf16::from_f32(x).to_f32();
    let mut gradients = floats(3e-4, n, 4);
    if short {
        let other = floats(3e-4, n, 5);
        let sum = |(g, &o): (&mut f32, &f32)| *g = 0.639_577 * (narrow(*g) + narrow(o));
        gradients.iter_mut().zip(&other).for_each(sum);
    }
    for (((w, m), v), g) in w.iter_mut().zip(&mut m).zip(&mut v).zip(gradients) {
        *m = (g - *m).mul_add((1.0 - beta1) as f32, *m);
        *v = ((1.0 - beta2) as f32 * g).mul_add(g, *v * beta2 as f32);
        *w = *w * keep + size * *m / (v.sqrt() / bias + eps as f32);
    }
    (before, tensors(&w, &m, &v, beside), None)
}

/// A safetensors file of the three, or of the first moment alone.
fn tensors(w: &[f32], m: &[f32], v: &[f32], beside: &str) -> Vec<u8> {
    let (n, len) = (w.len(), 4 * w.len());
    let all = ["p.exp_avg", "p.exp_avg_sq", "p.master_param"];
    let names = &all[..1 + beside.len()];
    let entry = |(i, name): (usize, &str)| {
        let (from, to) = (i * len, (i + 1) * len);
        format!(r#""{name}":{{"dtype":"F32","shape":[{n}],"data_offsets":[{from},{to}]}}"#)
    };
    let entries: Vec<String> = names.iter().copied().enumerate().map(entry).collect();
    let mut header = format!("{{{}}}", entries.join(","));
    header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    [m, v, w][..names.len()].iter().for_each(|x| file.extend(bytes(x)));
    file
}

fn main() {
    let args: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).collect();
    let mib: usize = args.first().map_or(64, |a| a.parse().expect("a number of MiB"));
    let cases = args.get(1).map_or(CASES, |a| a);
    println!("{:?}, {mib} MiB", Options::default().level);
    for name in cases.split(',') {
        let (base, new, dtype) = case(name, mib << 20);
        let mut back = vec![1u8; new.len()];
        let memcpy = best(|| back.copy_from_slice(&new));
        let options = Options::default()
            .with_threads(1)
            .with_dtype(dtype)
            .with_base(Some(Base::from_bytes("base", base.clone().into(), dtype)));
        let mut out = Vec::new();
        let encode = best(|| {
            compress_into(&new, &options.compressing(), &mut out).expect("compresses");
        });
        let decode =
            best(|| decompress_into(&out, &mut back, &options.restoring()).expect("decompresses"));
        assert!(back == new, "decode differs");
        let words = new.as_chunks::<2>().0.iter().zip(base.as_chunks::<2>().0);
        let changed = words.filter(|(a, b)| a != b).count();
        if 8 * changed < new.len() / 2 {
            let (share, each) = (2e2 / new.len() as f64, out.len() as f64 / changed as f64);
            println!("{:10} {:.2} % changed, {each:.3} bytes each", "", changed as f64 * share);
        }
        println!(
            "{name:10} ratio {:.5}  memcpy {:5.2} GB/s  encode {:.3} memcpy  decode {:.3} memcpy",
            out.len() as f64 / new.len() as f64,
            new.len() as f64 / 1e9 / memcpy,
            memcpy / encode,
            memcpy / decode
        );
    }
}
