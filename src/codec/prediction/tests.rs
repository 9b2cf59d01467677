use super::*;
use crate::{
    Error,
    codec::{self, Payload, encode},
    dtype::Dtype,
    predict::{
        adam::{Second, Weights},
        cast::Narrow,
        gradient::{self, Fold},
    },
};
use proptest::prelude::*;

fn spec(dtype: Dtype, big_endian: bool) -> ChunkSpec {
    ChunkSpec { dtype, big_endian, row_words: 0 }
}

fn offer(predictor: Predictor, inputs: &[u8]) -> Offer {
    Offer { predictor, inputs: inputs.to_vec() }
}

fn noise(seed: u32) -> impl FnMut() -> u32 {
    let mut x = seed | 1;
    move || {
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        x
    }
}

/// Words like weights, and what they become when a share of them moves a little.
fn pair(word: usize, n: usize, changed_in_1000: u32, reach: u32) -> (Vec<u8>, Vec<u8>) {
    let mut next = noise(n as u32 + 7);
    let mut base = Vec::new();
    let mut new = Vec::new();
    for _ in 0..n {
        let x = ((next() % 2000) as f32 - 1000.0) * 1e-4;
        let b = u64::from(x.to_bits()) << 32 | u64::from(next());
        let mut b = b.to_be_bytes()[..word].to_vec();
        b.reverse();
        base.extend_from_slice(&b);
        if next() % 1000 < changed_in_1000 {
            let by = next() % reach;
            let low = b[0];
            b[0] = low.wrapping_add(by as u8);
        }
        new.extend_from_slice(&b);
    }
    (base, new)
}

fn round_trip(
    spec: &ChunkSpec,
    method: Method,
    bytes: &[u8],
    known: &[&[u8]],
    offers: &[Offer],
) -> (Form, usize) {
    let mut payloads = Vec::new();
    let mut used = None;
    for level in Level::available() {
        let (mut scratch, mut out) = (Scratch::default(), vec![]);
        let chunk = Chunk { spec: *spec, bytes, known, offers };
        let coded = encode(level, method, &chunk, &mut scratch, &mut out).unwrap();
        assert!(out.len() <= bytes.len());
        let inputs: Vec<&[u8]> =
            coded.inputs.iter().map(|input| known[usize::from(input.index)]).collect();
        let mut back = vec![0xa5; bytes.len()];
        let payload = Payload { spec: *spec, form: coded.form, bytes: &out, known: &inputs };
        codec::decode(level, &payload, &mut scratch, &mut back).unwrap_or_else(|e| {
            panic!("{level:?} {spec:?} {method} {coded:?} {}: {e}", bytes.len())
        });
        assert!(back == bytes, "{level:?} {spec:?} {coded:?}");
        for i in 0..out.len().min(40) {
            let mut bad = out.clone();
            bad[i * out.len() / out.len().min(40)] ^= 1 << (i % 8);
            let cut = &out[..i * out.len() / out.len().min(40)];
            for bytes in [&bad[..], cut] {
                let _ =
                    codec::decode(level, &Payload { bytes, ..payload }, &mut scratch, &mut back);
            }
        }
        payloads.push(out);
        used = Some(coded.form);
    }
    assert!(payloads.windows(2).all(|w| w[0] == w[1]), "levels differ");
    (used.unwrap(), payloads[0].len())
}

#[test]
fn every_type_and_endianness_round_trips_from_a_base() {
    for dtype in Dtype::ALL {
        for big_endian in [false, true] {
            let spec = spec(dtype, big_endian);
            let word = dtype.word_len();
            for n in [1, 2, 63, 64, 65, 1000, 4099] {
                for (changed, reach) in [(0, 1), (5, 3), (400, 200)] {
                    let (base, new) = pair(word.min(8), n, changed, reach);
                    let (base, new) = (base.repeat(word.div_ceil(8)), new.repeat(word.div_ceil(8)));
                    let len = base.len() / word * word;
                    let (base, new) = (&base[..len], &new[..len]);
                    for method in [Method::Auto, Method::Xor, Method::Diff, Method::Max] {
                        round_trip(&spec, method, new, &[base], &[offer(Predictor::Base, &[0])]);
                    }
                }
            }
        }
    }
}

