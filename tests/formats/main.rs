//! Parsers against valid, odd and hostile files: whatever the bytes, the spans tile the file.

mod gguf;
mod guess;
mod hostile;
mod npy;
mod pickle;
mod safetensors;
mod torch;
mod torch_hostile;
mod zip;

use lmc_gpu::{
    dtype::Dtype,
    internals::format::{Format, Parsed, Tensor, parse},
};

/// Parses the bytes and checks what holds for every file.
pub fn check(bytes: &[u8]) -> Parsed {
    let parsed = parse(&bytes.to_vec()).expect("reading memory does not fail");
    check_tiling(&parsed, bytes.len() as u64);
    parsed
}

/// Spans tile `0..len` in order with whole words; tensors lie inside and have unique names.
pub fn check_tiling(parsed: &Parsed, len: u64) {
    let mut end = 0;
    for s in &parsed.spans {
        assert_eq!(s.offset, end, "spans follow each other");
        assert!(s.len > 0, "spans are not empty");
        assert_eq!(s.len % s.dtype.word_len() as u64, 0, "spans hold whole words");
        end += s.len;
    }
    assert_eq!(end, len, "spans end with the file");
    let mut names = std::collections::HashSet::new();
    for t in &parsed.tensors {
        assert!(t.offset + t.extent().expect("tensors have a size") <= len, "{t:?}");
        assert!(names.insert(&t.name), "{} is named twice", t.name);
    }
    if parsed.format == Format::Opaque {
        assert!(parsed.spans.len() <= 1 && parsed.tensors.is_empty());
    }
}

/// Parses bytes that must be left opaque, with a note holding `why` (or none if that is empty).
#[track_caller]
pub fn check_opaque(bytes: &[u8], why: &str) {
    let parsed = check(bytes);
    assert_eq!(parsed.format, Format::Opaque, "{:?}", parsed.notes);
    let notes = parsed.notes.join("; ");
    assert!(notes.contains(why), "{notes:?} does not say {why:?}");
    assert_eq!(notes.is_empty(), why.is_empty(), "{notes:?}");
}

/// Parses bytes of which something must be kept, with a note holding `why`.
#[track_caller]
pub fn check_noted(bytes: &[u8], why: &str) -> Parsed {
    let parsed = check(bytes);
    let notes = parsed.notes.join("; ");
    assert_ne!(parsed.format, Format::Opaque, "{notes}");
    assert!(notes.contains(why), "{notes:?} does not say {why:?}");
    parsed
}

/// Spans of known types: type, length, words in a row.
pub fn typed(parsed: &Parsed) -> Vec<(Dtype, u64, u64)> {
    let typed = parsed.spans.iter().filter(|s| s.dtype != Dtype::BYTES);
    typed.map(|s| (s.dtype, s.len, s.row_words)).collect()
}

/// The tensor of this name.
#[track_caller]
pub fn tensor<'a>(parsed: &'a Parsed, name: &str) -> &'a Tensor {
    parsed.tensors.iter().find(|t| t.name == name).unwrap_or_else(|| {
        let names: Vec<_> = parsed.tensors.iter().map(|t| &t.name).collect();
        panic!("no {name} in {names:?}, notes {:?}", parsed.notes)
    })
}
