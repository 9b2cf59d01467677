use super::*;

/// Pseudo-random bits.
fn random(i: u32, k: u32) -> u32 {
    let x = (i.wrapping_mul(0x9E37_79B1) ^ k.wrapping_mul(0x27D4_EB2F)).wrapping_mul(0x85EB_CA6B);
    let x = (x ^ x >> 13).wrapping_mul(0xC2B2_AE35);
    x ^ x >> 16
}

/// About normal, of many sizes.
fn normal(i: u32, k: u32) -> f32 {
    let sum: f32 = (0..4).map(|j| random(i, 4 * k + j) as f32 / 4294967296.0 - 0.5).sum();
    sum * 1e-3 * (1.0 + (i % 5) as f32)
}

fn bf16(x: f32) -> f32 {
    f32::from_bits((x.to_bits() + 0x7fff + (x.to_bits() >> 16 & 1)) & 0xffff_0000)
}

/// Moments, and those after a step with sums of `n_summed` gradients of 16 bits.
fn moments(s: Fold, n: u32, n_summed: u32) -> (Vec<u8>, Vec<u8>) {
    let m0: Vec<u8> = (0..n).flat_map(|i| (normal(i, 1) * 0.3).to_le_bytes()).collect();
    let sum = |i: u32| (0..n_summed).map(|k| bf16(normal(i, 2 + k))).fold(0f32, |a, b| a + b);
    let gradients: Vec<f64> =
        (0..n).map(|i| if i % 17 == 0 { 0.0 } else { f64::from(sum(i)) }).collect();
    let mut m1 = vec![0; m0.len()];
    apply(Level::SCALAR, &s, &m0, &gradients, &mut m1);
    (m0, m1)
}

fn bits(gradients: &[f64]) -> f64 {
    let length = |x: &f64| match x.is_nan() {
        true => 32,
        false => 53 - (x.to_bits() & MANTISSA | 1 << 52).trailing_zeros(),
    };
    gradients.iter().map(|x| f64::from(length(x))).sum::<f64>() / gradients.len() as f64
}

#[test]
fn every_level_solves_and_applies_the_same_whatever_the_words_and_scalars() {
    let odd = [0, 1, 0x8000_0000, 0x7f80_0000, 0xff80_0000, 0x7fc0_0001, 0xffa0_0000, 0x0070_0000];
    for n in (0..40).chain([1000]) {
        let words = |k: u32| -> Vec<u8> {
            let word = |i: u32| match random(i, k) % 5 {
                0 => odd[random(i, k + 100) as usize % odd.len()],
                1 => random(i, k + 200),
                _ => normal(i, k).to_bits(),
            };
            (0..n).flat_map(|i| word(i).to_le_bytes()).collect()
        };
        let (m0, m1) = (words(1), words(2));
        for order in 0..FOLD_ORDERS {
            for clip in [1.0, 0.6789, f32::NAN, f32::INFINITY, 0.0, 1e-40] {
                let s = Fold::new(order, 0.9, clip);
                let mut want = vec![0.0; n as usize];
                solve(Level::SCALAR, &s, &m0, &m1, &mut want);
                let mut made = vec![0; 4 * n as usize];
                apply(Level::SCALAR, &s, &m0, &want, &mut made);
                let words = made.as_chunks::<4>().0.iter().zip(m1.as_chunks::<4>().0);
                for ((made, word), gradient) in words.zip(&want) {
                    assert!(gradient.is_nan() || made == word);
                    assert!(!gradient.is_finite() || gradient.to_bits() & BELOW == 0);
                }
                for level in Level::available() {
                    let mut got = vec![1.0; n as usize];
                    solve(level, &s, &m0, &m1, &mut got);
                    let same = got.iter().zip(&want).all(|(a, b)| a.to_bits() == b.to_bits());
                    assert!(same, "{level:?} {n} {order} {clip}");
                    let mut again = vec![1; 4 * n as usize];
                    apply(level, &s, &m0, &want, &mut again);
                    assert!(again == made, "{level:?} {n} {order} {clip}");
                }
            }
        }
    }
}

#[test]
fn gradients_are_found_as_short_as_they_were() {
    for order in 0..FOLD_ORDERS {
        for (n_summed, most) in [(1, 9.0), (2, 11.0), (8, 15.0)] {
            for clip in [1.0, 0.639_577] {
                let s = Fold::new(order, 0.9, clip);
                let (m0, m1) = moments(s, 4000, n_summed);
                let mut found = vec![0.0; 4000];
                solve(Level::best(), &s, &m0, &m1, &mut found);
                let bits = bits(&found);
                assert!(bits < most, "{s:?} {n_summed}: {bits}");
            }
        }
    }
}

#[test]
fn scalars_are_found_to_the_last_bit() {
    for (order, beta, clip, n_summed) in [
        (0, 0.9, 1.0, 1),
        (0, 0.9, 0.639_577_03, 2),
        (1, 0.9, 0.811_111, 2),
        (4, 0.95, 0.511_1, 2),
        (5, 0.9, 0.999, 1),
        (6, 0.9, 0.75432, 4),
        (3, 0.4, 0.75432, 2),
    ] {
        let s = Fold::new(order, beta, clip);
        let (m0, m1) = moments(s, 16384, n_summed);
        let stretch = Stretch { m0: &m0, m1: &m1 };
        let found = find(Level::best(), stretch, &[0.8, 0.9, 0.95, 0.4], false, &[]);
        assert_eq!(found, Some(s), "{n_summed}");
    }
}

#[test]
fn sums_that_take_gradients_as_they_are_are_found_too() {
    for (order, beta, clip, n_summed) in [(5, 0.9, 1.0, 1), (6, 0.95, 1.0, 2), (5, 0.9, 0.7123, 2)]
    {
        let s = Fold::sum(order, beta, clip);
        let (m0, m1) = moments(s, 16384, n_summed);
        let stretch = Stretch { m0: &m0, m1: &m1 };
        let found = find(Level::best(), stretch, &[0.8, 0.9, 0.95], true, &[]);
        assert_eq!(found, Some(s), "{n_summed}");
    }
}

#[test]
fn what_no_short_gradient_made_is_not_found() {
    let (m0, _) = moments(Fold::new(0, 0.9, 1.0), 16384, 1);
    let m1: Vec<u8> = (0..16384).flat_map(|i| normal(i, 99).to_le_bytes()).collect();
    let stretch = Stretch { m0: &m0, m1: &m1 };
    assert_eq!(find(Level::best(), stretch, &[0.9, 0.95], true, &[]), None);
    for word in [f32::NAN, f32::INFINITY, 0.0] {
        let same = vec![word.to_le_bytes(); 1000].concat();
        let stretch = Stretch { m0: &same, m1: &same };
        assert_eq!(find(Level::best(), stretch, &[0.9], true, &[]), None);
    }
}
