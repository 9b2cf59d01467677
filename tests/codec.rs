//! Chunks, as every level codes them: payloads are equal, and decode to the same bytes wherever
//! the output starts, near or far.

mod common;

use common::Rng;
use lmc_gpu::{
    Method,
    dtype::Dtype,
    internals::{
        codec::{
            Chunk, ChunkSpec, Encoded, Form, Offer, Payload, Predictor, Scratch, decode, encode,
        },
        hash::digest_of,
        simd::Level,
    },
};

const METHODS: [&str; 5] = ["fast", "auto", "max", "cascade", "rans"];
const DTYPES: [Dtype; 7] =
    [Dtype::BF16, Dtype::F16, Dtype::F32, Dtype::F64, Dtype::F8_E4M3, Dtype::F8_E5M2, Dtype::I16];
/// Kinds of values: those of [`Rng::values`] with rare words of any bits among them, and these.
const KINDS: u32 = 8;
const OF_ONE_SIGN: u32 = 5;
const CONSTANT_BUT_FOR_ONE: u32 = 6;
const FEW_NANS: u32 = 7;

fn methods() -> Vec<Method> {
    METHODS.iter().filter_map(|name| Method::parse(name)).collect()
}

fn values(rng: &mut Rng, dtype: Dtype, n: usize, kind: u32) -> Vec<u8> {
    let word = dtype.word_len();
    let mut bytes = rng.values(dtype, n, if kind < 5 { kind } else { 0 });
    match kind {
        0 | 4 => {
            for _ in 0..n / 3000 + 1 {
                let at = rng.next() as usize % n * word;
                bytes[at..at + word].copy_from_slice(&rng.bytes(word));
            }
        }
        OF_ONE_SIGN => bytes.chunks_exact_mut(word).for_each(|w| w[word - 1] &= 0x7f),
        CONSTANT_BUT_FOR_ONE => {
            let first = bytes[..word].to_vec();
            bytes[..(n - 1) * word].chunks_exact_mut(word).for_each(|w| w.copy_from_slice(&first));
        }
        FEW_NANS => {
            for _ in 0..n / 500 + 1 {
                let at = rng.next() as usize % n * word;
                bytes[at..at + word].fill(0xff);
            }
        }
        _ => {}
    }
    bytes
}

/// Decodes at every level into output that starts at `start` modulo 64.
fn check(payload: &Payload<'_>, bytes: &[u8], start: usize, scratch: &mut Scratch) {
    let mut room = vec![0xa5; bytes.len() + 192];
    let from = room.as_ptr().addr().wrapping_neg() % 64 + start;
    for level in Level::available() {
        for far in [false, true] {
            scratch.write_far(far);
            let out = &mut room[from..from + bytes.len()];
            out.fill(0x5a);
            let what =
                || format!("{:?} {level:?} {far} {start} {} bytes", payload.spec, bytes.len());
            let digest = decode(level, payload, scratch, out).unwrap_or_else(|e| {
                panic!("{e}: {}", what());
            });
            assert!(out == bytes, "{}", what());
            assert!(digest == digest_of(bytes), "digest: {}", what());
            let mut around = room[..from].iter().chain(&room[from + bytes.len()..]);
            assert!(around.all(|&b| b == 0xa5), "around: {}", what());
        }
    }
}

fn encode_at_every_level(
    method: Method,
    spec: &ChunkSpec,
    bytes: &[u8],
    scratch: &mut Scratch,
) -> (Form, Vec<u8>) {
    let mut first: Option<(Form, Vec<u8>)> = None;
    for level in Level::available() {
        let mut payload = Vec::new();
        scratch.reuse(method, &mut payload);
        let chunk = Chunk::alone(*spec, bytes);
        let Encoded { form, digest, .. } =
            encode(level, method, &chunk, scratch, &mut payload).unwrap();
        assert!(digest == digest_of(bytes), "digest of {method} {spec:?}");
        let first = first.get_or_insert_with(|| (form, payload.clone()));
        assert!(*first == (form, payload), "{method} {spec:?} {level:?} {} bytes", bytes.len());
    }
    first.unwrap()
}

