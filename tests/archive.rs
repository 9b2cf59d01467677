//! Archives in memory: round trips, determinism, damage.

mod common;

use common::{Rng, safetensors, sample_file};
use lmc_gpu::{
    Archive, CompressOptions, Error, Limits, Method, RestoreOptions, compress, decompress,
    dtype::Dtype,
    internals::{archive::Options, simd::Level},
};
use proptest::prelude::*;
use std::{panic::AssertUnwindSafe, sync::Arc};

/// LZMA is a hundred times slower than the others: it is tried on less.
fn is_slow(method: Method) -> bool {
    method.name().ends_with("xz")
}

fn options(method: Method) -> Options {
    Options::default().with_method(method).with_threads(1)
}

fn round_trip(bytes: &[u8], options: &Options) -> Vec<u8> {
    let archive = compress(bytes, &options.compressing()).unwrap();
    let back = decompress(&archive, &options.restoring()).unwrap();
    assert!(back == bytes, "{options:?}: {} bytes differ", bytes.len());
    let most = bytes.len() + bytes.len() / 1000 + 1024;
    assert!(archive.len() <= most, "{options:?}: {} of {}", archive.len(), bytes.len());
    archive
}

#[test]
fn every_method_and_type_round_trips_on_every_kind_of_value() {
    let mut rng = Rng::new(1);
    for method in Method::ALL {
        for dtype in Dtype::ALL {
            let word = dtype.word_len();
            let lens: &[usize] = match is_slow(method) {
                true => &[1, 65],
                false => &[0, 1, 2, 3, 63, 64, 65, 1000, 20_000],
            };
            for &n in lens {
                for kind in 0..if is_slow(method) { 1 } else { 5 } {
                    let bytes = rng.values(dtype, n, kind);
                    assert_eq!(bytes.len(), n * word);
                    round_trip(&bytes, &options(method).with_dtype(Some(dtype)));
                }
            }
        }
    }
}

#[test]
fn lengths_that_are_no_whole_words_round_trip() {
    let mut rng = Rng::new(2);
    for dtype in [Dtype::BF16, Dtype::F32, Dtype::F64, Dtype::Q4_1] {
        for extra in 1..dtype.word_len() {
            let mut bytes = rng.values(dtype, 40_000, 0);
            bytes.extend(rng.bytes(extra));
            round_trip(&bytes, &Options::default().with_dtype(Some(dtype)));
        }
    }
}

#[test]
fn archives_do_not_depend_on_threads_or_instruction_set() {
    let file = sample_file(3);
    for method in Method::ALL {
        let first = round_trip(&file, &options(method).with_level(Level::SCALAR));
        for level in Level::available() {
            for threads in if is_slow(method) { 3..4 } else { 1..5 } {
                let options = options(method).with_level(level).with_threads(threads);
                let again = compress(&file, &options.compressing()).unwrap();
                assert!(again == first, "{method} {level:?} {threads}");
                assert!(decompress(&first, &options.restoring()).unwrap() == file);
            }
        }
    }
}

#[test]
fn archives_made_at_once_and_after_failures_are_the_same() {
    let files = [sample_file(11), sample_file(12)[..200_000].to_vec()];
    let methods = [Method::Fast, Method::Auto, Method::Max];
    let jobs: Vec<_> = methods.iter().flat_map(|m| files.iter().map(move |f| (*m, f))).collect();
    let want: Vec<_> =
        jobs.iter().map(|(m, f)| compress(f, &options(*m).compressing()).unwrap()).collect();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (jobs, want) = (&jobs, &want);
            scope.spawn(move || {
                for i in (0..12).map(|i| (i * 5 + thread) % jobs.len()) {
                    let (method, file) = jobs[i];
                    let options = options(method).with_threads(1 + thread % 3);
                    if thread % 4 == 3 {
                        // The writer fails between jobs, while coders are at work.
                        let fails = options.with_progress(Some(Arc::new(|_| panic!("on purpose"))));
                        let made = std::panic::catch_unwind(AssertUnwindSafe(|| {
                            compress(file, &fails.compressing())
                        }));
                        assert!(!matches!(made, Ok(Ok(_))));
                    } else {
                        assert!(
                            compress(file, &options.compressing()).unwrap() == want[i],
                            "{method} {thread}"
                        );
                    }
                }
            });
        }
    });
    for ((method, file), want) in jobs.iter().zip(&want) {
        assert!(compress(file, &options(*method).compressing()).unwrap() == *want);
    }
}

#[test]
fn many_tiny_tensors_cost_little_more_than_their_data() {
    let tensors: Vec<_> =
        (0..20_000).map(|i| (format!("t{i}"), "F32", vec![1u64], vec![i as u8; 4])).collect();
    let file = safetensors(&tensors);
    let archive = round_trip(&file, &options(Method::Auto));
    assert!(archive.len() < file.len() / 4, "{} of {}", archive.len(), file.len());
}

#[test]
fn equal_tensors_are_stored_once() {
    let mut rng = Rng::new(4);
    let data = rng.values(Dtype::F32, 40_000, 0);
    let one = safetensors(&[("a".into(), "F32", vec![200, 200], data.clone())]);
    let two = safetensors(&[
        ("a".into(), "F32", vec![200, 200], data.clone()),
        ("b".into(), "F32", vec![40_000], data),
    ]);
    let one = round_trip(&one, &options(Method::Auto)).len();
    let two = round_trip(&two, &options(Method::Auto)).len();
    assert!(two < one + 300, "{two} {one}");
}

/// A `.npy` file of big-endian integers.
fn big_endian_npy(descr: &str, data: &[u8], word: usize) -> Vec<u8> {
    let n = data.len() / word;
    let header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({n},), }}");
    let header = format!("{header:117}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend_from_slice(&(header.len() as u16).to_le_bytes());
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(data);
    file
}

