//! Throughput of the rANS coder and of what goes before it, in symbols a second, beside memcpy.
//!
//! A symbol is the exponent and the top two mantissa bits of a bfloat16 of Gaussian data: twice
//! the figure is bytes of bfloat16 a second.

use std::{hint::black_box, time::Duration};

use criterion::{Criterion, Throughput};
use lmc_gpu::internals::{
    entropy::{
        frequency, histogram,
        rans::{self, DecodeTable, Decoder, EncodeTable, Lanes},
    },
    simd::Level,
};
use rand::{RngExt, SeedableRng};
use rand_distr::StandardNormal;

/// Symbols of a chunk.
const N: usize = 1 << 18;

fn gaussian_symbols() -> Vec<u8> {
    let rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let top = |x: f32| half::bf16::from_f32(x * 0.02).to_bits() >> 5 & 0x3ff;
    let values = rng.sample_iter(StandardNormal);
    values.map(|x: f32| top(x).saturating_sub(300).min(255) as u8).take(N).collect()
}

/// Runs all of them.
pub fn all(c: &mut Criterion) {
    let symbols = gaussian_symbols();
    let contexts: Vec<u8> = (0..N).map(|i| (i * 7 / 13 % 8) as u8).collect();
    let mut counts = [0; 256];
    histogram::count(Level::SCALAR, &symbols, &mut counts);
    let table = frequency::normalise(&counts).expect("many symbols");
    let (encoder, decoder) = (EncodeTable::new(&table), DecodeTable::new(&table));
    let (encoders, decoders) = (vec![encoder.clone(); 8], vec![decoder.clone(); 8]);
    let mut out = vec![0; rans::bound(N, Lanes::SixtyFour)];
    let mut back = vec![0; N];

    let mut group = c.benchmark_group("rans");
    group.sample_size(10).warm_up_time(Duration::from_millis(100));
    group.measurement_time(Duration::from_millis(500));
    group.throughput(Throughput::Elements(N as u64));
    group.bench_function("memcpy", |b| b.iter(|| back.copy_from_slice(black_box(&symbols))));
    group.bench_function("count", |b| {
        b.iter(|| histogram::count(Level::SCALAR, black_box(&symbols), &mut counts));
    });
    group.bench_function("count contexts", |b| {
        let mut counts = [[0; 256]; 8];
        b.iter(|| {
            histogram::count_contexts(Level::SCALAR, black_box(&symbols), &contexts, &mut counts)
        });
    });
    for level in Level::available() {
        group.bench_function(format!("sample/{}", level.name()), |b| {
            b.iter(|| histogram::sample(level, black_box(&symbols), &mut counts));
        });
        group.bench_function(format!("sample contexts/{}", level.name()), |b| {
            let mut counts = [[0; 256]; 8];
            b.iter(|| {
                let symbols = black_box(&symbols);
                histogram::sample_contexts(level, symbols, &contexts, &mut counts);
            });
        });
    }
    for level in Level::available() {
        for (lanes, name) in [(Lanes::SixtyFour, "64"), (Lanes::Four, "4")] {
            if lanes == Lanes::Four && level != Level::SCALAR {
                continue;
            }
            let id = |what: &str| format!("{what}/{}/{name}", level.name());
            group.bench_function(id("encode"), |b| {
                b.iter(|| rans::encode(level, lanes, black_box(&symbols), &encoder, &mut out));
            });
            let start = rans::encode(level, lanes, &symbols, &encoder, &mut out).expect("present");
            group.bench_function(id("decode"), |b| {
                b.iter(|| {
                    let mut d = Decoder::new(lanes, N, black_box(&out[start..])).expect("valid");
                    assert!(d.decode(level, &decoder, &mut back) && d.finish());
                });
            });
            assert!(back == symbols);
            if lanes == Lanes::Four {
                continue;
            }
            group.bench_function(id("encode contexts"), |b| {
                b.iter(|| {
                    let symbols = black_box(&symbols);
                    rans::encode_contexts(level, lanes, symbols, &contexts, &encoders, &mut out)
                });
            });
            group.bench_function(id("decode contexts"), |b| {
                b.iter(|| {
                    let mut d = Decoder::new(lanes, N, black_box(&out[start..])).expect("valid");
                    assert!(
                        d.decode_contexts(level, &contexts, &decoders, &mut back) && d.finish()
                    );
                });
            });
        }
    }
    group.finish();
    let mut group = c.benchmark_group("tables");
    group.sample_size(10).warm_up_time(Duration::from_millis(100));
    group.measurement_time(Duration::from_millis(300));
    group.bench_function("normalise", |b| b.iter(|| frequency::normalise(black_box(&counts))));
    group.bench_function("encode table", |b| b.iter(|| EncodeTable::new(black_box(&table))));
    group.bench_function("decode table", |b| b.iter(|| DecodeTable::new(black_box(&table))));
    let mut bytes = Vec::new();
    frequency::write(&table, &mut bytes);
    println!("a table of {} bytes", bytes.len());
    group.bench_function("write", |b| {
        b.iter(|| {
            bytes.clear();
            frequency::write(black_box(&table), &mut bytes);
        });
    });
    group.bench_function("read", |b| b.iter(|| frequency::read(black_box(&bytes))));
    group.finish();
}
