//! Kernels between words and planes.

use std::{hint::black_box, time::Duration};

use criterion::{BenchmarkGroup, Criterion, Throughput, measurement::WallTime};
use lmc_gpu::internals::{
    bits::pack,
    entropy::cascade,
    simd::Level,
    transform::{
        group,
        split::{self, Planes, PlanesMut, Split},
    },
};
use rand::SeedableRng;
use rand_distr::{Distribution, Normal};

/// Words of a chunk.
pub const CHUNK: usize = 1 << 18;

/// Gaussian f32 weights, as the upper halves of words if they are to be bf16.
pub fn weights(bf16: bool, len: usize) -> Vec<u8> {
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
    let normal = Normal::new(0f32, 0.02).expect("a positive deviation");
    let mut bytes = Vec::with_capacity(len);
    while bytes.len() < len.min(4 << 20) {
        let word = normal.sample(&mut rng).to_le_bytes();
        bytes.extend_from_slice(if bf16 { &word[2..] } else { &word });
    }
    while bytes.len() < len {
        bytes.extend_from_within(..(len - bytes.len()).min(4 << 20));
    }
    bytes
}

/// Zeros that start at a cache line, as kernels like them; never freed.
pub fn aligned(len: usize) -> &'static mut [u8] {
    let buffer = vec![0u8; len + 64].leak();
    let start = buffer.as_ptr().align_offset(64);
    &mut buffer[start..][..len]
}

/// [`weights`] in [`aligned`] memory.
pub fn aligned_weights(bf16: bool, len: usize) -> &'static mut [u8] {
    let words = aligned(len);
    words.copy_from_slice(&weights(bf16, len));
    words
}

/// A group of measurements of `len` bytes each.
pub fn group_of<'a>(c: &'a mut Criterion, name: &str, len: usize) -> BenchmarkGroup<'a, WallTime> {
    let mut group = c.benchmark_group(name);
    group.sample_size(10).warm_up_time(Duration::from_millis(100));
    group.measurement_time(Duration::from_millis(400));
    group.throughput(Throughput::Bytes(len as u64));
    group
}

/// A length for people.
pub fn size_name(len: usize) -> String {
    if len >= 1 << 20 { format!("{}MiB", len >> 20) } else { format!("{}KiB", len >> 10) }
}

fn memcpy(c: &mut Criterion) {
    for len in [64 << 20, 512 << 10] {
        let (from, to) = (aligned_weights(true, len), aligned(len));
        group_of(c, "memcpy", len).bench_function(size_name(len), |b| {
            b.iter(|| black_box(&mut *to).copy_from_slice(black_box(from)));
        });
    }
}

fn cascades(c: &mut Criterion) {
    for len in [64 << 20, 2 * CHUNK] {
        let words = aligned_weights(true, len);
        let n = len / 2;
        let (rest, coded, back) = (aligned(n), aligned(n), aligned(len));
        let mut lens = vec![0; n / CHUNK];
        let mut scratch = vec![0; cascade::scratch_len(CHUNK)];
        for level in Level::available() {
            let name = format!("cascade/{}/bf16/{}", level.name(), size_name(len));
            let mut group = group_of(c, &name, len);
            group.bench_function("encode", |b| {
                b.iter(|| {
                    let outs = coded.chunks_mut(CHUNK).zip(rest.chunks_mut(CHUNK)).zip(&mut lens);
                    for (words, ((coded, rest), len)) in words.chunks(2 * CHUNK).zip(outs) {
                        let plan = cascade::plan(&cascade::sample_bf16(words));
                        *len = cascade::encode_bf16(
                            level,
                            &plan,
                            words,
                            rest,
                            &mut scratch,
                            coded,
                            None,
                        )
                        .expect("weights shrink");
                    }
                });
            });
            group.bench_function("decode", |b| {
                b.iter(|| {
                    let ins = coded.chunks(CHUNK).zip(rest.chunks(CHUNK)).zip(&lens);
                    for (words, ((coded, rest), len)) in back.chunks_mut(2 * CHUNK).zip(ins) {
                        let coded = &coded[..*len];
                        assert!(cascade::decode_bf16(level, coded, rest, &mut scratch, words));
                    }
                });
            });
        }
        assert!(back == words || back.iter().all(|b| *b == 0), "all are benched, or none");
    }
}