#[test]
fn few_changes_cost_about_their_entropy() {
    let n = 256 << 10;
    let mut next = noise(99);
    let base: Vec<u8> =
        (0..n).flat_map(|_| (0x3c00 + (next() % 0x200) as u16).to_le_bytes()).collect();
    let mut new = base.clone();
    let mut changed = 0u32;
    for word in new.as_chunks_mut::<2>().0 {
        if next().is_multiple_of(200) {
            let x = u16::from_le_bytes(*word);
            *word = (if next().is_multiple_of(2) { x + 1 } else { x - 1 }).to_le_bytes();
            changed += 1;
        }
    }
    let spec = spec(Dtype::BF16, false);
    let (form, len) =
        round_trip(&spec, Method::Auto, &new, &[&base], &[offer(Predictor::Base, &[0])]);
    assert_eq!(form, Form::Delta);
    assert!(8 * len < (changed * 11) as usize, "{len} bytes for {changed} changes");
    let (_, len) =
        round_trip(&spec, Method::Auto, &base, &[&base], &[offer(Predictor::Base, &[0])]);
    assert_eq!(len, 2);
}

/// Weights in bf16 before and after a small step of 32-bit ones, and how many words changed.
fn stepped(n: usize, step: f32) -> (Vec<u8>, Vec<u8>, usize) {
    let mut next = noise(5);
    let mut normal = || (0..8).map(|_| (next() >> 8) as f32 / (1 << 24) as f32 - 0.5).sum::<f32>();
    let (mut base, mut new) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let w = normal() * 0.02;
        let moved = w + normal() * step;
        base.extend_from_slice(&half::bf16::from_f32(w).to_le_bytes());
        new.extend_from_slice(&half::bf16::from_f32(moved).to_le_bytes());
    }
    let changed = base.as_chunks::<2>().0.iter().zip(new.as_chunks::<2>().0);
    let changed = changed.filter(|(a, b)| a != b).count();
    (base, new, changed)
}

#[test]
fn small_steps_cost_what_the_size_of_words_leaves_open() {
    let spec = spec(Dtype::BF16, false);
    for (step, share, most) in [(3.3e-7, 0.012, 0.92), (9.5e-7, 0.033, 0.80), (2.7e-6, 0.08, 0.70)]
    {
        let (base, new, changed) = stepped(256 << 10, step);
        let found = changed as f64 / (256 << 10) as f64;
        assert!((found / share - 1.0).abs() < 0.3, "{found}");
        let (form, len) =
            round_trip(&spec, Method::Auto, &new, &[&base], &[offer(Predictor::Base, &[0])]);
        assert_eq!(form, Form::Delta);
        assert!((len as f64) < most * changed as f64, "{found}: {}", len as f64 / changed as f64);
    }
}

#[test]
fn words_that_change_side_by_side_cost_less_than_words_apart() {
    let (base, mut new, _) = stepped(256 << 10, 1e-2);
    // One row of 512 words in 100 changed, as of an embedding.
    let rows = base.chunks(1024).zip(new.chunks_mut(1024)).enumerate();
    rows.filter(|(i, _)| i % 100 != 7).for_each(|(_, (base, new))| new.copy_from_slice(base));
    let spec = spec(Dtype::BF16, false);
    let (_, together) =
        round_trip(&spec, Method::Auto, &new, &[&base], &[offer(Predictor::Base, &[0])]);
    let (base, new, changed) = stepped(256 << 10, 1.2e-6);
    let (_, apart) =
        round_trip(&spec, Method::Auto, &new, &[&base], &[offer(Predictor::Base, &[0])]);
    assert!(together < 2 * 6 * 512 && together < apart, "{together} {apart} {changed}");
}

#[test]
fn masked_chunks_of_every_word_round_trip() {
    for dtype in [Dtype::U8, Dtype::F8_E4M3, Dtype::BF16, Dtype::F16, Dtype::F32, Dtype::F64] {
        for n in [1000, 8192, 70_000] {
            for changed in [30, 300] {
                let (base, new) = pair(dtype.word_len(), n, changed, 3);
                for big_endian in [false, true] {
                    let spec = spec(dtype, big_endian);
                    let offers = [offer(Predictor::Base, &[0])];
                    round_trip(&spec, Method::Auto, &new, &[&base], &offers);
                }
            }
        }
    }
}

