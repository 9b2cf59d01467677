//! Archives written to and read from pipes.

use lmc_gpu::{
    Archive, CompressOptions, Error, Method, OnDamage, RestoreOptions, compress_path,
    dtype::Dtype,
    internals::archive::{
        Options, compress_reader, decompress_stream, decompress_to_writer, verify_stream,
    },
};
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{fs, io::Read};

/// Yields a few bytes at a time, as pipes do.
struct Drip<'a>(&'a [u8], usize);

impl Read for Drip<'_> {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 7919 + 61;
        let n = buf.len().min(self.0.len()).min(self.1);
        buf[..n].copy_from_slice(&self.0[..n]);
        self.0 = &self.0[n..];
        Ok(n)
    }
}

fn drip(bytes: &[u8]) -> Drip<'_> {
    Drip(bytes, 1)
}

fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mut rng = StdRng::seed_from_u64(seed);
    (0..n).map(|_| rng.random()).collect()
}

/// bf16 words with a few exponents.
fn weights(n: usize, seed: u64) -> Vec<u8> {
    let mut bytes = noise(2 * n, seed);
    bytes.chunks_exact_mut(2).for_each(|w| w[1] = w[1] & 0x80 | 0x3c | w[1] >> 5 & 3);
    bytes
}

fn safetensors(tensors: &[(&str, &str, Vec<u64>, Vec<u8>)]) -> Vec<u8> {
    let mut map = serde_json::Map::new();
    let mut data = Vec::new();
    for (name, dtype, shape, bytes) in tensors {
        let begin = data.len();
        data.extend_from_slice(bytes);
        let offsets = [begin, data.len()];
        let entry = serde_json::json!({"dtype": dtype, "shape": shape, "data_offsets": offsets});
        map.insert((*name).into(), entry);
    }
    let json = serde_json::to_string(&map).unwrap();
    [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &data].concat()
}

fn model() -> Vec<u8> {
    let big = weights(300_000, 1);
    safetensors(&[
        ("a", "BF16", vec![300, 1000], big.clone()),
        ("b", "BF16", vec![100], weights(100, 2)),
        ("c", "F32", vec![10], noise(40, 3)),
        ("d", "BF16", vec![7], weights(7, 4)),
        ("e", "U8", vec![3], vec![1, 2, 3]),
        ("f", "BF16", vec![300, 1000], big),
        ("g", "F32", vec![], noise(4, 5)),
    ])
}

fn to_archive(bytes: &[u8], options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    let summary =
        compress_reader(&mut drip(bytes), "stdin", &mut out, &options.compressing()).unwrap();
    assert_eq!(summary.input_bytes, bytes.len() as u64);
    assert_eq!(summary.output_bytes, out.len() as u64);
    out
}

#[test]
fn a_pipe_round_trips_whatever_it_carries() {
    let model = model();
    let cut = &model[..model.len() / 2];
    let long = [&model[..], b"and more"].concat();
    let inputs: [&[u8]; 9] = [
        b"",
        b"a",
        b"1234567",
        &model,
        cut,
        &model[..20],
        &long,
        &noise(3_000_001, 9),
        &weights(3, 1),
    ];
    for input in inputs {
        for dtype in [None, Some(Dtype::BF16), Some(Dtype::F64)] {
            let options = Options::default().with_dtype(dtype).with_threads(2);
            let archive = to_archive(input, &options);
            assert!(archive.len() as u64 <= input.len() as u64 * 1001 / 1000 + 1024);
            assert!(lmc_gpu::decompress(&archive, &options.restoring()).unwrap() == input);
            let mut out = Vec::new();
            decompress_to_writer(&mut drip(&archive), &mut out, &options.restoring()).unwrap();
            assert!(out == input);
            assert_eq!(
                verify_stream(&mut drip(&archive), &options.restoring()).unwrap().bytes,
                out.len() as u64
            );
        }
    }
}

#[test]
fn a_pipe_gives_the_same_archive_for_any_number_of_threads() {
    let model = model();
    let one = to_archive(&model, &Options::default().with_threads(1));
    for threads in [2, 5] {
        assert!(to_archive(&model, &Options::default().with_threads(threads)) == one);
    }
}

#[test]
fn tensors_of_a_piped_model_are_coded_by_their_type() {
    let model = model();
    let archive = to_archive(&model, &Options::default());
    assert!(archive.len() < model.len() * 8 / 10);
    let opened = Archive::from_bytes(&archive, &RestoreOptions::default()).unwrap();
    let bf16 = opened.chunks().iter().filter(|c| c.meta.dtype == Dtype::BF16);
    let bytes: u64 = bf16.map(|c| c.meta.len()).sum();
    assert_eq!(bytes, 4 * 300_000 + 2 * 107);
}

#[test]
fn many_tiny_tensors_share_chunks_in_a_pipe() {
    let tensors: Vec<_> = (0..20_000u64)
        .map(|i| {
            let dtype = if i % 2 == 0 { "BF16" } else { "F32" };
            (format!("t{i}"), dtype, noise(8, i))
        })
        .collect();
    let tensors: Vec<_> = tensors
        .iter()
        .map(|(n, d, b)| (&n[..], *d, vec![if *d == "F32" { 2 } else { 4 }], b.clone()))
        .collect();
    let file = safetensors(&tensors);
    let archive = to_archive(&file, &Options::default());
    let opened = Archive::from_bytes(&archive, &RestoreOptions::default()).unwrap();
    assert!(opened.chunks().len() < 20);
    assert!(lmc_gpu::decompress(&archive, &RestoreOptions::default()).unwrap() == file);
}

