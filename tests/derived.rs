//! What quantisers and casts made costs next to nothing beside what it was made of, and never more
//! than alone.

mod common;
#[path = "derived/files.rs"]
mod files;
#[path = "derived/quantiser.rs"]
mod quantiser;

use common::Rng;
use files::{Tensor, gguf, safetensors, store};
use half::{bf16, f16};
use lmc_gpu::{
    Method,
    dtype::Dtype,
    internals::{
        codec::{
            Chunk, ChunkSpec, Offer, Payload, Predictor, Quantise, Recipe, Scratch, decode, encode,
        },
        predict::quantise::{
            Source,
            scaled::{Scaled, Share},
        },
        simd::Level,
    },
};
use quantiser::Script;

const BLOCKS: [Dtype; 5] = [Dtype::Q4_0, Dtype::Q4_1, Dtype::Q5_0, Dtype::Q5_1, Dtype::Q8_0];
const FLOATS: [Dtype; 3] = [Dtype::BF16, Dtype::F16, Dtype::F32];
const ROWS: usize = 256;
const COLUMNS: usize = 256;

/// Weights, with blocks of zeros, of one value, and of values that lie between two codes; numbers
/// close to 0 too.
fn weights(seed: u64, n: usize) -> Vec<f32> {
    let mut rng = Rng::new(seed);
    let mut x: Vec<f32> = (0..n).map(|_| (rng.normal() * 0.02) as f32).collect();
    for (i, block) in x.chunks_mut(32).enumerate() {
        match i % 23 {
            3 => block.fill(0.0),
            5 => block.fill(0.0125),
            7 => block.iter_mut().enumerate().for_each(|(i, x)| *x = (i as f32 - 16.0) * 0.5),
            9 => block.iter_mut().for_each(|x| *x *= 1e-6),
            11 => block.iter_mut().for_each(|x| *x = x.abs()),
            13 => block[4] = -block[9],
            _ => {}
        }
    }
    x
}

/// Words of a type, and what they stand for.
fn words(dtype: Dtype, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let each = |x: &f32| match dtype {
        Dtype::BF16 => (bf16::from_f32(*x).to_le_bytes().to_vec(), bf16::from_f32(*x).to_f32()),
        Dtype::F16 => (f16::from_f32(*x).to_le_bytes().to_vec(), f16::from_f32(*x).to_f32()),
        _ => (x.to_le_bytes().to_vec(), *x),
    };
    let (words, values): (Vec<Vec<u8>>, Vec<f32>) = values.iter().map(each).unzip();
    (words.concat(), values)
}

fn matrix(name: &str, dtype: Dtype, data: Vec<u8>) -> Tensor {
    (name.to_owned(), dtype, vec![ROWS as u64, COLUMNS as u64], data)
}

const HF: &str = "model.layers.3.mlp.up_proj.weight";
const GGUF: &str = "blk.3.ffn_up.weight";

#[test]
fn blocks_beside_their_source_cost_next_to_nothing() {
    for source in FLOATS {
        let (data, values) = words(source, &weights(1, ROWS * COLUMNS));
        let mut files = vec![("model.safetensors", safetensors(&[matrix(HF, source, data)]))];
        let names = ["4_0.gguf", "4_1.gguf", "5_0.gguf", "5_1.gguf", "8_0.gguf"];
        for (dtype, name) in BLOCKS.into_iter().zip(names) {
            let made = quantiser::blocks(dtype, &values);
            files.push((name, gguf(&[matrix(GGUF, dtype, made)])));
        }
        let stored = store(&files, None);
        for name in names {
            let part = stored.part(name, GGUF);
            assert!(part < 0.01, "{source} {name}: {part}");
            assert_eq!(stored.source(name, GGUF), format!("model.safetensors:{HF}"));
        }
    }
}

