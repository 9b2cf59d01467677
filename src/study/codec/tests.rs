use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::*;
use crate::dtype::Dtype;

const DTYPES: [Dtype; 12] = [
    Dtype::BYTES,
    Dtype::U8,
    Dtype::I16,
    Dtype::U32,
    Dtype::I64,
    Dtype::F8_E4M3,
    Dtype::F8_E5M2,
    Dtype::F16,
    Dtype::BF16,
    Dtype::F32,
    Dtype::F64,
    Dtype::Q4_0,
];

/// Bytes that look like weights, like deltas, like noise, like nothing at all.
fn bytes(kind: u8, n: usize, seed: u64) -> Vec<u8> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    match kind {
        0 => (0..n / 4 + 1)
            .flat_map(|_| ((rng.random::<f32>() - 0.5) * rng.random::<f32>()).to_le_bytes())
            .take(n)
            .collect(),
        1 => (0..n).map(|_| if rng.random_bool(0.97) { 0 } else { rng.random() }).collect(),
        2 => (0..n).map(|_| rng.random()).collect(),
        3 => (0..n).map(|i| ((i / 700) as u8) & 3).collect(),
        4 => vec![0xff; n],
        _ => (0..n).map(|_| rng.random::<u8>() & rng.random::<u8>() & 0x7f).collect(),
    }
}

fn check(method: Method, dtype: Dtype, input: &[u8]) {
    let mut coded = vec![7];
    encode(Level::best(), method, dtype, input, &mut coded).unwrap();
    let place = format!("{} {dtype} n={}", method.name(), input.len());
    // A table of what occurs stands before the classes of `sem`; the 11 bits of an exponent of
    // 64-bit words take two bytes where LZMA gets nothing out of them.
    let table = if method == Method::Sem { 4 * input.len().min(1 << 12) } else { 0 };
    let most = input.len() + input.len() / 10 + 400 + table;
    assert!(coded.len() <= most, "{place}: {}", coded.len());
    let mut back = vec![0x55; input.len()];
    decode(Level::best(), method, dtype, &coded[1..], &mut back).unwrap();
    assert!(back == input, "{place}");
}

#[test]
fn every_method_round_trips_every_dtype_and_distribution() {
    for method in Method::ALL {
        for dtype in DTYPES {
            for kind in 0..6 {
                for n in [0, 1, 3, 8, 31, 1000, 4096, 5001] {
                    check(method, dtype, &bytes(kind, n, 1));
                }
            }
        }
    }
    for method in [Method::Lmc, Method::LmcPlain, Method::Sem] {
        for kind in 0..6 {
            check(method, Dtype::BF16, &bytes(kind, 700_001, 2));
            check(method, Dtype::F32, &bytes(kind, 700_001, 3));
        }
    }
}

#[test]
fn lmc_shortens_rows_of_zeros_among_noise_wherever_they_are() {
    let mut noise = bytes(2, 4 << 18, 8);
    for row in noise.chunks_mut(1 << 10).skip(5).step_by(12) {
        row.fill(0);
    }
    for method in [Method::Lmc, Method::LmcPlain] {
        let mut coded = Vec::new();
        encode(Level::best(), method, Dtype::F32, &noise, &mut coded).unwrap();
        let ratio = coded.len() as f64 / noise.len() as f64;
        assert!(ratio < 0.93, "{} {ratio}", method.name());
        check(method, Dtype::F32, &noise);
    }
}

#[test]
fn every_delta_is_undone() {
    for dtype in DTYPES {
        for n in [0, 1, 7, 8, 999] {
            let (new, base) = (bytes(0, n, 4), bytes(5, n, 5));
            for delta in Delta::ALL {
                let (mut deltas, mut back) = (vec![1; n], vec![2; n]);
                delta.apply(dtype, &new, &base, &mut deltas);
                delta.undo(dtype, &deltas, &base, &mut back);
                assert!(back == new, "{} {dtype} n={n}", delta.name());
            }
        }
    }
}

#[test]
fn damaged_payloads_fail_or_give_other_bytes_but_never_panic() {
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    for method in Method::ALL {
        for dtype in [Dtype::BF16, Dtype::F64, Dtype::U8] {
            for kind in [0, 1] {
                let input = bytes(kind, 3000, 6);
                let mut coded = Vec::new();
                encode(Level::best(), method, dtype, &input, &mut coded).unwrap();
                let mut back = vec![0; input.len()];
                for len in (0..coded.len()).step_by(17) {
                    assert!(
                        decode(Level::best(), method, dtype, &coded[..len], &mut back).is_err()
                    );
                }
                for _ in 0..200 {
                    let mut bad = coded.clone();
                    let at = rng.random_range(0..bad.len());
                    bad[at] ^= 1 << rng.random_range(0..8);
                    let _ = decode(Level::best(), method, dtype, &bad, &mut back);
                }
                let noise: Vec<u8> = (0..500).map(|_| rng.random::<u8>() & 3).collect();
                let _ = decode(Level::best(), method, dtype, &noise, &mut back);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bytes_round_trip(
        input in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..2000),
        method in 0..Method::ALL.len(),
        dtype in 0..Dtype::ALL.len(),
    ) {
        check(Method::ALL[method], Dtype::ALL[dtype], &input);
    }
}