fn directory() -> (tempfile::TempDir, Vec<u8>) {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("in");
    fs::create_dir_all(root.join("nested/empty")).unwrap();
    fs::write(root.join("model.safetensors"), model()).unwrap();
    fs::write(root.join("again.safetensors"), model()).unwrap();
    fs::write(root.join("nested/nothing"), b"").unwrap();
    fs::write(root.join("nested/config.json"), b"{\"a\": 1}").unwrap();
    let out = dir.path().join("x.lmc");
    compress_path(&root, &out, &CompressOptions::default()).unwrap();
    let archive = fs::read(out).unwrap();
    (dir, archive)
}

fn same(a: &std::path::Path, b: &std::path::Path) {
    for name in ["model.safetensors", "again.safetensors", "nested/nothing", "nested/config.json"] {
        assert!(fs::read(a.join(name)).unwrap() == fs::read(b.join(name)).unwrap(), "{name}");
    }
    assert!(b.join("nested/empty").is_dir());
}

#[test]
fn directories_and_copies_come_out_of_a_pipe() {
    let (dir, archive) = directory();
    for threads in [1, 3] {
        let out = dir.path().join(format!("out{threads}"));
        let options = Options::default().with_threads(threads);
        decompress_stream(&mut drip(&archive), &out, &options.restoring()).unwrap();
        same(&dir.path().join("in"), &out);
        verify_stream(&mut drip(&archive), &options.restoring()).unwrap();
    }
    let refused =
        decompress_to_writer(&mut drip(&archive), &mut Vec::new(), &RestoreOptions::default());
    assert!(matches!(refused, Err(Error::InvalidArgument(_))));
}

#[test]
fn copies_of_one_file_are_repeated_into_a_pipe() {
    let model = model();
    let archive = lmc_gpu::compress(&model, &CompressOptions::default()).unwrap();
    let opened = Archive::from_bytes(&archive, &RestoreOptions::default()).unwrap();
    assert!(opened.chunks().iter().any(|c| c.meta.copy_of.is_some()));
    let mut out = Vec::new();
    decompress_to_writer(&mut drip(&archive), &mut out, &RestoreOptions::default()).unwrap();
    assert!(out == model);
    out.clear();
    opened.restore_to_writer(&mut out, &RestoreOptions::default()).unwrap();
    assert!(out == model);
}

#[test]
fn every_cut_and_every_harmful_flip_of_a_piped_archive_is_found() {
    let tensors = safetensors(&[
        ("a", "BF16", vec![40], weights(40, 1)),
        ("b", "F32", vec![3], noise(12, 2)),
        ("c", "BF16", vec![5], weights(5, 1)),
    ]);
    let options = Options::default().with_threads(1).with_method(Method::Auto);
    let mut archive = to_archive(&tensors, &options);
    for n in 0..archive.len() {
        let result = verify_stream(&mut &archive[..n], &options.restoring());
        assert!(matches!(result, Err(Error::Truncated(_) | Error::Corrupt(_))), "{n}: {result:?}");
    }
    for bit in 0..8 * archive.len() {
        archive[bit / 8] ^= 1 << (bit % 8);
        let mut out = Vec::new();
        let result = decompress_to_writer(&mut &archive[..], &mut out, &options.restoring());
        // A zstd frame has one bit that decoders ignore.
        assert!(result.is_err() || out == tensors, "bit {bit}");
        let verified = verify_stream(&mut &archive[..], &options.restoring());
        assert_eq!(verified.is_err(), result.is_err(), "bit {bit}");
        archive[bit / 8] ^= 1 << (bit % 8);
    }
    archive.push(0);
    assert!(verify_stream(&mut &archive[..], &options.restoring()).is_err());
}

#[test]
fn what_arrived_of_a_cut_archive_is_saved_and_the_rest_listed() {
    let (dir, archive) = directory();
    let cut = &archive[..archive.len() * 3 / 4];
    let strict = dir.path().join("strict");
    assert!(decompress_stream(&mut drip(cut), &strict, &RestoreOptions::default()).is_err());
    assert!(!strict.exists());
    let out = dir.path().join("saved");
    let saved = decompress_stream(
        &mut drip(cut),
        &out,
        &RestoreOptions::default().with_damage(OnDamage::Fill),
    )
    .unwrap();
    assert!(!saved.damage.is_empty());
    let first = fs::read(out.join("again.safetensors")).unwrap();
    let original = fs::read(dir.path().join("in/again.safetensors")).unwrap();
    assert_eq!(first.len(), original.len());
    assert!(first[..300_000] == original[..300_000]);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3);
}

#[test]
fn a_flipped_payload_names_file_tensor_and_chunk_and_spares_the_rest() {
    let (dir, mut archive) = directory();
    let opened = Archive::from_bytes(&archive, &RestoreOptions::default()).unwrap();
    let chunk = opened.chunks().iter().find(|c| c.stored_len > 100_000).unwrap();
    let at = (chunk.offset + chunk.stored_len / 2) as usize;
    drop(opened);
    archive[at] ^= 4;
    let out = dir.path().join("out");
    let e = decompress_stream(&mut drip(&archive), &out, &RestoreOptions::default()).unwrap_err();
    let text = e.to_string();
    assert!(
        text.contains("again.safetensors") && text.contains("\"a\"") && text.contains("chunk"),
        "{text}"
    );
    assert!(!out.exists());
    let saved = decompress_stream(
        &mut drip(&archive),
        &out,
        &RestoreOptions::default().with_damage(OnDamage::Fill),
    )
    .unwrap();
    assert!(saved.damage.iter().all(|d| d.tensors.iter().all(|t| t == "a" || t == "f")));
    let config = fs::read(out.join("nested/config.json")).unwrap();
    assert_eq!(config, b"{\"a\": 1}");
}