#[test]
fn a_source_of_another_name_or_in_the_base_is_found_too() {
    let (data, values) = words(Dtype::BF16, &weights(2, ROWS * COLUMNS));
    let (other, _) = words(Dtype::BF16, &weights(3, ROWS * COLUMNS));
    let model = |name: &str| {
        let tensors = [
            matrix("a", Dtype::BF16, other.clone()),
            matrix(name, Dtype::BF16, data.clone()),
            matrix("c", Dtype::BF16, words(Dtype::BF16, &weights(4, ROWS * COLUMNS)).0),
        ];
        ("model.safetensors", safetensors(&tensors))
    };
    let quant = gguf(&[matrix(GGUF, Dtype::Q5_0, quantiser::blocks(Dtype::Q5_0, &values))]);
    let quant = ("q.gguf", quant);
    for name in ["something", HF] {
        let stored = store(&[model(name), quant.clone()], None);
        assert!(stored.part("q.gguf", GGUF) < 0.01);
        let stored = store(std::slice::from_ref(&quant), Some(&[model(name)]));
        assert!(stored.part("q.gguf", GGUF) < 0.01);
        assert!(
            stored.source("q.gguf", GGUF).contains("base"),
            "{}",
            stored.source("q.gguf", GGUF)
        );
    }
}

#[test]
fn rows_of_heads_that_are_interleaved_are_found() {
    let (data, values) = words(Dtype::BF16, &weights(5, ROWS * COLUMNS));
    for half in [16, 32, 64] {
        let rows = (0..ROWS).flat_map(|row| {
            let (head, at) = (row / (2 * half), row % (2 * half));
            let from = 2 * half * head + half * (at % 2) + at / 2;
            values[from * COLUMNS..][..COLUMNS].to_vec()
        });
        let turned: Vec<f32> = rows.collect();
        let name = "model.layers.0.self_attn.q_proj.weight";
        let model = safetensors(&[matrix(name, Dtype::BF16, data.clone())]);
        let made = quantiser::blocks(Dtype::Q8_0, &turned);
        let made = gguf(&[matrix("blk.0.attn_q.weight", Dtype::Q8_0, made)]);
        let stored = store(&[("m.safetensors", model), ("q.gguf", made)], None);
        assert!(stored.part("q.gguf", "blk.0.attn_q.weight") < 0.01, "{half}");
    }
}

#[test]
fn words_of_eight_bits_beside_their_source_cost_next_to_nothing() {
    let (data, values) = words(Dtype::BF16, &weights(6, ROWS * COLUMNS));
    let blocks = [(128, 128), (1, COLUMNS), (ROWS, COLUMNS), (1, 64)];
    for dtype in [Dtype::F8_E4M3, Dtype::I8] {
        for script in Script::ALL {
            for block in blocks {
                let made = quantiser::scaled(dtype, script, block, COLUMNS, &values);
                let model = safetensors(&[matrix(HF, Dtype::BF16, data.clone())]);
                let made = safetensors(&[matrix(HF, dtype, made)]);
                let stored = store(&[("m.safetensors", model), ("q.safetensors", made)], None);
                let part = stored.part("q.safetensors", HF);
                assert!(part < 0.01, "{dtype} {script:?} {block:?}: {part}");
            }
        }
    }
}

#[test]
fn casts_between_files_cost_next_to_nothing() {
    let x = weights(7, ROWS * COLUMNS);
    for [from, to] in [
        [Dtype::F32, Dtype::BF16],
        [Dtype::F32, Dtype::F16],
        [Dtype::F16, Dtype::BF16],
        [Dtype::BF16, Dtype::F16],
    ] {
        let (data, values) = words(from, &x);
        let (made, _) = words(to, &values);
        let one = safetensors(&[matrix(HF, from, data)]);
        let other = safetensors(&[matrix(HF, to, made)]);
        let stored = store(&[("a.safetensors", one), ("b.safetensors", other)], None);
        let parts = ["a.safetensors", "b.safetensors"].map(|f| stored.part(f, HF));
        assert!(parts[0].min(parts[1]) < 0.01, "{from} {to}: {parts:?}");
        // What is left is what holds less: bf16 where f16 is made of it.
        assert!(to != Dtype::F16 || from != Dtype::BF16 || parts[1] < 0.01, "{parts:?}");
    }
}

