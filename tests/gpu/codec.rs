//! Encoder and decoder against the CPU, on tensors anywhere in their buffers.

use super::{device, noise};
use lmc_gpu::{
    Error,
    gpu::{
        Buffer, Decoder, Device, Encoder, Plan, Planes, Predictor, Region, Symbols, Tensor,
        Transform,
    },
    internals::{
        bits::pack,
        entropy::{cascade, histogram},
        simd::Level,
        transform::split::{self, Split},
    },
};

/// Bytes of words like trained weights: exponents that cluster, everything else noise.
fn weights(n: usize, word_len: usize, seed: u64) -> Vec<u8> {
    let mut bytes = noise(n * word_len, seed);
    for word in bytes.chunks_exact_mut(word_len) {
        let top = match word_len {
            1 => word[0] & 0x87 | (8 - word[0].leading_zeros().min(7) as u8) << 3,
            _ => word[word_len - 1] & 0x80 | 0x3c,
        };
        if word_len > 1 {
            let zeros = word[word_len - 1].leading_zeros() as u8;
            word[word_len - 2] = word[word_len - 2] & 0x7f | (zeros & 1) << 7;
            word[word_len - 1] = top - zeros / 2;
        } else {
            word[0] = top;
        }
    }
    bytes
}

/// A buffer that holds `bytes` from `offset` on, and noise around them.
fn buffer_with(device: &Device, bytes: &[u8], offset: usize) -> (Buffer, Vec<u8>) {
    let mut all = noise((offset + bytes.len() + 7).next_multiple_of(4), 99);
    all[offset..offset + bytes.len()].copy_from_slice(bytes);
    let buffer = device.storage("test", all.len() as u64).unwrap();
    device.write_at(&buffer, 0, &all).unwrap();
    (buffer, all)
}

/// Sends a tensor through encoder and decoder and compares it and its neighbours.
fn round_trip(device: &Device, plan: Plan, bytes: &[u8], base: Option<&[u8]>, offset: usize) {
    let len = bytes.len() as u64;
    let (from, _) = buffer_with(device, bytes, offset);
    let to_offset = 7 - offset;
    let (to, mut want) = buffer_with(device, &noise(bytes.len(), 3), to_offset);
    want[to_offset..to_offset + bytes.len()].copy_from_slice(bytes);
    // Half of the time the base is sent along.
    let on_device = base.filter(|_| offset % 2 == 1).map(|base| buffer_with(device, base, 5).0);
    let on_device = on_device.as_ref().map(|b| Tensor::from(Region::new(b, 5, len).unwrap()));
    let base = on_device.or(base.map(Tensor::from));

    let mut encoder = Encoder::new(device, plan).unwrap();
    let mut decoder = Decoder::new(device, plan).unwrap();
    let region = Region::new(&from, offset as u64, len).unwrap();
    let snapshot = encoder.snapshot(&region).unwrap();
    // What happens to the tensor after the snapshot must not matter.
    device.write_at(&from, 0, &vec![0; from.size() as usize]).unwrap();
    let target = Region::new(&to, to_offset as u64, len).unwrap();
    let mut seen = 0;
    let stats = encoder
        .encode(&snapshot, base, |chunk| {
            assert_eq!(chunk.start, seen);
            seen += chunk.len;
            decoder.put(&target, base, chunk.start, &chunk.planes)
        })
        .unwrap();
    decoder.finish().unwrap();
    assert_eq!((seen, stats.bytes), (len, len));
    assert!(device.read(&to, to.size()).unwrap()[..want.len()] == want, "{plan:?} at {offset}");
}

fn fields(word_bits: u8, rest_bits: u8, base: u16, sign: Option<bool>) -> Split {
    Split { word_bits, rest_bits, base, sign }
}

#[test]
fn every_transform_restores_tensors_at_every_offset() {
    let Some(device) = device() else { return };
    let cascade = |fields, sampled| Transform::Cascade { fields, sampled };
    let plans = [
        (1, Transform::None),
        (1, Transform::Bitplane),
        (8, Transform::Bitplane),
        (2, Transform::Group),
        (4, Transform::Group),
        (8, Transform::Group),
        (1, Transform::Split(fields(8, 4, 1, None))),
        (1, cascade(fields(8, 3, 1, None), false)),
        (2, Transform::Split(fields(16, 7, 60, None))),
        (2, cascade(fields(16, 8, 1, None), true)),
        (2, cascade(fields(16, 6, 200, None), false)),
        (2, cascade(fields(16, 11, 1, None), true)),
        (4, Transform::Split(fields(32, 6, 300, None))),
        (4, cascade(fields(32, 8, 1, None), false)),
        (8, cascade(fields(64, 5, 800, None), false)),
    ];
    for (word_len, transform) in plans {
        let plan = Plan::new(word_len).with_transform(transform).with_chunk_words(4096);
        for (n, offset) in [(0, 0), (1, 1), (77, 2), (4096, 4), (4097, 3), (20_011, 7)] {
            let bytes = weights(n, word_len, 5);
            round_trip(&device, plan, &bytes, None, offset);
        }
        for predictor in [Predictor::Xor, Predictor::Diff] {
            let (bytes, base) = (weights(9001, word_len, 6), weights(9001, word_len, 7));
            for offset in [1, 2] {
                round_trip(&device, plan.with_predictor(predictor), &bytes, Some(&base), offset);
            }
        }
    }
}