#[test]
fn big_endian_integers_round_trip_whichever_coder_is_best_for_them() {
    for (descr, word) in [(">i2", 2), (">i4", 4), (">u8", 8)] {
        // Words that repeat at a distance, which planes do not see, and small ones.
        let pattern = Rng::new(10).bytes(600 * word);
        let small: Vec<u8> = (0..40_000).map(|i| if i % word < word - 1 { 0 } else { 9 }).collect();
        for data in [pattern.repeat(50), small] {
            for method in Method::ALL.into_iter().filter(|m| !is_slow(*m)) {
                round_trip(&big_endian_npy(descr, &data, word), &options(method));
            }
        }
    }
}

/// Flips every bit (a sample of them in large archives) and cuts at every length: each is an
/// error or, for bits that nothing depends on, the right bytes; never a panic or wrong bytes.
fn damage(method: Method, archive: &[u8], original: &[u8], step: usize) {
    let opened = Archive::from_bytes(archive, &RestoreOptions::default()).unwrap();
    let place = |at: usize| {
        let chunk = opened.chunks().iter().rev().find(|c| c.offset <= at as u64);
        chunk.map(|c| (at as u64 - c.offset, c.stored_len, c.meta.form, c.meta.dtype))
    };
    let mut unnoticed = Vec::new();
    let options = Options::default().with_threads(1);
    for at in (0..archive.len()).step_by(step) {
        for bit in [0, 3, 7] {
            let mut bad = archive.to_vec();
            bad[at] ^= 1 << bit;
            if let Ok(back) = decompress(&bad, &options.restoring()) {
                unnoticed.push((at, bit, back == original, place(at)));
            }
        }
    }
    assert!(
        unnoticed.is_empty(),
        "{method}: {} unnoticed: {:?}",
        unnoticed.len(),
        &unnoticed[..unnoticed.len().min(20)]
    );
    for n in (0..archive.len()).step_by(step) {
        assert!(decompress(&archive[..n], &options.restoring()).is_err(), "cut at {n}");
    }
}

#[test]
fn every_flipped_bit_and_every_cut_is_noticed() {
    let file = safetensors(&[
        ("a".into(), "BF16", vec![20, 20], Rng::new(5).values(Dtype::BF16, 400, 0)),
        ("b".into(), "F32", vec![100], Rng::new(6).values(Dtype::F32, 100, 0)),
        ("c".into(), "I64", vec![10], vec![0; 80]),
    ]);
    for method in Method::ALL {
        let archive = compress(&file, &options(method).compressing()).unwrap();
        damage(method, &archive, &file, if is_slow(method) { 7 } else { 1 });
    }
}

#[test]
fn damage_in_large_chunks_of_every_method_is_noticed() {
    let file = sample_file(7);
    for method in Method::ALL {
        let archive = compress(&file, &options(method).compressing()).unwrap();
        damage(method, &archive, &file, archive.len() / if is_slow(method) { 12 } else { 150 });
    }
}

#[test]
fn errors_name_tensor_and_chunk() {
    let file = sample_file(8);
    let archive = compress(&file, &options(Method::Raw).compressing()).unwrap();
    let opened = Archive::from_bytes(&archive, &RestoreOptions::default()).unwrap();
    let chunk = opened.chunks().last().unwrap();
    let mut bad = archive.clone();
    bad[chunk.offset as usize + 500] ^= 1;
    let message = decompress(&bad, &RestoreOptions::default()).unwrap_err().to_string();
    assert!(message.contains("tensor \"") && message.contains("chunk"), "{message}");
}

#[test]
fn other_files_newer_versions_and_old_limits_are_told_apart() {
    let archive = compress(b"hello", &CompressOptions::default()).unwrap();
    let fails = |bytes: &[u8]| decompress(bytes, &RestoreOptions::default()).unwrap_err();
    assert!(matches!(fails(b"PK\x03\x04 and so on, long enough"), Error::Corrupt(_)));
    assert!(matches!(fails(b""), Error::Corrupt(_)));
    assert!(matches!(fails(&archive[..10]), Error::Truncated(_)));
    let mut newer = archive.clone();
    newer[8] = 9;
    let check = lmc_gpu::internals::container::hash64(&newer[..20]) as u32;
    newer[20..24].copy_from_slice(&check.to_le_bytes());
    let message = fails(&newer).to_string();
    assert!(message.contains("version 9") && message.contains("newer"), "{message}");
    let strict = Options::default().with_limits(Limits { chunk_len: 4, ..Limits::default() });
    assert!(matches!(decompress(&archive, &strict.restoring()), Err(Error::LimitExceeded(_))));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(debug_assertions) { 20 } else { 100 }))]

    #[test]
    fn any_bytes_round_trip(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000),
        method in 0..Method::ALL.len(),
        dtype in proptest::option::of(0..Dtype::ALL.len()),
        repeat in 1usize..40,
    ) {
        let bytes = bytes.repeat(repeat);
        let options = options(Method::ALL[method]).with_dtype(dtype.map(|d| Dtype::ALL[d]));
        round_trip(&bytes, &options);
    }

    #[test]
    fn random_bytes_after_a_valid_header_never_panic(
        tail in proptest::collection::vec(any::<u8>(), 0..300),
        keep in 0usize..200,
    ) {
        let archive = compress(&sample_file(9)[..3000], &CompressOptions::default()).unwrap();
        let mut bad = archive[..keep.min(archive.len())].to_vec();
        bad.extend(tail);
        prop_assert!(decompress(&bad, &RestoreOptions::default()).is_err());
    }
}
