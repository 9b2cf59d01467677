use super::*;
use crate::codec::known::classes::Classes;

fn deltas() -> Vec<i32> {
    let mut all: Vec<i32> = (-300..300).collect();
    for bit in 0..32 {
        for near in -3..4 {
            all.push((1u32 << bit).wrapping_add_signed(near) as i32);
            all.push((1u32 << bit).wrapping_add_signed(near).wrapping_neg() as i32);
        }
    }
    all.extend((0..5000u32).map(|i| i.wrapping_mul(0x9E37_79B1) as i32 >> (i % 31)));
    all
}

#[test]
fn every_level_splits_and_joins_every_delta_alike() {
    let all = deltas();
    for word in [1, 2, 4] {
        let bytes = |x: i32| x.to_le_bytes()[..word].to_vec();
        let deltas: Vec<u8> = all.iter().flat_map(|&d| bytes(d)).collect();
        let base: Vec<u8> = all.iter().rev().flat_map(|&d| bytes(d)).collect();
        let mut want = vec![0; all.len()];
        for (s, &d) in want.iter_mut().zip(&all) {
            let up = 32 - 8 * word as u32;
            *s = Classes::of_word(word).symbol(i64::from(d << up >> up));
        }
        let mut outs = Vec::new();
        for level in Level::available() {
            let mut got = vec![0; all.len()];
            symbols(level, word, &deltas, &mut got);
            assert_eq!(got, want, "{level:?} {word}");
            let mut bits = vec![7];
            write_bits(level, word, &deltas, &got, &mut bits);
            let mut out = vec![0; deltas.len()];
            assert!(join(level, word, &got, &bits[1..], &base, &mut out));
            let mut back = vec![0; deltas.len()];
            crate::transform::delta::diff(level, word, &out, &base, &mut back);
            assert_eq!(back, deltas, "{level:?} {word}");
            outs.push((bits.clone(), out.clone()));
            bits.push(0);
            assert!(!join(level, word, &got, &bits[1..], &base, &mut out));
            bits.truncate(bits.len() / 2);
            assert!(!join(level, word, &got, &bits[1..], &base, &mut out));
        }
        assert!(outs.windows(2).all(|w| w[0] == w[1]));
    }
}

#[test]
fn contexts_fall_into_the_cluster_that_starts_last() {
    let contexts: Vec<u8> = (0..3000).map(|i| i as u8).collect();
    for level in Level::available() {
        let mut out = Vec::new();
        clusters(level, &[3, 100, 255], &contexts, &mut out);
        assert_eq!((out[0], out[2], out[3], out[99], out[100]), (0, 0, 1, 1, 2));
        assert_eq!((out[254], out[255], out[256 + 3]), (2, 3, 1));
    }
}