#[test]
fn every_level_makes_and_reads_the_same_payloads() {
    let full = std::env::var("LMC_FULL").is_ok();
    let lens: &[usize] = match full {
        true => &[
            1, 2, 63, 2047, 2048, 2049, 4095, 4096, 4097, 24_575, 24_576, 32_767, 32_768, 32_769,
            131_071, 131_072, 131_073, 262_143, 262_145,
        ],
        false => &[1, 2047, 2049, 4096],
    };
    let mut rng = Rng::new(21);
    let mut scratch = Scratch::default();
    let mut start = 0;
    for dtype in DTYPES {
        // As many words as have planes packed at once.
        let more = if full || dtype.word_len() > 4 { None } else { Some(33_000) };
        for &n in lens.iter().chain(&more) {
            for kind in 0..KINDS {
                let bytes = values(&mut rng, dtype, n, kind);
                for row_words in if kind == 4 { vec![64, 100] } else { vec![0] } {
                    for method in methods() {
                        let spec = ChunkSpec { dtype, big_endian: n % 3 == 0, row_words };
                        let (form, payload) =
                            encode_at_every_level(method, &spec, &bytes, &mut scratch);
                        start = (start + 7) % 64;
                        let payload = Payload { spec, form, bytes: &payload, known: &[] };
                        check(&payload, &bytes, start, &mut scratch);
                    }
                }
            }
        }
    }
}

#[test]
fn rows_longer_than_half_a_chunk_are_as_good_as_unknown_whatever_number_is_said() {
    const N: usize = 4096;
    let mut rng = Rng::new(63);
    let mut scratch = Scratch::default();
    for dtype in DTYPES {
        let bytes = values(&mut rng, dtype, N, 4);
        for method in methods() {
            let spec = |row_words| ChunkSpec { dtype, big_endian: false, row_words };
            let unknown = encode_at_every_level(method, &spec(0), &bytes, &mut scratch);
            let half = [N as u64 / 2 + 1, 1 << 31, 1 << 32, u64::MAX / 2, 1 << 63, (1 << 63) + 1];
            for row_words in half.into_iter().chain([u64::MAX - 1, u64::MAX]) {
                let spec = spec(row_words);
                let made = encode_at_every_level(method, &spec, &bytes, &mut scratch);
                assert!(made == unknown, "{method} {dtype} {row_words}");
                let (form, bytes_made) = (made.0, &made.1);
                let payload = Payload { spec, form, bytes: bytes_made, known: &[] };
                check(&payload, &bytes, 0, &mut scratch);
            }
        }
    }
}

#[test]
fn every_start_of_output_is_as_good() {
    let mut rng = Rng::new(22);
    let mut scratch = Scratch::default();
    for dtype in [Dtype::BF16, Dtype::F16, Dtype::F32, Dtype::F8_E4M3] {
        for n in [700, 2048 * 3 + 5] {
            let bytes = values(&mut rng, dtype, n, 0);
            for method in methods().into_iter().take(3) {
                let spec = ChunkSpec { dtype, big_endian: false, row_words: 0 };
                let (form, payload) = encode_at_every_level(method, &spec, &bytes, &mut scratch);
                let payload = Payload { spec, form, bytes: &payload, known: &[] };
                for start in 0..64 {
                    check(&payload, &bytes, start, &mut scratch);
                }
            }
        }
    }
}

/// The base, and a chunk that differs from it in one word of `one_in`, by little or by any bits.
fn changed(rng: &mut Rng, base: &[u8], word: usize, one_in: u64) -> Vec<u8> {
    let mut bytes = base.to_vec();
    for w in bytes.chunks_exact_mut(word) {
        if rng.next().is_multiple_of(one_in) {
            w[0] = w[0].wrapping_add((rng.next() % 7) as u8);
        }
        if rng.next().is_multiple_of(5000) {
            w.copy_from_slice(&rng.bytes(word));
        }
    }
    bytes
}

