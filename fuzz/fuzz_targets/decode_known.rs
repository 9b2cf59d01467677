#![no_main]
//! Bytes as the payload of a predicted chunk with known byte strings beside it, at every level; and
//! as a chunk that must come back from a base.

use libfuzzer_sys::fuzz_target;
use lmc_gpu::{
    Method,
    dtype::Dtype,
    internals::{
        codec::{Chunk, ChunkSpec, Form, Offer, Payload, Predictor, Scratch, decode, encode},
        simd::Level,
    },
};

fuzz_target!(|data: &[u8]| {
    let Some((&[form, dtype, row, words, split, method], rest)) = data.split_first_chunk::<6>()
    else {
        return;
    };
    let predicted = [Form::Delta, Form::Xor, Form::Moment, Form::Gradient];
    let form = predicted.get(usize::from(form) % 5).copied().or(Form::from_code(form));
    let Some(form) = form else { return };
    let dtype = Dtype::ALL[usize::from(dtype) % Dtype::ALL.len()];
    let spec = ChunkSpec { dtype, big_endian: row & 1 == 1, row_words: u64::from(row) };
    let mut scratch = Scratch::default();
    let (payload, base) = rest.split_at(rest.len() * usize::from(split) / 256);
    let n = usize::from(words);
    // Known bytes of as many words: of the chunk's own type, and of others that predict it.
    let known =
        |len: usize| -> Vec<u8> { base.iter().chain(&[0]).copied().cycle().take(len).collect() };
    let (own, narrow, wide) = (known(n * dtype.word_len()), known(2 * n), known(4 * n));
    let inputs: [&[&[u8]]; 6] =
        [&[&own], &[&own, &wide], &[&wide], &[&narrow], &[&wide, &wide], &[&wide, &wide, &wide]];
    let mut results: [Option<Option<Vec<u8>>>; 6] = Default::default();
    for level in Level::available() {
        for (inputs, first) in inputs.iter().zip(&mut results) {
            let mut out = vec![0; n * dtype.word_len()];
            let payload = Payload { spec, form, bytes: payload, known: inputs };
            let done = decode(level, &payload, &mut scratch, &mut out);
            let done = done.ok().map(|_| out);
            match first {
                Some(first) => assert!(*first == done),
                None => *first = Some(done),
            }
        }
    }
    let method = [Method::Auto, Method::Fast, Method::Max, Method::Xor, Method::Diff]
        [usize::from(method) % 5];
    let whole = &payload[..payload.len() - payload.len() % dtype.word_len()];
    if whole.is_empty() {
        return;
    }
    let base = known(whole.len());
    let offers = [Offer { predictor: Predictor::Base, inputs: vec![0] }];
    let (level, mut coded) = (Level::best(), Vec::new());
    let known: [&[u8]; 1] = [&base];
    let chunk = Chunk { spec, bytes: whole, known: &known, offers: &offers };
    let made = encode(level, method, &chunk, &mut scratch, &mut coded).unwrap();
    let known: Vec<&[u8]> = made.inputs.iter().map(|i| known[usize::from(i.index)]).collect();
    let payload = Payload { spec, form: made.form, bytes: &coded, known: &known };
    for level in Level::available() {
        let mut back = vec![0; whole.len()];
        let digest = decode(level, &payload, &mut scratch, &mut back).unwrap();
        assert!(back == whole && digest == made.digest);
    }
});
