//! Single dispatches against the CPU twins.

use super::{
    Buffer::{In, InOut, Out},
    LENGTHS, device, noise, run, run_folded,
};
use lmc_gpu::internals::{
    bits::pack,
    entropy::histogram,
    shader::*,
    simd::Level,
    transform::{align, bitplane, change, delta, group, split},
};

#[test]
fn align_moves_any_number_of_bytes_from_and_to_any_byte() {
    let Some(device) = device() else { return };
    for n in (0..18).chain(LENGTHS.into_iter().skip(6)).chain([1021, 3075]) {
        for shift in 0..4usize {
            let unaligned = noise((shift + n).next_multiple_of(4), 9);
            let params = AlignParams { n_bytes: n as u32, shift: shift as u32 };
            let mut want = vec![0; n.next_multiple_of(4)];
            align::take(n, shift, &unaligned, &mut want);
            let out =
                run(&device, "take", &params, n.div_ceil(4), &[In(&unaligned), Out(want.len())]);
            assert_eq!(out[0], want, "take {n} bytes from {shift}");

            let aligned = noise(n.next_multiple_of(4), 5);
            let mut want = unaligned.clone();
            align::put(n, shift, &mut want, &aligned);
            let out = run(
                &device,
                "put",
                &params,
                (shift + n).div_ceil(4),
                &[InOut(&unaligned), In(&aligned)],
            );
            assert_eq!(out[0], want, "put {n} bytes to {shift}");
        }
    }
}

#[test]
fn group_splits_and_joins_words_of_every_length() {
    let Some(device) = device() else { return };
    for word_len in [2, 4, 8] {
        for n in LENGTHS {
            let bytes = noise(n * word_len, 3);
            let padded = n.next_multiple_of(4);
            let mut want = vec![0; word_len * padded];
            let mut planes: Vec<_> =
                want.chunks_mut(padded.max(1)).map(|plane| &mut plane[..n]).collect();
            if n > 0 {
                group::split(Level::best(), &bytes, &mut planes);
            }
            let params = GroupParams {
                n_words: n as u32,
                word_len: word_len as u32,
                stride: padded as u32 / 4,
            };
            let out = run(&device, "split", &params, n.div_ceil(4), &[In(&bytes), Out(want.len())]);
            // What fills a plane's last word is not said.
            for (got, want) in out[0].chunks(padded.max(1)).zip(want.chunks(padded.max(1))) {
                assert_eq!(got[..n], want[..n], "split {n} words of {word_len}");
            }
            let out =
                run(&device, "join", &params, n.div_ceil(4), &[Out(padded * word_len), In(&want)]);
            assert_eq!(out[0][..bytes.len()], bytes, "join {n} words of {word_len}");
        }
    }
}

/// Planes of [`split::split`] at multiples of four bytes: symbols, rest, tails.
fn split_on_cpu(fields: &split::Split, bytes: &[u8]) -> (Vec<u8>, usize) {
    let n = bytes.len() / fields.word_len();
    let n_rests = usize::from(fields.stored_rest_bits().div_ceil(8));
    let padded = n.next_multiple_of(4).max(4);
    let mut out = vec![0; padded * (1 + n_rests + fields.n_tails())];
    let mut planes = out.chunks_mut(padded).map(|plane| &mut plane[..n]);
    let symbols = planes.next().unwrap();
    let rest_lo = if n_rests > 0 { planes.next().unwrap() } else { &mut [] };
    let rest_hi = if n_rests > 1 { planes.next().unwrap() } else { &mut [] };
    let mut tails: Vec<_> = planes.collect();
    let n_escapes = split::split(
        Level::best(),
        fields,
        bytes,
        split::PlanesMut { symbols, rest_lo, rest_hi, tails: &mut tails },
    );
    (out, n_escapes)
}

fn split_params(fields: &split::Split, n: usize) -> SplitParams {
    SplitParams {
        n_words: n as u32,
        word_bits: fields.word_bits.into(),
        rest_bits: fields.rest_bits.into(),
        base: fields.base.into(),
        sign: fields.sign.map_or(0, |sign| 1 + u32::from(sign)),
        stride: n.div_ceil(4).max(1) as u32,
    }
}

