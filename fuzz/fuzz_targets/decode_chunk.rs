#![no_main]
//! Bytes as the payload of a chunk of any form and type, at every level; and as a chunk that must
//! come back.

use libfuzzer_sys::fuzz_target;
use lmc_gpu::{
    Method,
    dtype::Dtype,
    internals::{
        codec::{self, Chunk, ChunkSpec, Form, Payload, Scratch},
        simd::Level,
    },
};

fuzz_target!(|data: &[u8]| {
    let Some((&[form, dtype, row, words, times, method], payload)) = data.split_first_chunk::<6>()
    else {
        return;
    };
    // Few words reach no vector loop: they are many times as many, up to 16 Ki, now and then.
    let times = 1 << (times % 7);
    let dtype = Dtype::ALL[usize::from(dtype) % Dtype::ALL.len()];
    let spec = ChunkSpec { dtype, big_endian: row & 1 == 1, row_words: u64::from(row) };
    let mut scratch = Scratch::default();
    let mut out = vec![0; times * usize::from(words) * dtype.word_len()];
    if let Some(form) = Form::from_code(form) {
        let payload = Payload { spec, form, bytes: payload, known: &[] };
        for level in Level::available() {
            let _ = codec::decode(level, &payload, &mut scratch, &mut out);
        }
    }
    let method = Method::ALL[usize::from(method) % Method::ALL.len()];
    let whole = &payload[..payload.len() - payload.len() % dtype.word_len()].repeat(times);
    if whole.is_empty() || method.name().ends_with("xz") {
        return;
    }
    let mut coded = Vec::new();
    let level = Level::best();
    let chunk = Chunk::alone(spec, whole);
    let made = codec::encode(level, method, &chunk, &mut scratch, &mut coded).unwrap();
    let payload = Payload { spec, form: made.form, bytes: &coded, known: &[] };
    for level in Level::available() {
        let mut back = vec![0; whole.len()];
        let digest = codec::decode(level, &payload, &mut scratch, &mut back).unwrap();
        assert!(&back == whole && digest == made.digest);
    }
});
