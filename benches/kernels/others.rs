//! Hashes, bit planes, differences, changes and Huffman coding.

use std::hint::black_box;

use criterion::Criterion;
use lmc_gpu::internals::{
    entropy::histogram,
    hash,
    simd::Level,
    transform::{bitplane, change, delta},
};

use super::planes::{CHUNK, aligned, aligned_weights, group_of, size_name, weights};

fn hashes(c: &mut Criterion) {
    for len in [64 << 20, 512 << 10] {
        let words = aligned_weights(true, len);
        let mut group = group_of(c, &format!("hash/best/{}", size_name(len)), len);
        group.bench_function("hash64", |b| b.iter(|| hash::hash64(black_box(words))));
    }
}

fn bit_planes(c: &mut Criterion) {
    for width in [2, 4] {
        let words = aligned_weights(width == 2, CHUNK * width);
        let (planes, back) = (aligned(words.len()), aligned(words.len()));
        for level in Level::available() {
            let name = format!("bitplane/{}/{width}bytes/{}", level.name(), size_name(words.len()));
            let mut group = group_of(c, &name, words.len());
            group.bench_function("planes", |b| {
                b.iter(|| bitplane::planes(level, width, black_box(words), planes));
            });
            group.bench_function("words", |b| {
                b.iter(|| bitplane::words(level, width, black_box(planes), back));
            });
        }
    }
}

/// Words of which one in `one_in` differs from the base by one.
fn moved(base: &[u8], width: usize, one_in: usize) -> Vec<u8> {
    let mut words = base.to_vec();
    for word in words.chunks_exact_mut(width).step_by(one_in) {
        word[0] ^= 1;
    }
    words
}

fn differences(c: &mut Criterion) {
    for width in [2, 4] {
        let base = weights(width == 2, CHUNK * width);
        let (delta, back) = (aligned(base.len()), aligned(base.len()));
        let size = size_name(base.len());
        for level in Level::available() {
            let name = format!("delta/{}/{width}bytes/{size}", level.name());
            let words = moved(&base, width, 3);
            let mut group = group_of(c, &name, base.len());
            group.bench_function("xor", |b| {
                b.iter(|| delta::xor(level, black_box(&words), &base, delta));
            });
            group.bench_function("diff", |b| {
                b.iter(|| delta::diff(level, width, black_box(&words), &base, delta));
            });
            group.bench_function("undo", |b| {
                b.iter(|| delta::undo(level, width, black_box(delta), &base, back));
            });
            group.finish();
            let name = format!("change/{}/{width}bytes/{size}", level.name());
            let mut masks = vec![0; CHUNK.div_ceil(64)];
            let words = moved(&base, width, 200);
            group_of(c, &name, base.len()).bench_function("one in 200", |b| {
                b.iter(|| change::masks(level, width, black_box(&words), &base, &mut masks));
            });
        }
    }
}

/// Exponents of bf16 weights.
fn exponents() -> Vec<u8> {
    let words = weights(true, 2 * CHUNK);
    words.chunks_exact(2).map(|w| (u16::from_le_bytes([w[0], w[1]]) >> 7) as u8).collect()
}

fn counts(c: &mut Criterion) {
    let exponents = exponents();
    for level in Level::available() {
        let name = format!("histogram/{}/exponents/{}", level.name(), size_name(CHUNK));
        group_of(c, &name, CHUNK).bench_function("count", |b| {
            let mut counts = [0; 256];
            b.iter(|| histogram::count(level, black_box(&exponents), &mut counts));
        });
    }
}

#[cfg(feature = "study")]
fn huffman_blocks(c: &mut Criterion) {
    use lmc_gpu::internals::study::huffman;

    let exponents = exponents();
    let (mut coded, mut back) = (Vec::new(), vec![0; CHUNK]);
    let mut scratch = huffman::Scratch::default();
    for level in Level::available() {
        let name = format!("huffman/{}/exponents/{}", level.name(), size_name(CHUNK));
        let mut group = group_of(c, &name, CHUNK);
        group.bench_function("encode", |b| {
            b.iter(|| {
                coded.clear();
                huffman::encode(level, black_box(&exponents), &mut scratch, &mut coded);
            });
        });
        group.bench_function("decode", |b| {
            b.iter(|| assert!(huffman::decode(level, black_box(&coded), &mut back)));
        });
    }
}

/// Runs all of them.
pub fn all(c: &mut Criterion) {
    for bench in [hashes, bit_planes, differences, counts] {
        bench(c);
    }
    #[cfg(feature = "study")]
    huffman_blocks(c);
}
