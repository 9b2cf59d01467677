//! Floats in bytes that no parser knows.

use crate::check_tiling;
use lmc_gpu::{
    Base, CompressOptions, Method, RestoreOptions, compress, decompress,
    dtype::Dtype,
    internals::{
        archive::{Input, Options, compress_reader, inspect},
        format::{Parsed, parse, parse_and_guess},
    },
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};

const TYPES: [Dtype; 4] = [Dtype::F16, Dtype::BF16, Dtype::F32, Dtype::F64];

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    rng(seed).fill(&mut bytes[..]);
    bytes
}

fn text(len: usize) -> Vec<u8> {
    let line = |i: usize| format!("{{\"layer.{i}.weight\": {{\"shape\": [{}, 384]}}}},\n", i * i);
    (0..).flat_map(|i| line(i).into_bytes()).take(len).collect()
}

/// Weights of a layer, as words of a type.
fn weights(seed: u64, dtype: Dtype, big_endian: bool, n: usize) -> Vec<u8> {
    let normal = Normal::new(0.0, 0.04).unwrap();
    let mut rng = rng(seed);
    let mut bytes = Vec::new();
    for _ in 0..n {
        let x: f64 = normal.sample(&mut rng);
        let mut word = match dtype {
            Dtype::F16 => half::f16::from_f64(x).to_le_bytes().to_vec(),
            Dtype::BF16 => half::bf16::from_f64(x).to_le_bytes().to_vec(),
            Dtype::F32 => (x as f32).to_le_bytes().to_vec(),
            _ => x.to_le_bytes().to_vec(),
        };
        if big_endian {
            word.reverse();
        }
        bytes.extend(word);
    }
    bytes
}

fn guess(bytes: &[u8]) -> Parsed {
    let parsed = parse_and_guess(&bytes.to_vec()).unwrap();
    check_tiling_of_guesses(&parsed, bytes.len());
    parsed
}

fn check_tiling_of_guesses(parsed: &Parsed, len: usize) {
    let with_format = Parsed { format: lmc_gpu::internals::format::Format::Flat, ..parsed.clone() };
    check_tiling(&with_format, len as u64);
    for g in &parsed.guesses {
        assert!(parsed.spans.iter().any(|s| {
            (s.offset, s.len, s.dtype, s.big_endian) == (g.offset, g.len, g.dtype, g.big_endian)
        }));
    }
}

/// The file's guesses: type, byte order, first byte, end.
fn found(bytes: &[u8]) -> Vec<(Dtype, bool, usize, usize)> {
    let range = |o: u64, n: u64| (o as usize, (o + n) as usize);
    let guesses = guess(bytes).guesses.into_iter();
    let row = guesses.map(|g| (g.dtype, g.big_endian, range(g.offset, g.len)));
    row.map(|(dtype, big_endian, (from, to))| (dtype, big_endian, from, to)).collect()
}

#[test]
fn floats_of_every_type_are_found_at_any_offset() {
    for (i, dtype) in TYPES.into_iter().enumerate() {
        for before in [0, 1, 2, 3, 5, 4096 + 7, 70_000 + i, 300_001] {
            let floats = weights(i as u64, dtype, false, 60_000);
            let bytes = [text(before), floats.clone(), noise(3, 40_000)].concat();
            let found = found(&bytes);
            let [(kind, big_endian, from, to)] = found[..] else { panic!("{dtype}: {found:?}") };
            assert_eq!((kind, big_endian), (dtype, false), "{before}");
            let end = before + floats.len();
            assert_eq!(from.abs_diff(before) % dtype.word_len(), 0, "{dtype} {before} {from}");
            // Text may look like half floats for a while.
            let near = if dtype == Dtype::F16 { 2048 } else { 512 };
            assert!(from.abs_diff(before) < near && to.abs_diff(end) < near, "{dtype} {found:?}");
        }
    }
}

#[test]
fn words_with_the_most_significant_byte_first_are_found() {
    for dtype in [Dtype::BF16, Dtype::F32, Dtype::F64] {
        let bytes = [text(5001), weights(1, dtype, true, 60_000)].concat();
        let found = found(&bytes);
        assert_eq!(found.len(), 1, "{dtype}: {found:?}");
        // Of doubles the order hardly shows: what tells them apart are four bits of the exponent.
        assert_eq!((found[0].0, found[0].1 || dtype == Dtype::F64), (dtype, true));
    }
}

#[test]
fn neighbours_of_other_types_and_offsets_are_told_apart() {
    let mut bytes = Vec::new();
    let mut want = Vec::new();
    for (i, dtype) in TYPES.into_iter().chain([Dtype::F32, Dtype::BF16]).enumerate() {
        bytes.extend(text(40 + i));
        let n = 400_000 / dtype.word_len();
        want.push((dtype, bytes.len()));
        bytes.extend(weights(i as u64, dtype, false, n));
    }
    let found = found(&bytes);
    assert_eq!(found.len(), want.len(), "{found:?}");
    for ((dtype, _, from, to), (wanted, at)) in found.into_iter().zip(want) {
        assert_eq!(dtype, wanted);
        assert!(from.abs_diff(at) < 1024 && to.abs_diff(at + 400_000) < 1024, "{from} {to} {at}");
    }
}