#[test]
fn split_and_join_equal_the_cpu_for_every_width_and_rest() {
    let Some(device) = device() else { return };
    for word_bits in [8, 16, 32, 64] {
        for rest_bits in 0..=11 {
            for sign in [None, Some(false), Some(true)] {
                let fields = split::Split { word_bits, rest_bits, base: 129, sign };
                if !fields.is_valid() {
                    continue;
                }
                // Every length for one rest of each width, a few for the others.
                let lengths: &[usize] =
                    if rest_bits == 5 { &LENGTHS } else { &[0, 1, 5, 260, 4099] };
                for &n in lengths {
                    let bytes = noise(n * fields.word_len(), u64::from(rest_bits) + 1);
                    let (want, n_escapes) = split_on_cpu(&fields, &bytes);
                    let params = split_params(&fields, n);
                    let out = run(
                        &device,
                        "split",
                        &params,
                        n.div_ceil(4),
                        &[In(&bytes), Out(want.len()), Out(4)],
                    );
                    // Only the padding of planes may differ.
                    let padded = 4 * params.stride as usize;
                    for (got, want) in out[0].chunks(padded).zip(want.chunks(padded)) {
                        assert_eq!(got[..n], want[..n], "{fields:?} {n}");
                    }
                    assert_eq!(out[1], (n_escapes as u32).to_le_bytes(), "{fields:?} {n}");
                }
            }
        }
    }
}

#[test]
fn join_restores_words_without_escapes() {
    let Some(device) = device() else { return };
    for (word_bits, rest_bits, sign) in [
        (8, 4, None),
        (8, 1, Some(true)),
        (16, 8, None),
        (16, 7, None),
        (16, 11, Some(true)),
        (32, 7, None),
        (32, 8, Some(false)),
        (64, 5, None),
    ] {
        let base = if word_bits == 64 { 1000 } else { 129 };
        let fields = split::Split { word_bits, rest_bits, base, sign };
        for n in LENGTHS {
            let mut bytes = noise(n * fields.word_len(), 4);
            for word in bytes.chunks_mut(fields.word_len()) {
                // Exponents in the window, and the sign that is dropped.
                let top = &mut word[word_bits as usize / 8 - 1];
                *top = *top & if word_bits == 8 { 0xff } else { 0x87 } | 0x40;
                if let Some(sign) = sign {
                    *top = *top & 0x7f | u8::from(sign) << 7;
                }
            }
            let (planes, n_escapes) = split_on_cpu(&fields, &bytes);
            assert!(n_escapes == 0 || !fields.is_windowed(), "{fields:?}");
            let params = split_params(&fields, n);
            let len = n.next_multiple_of(4) * fields.word_len();
            let out = run(&device, "join", &params, n.div_ceil(4), &[Out(len), In(&planes)]);
            assert_eq!(out[0][..bytes.len()], bytes, "{fields:?} {n}");
        }
    }
}

#[test]
fn bit_planes_equal_the_cpu_both_ways() {
    let Some(device) = device() else { return };
    for word_len in [1, 2, 4, 8] {
        for n in LENGTHS {
            let bytes = noise(n * word_len, 11);
            let mut want = vec![0; 8 * word_len * bitplane::plane_len(n)];
            bitplane::planes(Level::best(), word_len, &bytes, &mut want);
            let params = BitplaneParams { n_words: n as u32, word_bits: 8 * word_len as u32 };
            // 32 invocations to a square of 128 bytes; runs of 64-bit words take two squares.
            let squares = 32 * ((n * word_len).div_ceil(128) + 1);
            let out = run(&device, "planes", &params, squares, &[In(&bytes), Out(want.len())]);
            assert_eq!(out[0], want, "planes of {n} words of {word_len}");
            let out = run(&device, "words", &params, squares, &[In(&want), Out(bytes.len())]);
            assert_eq!(out[0], bytes, "{n} words of {word_len}");
        }
    }
}

#[test]
fn deltas_equal_the_cpu_both_ways() {
    let Some(device) = device() else { return };
    for word_len in [1, 2, 4, 8] {
        for n in LENGTHS {
            let (words, base) = (noise(n * word_len, 21), noise(n * word_len, 22));
            let len = words.len();
            let params = DeltaParams { n_bytes: len as u32, word_bits: 8 * word_len as u32 };
            let pairs = len.div_ceil(8);
            let device_run = |entry, a: &[u8]| {
                let out = run(&device, entry, &params, pairs, &[In(a), In(&base), Out(len)]);
                out.into_iter().next().unwrap()
            };
            let mut want = vec![0; len];
            delta::xor(Level::best(), &words, &base, &mut want);
            assert_eq!(device_run("xor", &words), want, "xor {n} of {word_len}");
            delta::diff(Level::best(), word_len, &words, &base, &mut want);
            assert_eq!(device_run("diff", &words), want, "diff {n} of {word_len}");
            assert_eq!(device_run("undo", &want), words, "undo {n} of {word_len}");
        }
    }
}