#[test]
fn copies_of_what_is_derived_are_found_whatever_chunks_hold() {
    let (rows, columns) = (1200, 256);
    let (data, values) = words(Dtype::BF16, &weights(13, rows * columns));
    let tensor = |name: &str, dtype, data| -> Tensor {
        (name.into(), dtype, vec![rows as u64, columns as u64], data)
    };
    let eight = quantiser::scaled(Dtype::F8_E4M3, Script::Divide, (128, 128), columns, &values);
    let quant = gguf(&[tensor(GGUF, Dtype::Q8_0, quantiser::blocks(Dtype::Q8_0, &values))]);
    let stored = store(
        &[
            ("f8.safetensors", safetensors(&[tensor(HF, Dtype::F8_E4M3, eight)])),
            ("model.safetensors", safetensors(&[tensor(HF, Dtype::BF16, data)])),
            ("q.gguf", quant.clone()),
            ("same.gguf", quant),
        ],
        None,
    );
    for (file, name) in [("f8.safetensors", HF), ("q.gguf", GGUF), ("same.gguf", GGUF)] {
        assert!(stored.part(file, name) < 0.01, "{file}: {}", stored.part(file, name));
    }
}

#[test]
fn codes_under_scales_of_a_search_cost_nothing_beside_the_scales() {
    let (data, values) = words(Dtype::BF16, &weights(8, ROWS * COLUMNS));
    let model = safetensors(&[matrix(HF, Dtype::BF16, data)]);
    let made = gguf(&[matrix(GGUF, Dtype::Q6_K, quantiser::q6_k(&values))]);
    let stored = store(&[("m.safetensors", model), ("q.gguf", made)], None);
    assert!(stored.part("q.gguf", GGUF) < 0.10, "{}", stored.part("q.gguf", GGUF));
}

#[test]
fn a_source_that_changed_a_little_still_helps_and_a_wrong_one_does_no_harm() {
    let x = weights(9, ROWS * COLUMNS);
    let (data, values) = words(Dtype::BF16, &x);
    let (wrong, _) = words(Dtype::BF16, &weights(10, ROWS * COLUMNS));
    let mut changed = data.clone();
    changed[40_001] ^= 0x40;
    let mut rng = Rng::new(11);
    let tuned: Vec<f32> = values.iter().map(|x| x + (rng.normal() * 2e-4) as f32).collect();
    let (tuned, _) = words(Dtype::BF16, &tuned);
    for dtype in BLOCKS {
        let quant = gguf(&[matrix(GGUF, dtype, quantiser::blocks(dtype, &values))]);
        let alone = store(&[("q.gguf", quant.clone())], None).part("q.gguf", GGUF);
        let beside = |data: &[u8]| {
            let model = safetensors(&[matrix(HF, Dtype::BF16, data.to_vec())]);
            let stored = store(&[("m.safetensors", model), ("q.gguf", quant.clone())], None);
            stored.part("q.gguf", GGUF)
        };
        assert!(beside(&changed) < 0.02, "{dtype}");
        assert!(beside(&tuned) < 0.7 * alone, "{dtype}: {} of {alone}", beside(&tuned));
        // A reference and its place are a few bytes.
        assert!(beside(&wrong) < alone + 0.002, "{dtype}");
    }
}

#[test]
fn what_the_python_package_of_gguf_makes_is_predicted_word_for_word() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/quantised/gguf-0.19.gguf");
    let file = std::fs::read(path).unwrap();
    let found = lmc_gpu::internals::format::parse(&file).unwrap();
    let data = |name: &str| {
        let t = found.tensors.iter().find(|t| t.name == name).unwrap();
        let len = t.extent().unwrap() as usize;
        (t.dtype, file[t.offset as usize..][..len].to_vec())
    };
    let (_, source) = data("source");
    for dtype in BLOCKS {
        let (found, words) = data(dtype.name());
        assert_eq!(found, dtype);
        let recipe = Recipe::Layout(0);
        let how = Quantise { source: Source::Bf16, half: 0, recipe };
        let offers = [Offer { predictor: Predictor::Quantise(how), inputs: vec![0] }];
        let spec = ChunkSpec { dtype, big_endian: false, row_words: 8 };
        let (mut scratch, mut coded) = (Scratch::default(), Vec::new());
        let (level, known) = (Level::best(), [&source[..]]);
        let chunk = Chunk { spec, bytes: &words, known: &known, offers: &offers };
        encode(level, Method::Auto, &chunk, &mut scratch, &mut coded).unwrap();
        // The recipe, and for each part that it is as predicted; signs of zeros may not be, of which
        // vectors in numpy take either.
        assert!(coded.len() < 80, "{dtype}: {}", coded.len());
    }
}