#[test]
fn small_tensors_between_large_ones_are_found() {
    let small = 6 << 10;
    let large = || weights(1, Dtype::F32, false, 100_000);
    let bytes =
        [text(10), large(), text(33), weights(2, Dtype::F32, false, small), text(30), large()];
    let parsed = guess(&bytes.concat());
    let opaque: u64 = parsed.spans.iter().filter(|s| s.dtype == Dtype::BYTES).map(|s| s.len).sum();
    assert!(opaque < 4096, "{:?}", parsed.guesses);
}

#[test]
fn floats_that_were_widened_and_rows_of_zeros_are_found() {
    let narrow = weights(1, Dtype::BF16, false, 60_000);
    let wide: Vec<u8> = narrow.as_chunks().0.iter().flat_map(|&[a, b]| [0, 0, a, b]).collect();
    let found_wide = found(&[text(777), wide].concat());
    assert_eq!(found_wide.len(), 1);
    assert_eq!(found_wide[0].0, Dtype::F32);
    let mut sparse = weights(1, Dtype::F32, false, 100_000);
    for row in sparse.chunks_mut(1536).step_by(20) {
        row.fill(0);
    }
    let found = found(&[text(777), sparse].concat());
    assert_eq!(found[0].0, Dtype::F32);
    assert!(found.iter().map(|f| f.3 - f.2).sum::<usize>() > 390_000, "{found:?}");
}

/// Bytes that hold no floats.
fn without_floats() -> Vec<(&'static str, Vec<u8>)> {
    let words = |n: u32, f: fn(u32) -> u32| (0..n).flat_map(|i| f(i).to_le_bytes()).collect();
    let program = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let long = |n: u64| (0..n).flat_map(|i| (i * i % 30_522).to_le_bytes()).collect();
    let image =
        |i: u32| ((i % 512) / 3 + (i / 512) / 4 + (i.wrapping_mul(2_654_435_761) >> 29)) as u8;
    vec![
        ("noise", noise(1, 3 << 20)),
        ("text", text(3 << 20)),
        ("zeros", vec![0; 1 << 20]),
        ("one byte", vec![0x3c; 1 << 20]),
        ("counters", words(300_000, |i| i)),
        ("small numbers", words(300_000, |i| i.wrapping_mul(2_654_435_761) >> 22)),
        ("token ids", long(200_000)),
        ("an image", (0..1 << 20).map(image).collect()),
        ("a program", program[..program.len().min(6 << 20)].to_vec()),
        ("compressed", zstd_of(&program[..program.len().min(8 << 20)])),
    ]
}

fn zstd_of(bytes: &[u8]) -> Vec<u8> {
    compress(bytes, &CompressOptions::default().with_method(Method::Zstd)).unwrap()
}

#[test]
fn bytes_without_floats_cost_no_more_than_opaque_ones() {
    for (name, bytes) in without_floats() {
        let plain = Options::default().with_dtype(Some(Dtype::BYTES));
        let (guessed, opaque) = (
            compress(&bytes, &CompressOptions::default()).unwrap(),
            compress(&bytes, &plain.compressing()).unwrap(),
        );
        let allowed = opaque.len() + bytes.len() / 2000;
        let (new, old, why) = (guessed.len(), opaque.len(), guess(&bytes).guesses);
        assert!(new <= allowed, "{name}: {new} for {old}, {why:?}");
        assert_eq!(decompress(&guessed, &RestoreOptions::default()).unwrap(), bytes);
    }
    for (name, bytes) in without_floats() {
        if ["noise", "text", "zeros", "one byte", "compressed"].contains(&name) {
            assert!(guess(&bytes).guesses.is_empty(), "{name}");
        }
    }
}

#[test]
fn guessed_floats_take_what_known_ones_take() {
    for (dtype, most) in TYPES.into_iter().zip([0.86, 0.68, 0.85, 0.89]) {
        let floats = weights(1, dtype, false, 300_000);
        let known = Options::default().with_dtype(Some(dtype));
        let known =
            compress(&floats, &known.compressing()).unwrap().len() as f64 / floats.len() as f64;
        let bytes = [text(3001), floats, text(2999)].concat();
        let archive = compress(&bytes, &CompressOptions::default()).unwrap();
        assert_eq!(decompress(&archive, &RestoreOptions::default()).unwrap(), bytes);
        let ratio = archive.len() as f64 / bytes.len() as f64;
        assert!(ratio < known + 0.004 && ratio < most, "{dtype}: {ratio} for {known}");
        let mut piped = Vec::new();
        compress_reader(&mut &bytes[..], "pipe", &mut piped, &CompressOptions::default()).unwrap();
        assert_eq!(decompress(&piped, &RestoreOptions::default()).unwrap(), bytes);
        let ratio = piped.len() as f64 / bytes.len() as f64;
        assert!(ratio < known + 0.01, "{dtype} from a pipe: {ratio} for {known}");
    }
}

