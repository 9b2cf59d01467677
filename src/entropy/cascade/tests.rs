use super::*;
use crate::{
    hash::{Stream, digest_of},
    simd::Level,
};

fn noise(n: usize, seed: u32) -> Vec<u32> {
    let mut x = seed | 1;
    (0..n)
        .map(|_| {
            x = x.wrapping_mul(0x915F_77F5).wrapping_add(0x3C6E_F35F);
            x >> 8 ^ x << 9
        })
        .collect()
}

/// Planes of one kind each: exponents as of weights, all one symbol, alphabets of every size.
fn planes(n: usize) -> Vec<Vec<u8>> {
    let noise = noise(n, 5);
    let of = |f: &dyn Fn(u32) -> u8| noise.iter().map(|&x| f(x)).collect();
    vec![
        of(&|x| 122 - (x | 1 << 20).trailing_zeros() as u8),
        of(&|_| 7),
        of(&|_| 255),
        of(&|x| (x >> 5 & 1) as u8),
        of(&|x| (x >> 5 & 7) as u8 * 31),
        of(&|x| ((x >> 7) % 255) as u8),
        of(&|x| (x >> 7) as u8),
        of(&|x| if x >> 5 & 63 == 0 { (x >> 12) as u8 } else { 0 }),
    ]
}

fn lengths() -> impl Iterator<Item = usize> {
    (0..300).chain([1023, 1024, 1025, (1 << 18) - 1, 1 << 18, (1 << 18) + 1])
}

fn encoded(level: Level, plan: &Plan, plane: &[u8]) -> Vec<u8> {
    let mut out = vec![0xAA; plane.len() * 2 + 100];
    let len = encode(level, plan, plane, &mut vec![0x55; scratch_len(plane.len())], &mut out);
    out.truncate(len.unwrap());
    out
}

/// The cascade, symbol by symbol.
fn reference(plan: &Plan, plane: &[u8]) -> Vec<u8> {
    let (mut levels, mut counts, mut left) = (vec![], vec![], plane.to_vec());
    for common in &plan.symbols[..plan.levels()] {
        let (mut digits, mut escapes) =
            (vec![0; digits_len(left.len())], vec![0; left.len() + PAD]);
        let n = scalar::encode(*common, &left, &mut digits, &mut escapes);
        escapes.truncate(n);
        let mut symbols = vec![0; left.len()];
        let padded = [&escapes[..], &[0; PAD]].concat();
        assert_eq!(scalar::decode(*common, &digits, &padded, &mut symbols), Some(n));
        assert!(symbols == left);
        levels.extend(digits);
        counts.extend((n as u32).to_le_bytes());
        left = escapes;
    }
    let symbols = plan.symbols[..plan.levels()].as_flattened();
    [&[plan.levels() as u8], symbols, &counts, &levels, &left].concat()
}

#[test]
fn every_level_equals_scalar_on_every_length_and_alphabet() {
    for n in lengths() {
        for (kind, plane) in planes(n).iter().enumerate() {
            // The plan of another plane makes nearly all symbols escapes.
            for plan in [plan(&sample(plane)), plan(&sample(&[1, 2, 3]))] {
                let want = reference(&plan, plane);
                for level in Level::available() {
                    assert!(encoded(level, &plan, plane) == want, "{level:?} n={n} kind={kind}");
                    let (mut back, mut scratch) = (vec![0xAA; n], vec![0xAA; scratch_len(n)]);
                    assert!(decode(level, &want, &mut scratch, &mut back));
                    assert!(&back == plane, "{level:?} n={n} kind={kind}");
                }
            }
        }
    }
}

#[test]
fn bf16_words_give_the_bytes_of_their_exponents() {
    for n in lengths() {
        for (kind, plane) in planes(n).iter().enumerate() {
            let bits = noise(n, 99);
            let words =
                plane.iter().zip(&bits).map(|(e, x)| u16::from(*e) << 7 | *x as u16 & 0x807F);
            let bytes: Vec<u8> = words.flat_map(u16::to_le_bytes).collect();
            let want_rest: Vec<u8> =
                bits.iter().map(|x| (*x as u16 & 0x807F).rotate_left(1) as u8).collect();
            assert_eq!(sample_bf16(&bytes), sample(plane));
            for plan in [plan(&sample(plane)), plan(&sample(&[1, 2, 3]))] {
                let want = encoded(Level::SCALAR, &plan, plane);
                for level in Level::available() {
                    let (mut rest, mut scratch) = (vec![0xAA; n], vec![0xAA; scratch_len(n)]);
                    let mut out = vec![0xAA; want.len()];
                    let mut hash = Stream::new(level);
                    let hashed = Some(&mut hash);
                    let len = encode_bf16(
                        level,
                        &plan,
                        &bytes,
                        &mut rest,
                        &mut scratch,
                        &mut out,
                        hashed,
                    );
                    assert_eq!(hash.finish_of(&bytes), digest_of(&bytes), "{level:?} n={n}");
                    assert_eq!(len, Some(want.len()));
                    assert!(out == want && rest == want_rest, "{level:?} n={n} kind={kind}");
                    for (far, offset) in
                        [(false, 0), (true, 0), (true, 8), (true, 16), (true, 56), (true, 2)]
                    {
                        let mut back = vec![0xAA; 2 * n + 128];
                        let start = back.as_ptr().align_offset(64) + offset;
                        let back = &mut back[start..][..2 * n];
                        let ok = decode_bf16(level, &want, &rest, &mut scratch, back);
                        assert!(ok && back == bytes, "{level:?} n={n} kind={kind}");
                        back.fill(0x55);
                        let mut hash = Stream::new(level);
                        let mut decoder = Decoder::new(level, n, &want, &mut scratch).unwrap();
                        assert!(decoder.decode_bf16(&rest, back, far, Some(&mut hash)));
                        assert!(back == bytes, "{level:?} n={n} kind={kind}");
                        assert_eq!(hash.finish_of(&bytes), digest_of(&bytes), "{level:?} n={n}");
                    }
                }
            }
        }
    }
}

