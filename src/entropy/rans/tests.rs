use super::*;
use crate::{
    entropy::{
        frequency::{self, Table},
        histogram,
    },
    simd::Level,
};
use proptest::prelude::*;

/// xorshift64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// `n` symbols of an alphabet of `size`, the commoner the smaller where `skewed`.
fn symbols(n: usize, size: usize, skewed: bool, seed: u64) -> Vec<u8> {
    let mut random = Random(seed * 2 + 1);
    let pick = |r: u64| {
        let r = if skewed {
            r.leading_zeros() as usize * 7 + (r & 7) as usize
        } else {
            (r >> 20) as usize
        };
        (r % size) as u8
    };
    (0..n).map(|_| pick(random.next())).collect()
}

fn table_of(symbols: &[u8], size: usize) -> Table {
    let mut counts = [0; 256];
    histogram::count(Level::SCALAR, symbols, &mut counts);
    for count in &mut counts[..size] {
        *count += 1;
    }
    frequency::normalise(&counts).unwrap()
}

/// Encodes on every level, and decodes that on every level whole and in pieces.
fn check(symbols: &[u8], contexts: &[u8], tables: &[Table]) {
    let n = symbols.len();
    let encoders: Vec<_> = tables.iter().map(EncodeTable::new).collect();
    let decoders: Vec<_> = tables.iter().map(DecodeTable::new).collect();
    for lanes in [Lanes::Four, Lanes::SixtyFour] {
        let mut reference = Vec::new();
        for level in Level::available() {
            let mut out = vec![0xaa; bound(n, lanes)];
            let start = if tables.len() == 1 {
                encode(level, lanes, symbols, &encoders[0], &mut out)
            } else {
                encode_contexts(level, lanes, symbols, contexts, &encoders, &mut out)
            };
            let stream = &out[start.expect("all symbols are present")..];
            assert!(stream.len() + 64 <= out.len());
            if level == Level::SCALAR {
                reference = stream.to_vec();
            }
            assert!(stream == reference, "{level:?} {lanes:?} n={n}");
        }
        for level in Level::available() {
            for piece in [n, 64, 320, 1 << 13] {
                let mut out = vec![0x55; n];
                let mut decoder = Decoder::new(lanes, n, &reference).unwrap();
                let mut done = 0;
                for out in out.chunks_mut(piece.max(1)) {
                    let end = done + out.len();
                    assert!(if tables.len() == 1 {
                        decoder.decode(level, &decoders[0], out)
                    } else {
                        decoder.decode_contexts(level, &contexts[done..end], &decoders, out)
                    });
                    done = end;
                }
                assert!(decoder.finish(), "{level:?} {lanes:?} n={n} piece={piece}");
                assert!(out == symbols, "{level:?} {lanes:?} n={n} piece={piece}");
            }
        }
    }
}

/// Encodes in pieces of `piece` symbols, the last of them first, each with a table of its own.
fn check_pieces(symbols: &[u8], tables: &[Table], piece: usize) {
    let n = symbols.len();
    let encoders: Vec<_> = tables.iter().map(EncodeTable::new).collect();
    let decoders: Vec<_> = tables.iter().map(DecodeTable::new).collect();
    let contexts: Vec<_> = (0..n).map(|i| (i / piece % tables.len()) as u8).collect();
    for lanes in [Lanes::Four, Lanes::SixtyFour] {
        for level in Level::available() {
            let mut whole = vec![0xaa; bound(n, lanes)];
            let want = encode_contexts(level, lanes, symbols, &contexts, &encoders, &mut whole);
            let mut out = vec![0x55; bound(n, lanes)];
            let mut encoder = Encoder::new(lanes, n, &mut out);
            for (i, symbols) in symbols.chunks(piece).enumerate().rev() {
                assert!(encoder.encode(level, &encoders[i % encoders.len()], symbols));
            }
            let start = encoder.finish();
            assert!(want == Some(start) && out[start..] == whole[start..], "{level:?} n={n}");
            let mut back = vec![0; n];
            let mut decoder = Decoder::new(lanes, n, &out[start..]).unwrap();
            for (i, back) in back.chunks_mut(piece).enumerate() {
                assert!(decoder.decode(level, &decoders[i % decoders.len()], back));
            }
            assert!(decoder.finish() && back == symbols, "{level:?} n={n}");
        }
    }
}

