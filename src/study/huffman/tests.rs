use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;

/// Symbols whose distribution falls off geometrically from `peak`, like exponents do.
fn geometric(n: usize, peak: u8, keep: f64, seed: u64) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..n)
        .map(|_| {
            let mut symbol = peak;
            while symbol > 0 && rng.random_bool(keep) {
                symbol -= 1;
            }
            symbol
        })
        .collect()
}

fn inputs() -> Vec<Vec<u8>> {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let mut all = Vec::new();
    let lens = (0..70).chain([127, 255, 256, 257, 1000, 4095, 65_535, 65_536, 65_537, 200_000]);
    for n in lens {
        all.push(vec![9; n]);
        all.push(geometric(n, 125, 0.6, n as u64));
        all.push((0..n).map(|i| (i % 251) as u8).collect());
    }
    for n in [65_536, 70_001] {
        all.push((0..n).map(|_| rng.random()).collect());
        all.push((0..n).map(|_| rng.random_range(0..2) * 255).collect());
        all.push((0..n).map(|_| rng.random::<u8>() & rng.random::<u8>()).collect());
        all.push((0..n).map(|i| if i % 999 == 0 { rng.random() } else { 3 }).collect());
        all.push(geometric(n, 255, 0.97, 1));
        // Counts that double: the tree is as deep as it can be, far over the limit.
        all.push((0..n as u32).map(|i| (i + 1).trailing_zeros() as u8).collect());
        // Every symbol, one of them nearly always.
        all.push((0..n).map(|i| if i < 256 { i as u8 } else { 77 }).collect());
    }
    all
}

#[test]
fn every_level_equals_scalar_and_round_trips() {
    let mut scratch = Scratch::default();
    for symbols in inputs() {
        let mut expected = Vec::new();
        encode(Level::SCALAR, &symbols, &mut scratch, &mut expected);
        assert!(expected.len() <= symbols.len() + symbols.len().div_ceil(BLOCK_LEN) + 1);
        for level in Level::available() {
            let mut coded = Vec::new();
            encode(level, &symbols, &mut scratch, &mut coded);
            assert!(coded == expected, "{level:?} n={}", symbols.len());
            let mut back = vec![1; symbols.len()];
            assert!(decode(level, &coded, &mut back), "{level:?} n={}", symbols.len());
            assert!(back == symbols, "{level:?} n={}", symbols.len());
        }
    }
}

#[test]
fn codes_come_near_the_entropy() {
    let symbols = geometric(1 << 20, 125, 0.7, 3);
    let entropy: f64 = symbols
        .chunks(BLOCK_LEN)
        .map(|block| {
            let counts = count::by_table(block);
            let n = block.len() as f64;
            counts
                .iter()
                .filter(|&&c| c > 0)
                .map(|&c| f64::from(c) * (n / f64::from(c)).log2() / 8.0)
                .sum::<f64>()
        })
        .sum();
    let mut coded = Vec::new();
    encode(Level::best(), &symbols, &mut Scratch::default(), &mut coded);
    let excess = coded.len() as f64 / entropy - 1.0;
    assert!(excess < 0.02, "{excess}");
}

#[test]
fn damaged_bytes_never_reach_outside() {
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let symbols = geometric(70_000, 90, 0.65, 5);
    let mut coded = Vec::new();
    encode(Level::best(), &symbols, &mut Scratch::default(), &mut coded);
    let mut back = vec![0; symbols.len()];
    for level in Level::available() {
        for len in (0..200).chain([1000, 20_000, coded.len() - 1]) {
            assert!(!decode(level, &coded[..len], &mut back));
        }
        for _ in 0..300 {
            let mut bad = coded.clone();
            let at = if rng.random_bool(0.5) { 40 } else { bad.len() };
            let at = rng.random_range(0..at);
            bad[at] ^= 1 << rng.random_range(0..8);
            let mut other = vec![0; symbols.len()];
            let scalar = decode(Level::SCALAR, &bad, &mut other);
            assert_eq!(decode(level, &bad, &mut back), scalar);
            if scalar {
                assert!(back == other);
            }
        }
        for _ in 0..300 {
            let noise: Vec<u8> = (0..rng.random_range(0..300)).map(|_| rng.random()).collect();
            let mut with_kind = vec![CODED];
            with_kind.extend(&noise);
            let mut small = vec![0; rng.random_range(1..1000)];
            let _ = decode(level, &with_kind, &mut small);
        }
    }
}

#[test]
#[ignore = "prints speeds"]
fn speeds() {
    let symbols = geometric(1 << 24, 125, 0.5, 3);
    let mut copy = vec![0; symbols.len()];
    for level in Level::available() {
        let (mut e, mut d, mut m) = (f64::MAX, f64::MAX, f64::MAX);
        let mut coded = Vec::with_capacity(symbols.len() + 1000);
        let mut scratch = Scratch::default();
        let mut back = vec![0; symbols.len()];
        for _ in 0..5 {
            let t = std::time::Instant::now();
            copy.copy_from_slice(&symbols);
            m = m.min(t.elapsed().as_secs_f64());
            coded.clear();
            let t = std::time::Instant::now();
            encode(level, &symbols, &mut scratch, &mut coded);
            e = e.min(t.elapsed().as_secs_f64());
            let t = std::time::Instant::now();
            assert!(decode(level, &coded, &mut back));
            d = d.min(t.elapsed().as_secs_f64());
        }
        let gb = symbols.len() as f64 / 1e9;
        println!(
            "{level:?}: encode {:.2} decode {:.2} memcpy {:.1} GB/s, {:.3} bits",
            gb / e,
            gb / d,
            gb / m,
            8.0 * coded.len() as f64 / symbols.len() as f64
        );
    }
}
