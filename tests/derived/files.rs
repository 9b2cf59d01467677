//! Files of tensors, and what their archives are like.

use lmc_gpu::{
    Archive, Base, compress_path,
    internals::{
        archive::{Options, decompress_stream, inspect},
        simd::Level,
        source::Source,
    },
};
use std::{collections::HashMap, fs};

pub use crate::common::{TypedTensor as Tensor, gguf};

/// A safetensors file.
pub fn safetensors(tensors: &[Tensor]) -> Vec<u8> {
    let all: Vec<crate::common::Tensor> = tensors
        .iter()
        .map(|(name, dtype, shape, data)| (name.clone(), dtype.name(), shape.clone(), data.clone()))
        .collect();
    crate::common::safetensors(&all)
}

/// What became of an archive's files.
pub struct Stored {
    /// Stored bytes of every tensor, by file and name, and what it is coded from.
    tensors: HashMap<(String, String), (u64, u64, String)>,
}

impl Stored {
    /// The part that is left of a tensor.
    pub fn part(&self, file: &str, name: &str) -> f64 {
        let (bytes, stored, _) = self.tensors[&(file.to_owned(), name.to_owned())];
        stored as f64 / bytes as f64
    }

    /// What a tensor is coded from.
    pub fn source(&self, file: &str, name: &str) -> &str {
        &self.tensors[&(file.to_owned(), name.to_owned())].2
    }
}

/// Compresses a directory of files, restores it at every level, and says what it costs.
pub fn store(files: &[(&str, Vec<u8>)], base: Option<&[(&str, Vec<u8>)]>) -> Stored {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, files: &[(&str, Vec<u8>)]| {
        let to = dir.path().join(name);
        fs::create_dir_all(&to).unwrap();
        files.iter().for_each(|(name, bytes)| fs::write(to.join(name), bytes).unwrap());
        to
    };
    let options = Options::default().with_threads(2);
    let base = base.map(|files| Base::open_with(&write("base", files), &[], &options).unwrap());
    let options = options.with_base(base);
    let (input, out) = (write("input", files), dir.path().join("x.lmc"));
    compress_path(&input, &out, &options.compressing()).unwrap();
    let archive = fs::read(&out).unwrap();
    let opened = Archive::from_bytes(&archive, &options.restoring()).unwrap();
    if let Some(base) = &options.base {
        opened.attach_base(base).unwrap();
    }
    for (i, entry) in opened.entries().iter().enumerate() {
        let (_, bytes) = files.iter().find(|(name, _)| entry.path == *name).unwrap();
        assert!(opened.file(i).unwrap().read_vec(0, entry.len).unwrap() == *bytes);
    }
    for level in Level::available() {
        let back = dir.path().join(format!("{level:?}"));
        let options = options.clone().with_level(level);
        decompress_stream(&mut &archive[..], &back, &options.restoring()).unwrap();
        for (name, bytes) in files {
            assert!(fs::read(back.join(name)).unwrap() == *bytes, "{name} differs, {level:?}");
        }
    }
    let found = inspect(&out, &options).unwrap();
    let tensors = found.spans.iter().filter_map(|s| {
        let file = found.files[s.file].path.to_string();
        let source = s.source.clone().unwrap_or_default();
        let cost = (s.bytes, s.stored_bytes, source);
        Some(((file, s.name.clone()?), cost))
    });
    Stored { tensors: tensors.collect() }
}