/// Every type with a way to make it, and what it may be made of.
fn ways() -> Vec<(Dtype, Quantise)> {
    let mut all = Vec::new();
    for source in Source::ALL {
        let layouts = [
            Dtype::Q4_0,
            Dtype::Q4_1,
            Dtype::Q5_0,
            Dtype::Q5_1,
            Dtype::Q8_0,
            Dtype::Q2_K,
            Dtype::Q3_K,
            Dtype::Q4_K,
            Dtype::Q5_K,
            Dtype::Q6_K,
        ];
        for dtype in layouts {
            for (order, half) in [(0, 0), (1, 0), (0, 2)] {
                all.push((dtype, Quantise { source, half, recipe: Recipe::Layout(order) }));
            }
        }
        for dtype in [Dtype::F8_E4M3, Dtype::F8_E5M2, Dtype::I8] {
            for (formula, rounds) in [(0, 0), (1, 3), (2, 1), (3, 2)] {
                for share in [
                    Share::Block { rows: 1, columns: 0 },
                    Share::Block { rows: 3, columns: 100 },
                    Share::All(0.37),
                    Share::All(f32::NAN),
                ] {
                    let recipe = Recipe::Scaled(Scaled { formula, rounds, share });
                    all.push((dtype, Quantise { source, half: 0, recipe }));
                }
            }
        }
    }
    all
}

#[test]
fn any_words_come_back_from_any_source_at_every_level() {
    let mut rng = Rng::new(12);
    let mut scratch = Scratch::default();
    for (dtype, how) in ways() {
        for kind in 0..5 {
            // Rows of 256 values, by fours.
            let n = 256 * 4 * (1 + rng.next() as usize % 6);
            let float = FLOATS[how.source as usize];
            let source = rng.values(float, n, kind);
            let group = dtype.group_elements() as usize;
            let mut words = rng.values(dtype, n / group, [0, 1, 3][kind as usize % 3]);
            if kind < 2 && BLOCKS.contains(&dtype) && how.half == 0 {
                let values = |w: &[u8]| match float {
                    Dtype::BF16 => bf16::from_le_bytes([w[0], w[1]]).to_f32(),
                    Dtype::F16 => f16::from_le_bytes([w[0], w[1]]).to_f32(),
                    _ => f32::from_le_bytes([w[0], w[1], w[2], w[3]]),
                };
                let values: Vec<f32> = source.chunks_exact(float.word_len()).map(values).collect();
                words = quantiser::blocks(dtype, &values);
                let at = rng.next() as usize % words.len();
                words[at] ^= 1 << (rng.next() % 8);
            }
            let spec = ChunkSpec { dtype, big_endian: false, row_words: 256 / group as u64 };
            let offers = [Offer { predictor: Predictor::Quantise(how), inputs: vec![0] }];
            let mut payloads = Vec::new();
            for level in Level::available() {
                let (known, method) = ([&source[..]], Method::Auto);
                let mut coded = Vec::new();
                let chunk = Chunk { spec, bytes: &words, known: &known, offers: &offers };
                let made = encode(level, method, &chunk, &mut scratch, &mut coded).unwrap();
                let mut alone = Vec::new();
                let chunk = Chunk::alone(spec, &words);
                encode(level, method, &chunk, &mut scratch, &mut alone).unwrap();
                assert!(coded.len() <= alone.len(), "{dtype} {how:?} kind {kind}");
                let known: &[&[u8]] = if made.inputs.is_empty() { &[] } else { &known };
                for level in Level::available() {
                    let mut back = vec![0; words.len()];
                    let payload = Payload { spec, form: made.form, bytes: &coded, known };
                    let digest = decode(level, &payload, &mut scratch, &mut back).unwrap();
                    let same = back == words && digest == made.digest;
                    assert!(same, "{dtype} {how:?} kind {kind} {level:?}");
                }
                payloads.push(coded);
            }
            assert!(payloads.iter().all(|p| *p == payloads[0]), "{dtype} {how:?} kind {kind}");
        }
    }
}