fn splits(c: &mut Criterion) {
    let all = [
        ("bf16", Split { word_bits: 16, rest_bits: 8, base: 1, sign: None }),
        ("bf16-r6", Split { word_bits: 16, rest_bits: 6, base: 300, sign: None }),
        ("f32-r6", Split { word_bits: 32, rest_bits: 6, base: 300, sign: None }),
        ("f8", Split { word_bits: 8, rest_bits: 4, base: 1, sign: None }),
        ("f64-r6", Split { word_bits: 64, rest_bits: 6, base: 300, sign: None }),
    ];
    for (dtype, f) in all {
        let words = aligned_weights(f.word_bits != 32, CHUNK * f.word_len());
        let mut planes: Vec<_> = (0..3 + f.n_tails()).map(|_| aligned(CHUNK)).collect();
        let back = aligned(words.len());
        for level in Level::available() {
            let name = format!("split/{}/{dtype}/{}", level.name(), size_name(words.len()));
            let mut group = group_of(c, &name, words.len());
            let mut n_escapes = 0;
            group.bench_function("split", |b| {
                b.iter(|| {
                    let [symbols, rest_lo, rest_hi, tails @ ..] = &mut planes[..] else { return };
                    let mut tails: Vec<&mut [u8]> = tails.iter_mut().map(|t| &mut t[..]).collect();
                    let tails = &mut tails;
                    let planes = PlanesMut { symbols, rest_lo, rest_hi, tails };
                    n_escapes = split::split(level, &f, words, planes);
                });
            });
            let mut escapes = vec![0; n_escapes];
            if f.is_windowed() {
                split::escapes(&f, words, planes[0], &mut escapes);
            }
            group.bench_function("join", |b| {
                b.iter(|| {
                    let [symbols, rest_lo, rest_hi, tails @ ..] = &planes[..] else { return };
                    let tails: Vec<&[u8]> = tails.iter().map(|t| &t[..]).collect();
                    let mut escapes = &escapes[..];
                    let planes = Planes { symbols, rest_lo, rest_hi, tails: &tails };
                    assert!(split::join(level, &f, planes, &mut escapes, back));
                });
            });
            assert!(back == words || back.iter().all(|b| *b == 0), "all are benched, or none");
            group.bench_function("sign", |b| {
                b.iter(|| split::sign(level, f.word_bits, black_box(words)));
            });
        }
    }
}

fn packs(c: &mut Criterion) {
    let values = aligned_weights(true, CHUNK);
    for width in [4, 6, 7] {
        let (packed, back) = (aligned(pack::packed_len(width, CHUNK)), aligned(CHUNK));
        for level in Level::available() {
            let name = format!("pack/{}/{width}bits/{}", level.name(), size_name(CHUNK));
            let mut group = group_of(c, &name, CHUNK);
            group.bench_function("pack", |b| {
                b.iter(|| pack::pack(level, width, black_box(values), packed));
            });
            group.bench_function("unpack", |b| {
                b.iter(|| assert!(pack::unpack(level, width, black_box(packed), back)));
            });
        }
    }
}

fn groups(c: &mut Criterion) {
    for width in [2, 4, 8] {
        let words = aligned_weights(true, CHUNK * width);
        let mut planes: Vec<_> = (0..width).map(|_| aligned(CHUNK)).collect();
        let back = aligned(words.len());
        for level in Level::available() {
            let name = format!("group/{}/{width}bytes/{}", level.name(), size_name(words.len()));
            let mut bench = group_of(c, &name, words.len());
            let mut slices: Vec<&mut [u8]> = planes.iter_mut().map(|p| &mut p[..]).collect();
            bench.bench_function("split", |b| {
                b.iter(|| group::split(level, black_box(words), &mut slices));
            });
            let slices: Vec<&[u8]> = planes.iter().map(|p| &p[..]).collect();
            bench.bench_function("join", |b| {
                b.iter(|| group::join(level, black_box(&slices), back));
            });
        }
    }
}

/// Runs all of them.
pub fn all(c: &mut Criterion) {
    for bench in [memcpy, cascades, splits, packs, groups] {
        bench(c);
    }
}