#[test]
fn every_pair_of_bytes_has_the_difference_of_the_cpu() {
    let Some(device) = device() else { return };
    let words: Vec<u8> = (0..=0xffff_u32).map(|i| i as u8).collect();
    let base: Vec<u8> = (0..=0xffff_u32).map(|i| (i >> 8) as u8).collect();
    let mut want = vec![0; words.len()];
    delta::diff(Level::best(), 1, &words, &base, &mut want);
    let params = DeltaParams { n_bytes: 1 << 16, word_bits: 8 };
    let buffers = [In(&words), In(&base), Out(want.len())];
    assert_eq!(run(&device, "diff", &params, 1 << 13, &buffers)[0], want);
}

#[test]
fn the_map_of_changes_equals_the_cpu() {
    let Some(device) = device() else { return };
    for word_len in [1, 2, 4, 8] {
        for n in LENGTHS {
            let mut words = noise(n * word_len, 31);
            for (i, word) in words.chunks_mut(word_len).enumerate() {
                match i * i % 7 {
                    0..3 => word.fill(0),
                    3 => word[1..].fill(0),
                    _ => {}
                }
            }
            let mut want = vec![0; bitplane::plane_len(n)];
            let n_changed = change::bitmap(word_len, &words, &mut want) as u32;
            let params = ChangeParams { n_words: n as u32, word_bits: 8 * word_len as u32 };
            let out = run(
                &device,
                "bitmap",
                &params,
                n.div_ceil(32),
                &[In(&words), Out(want.len()), Out(4)],
            );
            assert_eq!(out[0], want, "{n} words of {word_len}");
            assert_eq!(out[1], n_changed.to_le_bytes(), "{n} words of {word_len}");
        }
    }
}

#[test]
fn values_of_every_width_are_packed_as_on_the_cpu() {
    let Some(device) = device() else { return };
    for width in 1..=8u8 {
        for n in LENGTHS {
            let values = noise(n, 41);
            let mut want = vec![0; pack::packed_len(width, n)];
            pack::pack(Level::best(), width, &values, &mut want);
            let params = PackParams { n_values: n as u32, width: width.into(), at: 2 };
            let shifted = [&[0; 8], &values[..]].concat();
            let out = run(
                &device,
                "pack",
                &params,
                want.len().div_ceil(4),
                &[In(&shifted), Out(want.len())],
            );
            assert_eq!(out[0], want, "pack {n} of {width} bits");
            let mut back = vec![0; n];
            assert!(pack::unpack(Level::best(), width, &want, &mut back));
            want.resize(want.len() + 8, 0);
            let out = run(&device, "unpack", &params, n.div_ceil(4), &[Out(8 + n), In(&want)]);
            assert_eq!(out[0][8..], back, "unpack {n} of {width} bits");
        }
    }
}

#[test]
fn histograms_equal_the_cpu_with_and_without_contexts() {
    let Some(device) = device() else { return };
    for n in LENGTHS.into_iter().chain([70_000]) {
        let symbols: Vec<u8> = noise(n, 51).iter().map(|b| b.count_ones() as u8 * 7).collect();
        let contexts: Vec<u8> = noise(n, 52).iter().map(|b| b % 16).collect();
        let mut want = [[0; 256]; 16];
        histogram::count_contexts(Level::best(), &symbols, &contexts, &mut want);
        let bytes = |counts: &[u32]| counts.iter().flat_map(|c| c.to_le_bytes()).collect();
        for per_invocation in [1, 5] {
            let params = HistogramParams { n_symbols: n as u32, per_invocation };
            let invocations = n.div_ceil(4 * per_invocation as usize);
            let out = run(
                &device,
                "count_contexts",
                &params,
                invocations,
                &[In(&symbols), In(&contexts), Out(1024 * 16)],
            );
            let all: Vec<u8> = bytes(want.as_flattened());
            assert_eq!(out[0], all, "{n} symbols with contexts");
            let mut total = [0; 256];
            histogram::count(Level::best(), &symbols, &mut total);
            let out = run(&device, "count", &params, invocations, &[In(&symbols), Out(1024)]);
            let all: Vec<u8> = bytes(&total);
            assert_eq!(out[0], all, "{n} symbols");
        }
    }
}

#[test]
fn more_than_65535_workgroups_do_all_their_work() {
    let Some(device) = device() else { return };
    let n = 65_536 * 256 * 4;
    let bytes = noise(n, 61);
    let (mut low, mut high) = (vec![0; n / 2], vec![0; n / 2]);
    group::split(Level::best(), &bytes, &mut [&mut low, &mut high]);
    let params = GroupParams { n_words: n as u32 / 2, word_len: 2, stride: n as u32 / 8 };
    // One word per invocation is what other kernels do; here it is two.
    let out = run_folded(&device, "split", &params, n / 4, &[In(&bytes), Out(n)], 65_535);
    assert!(out[0][..n / 2] == low && out[0][n / 2..] == high);
}
