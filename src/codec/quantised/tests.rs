use super::*;
use layout::Zero;
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Normal};

fn quantised() -> impl Iterator<Item = (Dtype, &'static Layout)> {
    Dtype::ALL.into_iter().filter_map(|d| Some((d, layout::of(d)?)))
}

const METHODS: [Method; 4] = [Method::Auto, Method::Fast, Method::Max, Method::Cascade];

fn decoded(level: Level, dtype: Dtype, payload: &[u8], len: usize) -> Option<Vec<u8>> {
    let mut out = vec![0xa5; len];
    let (mut scratch, mut coder) = Default::default();
    decode(level, dtype, payload, &mut scratch, &mut coder, &mut out)?;
    Some(out)
}

/// Encodes at every level, compares, decodes, and returns the payload of the form.
fn check(dtype: Dtype, method: Method, groups: &[u8]) -> Vec<u8> {
    let (mut scratch, mut coder) = Default::default();
    let mut payload = Vec::new();
    for level in Level::available() {
        let mut out = vec![1, 2, 3];
        let form =
            encode(level, method, dtype, groups, &mut scratch, &mut coder, &mut out).unwrap();
        if form == Form::Zstd {
            // Behind what stood there and the guard of the frame.
            assert_eq!(zstd::bulk::decompress(&out[7..], groups.len()).unwrap(), groups);
            return out.split_off(3);
        }
        assert_eq!(form, Form::Quantised);
        let payload_here = out.split_off(3);
        assert!(payload.is_empty() || payload == payload_here, "{dtype} {level:?}");
        payload = payload_here;
        let found = decoded(level, dtype, &payload, groups.len());
        assert!(found.as_deref() == Some(groups), "{dtype} {method} {level:?}");
    }
    payload
}

fn half(x: f64) -> u16 {
    ::half::f16::from_f64(x).to_bits()
}

/// Groups of normally distributed numbers on a grid from their least to their largest, with scales
/// and mins as the layouts have them.
fn realistic(layout: &Layout, n: usize, rng: &mut ChaCha8Rng) -> Vec<u8> {
    let normal = Normal::new(0.0, 1.0).unwrap();
    let mut groups = vec![0; n * layout.len];
    let most = f64::from(layout.elements.most());
    for group in groups.chunks_exact_mut(layout.len) {
        let spread: f64 = normal.sample(rng);
        let size = 0.02 * (0.4 * spread).exp();
        let (mut elements, mut scales, mut mins) = (vec![], vec![], vec![]);
        let (mut d, mut m) = (0.0, 0.0);
        for _ in 0..layout.subs() {
            let x: Vec<f64> = (0..layout.sub_len()).map(|_| size * normal.sample(rng)).collect();
            let least = x.iter().fold(0.0, |a: f64, &b| a.min(b));
            let largest = x.iter().fold(0.0, |a: f64, &b| a.max(b));
            let (low, step) = match layout.zero {
                Zero::Fixed => {
                    let most_abs = largest.max(-least);
                    (-most_abs, 2.0 * most_abs / most)
                }
                _ => (least, (largest - least) / most),
            };
            let center = if layout.elements.bits == 8 { 128.0 } else { 0.0 };
            elements.extend(x.iter().map(|v| ((v - low) / step - center).round() as i32 as u8));
            // Steps are about 4 to 6 standard deviations wide.
            d = size * 8.0 / most / 40.0;
            m = size * 5.0 / 40.0;
            scales.push((step / d) as i32);
            mins.push((-low / m) as i32);
            if layout.scales.is_none() {
                (d, m) = (step, least);
            }
        }
        for (&at, half_of) in layout.halves.iter().zip([half(d), half(m)]) {
            group[at..at + 2].copy_from_slice(&half_of.to_le_bytes());
        }
        let planes = [(layout.scales, &scales), (layout.mins, &mins)];
        for (values, from) in planes {
            if let Some(values) = values {
                let most = i32::from(values.most());
                let plane: Vec<u8> = from.iter().map(|&v| v.clamp(0, most) as u8).collect();
                gather::join(Level::SCALAR, layout.len, &values, &plane, group);
            }
        }
        gather::join(Level::SCALAR, layout.len, &layout.elements, &elements, group);
    }
    groups
}

#[test]
fn every_layout_method_level_and_length_round_trips() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    for (dtype, layout) in quantised() {
        for n in [1, 2, 3, 17, 130, 700] {
            let mut random = vec![0; n * layout.len];
            rng.fill(&mut random[..]);
            let sparse: Vec<u8> = random.iter().map(|b| b & 0x11).collect();
            for method in METHODS {
                check(dtype, method, &random);
                check(dtype, method, &sparse);
                check(dtype, method, &vec![0; random.len()]);
                check(dtype, method, &realistic(layout, n, &mut rng));
            }
        }
    }
}

#[test]
fn planes_beat_bytes_on_normal_numbers() {
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for (dtype, layout) in quantised() {
        let n = (600 << 10) / layout.elements.count;
        let groups = realistic(layout, n, &mut rng);
        let coded = check(dtype, Method::Auto, &groups).len();
        let zstd = zstd::bulk::compress(&groups, 6).unwrap().len();
        println!("{dtype} {:.4}, zstd {:.4}", ratio(coded, &groups), ratio(zstd, &groups));
        assert!(coded < zstd && coded < groups.len(), "{dtype} {coded} {zstd}");
    }
}