#[test]
fn every_bf16_word_survives() {
    let bytes: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let n = bytes.len() / 2;
    for level in Level::available() {
        let plan = plan(&sample_bf16(&bytes));
        let (mut rest, mut scratch) = (vec![0; n], vec![0; scratch_len(n)]);
        let mut out = vec![0; 2 * n];
        let len =
            encode_bf16(level, &plan, &bytes, &mut rest, &mut scratch, &mut out, None).unwrap();
        let mut back = vec![0; 2 * n];
        assert!(decode_bf16(level, &out[..len], &rest, &mut scratch, &mut back));
        assert!(back == bytes);
    }
}

#[test]
fn planes_decode_in_pieces() {
    for n in [0, 1, 63, 64, 65, 1000, 70_000] {
        let plane = &planes(n)[0];
        let bytes = encoded(Level::SCALAR, &plan(&sample(plane)), plane);
        let rest: Vec<u8> = (0..n).map(|i| (i * 31) as u8).collect();
        for level in Level::available() {
            for piece in [64, 192, 16_384] {
                let (mut scratch, mut back) = (vec![0; scratch_len(n)], vec![0; n]);
                let mut decoder = Decoder::new(level, n, &bytes, &mut scratch).unwrap();
                assert!(back.chunks_mut(piece).all(|p| decoder.decode(p)));
                assert!(&back == plane);
                let mut words = vec![0; 2 * n];
                let mut decoder = Decoder::new(level, n, &bytes, &mut scratch).unwrap();
                let pieces = words.chunks_mut(2 * piece).zip(rest.chunks(piece));
                assert!(pieces.into_iter().all(|(w, r)| decoder.decode_bf16(r, w, true, None)));
                let want =
                    |(s, r): (&u8, &u8)| u16::from_le_bytes([*r, *s]).rotate_right(1).to_le_bytes();
                assert!(plane.iter().zip(&rest).flat_map(want).eq(words));
            }
        }
    }
}

#[test]
fn encoding_stops_where_the_room_ends() {
    let plane = &planes(1000)[0];
    let plan = plan(&sample(plane));
    let want = encoded(Level::SCALAR, &plan, plane);
    let mut scratch = vec![0; scratch_len(1000)];
    for level in Level::available() {
        for room in 0..want.len() {
            assert_eq!(encode(level, &plan, plane, &mut scratch, &mut vec![0; room]), None);
        }
    }
}

#[test]
fn corrupt_cascades_are_refused_or_decode_alike_at_every_level() {
    for n in [1, 5, 130, 700] {
        let plane = &planes(n)[0];
        let good = encoded(Level::SCALAR, &plan(&sample(plane)), plane);
        let mut bad = vec![];
        for cut in 0..good.len() {
            bad.push(good[..cut].to_vec());
        }
        for (i, x) in noise(4 * good.len(), 3).into_iter().enumerate() {
            let mut bytes = good.clone();
            bytes[i / 4] ^= 1 << (x % 8);
            bytes[x as usize / 8 % good.len()] ^=
                (x >> 16) as u8 & if i % 2 == 0 { 0 } else { 255 };
            bad.push(bytes);
        }
        bad.push([good.clone(), vec![0]].concat());
        for bytes in bad {
            let decoded = |level| {
                let (mut back, mut scratch) = (vec![0; n], vec![0; scratch_len(n)]);
                decode(level, &bytes, &mut scratch, &mut back).then_some(back)
            };
            let want = decoded(Level::SCALAR);
            for level in Level::available() {
                assert_eq!(decoded(level), want, "{level:?} n={n}");
            }
        }
    }
}

#[test]
fn plans_prefer_common_then_low_symbols_and_worthwhile_levels() {
    let mut counts = [0; 256];
    assert_eq!(plan(&counts).symbols[0], [0, 1, 2]);
    assert_eq!(plan(&counts).levels(), 1);
    (counts[9], counts[200], counts[1], counts[5]) = (10, 10, 3, 1);
    let made = plan(&counts);
    assert_eq!((made.symbols[0], made.symbols[1]), ([9, 200, 1], [5, 0, 2]));
    assert_eq!(made.levels(), 2);
    assert_eq!(made.digits_and_raw_len(&counts), 6 + 1);
    assert_eq!(plan(&[100; 256]).levels(), 1);
}