/// The payload of a chunk whose base, if there is one, is `known`.
fn encode_delta(
    level: Level,
    method: Method,
    spec: &ChunkSpec,
    bytes: &[u8],
    known: &[&[u8]],
    scratch: &mut Scratch,
) -> (Encoded, Vec<u8>) {
    let offers: Vec<Offer> =
        known.iter().map(|_| Offer { predictor: Predictor::Base, inputs: vec![0] }).collect();
    let mut payload = Vec::new();
    let chunk = Chunk { spec: *spec, bytes, known, offers: &offers };
    let coded = encode(level, method, &chunk, scratch, &mut payload);
    (coded.unwrap(), payload)
}

#[test]
fn every_level_makes_and_reads_the_same_deltas() {
    let full = std::env::var("LMC_FULL").is_ok();
    let lens: &[usize] = match full {
        true => &[1, 2047, 2048, 2049, 4095, 4096, 4097, 32_767, 32_769, 131_073, 262_145],
        false => &[1, 2047, 4097],
    };
    let mut rng = Rng::new(23);
    let mut scratch = Scratch::default();
    for dtype in DTYPES.into_iter().chain([Dtype::U8, Dtype::I32, Dtype::I64]) {
        let word = dtype.word_len();
        for &n in lens {
            for (kind, one_in) in [(0, 1), (0, 3), (0, 60), (0, 70), (0, 1 << 40), (4, 2), (1, 1)] {
                let base = values(&mut rng, dtype, n, kind);
                let bytes = changed(&mut rng, &base, word, one_in);
                let spec = ChunkSpec { dtype, big_endian: n % 3 == 0, row_words: 64 };
                for method in [Method::Auto, Method::Max, Method::Fast] {
                    let mut first: Option<(Form, Vec<u8>)> = None;
                    for level in Level::available() {
                        let known = [&base[..]];
                        let (coded, payload) =
                            encode_delta(level, method, &spec, &bytes, &known, &mut scratch);
                        assert!(coded.digest == digest_of(&bytes));
                        let mut digests = coded.inputs.iter().filter_map(|input| input.digest);
                        assert!(digests.all(|d| d == digest_of(&base)));
                        let first = first.get_or_insert((coded.form, payload.clone()));
                        let what = format!("{method} {spec:?} {level:?} {n} {kind} {one_in}");
                        assert!(*first == (coded.form, payload), "{what}");
                        let known = if coded.inputs.is_empty() { &[][..] } else { &known };
                        let mut out = vec![0x5a; bytes.len()];
                        let payload = Payload { spec, form: first.0, bytes: &first.1, known };
                        decode(level, &payload, &mut scratch, &mut out)
                            .unwrap_or_else(|e| panic!("{e}: {what}"));
                        assert!(out == bytes, "{what}");
                    }
                }
            }
        }
    }
}

/// Decodes at every level; it may be an error or other bytes, but the same everywhere, and never
/// a hash that is not that of the bytes.
fn check_damaged(payload: &Payload<'_>, len: usize, scratch: &mut Scratch) {
    let Payload { spec, form, .. } = payload;
    let mut first: Option<Option<Vec<u8>>> = None;
    for level in Level::available() {
        for far in [false, true] {
            scratch.write_far(far);
            let mut out = vec![0x5a; len];
            let done = decode(level, payload, scratch, &mut out);
            if let Ok(digest) = done {
                assert!(digest == digest_of(&out), "digest {spec:?} {form:?} {level:?} {far}");
            }
            let result = done.ok().map(|_| out);
            let first = first.get_or_insert_with(|| result.clone());
            assert!(*first == result, "{spec:?} {form:?} {level:?} {far}");
        }
    }
}