#[test]
fn a_cascade_of_bf16_has_the_bytes_of_the_cpu_and_crosses_the_bus_below_72_percent() {
    let Some(device) = device() else { return };
    let n = 1_000_003;
    let bytes = gaussian_bf16(n);
    let (buffer, _) = buffer_with(&device, &bytes, 2);
    let region = Region::new(&buffer, 2, bytes.len() as u64).unwrap();
    for sampled in [true, false] {
        let fields = fields(16, 8, 1, None);
        let plan = Plan::new(2).with_transform(Transform::Cascade { fields, sampled });
        let mut encoder = Encoder::new(&device, plan).unwrap();
        let stats = encoder
            .encode(region, None, |chunk| {
                let words = &bytes[chunk.start as usize..][..chunk.len as usize];
                let (symbols, rest) = split_bf16(words);
                let counts = if sampled { cascade::sample(&symbols) } else { count(&symbols) };
                assert!(chunk.counts == counts);
                let Planes::Split { symbols: Symbols::Cascade(parts), rest_lo, .. } = &chunk.planes
                else {
                    panic!("no cascade")
                };
                assert!(parts.concat() == encode_cascade(&counts, &symbols));
                assert!(*rest_lo == rest);
                Ok(())
            })
            .unwrap();
        let share = stats.transferred as f64 / stats.bytes as f64;
        println!("bus bytes / raw bytes: {share:.4}, {stats:?}");
        assert!(share < 0.72, "{share}");
    }
}

#[test]
fn packed_rests_and_windowed_symbols_are_those_of_the_cpu() {
    let Some(device) = device() else { return };
    let n = 5000;
    let bytes = gaussian_bf16(n);
    let (buffer, _) = buffer_with(&device, &bytes, 0);
    let region = Region::new(&buffer, 0, bytes.len() as u64).unwrap();
    let fields = fields(16, 6, 350, None);
    let plan = Plan::new(2).with_transform(Transform::Split(fields)).with_chunk_words(8192);
    let (mut symbols, mut rest) = (vec![0; n], vec![0; n]);
    let planes = split::PlanesMut {
        symbols: &mut symbols,
        rest_lo: &mut rest,
        rest_hi: &mut [],
        tails: &mut [],
    };
    assert_eq!(split::split(Level::best(), &fields, &bytes, planes), 0);
    let mut packed = vec![0; pack::packed_len(6, n)];
    pack::pack(Level::best(), 6, &rest, &mut packed);
    Encoder::new(&device, plan)
        .unwrap()
        .encode(region, None, |chunk| {
            assert!(chunk.counts == count(&symbols));
            let Planes::Split { symbols: Symbols::Plain(got), rest_lo, .. } = chunk.planes else {
                panic!("not split")
            };
            assert!(got == symbols && rest_lo == packed);
            Ok(())
        })
        .unwrap();
}

#[test]
fn symbols_out_of_the_window_leave_the_words_as_they_are() {
    let Some(device) = device() else { return };
    let bytes = noise(10_000, 8);
    let (buffer, _) = buffer_with(&device, &bytes, 0);
    let region = Region::new(&buffer, 0, bytes.len() as u64).unwrap();
    let fields = fields(16, 6, 350, None);
    let plan = Plan::new(2).with_transform(Transform::Cascade { fields, sampled: false });
    let mut encoder = Encoder::new(&device, plan).unwrap();
    let sink = |chunk: lmc_gpu::gpu::Chunk<'_>| {
        assert!(matches!(chunk.planes, Planes::Words(words) if words == bytes));
        Ok(())
    };
    encoder.encode(region, None, sink).unwrap();
}

#[test]
fn tensors_and_bases_in_host_memory_have_the_planes_of_those_on_the_device() {
    let Some(device) = device() else { return };
    let n = 9001;
    let (words, before) = (weights(n, 2, 3), weights(n, 2, 4));
    let (buffer, _) = buffer_with(&device, &words, 3);
    let (base, _) = buffer_with(&device, &before, 6);
    let len = words.len() as u64;
    let place = Tensor::from(Region::new(&buffer, 3, len).unwrap());
    let base = Tensor::from(Region::new(&base, 6, len).unwrap());
    for predictor in [Predictor::Xor, Predictor::Diff] {
        let plan = Plan::new(2)
            .with_transform(Transform::Group)
            .with_predictor(predictor)
            .with_chunk_words(4096);
        let mut encoder = Encoder::new(&device, plan).unwrap();
        let mut planes = |tensor, base| {
            let mut all = Vec::new();
            let sink = |chunk: lmc_gpu::gpu::Chunk<'_>| {
                let Planes::Bytes(planes) = chunk.planes else { panic!("not grouped") };
                all.push((chunk.start, planes.concat()));
                Ok(())
            };
            encoder.encode(tensor, Some(base), sink).unwrap();
            all
        };
        let want = planes(place, base);
        assert_eq!(want.len(), 3);
        for (tensor, base) in [
            (place, Tensor::Host(&before)),
            (Tensor::Host(&words), base),
            (Tensor::Host(&words), Tensor::Host(&before)),
        ] {
            assert!(planes(tensor, base) == want, "{predictor:?}");
        }
        let short = Some(Tensor::Host(&before[1..]));
        assert!(matches!(encoder.encode(place, short, |_| Ok(())), Err(Error::InvalidArgument(_))));
    }
}