fn ratio(len: usize, of: &[u8]) -> f64 {
    len as f64 / of.len() as f64
}

#[test]
fn zstd_takes_what_repeats() {
    let mut group = vec![0; 20 * 300];
    ChaCha8Rng::seed_from_u64(3).fill(&mut group[..]);
    let groups = group.repeat(60);
    let (mut scratch, mut coder, mut out) = Default::default();
    let level = Level::best();
    let form =
        encode(level, Method::Auto, Dtype::Q4_1, &groups, &mut scratch, &mut coder, &mut out);
    assert_eq!(form.unwrap(), Form::Zstd);
    assert!(out.len() < groups.len() / 20);
}

#[test]
fn values_are_gathered_bit_by_bit() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for (dtype, layout) in quantised() {
        let mut groups = vec![0; 5 * layout.len];
        rng.fill(&mut groups[..]);
        let all = [layout.scales, layout.mins, Some(layout.elements)];
        for values in all.into_iter().flatten() {
            let mut expected = vec![0; 5 * values.count];
            for (group, out) in groups.chunks(layout.len).zip(expected.chunks_mut(values.count)) {
                for m in values.moves {
                    for i in 0..m.len {
                        let field = u32::from(group[m.from + i]) >> m.bit & ((1 << m.width) - 1);
                        out[m.to + i] |= (field << m.shift) as u8;
                    }
                }
                if let Some(s) = values.spread {
                    for (i, out) in out.iter_mut().enumerate() {
                        *out |= (group[s.from + i / 8] >> (i % 8) & 1) << s.shift;
                    }
                }
            }
            for level in Level::available() {
                let mut plane = vec![7; expected.len()];
                gather::split(level, layout.len, &values, &groups, &mut plane);
                assert_eq!(plane, expected, "{dtype} {level:?}");
                let mut back = vec![0; groups.len()];
                gather::join(level, layout.len, &values, &plane, &mut back);
                let mut again = vec![7; expected.len()];
                gather::split(Level::SCALAR, layout.len, &values, &back, &mut again);
                assert_eq!(again, expected, "{dtype} {level:?}");
                assert!(back.iter().zip(&groups).all(|(b, g)| b & !g == 0));
            }
        }
    }
}

#[test]
fn damaged_payloads_never_panic() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    for (dtype, layout) in quantised() {
        let groups = realistic(layout, 6000 / layout.elements.count, &mut rng);
        for method in [Method::Auto, Method::Fast] {
            let payload = check(dtype, method, &groups);
            let level = Level::best();
            for _ in 0..150 {
                let mut bad = payload.clone();
                let near: bool = rng.random();
                let at = rng.random_range(0..bad.len().min(if near { 64 } else { 1 << 20 }));
                bad[at] ^= 1 << rng.random_range(0..8);
                let _ = decoded(level, dtype, &bad, groups.len());
                let cut = rng.random_range(0..payload.len());
                assert_eq!(decoded(level, dtype, &payload[..cut], groups.len()), None);
            }
            for len in [0, layout.len, groups.len() - layout.len, groups.len() + layout.len] {
                let _ = decoded(level, dtype, &payload, len);
            }
        }
    }
}

proptest! {
    #[test]
    fn decoding_random_bytes_never_panics(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        dtype in prop::sample::select(quantised().map(|(d, _)| d).collect::<Vec<_>>()),
        n in 0usize..40,
    ) {
        let _ = decoded(Level::best(), dtype, &bytes, n * dtype.word_len());
    }
}

#[test]
fn the_last_elements_have_no_more_bits_than_others() {
    let layout = layout::of(Dtype::Q4_0).unwrap();
    let n = 32 * 64;
    let table = crate::entropy::frequency::normalise(&std::array::from_fn(|i| {
        if i < 16 { 100 + i as u32 } else { 0 }
    }));
    let table = table.unwrap();
    for (last, good) in [(15, true), (16, false), (255, false)] {
        let mut elements: Vec<u8> = (0..n).map(|i| (i * i % 23 % 16) as u8).collect();
        elements[n - 3] = last;
        let mut data = vec![crate::entropy::rans::Lanes::Four.log2()];
        plane::write_tables(&vec![table.clone(); context::count(layout)], &mut data);
        data.extend(plane::tests::stream(&table, &elements));
        let coded = Coded { coder: Coder::Contexts, data: &data };
        for level in Level::available() {
            let mut decoder = elements::Decoder::new(layout, coded, n).unwrap();
            let (mut contexts, mut found) = (vec![0; n / 2], vec![0; n]);
            for (at, found) in found.chunks_mut(n / 2).enumerate() {
                let done = decoder.piece(level, layout, &[3; 32], &mut contexts, found);
                assert_eq!(done.is_some(), good || at == 0, "{last} {level:?}");
            }
            assert!(!good || found == elements);
        }
    }
}