#[test]
fn damaged_payloads_are_the_same_at_every_level() {
    let tries = if std::env::var("LMC_FULL").is_ok() { 400 } else { 12 };
    let mut rng = Rng::new(24);
    let mut scratch = Scratch::default();
    for dtype in DTYPES {
        for (kind, row_words) in [(0, 0), (4, 64), (OF_ONE_SIGN, 0), (2, 0)] {
            let bytes = values(&mut rng, dtype, 5000, kind);
            let base = changed(&mut rng, &bytes, dtype.word_len(), 2);
            let spec = ChunkSpec { dtype, big_endian: false, row_words };
            for method in methods() {
                for base in [None, Some(&base[..])] {
                    let (level, known) = (Level::best(), Vec::from_iter(base));
                    let (coded, payload) =
                        encode_delta(level, method, &spec, &bytes, &known, &mut scratch);
                    let known = if coded.inputs.is_empty() { &[][..] } else { &known };
                    let form = coded.form;
                    for k in 0..tries {
                        let mut bad = payload.clone();
                        // Half of them where heads and tables are, or the escapes.
                        let most = if k % 2 == 0 { bad.len() } else { bad.len().min(48) };
                        let at = rng.next() as usize % most;
                        match k % 5 {
                            0..3 => bad[at] ^= 1 << (rng.next() % 8),
                            3 => bad.truncate(bad.len() - 1 - at % 9 % bad.len()),
                            _ if k % 2 == 0 => bad.extend(rng.bytes(1 + at % 5)),
                            _ => bad[at] = rng.next() as u8,
                        }
                        let bad = Payload { spec, form, bytes: &bad, known };
                        check_damaged(&bad, bytes.len(), &mut scratch);
                    }
                    // Another length than that of the payload.
                    for n in [0, 1, 63, 2048, 4999, 5001, 7000] {
                        let len = n * dtype.word_len();
                        let bad = Payload { spec, form, bytes: &payload, known: &[] };
                        check_damaged(&bad, len, &mut scratch);
                    }
                }
            }
        }
    }
}

/// Heads that no encoder writes, with fields that would not even fit into a word.
#[test]
fn every_head_is_refused_or_decodes_alike_at_every_level() {
    let mut scratch = Scratch::default();
    for dtype in DTYPES {
        let spec = ChunkSpec { dtype, big_endian: false, row_words: 4 };
        for form in (0..=255).filter_map(Form::from_code) {
            for head in 0..=255 {
                for payload in [[head, 17, 1, 0, 0, 0, 0, 0], [4, head, 1, 0, 0, 0, 0, 0]] {
                    let len = 3 * dtype.word_len();
                    let payload = Payload { spec, form, bytes: &payload, known: &[] };
                    check_damaged(&payload, len, &mut scratch);
                }
            }
        }
    }
}

/// A coded plane of one value.
fn constant(value: u8) -> Vec<u8> {
    vec![0, 1, 0, 0, 0, value]
}

/// Whether a payload of so many bytes decodes, at every level.
fn decodes(
    dtype: Dtype,
    row_words: u64,
    form: Form,
    bytes: &[u8],
    known: &[&[u8]],
    len: usize,
) -> bool {
    let spec = ChunkSpec { dtype, big_endian: false, row_words };
    let payload = Payload { spec, form, bytes, known };
    let mut scratch = Scratch::default();
    let mut decode = |level| decode(level, &payload, &mut scratch, &mut vec![0; len]).is_ok();
    let found: Vec<bool> = Level::available().into_iter().map(&mut decode).collect();
    assert!(found.iter().all(|one| *one == found[0]), "{found:?}");
    found[0]
}