#[test]
fn a_tensor_larger_than_a_binding_comes_back_whole() {
    let Some(device) = device() else { return };
    // 130 MiB of a buffer of its own, more than the 128 MiB that a shader could bind.
    let len = 130 << 20;
    let buffer = device.storage("large", len).unwrap();
    let word = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes();
    let bytes: Vec<u8> = (0..len / 8).flat_map(word).collect();
    device.write_at(&buffer, 0, &bytes).unwrap();
    let plan = Plan::new(1).with_chunk_words(8 << 20);
    let mut encoder = Encoder::new(&device, plan).unwrap();
    let region = Region::new(&buffer, 1, len - 1).unwrap();
    let snapshot = encoder.snapshot(&region).unwrap();
    encoder
        .encode(&snapshot, None, |chunk| {
            let want = &bytes[1 + chunk.start as usize..][..chunk.len as usize];
            assert!(matches!(chunk.planes, Planes::Words(words) if words == want));
            Ok(())
        })
        .unwrap();
}

#[test]
fn damaged_planes_are_refused() {
    let Some(device) = device() else { return };
    let bytes = gaussian_bf16(9000);
    let (symbols, rest) = split_bf16(&bytes);
    let good = encode_cascade(&count(&symbols), &symbols);
    let (to, _) = buffer_with(&device, &bytes, 0);
    let target = Region::new(&to, 0, bytes.len() as u64).unwrap();
    let fields = fields(16, 8, 1, None);
    let plan = Plan::new(2).with_transform(Transform::Cascade { fields, sampled: false });
    let mut decoder = Decoder::new(&device, plan).unwrap();
    let mut decode = |cascade: &[u8], rest: &[u8]| {
        let symbols = Symbols::Cascade(vec![cascade.into()]);
        let planes = Planes::Split { symbols, rest_lo: rest, rest_hi: &[], tails: vec![] };
        decoder.put(&target, None, 0, &planes)?;
        decoder.finish()
    };
    decode(&good, &rest).unwrap();
    assert!(device.read(&to, bytes.len() as u64).unwrap() == bytes);
    let refused = |result| assert!(matches!(result, Err(Error::Corrupt(_))), "{result:?}");
    refused(decode(&good[..good.len() - 1], &rest));
    refused(decode(&good, &rest[1..]));
    refused(decode(&[], &rest));
    let header = 1 + 7 * usize::from(good[0]);
    for at in [0, 1, header - 2, header, header + 5, header + 2300] {
        // The number of levels, a symbol twice, a count, digits 3 where there were others; the
        // raw symbols may be anything.
        let mut bad = good.clone();
        bad[at] = match at {
            1 => bad[2],
            _ if at < header => bad[at] ^ 3,
            _ if bad[at] == 0xff => 0,
            _ => 0xff,
        };
        refused(decode(&bad, &rest));
    }
    decode(&good, &rest).unwrap();
}

/// Rounded normal variates with a spread of 0.02.
fn gaussian_bf16(n: usize) -> Vec<u8> {
    let uniform = noise(12 * n, 77);
    let sum = |b: &[u8]| b.iter().map(|x| f32::from(*x) - 127.5).sum::<f32>();
    let bf16 = |x: f32| ((x.to_bits() >> 16) as u16).to_le_bytes();
    uniform.chunks_exact(12).flat_map(|b| bf16(sum(b) / 256.0 * 0.02)).collect()
}

fn split_bf16(words: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let heads = words.as_chunks::<2>().0.iter().map(|w| u16::from_le_bytes(*w).rotate_left(1));
    heads.map(|h| ((h >> 8) as u8, h as u8)).unzip()
}

fn count(symbols: &[u8]) -> [u32; 256] {
    let mut counts = [0; 256];
    histogram::count(Level::best(), symbols, &mut counts);
    counts
}

fn encode_cascade(counts: &[u32; 256], symbols: &[u8]) -> Vec<u8> {
    let mut scratch = vec![0; cascade::scratch_len(symbols.len())];
    let mut out = vec![0; 2 * symbols.len() + 100];
    let plan = cascade::plan(counts);
    let len = cascade::encode(Level::best(), &plan, symbols, &mut scratch, &mut out).unwrap();
    out.truncate(len);
    out
}