#[test]
fn methods_that_take_bytes_as_they_are_do_not_guess() {
    let bytes = weights(1, Dtype::F32, false, 100_000);
    for method in [Method::Raw, Method::Zstd] {
        let options = Options::default().with_method(method);
        let plain = options.clone().with_dtype(Some(Dtype::BYTES));
        let (a, b) = (
            compress(&bytes, &options.compressing()).unwrap(),
            compress(&bytes, &plain.compressing()).unwrap(),
        );
        assert!(a.len().abs_diff(b.len()) < 32);
    }
}

#[test]
fn a_changed_file_of_no_format_is_a_small_delta() {
    let mut bytes = [text(3001), weights(1, Dtype::F32, false, 200_000), text(99)].concat();
    let base = Base::from_bytes("step.bin", bytes.clone().into(), None);
    let options = Options::default().with_base(Some(base));
    for i in (3001..bytes.len() - 99).step_by(4) {
        bytes[i] ^= (i % 7) as u8;
    }
    let archive = compress(&bytes, &options.compressing()).unwrap();
    assert!(archive.len() < bytes.len() / 5, "{} of {}", archive.len(), bytes.len());
    assert_eq!(decompress(&archive, &options.restoring()).unwrap(), bytes);
}

#[test]
fn inspect_says_what_was_guessed_and_why() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weights.onnx");
    std::fs::write(&path, [text(3001), weights(1, Dtype::BF16, false, 200_000)].concat()).unwrap();
    let found = inspect(&path, &Options::default()).unwrap();
    let span = found.spans.iter().find(|s| s.guess.is_some()).unwrap();
    assert_eq!((span.dtype, &span.name), (Dtype::BF16, &None));
    assert!(span.guess.as_ref().unwrap().contains("samples take"));
    assert!(found.notes.iter().any(|n| n.contains("look like BF16")), "{:?}", found.notes);
    let archive = dir.path().join("weights.lmc");
    let input = Input::open(&path, None, false).unwrap();
    lmc_gpu::internals::archive::compress_files(
        &input,
        &archive,
        &Options::default().compressing(),
    )
    .unwrap();
    let of_archive = inspect(&archive, &Options::default()).unwrap();
    let kept = of_archive.spans.iter().find(|s| s.guess.is_some()).unwrap();
    assert_eq!((kept.dtype, kept.offset, kept.bytes), (span.dtype, span.offset, span.bytes));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_mixture_is_tiled_and_comes_back(
        parts in proptest::collection::vec((0u8..8, 0usize..60_000, any::<u64>()), 0..8),
    ) {
        let mut bytes = Vec::new();
        for (kind, len, seed) in parts {
            bytes.extend(match kind {
                0 => noise(seed, len),
                1 => text(len),
                2 => vec![seed as u8; len],
                _ => {
                    let dtype = TYPES[usize::from(kind % 4)];
                    let mut floats = weights(seed, dtype, seed % 3 == 0, len / dtype.word_len());
                    floats.truncate(floats.len() - (seed % 9) as usize % (floats.len() + 1).min(9));
                    floats
                }
            });
        }
        let parsed = guess(&bytes);
        prop_assert_eq!(&parsed.spans, &guess(&bytes).spans);
        for g in &parsed.guesses {
            prop_assert!(g.as_floats < g.as_bytes);
        }
        let archive = compress(&bytes, &CompressOptions::default()).unwrap();
        prop_assert_eq!(decompress(&archive, &RestoreOptions::default()).unwrap(), bytes);
    }

    #[test]
    fn what_a_parser_knows_stays_as_it_is(cut in 0usize..2000, seed in any::<u64>()) {
        let json = r#"{"a":{"dtype":"F32","shape":[5000],"data_offsets":[0,20000]}}"#;
        let floats = weights(seed, Dtype::F32, false, 5000);
        let bytes = [
            &(json.len() as u64).to_le_bytes()[..], json.as_bytes(), &floats, &noise(1, 77), &floats,
        ].concat();
        let bytes = &bytes[..bytes.len() - cut];
        let known = parse(&bytes.to_vec()).unwrap();
        let guessed = guess(bytes);
        for span in known.spans.iter().filter(|s| s.dtype != Dtype::BYTES) {
            prop_assert!(guessed.spans.contains(span));
        }
        prop_assert_eq!(guessed.guesses.len(), 1);
    }
}
