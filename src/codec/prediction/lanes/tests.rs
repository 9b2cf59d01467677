use super::*;
use crate::codec::prediction::{classes::Classes, words::symbols};

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

/// Deltas and base of words of `word` bytes, with the symbols of the deltas.
fn words(word: usize, all: &[i32]) -> (Vec<u8>, Vec<u8>, Vec<u8>) {
    let bytes = |x: &i32| x.to_le_bytes()[..word].to_vec();
    let up = 32 - 8 * word as u32;
    let symbol = |d: &i32| Classes::of_word(word).symbol(i64::from(d << up >> up));
    let base = all.iter().rev().flat_map(bytes).collect();
    (all.iter().flat_map(bytes).collect(), base, all.iter().map(symbol).collect())
}

fn check(word: usize, all: &[i32]) {
    let (deltas, base, want) = words(word, all);
    let mut outs = Vec::new();
    for level in Level::available() {
        let mut got = vec![0; all.len()];
        symbols(level, word, &deltas, &mut got);
        assert_eq!(got, want, "{level:?} {word}");
        let mut units = vec![7];
        write(level, word, &deltas, &got, &mut units);
        let mut out = vec![0; deltas.len()];
        assert!(join(level, word, &got, &units[1..], &base, &mut out), "{level:?} {}", all.len());
        let mut back = vec![0; deltas.len()];
        crate::transform::delta::diff(level, word, &out, &base, &mut back);
        assert_eq!(back, deltas, "{level:?} {word}");
        outs.push((units.clone(), out.clone()));
        units.push(0);
        assert!(!join(level, word, &got, &units[1..], &base, &mut out));
        units.pop();
        while units.len() > 1 {
            units.truncate(1 + (units.len() - 1) / 2);
            if units.len() < outs[0].0.len() {
                assert!(!join(level, word, &got, &units[1..], &base, &mut out));
            }
        }
    }
    assert!(outs.windows(2).all(|w| w[0] == w[1]), "{word} {}", all.len());
}

#[test]
fn every_level_splits_and_joins_every_delta_alike() {
    let all = deltas();
    for word in [1, 2, 4] {
        check(word, &all);
        for n in (0..140).chain([255, 256, 257]) {
            check(word, &all[n..2 * n]);
            check(word, &all[all.len() - n..]);
        }
    }
}

#[test]
fn a_lane_that_lacks_bits_takes_the_next_unit() {
    // Magnitudes of 15 bits: 12 follow, so every lane takes a unit in the first row of 32 words,
    // and another one in the second row.
    let all: Vec<i32> = (0..64).map(|i| -(0x4000 | i << 4)).collect();
    let (deltas, base, symbols) = words(2, &all);
    let mut units = Vec::new();
    write(Level::SCALAR, 2, &deltas, &symbols, &mut units);
    let units: Vec<u16> = units.as_chunks().0.iter().map(|u| u16::from_le_bytes(*u)).collect();
    let want = |i: u16| (i << 4) | (i + 32) << 4 << 12;
    assert_eq!(units[..32], (0..32).map(want).collect::<Vec<_>>());
    assert_eq!(units[32..], (0..32).map(|i| (i + 32) << 4 >> 4).collect::<Vec<u16>>());
    let bytes: Vec<u8> = units.iter().flat_map(|u| u.to_le_bytes()).collect();
    let mut out = vec![0; 128];
    assert!(join(Level::SCALAR, 2, &symbols, &bytes, &base, &mut out));
    // What is left in a lane at the end is zero.
    for level in Level::available() {
        let mut bad = bytes.clone();
        *bad.last_mut().unwrap() |= 0x80;
        assert!(!join(level, 2, &symbols, &bad, &base, &mut out));
    }
}