#[test]
fn symbols_of_floats_have_no_more_bits_than_their_s() {
    // Of 16 bits the rest takes 11, of 8 it takes 4: what is left is the exponent.
    for (dtype, rest, bits) in [(Dtype::F16, 11, 5), (Dtype::F8_E4M3, 4, 4)] {
        for (symbol, good) in [(0, true), ((1 << bits) - 1, true), (1 << bits, false), (255, false)]
        {
            let mut payload = vec![0, rest, 1, 0];
            if rest > 8 {
                payload.extend(constant(0));
            }
            payload.extend(constant(1));
            payload.extend(constant(symbol));
            let found = decodes(dtype, 0, Form::Split, &payload, &[], 3 * dtype.word_len());
            assert_eq!(found, good, "{dtype} {symbol}");
            // One among others.
            let at = payload.len() - 6;
            payload[0] = 1;
            payload.truncate(at);
            payload.extend([1, 3, 0, 0, 0, 1, symbol, 2]);
            let found = decodes(dtype, 0, Form::Split, &payload, &[], 3 * dtype.word_len());
            assert_eq!(found, good, "{dtype} {symbol}");
        }
    }
}

#[test]
fn symbols_of_scaled_floats_stand_for_an_s_of_no_more_than_its_bits() {
    let mut rng = Rng::new(7);
    let method = Method::parse("max").unwrap();
    let mut seen = 0;
    for dtype in [Dtype::BF16, Dtype::F16, Dtype::F32] {
        // Rows of other magnitudes each.
        let n = 64 * 128;
        let value = |i: usize| {
            let size = f32::exp2(((i / 128 * 5) % 16) as f32 - 12.0);
            size * (1.0 + (rng.next() % 1000) as f32 / 300.0)
                * if rng.next().is_multiple_of(2) { 1.0 } else { -1.0 }
        };
        let bytes: Vec<u8> = (0..n)
            .map(value)
            .flat_map(|x| match dtype {
                Dtype::BF16 => x.to_bits().to_le_bytes()[2..].to_vec(),
                Dtype::F16 => half::f16::from_f32(x).to_le_bytes().to_vec(),
                _ => x.to_le_bytes().to_vec(),
            })
            .collect();
        let spec = ChunkSpec { dtype, big_endian: false, row_words: 128 };
        let mut scratch = Scratch::default();
        let (form, payload) = encode_at_every_level(method, &spec, &bytes, &mut scratch);
        assert!(form == Form::Split && payload[1] & 64 != 0, "{dtype} has scales");
        assert!(decodes(dtype, 128, form, &payload, &[], bytes.len()));
        let base = u16::from_le_bytes([payload[2], payload[3]]);
        // Windows that begin where some s would be 0 or less, or too large.
        for other in [1u16, (1 << (base.ilog2() + 1)) + 256, 65_282] {
            let mut bad = payload.clone();
            bad[2..4].copy_from_slice(&other.to_le_bytes());
            assert!(!decodes(dtype, 128, form, &bad, &[], bytes.len()), "{dtype} {base} {other}");
            seen += 1;
        }
    }
    assert_eq!(seen, 9);
}

#[test]
fn a_word_that_is_listed_as_changed_is_another_one() {
    let base = [1, 2, 3, 4, 5, 6];
    for (symbol, good) in [(1, true), (2, true), (0, false)] {
        // Predictor and mode, one change, no gap.
        let payload = [&[0, 1, 1][..], &constant(0), &constant(symbol)].concat();
        assert_eq!(decodes(Dtype::BF16, 0, Form::Delta, &payload, &[&base], 6), good, "{symbol}");
    }
}

#[test]
fn moments_without_a_window_have_no_base_of_one() {
    // A table of the symbols 7 and 8, each of frequency 2048.
    let table = (7u64 | 1 << 8 | 1 << 34 | 1 << 36).to_le_bytes();
    for (base, good) in [(1, true), (0, false), (2, false)] {
        let mut payload = vec![8, base, 0];
        for plane in [constant(1), constant(2), constant(3)] {
            payload.extend(plane);
        }
        payload.extend([1, 2]);
        payload.extend(&table[..5]);
        payload.extend(16u32.to_le_bytes());
        // Three words, which stand in the states, and a state without one.
        payload.extend([7, 8, 7, 0].iter().flat_map(|symbol| [*symbol, 0, 1, 0]));
        payload.push(0);
        let v = [0; 12];
        assert_eq!(decodes(Dtype::F32, 0, Form::Moment, &payload, &[&v], 12), good, "{base}");
    }
}