#[test]
fn a_useless_base_costs_nothing() {
    let (base, _) = pair(4, 5000, 0, 1);
    let mut next = noise(5);
    let new: Vec<u8> = (0..5000).flat_map(|_| (0x3f00_0000 | next() >> 8).to_le_bytes()).collect();
    let spec = spec(Dtype::F32, false);
    let (_, with) =
        round_trip(&spec, Method::Auto, &new, &[&base], &[offer(Predictor::Base, &[0])]);
    let mut alone = Vec::new();
    let chunk = Chunk::alone(spec, &new);
    encode(Level::best(), Method::Auto, &chunk, &mut Scratch::default(), &mut alone).unwrap();
    assert!(with <= alone.len());
}

#[test]
fn every_predictor_round_trips_and_says_what_it_is() {
    let n = 20_000;
    let (wide, _) = pair(4, n, 0, 1);
    let mut narrow = vec![0; 2 * n];
    crate::predict::cast::round(Level::best(), Narrow::Bf16, &wide, &mut narrow);
    narrow[100] ^= 1;
    let bf16 = spec(Dtype::BF16, false);
    let f32 = spec(Dtype::F32, false);
    let cast = [offer(Predictor::Narrow, &[0])];
    let (form, len) = round_trip(&bf16, Method::Auto, &narrow, &[&wide], &cast);
    assert!(form == Form::Delta && len < 60);
    let widen = [offer(Predictor::Widen(Narrow::Bf16), &[0])];
    let (form, len) = round_trip(&f32, Method::Auto, &wide, &[&narrow], &widen);
    assert!(form == Form::Delta && len < 45_000, "{form:?} {len}");
    let (v, v1) = pair(4, n, 500, 3);
    let v: Vec<u8> = v
        .as_chunks()
        .0
        .iter()
        .flat_map(|w: &[u8; 4]| (f32::from_le_bytes(*w).powi(2)).to_le_bytes())
        .collect();
    let moment = [offer(Predictor::Moment, &[0])];
    let (form, _) = round_trip(&f32, Method::Auto, &wide, &[&v], &moment);
    assert_eq!(form, Form::Moment);
    let second = offer(Predictor::Second(Second::new(0, 0.9, 0.99)), &[0, 1, 2]);
    round_trip(&f32, Method::Auto, &v1, &[&v, &wide, &wide], &[second]);
    let s = Weights { order: 0, decay: 1.0, step: 0.0, bias: 1.0, eps: 1e-8 };
    let weights = offer(Predictor::Weights(s), &[0, 1, 2]);
    let (form, len) = round_trip(&f32, Method::Auto, &wide, &[&wide, &wide, &v], &[weights]);
    assert!(form == Form::Delta && len < 30);
    let signed = offer(Predictor::Signed, &[0, 1]);
    let (base, new) = pair(2, n, 500, 5);
    let (form, _) = round_trip(&bf16, Method::Auto, &new, &[&base, &wide], &[signed]);
    assert_eq!(form, Form::Delta);
}