#[test]
fn pieces_with_a_table_each_equal_a_context_a_symbol() {
    for n in [0, 1, 63, 64, 100, 127, 128, 129, 191, 192, 193, 300, 1000, 5000, 70_000] {
        let symbols = symbols(n, 90, true, n as u64);
        let table = table_of(&symbols, 90);
        for piece in [64, 128, 192, 768, 1 << 15] {
            check_pieces(&symbols, &[table.clone(), table_of(&[1, 2, 3], 90)], piece);
        }
    }
}

const LENGTHS: [usize; 20] = [
    319,
    320,
    321,
    383,
    384,
    385,
    511,
    512,
    513,
    1023,
    1024,
    1025,
    4095,
    4096,
    4097,
    8191,
    8193,
    (1 << 18) - 1,
    1 << 18,
    (1 << 18) + 1,
];

#[test]
fn every_level_equals_scalar_on_every_length() {
    for n in (0..=300).chain(LENGTHS) {
        let symbols = symbols(n, 100, n % 2 == 0, n as u64);
        check(&symbols, &[], &[table_of(&symbols, 100)]);
    }
}

#[test]
fn every_level_equals_scalar_on_every_alphabet() {
    for size in [2, 3, 16, 100, 255, 256] {
        for skewed in [false, true] {
            let symbols = symbols(5000, size, skewed, size as u64);
            check(&symbols, &[], &[table_of(&symbols, size)]);
        }
    }
}

fn skewed_table(freq: u16) -> Table {
    let mut all = [0; 256];
    (all[7], all[200]) = (freq, 4096 - freq);
    Table::new(all).unwrap()
}

#[test]
fn every_level_equals_scalar_on_skewed_tables() {
    let slow = (1..4096).filter(|&f| EncodeTable::new(&skewed_table(f)).any_inc());
    let slow: Vec<u16> = slow.step_by(100).collect();
    assert!(slow.len() > 1, "the kernels for frequencies that need an increment are tested");
    for freq in [1, 2, 1000, 2049, 2897, 4000, 4095].into_iter().chain(slow) {
        let table = skewed_table(freq);
        for period in [1, 2, 37, 5000] {
            let symbols: Vec<u8> =
                (0..5000).map(|i| if i % period == 0 { 200 } else { 7 }).collect();
            check(&symbols, &[], std::slice::from_ref(&table));
        }
    }
}

#[test]
fn every_level_equals_scalar_with_contexts() {
    for n in (0..=300).step_by(7).chain(LENGTHS) {
        let n_tables = [2, 3, 8, 16][n % 4];
        let contexts = symbols(n, n_tables, false, n as u64 + 99);
        let symbols = symbols(n, 60, n % 3 == 0, n as u64);
        let tables: Vec<_> = (0..n_tables as u8)
            .map(|c| {
                let mine: Vec<_> =
                    symbols.iter().zip(&contexts).filter(|p| *p.1 == c).map(|p| *p.0).collect();
                table_of(&mine, 60)
            })
            .collect();
        check(&symbols, &contexts, &tables);
    }
}

#[test]
fn an_absent_symbol_is_refused_anywhere() {
    let table = EncodeTable::new(&skewed_table(4000));
    let mut out = vec![0; bound(1000, Lanes::SixtyFour)];
    for level in Level::available() {
        for lanes in [Lanes::Four, Lanes::SixtyFour] {
            for at in 0..1000 {
                let mut symbols = [7; 1000];
                assert!(encode(level, lanes, &symbols, &table, &mut out).is_some());
                symbols[at] = 8;
                assert_eq!(encode(level, lanes, &symbols, &table, &mut out), None);
            }
        }
    }
}

#[test]
fn the_multiplication_divides_exactly_by_every_frequency() {
    for freq in 1..4096_u16 {
        let table = EncodeTable::new(&skewed_table(freq));
        let (m, pack) = (table.entries[7] & 0xffff_ffff, (table.entries[7] >> 32) as u32);
        let inc = u64::from(pack & table::INC != 0);
        assert!(inc == 0 || table.any_inc());
        let f = u64::from(freq);
        assert_eq!(u64::from(pack >> 20), f);
        // A frequency of 1 has the quotient and the bias wrong, and their sum right.
        let bias = u64::from(pack >> table::BIAS_AT & table::BIAS_MASK);
        let end = (f << 20).min(1 << 32);
        for q in (0..300).chain((end / f - 300)..end / f).chain((0..end / f).step_by(7001)) {
            for x in [q * f, q * f + f - 1].into_iter().filter(|&x| x > 0) {
                let quotient = ((x + inc) * m) >> 32 >> (pack & 31);
                assert_eq!(x + bias + quotient * (4096 - f), q * 4096 + x % f, "{x} / {f}");
            }
        }
    }
}

fn decode_all(
    level: Level,
    lanes: Lanes,
    n: usize,
    stream: &[u8],
    table: &DecodeTable,
) -> Option<Vec<u8>> {
    let mut decoder = Decoder::new(lanes, n, stream)?;
    let mut out = vec![0; n];
    let ok = decoder.decode(level, table, &mut out);
    (decoder.finish() && ok).then_some(out)
}

#[test]
fn corrupt_streams_are_refused_alike_by_every_level() {
    let mut random = Random(5);
    let n = 1500;
    let plain = symbols(n, 100, true, 3);
    let table = table_of(&plain, 100);
    let (encoder, decoder) = (EncodeTable::new(&table), DecodeTable::new(&table));
    for lanes in [Lanes::Four, Lanes::SixtyFour] {
        let mut out = vec![0; bound(n, lanes)];
        let start = encode(Level::SCALAR, lanes, &plain, &encoder, &mut out).unwrap();
        let stream = &out[start..];
        let (mut accepted, mut tried) = (0, 0);
        let mut attempt = |bad: &[u8]| {
            let want = decode_all(Level::SCALAR, lanes, n, bad, &decoder);
            tried += 1;
            accepted += usize::from(want.is_some());
            for level in Level::available() {
                assert_eq!(decode_all(level, lanes, n, bad, &decoder), want);
            }
            want.is_none()
        };
        for len in 0..stream.len() {
            assert!(attempt(&stream[..len]), "cut to {len}");
            assert!(attempt(&stream[len..]) || len == 0, "beheaded by {len}");
        }
        for _ in 0..3000 {
            let mut bad = stream.to_vec();
            let bit = random.next() as usize % (8 * bad.len());
            bad[bit / 8] ^= 1 << (bit % 8);
            attempt(&bad);
            let noise: Vec<_> = bad.iter().map(|_| random.next() as u8).collect();
            attempt(&noise);
        }
        let mut long = stream.to_vec();
        long.extend([0, 0]);
        assert!(attempt(&long));
        // In so short a stream a flip often stays within its lane and ends in the literal tail,
        // which the checksum of the chunk covers.
        assert!(accepted * 5 < tried, "{accepted} of {tried} accepted");
    }
}

proptest! {
    #[test]
    fn any_symbols_round_trip(
        symbols in prop::collection::vec(any::<u8>(), 0..2000),
        mask: u8,
        n_tables in 1u8..=16,
        seed: u64,
    ) {
        let symbols: Vec<u8> = symbols.iter().map(|s| s & mask).collect();
        let mut random = Random(seed | 1);
        let contexts: Vec<u8> = symbols.iter().map(|_| (random.next() >> 9) as u8 % n_tables).collect();
        let tables: Vec<_> = (0..n_tables).map(|_| table_of(&symbols, 256)).collect();
        check(&symbols, &contexts, &tables);
    }

    #[test]
    fn decoding_random_bytes_never_panics(
        stream in prop::collection::vec(any::<u8>(), 0..1000),
        n in 0usize..3000,
        freq in 1u16..4096,
    ) {
        let table = DecodeTable::new(&skewed_table(freq));
        for lanes in [Lanes::Four, Lanes::SixtyFour] {
            let want = decode_all(Level::SCALAR, lanes, n, &stream, &table);
            for level in Level::available() {
                prop_assert_eq!(&decode_all(level, lanes, n, &stream, &table), &want);
            }
        }
    }
}