#[test]
fn moments_round_trip_as_gradients_whatever_else_is_among_them() {
    let f32s = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    for n in [1, 15, 16, 17, 1000, 1025, 20_000] {
        for big_endian in [false, true] {
            let mut next = noise(n as u32);
            let mut any = |share: u32, words: &mut Vec<u32>| {
                for w in words {
                    match next() % share {
                        0 => *w = next(),
                        1 => {
                            *w = [0, 1 << 31, 0x7f80_0000, 0x7fc0_0000, 1, 0xff90_0000]
                                [next() as usize % 6]
                        }
                        _ => {}
                    }
                }
            };
            let weights = |key: u32| {
                let mut next = noise(key);
                let one = move |_| (((next() % 2000) as f32 - 1000.0) * 1e-6).to_bits();
                (0..n).map(one).collect::<Vec<u32>>()
            };
            let (mut m0, mut v0) = (weights(n as u32 + 1), weights(n as u32 + 2));
            v0.iter_mut().for_each(|v| *v = f32::from_bits(*v).powi(2).to_bits());
            any(30, &mut m0);
            any(30, &mut v0);
            let short = weights(n as u32 + 3);
            let gradients: Vec<f64> =
                short.iter().map(|g| f64::from(f32::from_bits(g & 0xffff_0000))).collect();
            let s = Fold::new(0, 0.9, 0.6789);
            let mut m1 = vec![0; 4 * n];
            gradient::apply(Level::best(), &s, &f32s(&m0), &gradients, &mut m1);
            let mut m1: Vec<u32> =
                m1.as_chunks().0.iter().map(|w| u32::from_le_bytes(*w)).collect();
            any(40, &mut m1);
            let mut all = [m0, v0, m1].map(|words| f32s(&words));
            if big_endian {
                all.iter_mut().for_each(|words| swap_words(words, 4));
            }
            let [m0, v0, m1] = all;
            let offers = [offer(Predictor::Gradient(s), &[0, 1])];
            let spec = spec(Dtype::F32, big_endian);
            let (form, len) = round_trip(&spec, Method::Auto, &m1, &[&m0, &v0], &offers);
            assert!(n < 1000 || (form == Form::Gradient && 8 * len < 17 * n), "{n} {form:?} {len}");
        }
    }
}

#[test]
fn inputs_of_other_lengths_are_refused() {
    let (base, new) = pair(2, 1000, 10, 3);
    let spec = spec(Dtype::BF16, false);
    let (mut scratch, mut out) = (Scratch::default(), Vec::new());
    let offers = [offer(Predictor::Base, &[0])];
    let chunk = Chunk { spec, bytes: &new, known: &[&base], offers: &offers };
    let coded = encode(Level::best(), Method::Auto, &chunk, &mut scratch, &mut out).unwrap();
    let mut back = vec![0; new.len()];
    for bad in [&[][..], &[&base[2..]], &[&base, &base]] {
        let payload = Payload { spec, form: coded.form, bytes: &out, known: bad };
        let done = codec::decode(Level::best(), &payload, &mut scratch, &mut back);
        assert!(matches!(done, Err(Error::Corrupt(_))));
    }
}

#[test]
fn arithmetic_is_refused_where_its_rounding_cannot_be_set() {
    let refused = |form, bytes: &[u8]| {
        let payload = Payload { spec: spec(Dtype::F32, false), form, bytes, known: &[] };
        assert!(super::decode::refuse_inexact(&payload, true).is_ok());
        match super::decode::refuse_inexact(&payload, false) {
            Ok(()) => false,
            Err(Error::Unsupported(why)) => why.contains("restore it on"),
            Err(_) => panic!("another error"),
        }
    };
    let second = Predictor::Second(Second::new(0, 0.9, 0.99));
    let weights = Weights { order: 0, decay: 1.0, step: 0.0, bias: 1.0, eps: 1e-8 };
    for predictor in [second, Predictor::Weights(weights), Predictor::Base, Predictor::Narrow] {
        let mut bytes = Vec::new();
        predictor.write(&mut bytes);
        assert_eq!(refused(Form::Delta, &bytes), predictor.computes(), "{predictor:?}");
    }
    assert!(refused(Form::Gradient, &[]));
    assert!(!refused(Form::Moment, &[]) && !refused(Form::Xor, &[]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn random_pairs_round_trip(
        bytes in prop::collection::vec(any::<u8>(), 0..3000),
        changes in prop::collection::vec((any::<u16>(), any::<u8>()), 0..200),
        dtype in prop::sample::select(vec![Dtype::U8, Dtype::BF16, Dtype::F16, Dtype::F32, Dtype::F64, Dtype::I32]),
        big_endian: bool,
    ) {
        let len = bytes.len() / dtype.word_len() * dtype.word_len();
        let base = &bytes[..len];
        let mut new = base.to_vec();
        for (at, by) in changes {
            if let Some(b) = new.get_mut(usize::from(at)) {
                *b = b.wrapping_add(by);
            }
        }
        for method in [Method::Auto, Method::Diff] {
            if len > 0 {
                round_trip(&spec(dtype, big_endian), method, &new, &[base], &[offer(Predictor::Base, &[0])]);
            }
        }
    }
}
