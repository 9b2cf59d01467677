use super::*;
use crate::codec::pieces::{PIECE, Pieces};

/// A stream in 4 lanes of values of which the last 8 need not be in the table, as they stand in
/// the states: the encoder makes none of others than the table has.
pub fn stream(table: &Table, values: &[u8]) -> Vec<u8> {
    let (coded, last) = values.split_at(values.len().saturating_sub(8));
    let mut states = [1u32 << 16; 4];
    for (t, &value) in last.iter().enumerate() {
        states[t % 4] |= u32::from(value) << (8 * (t / 4));
    }
    let mut words = Vec::new();
    for (i, &value) in coded.iter().enumerate().rev() {
        let x = &mut states[i % 4];
        let of = |values: &[u16]| values.iter().map(|&f| u32::from(f)).sum::<u32>();
        let (below, at) = table.freq().split_at(value.into());
        let freq = u32::from(at[0]);
        if *x >> 20 >= freq {
            words.push(*x as u16);
            *x >>= 16;
        }
        *x = *x / freq * 4096 + *x % freq + of(below);
    }
    let states = states.into_iter().flat_map(u32::to_le_bytes);
    states.chain(words.into_iter().rev().flat_map(u16::to_le_bytes)).collect()
}

/// A plane of rANS whose table is of values below 4, though its last value is `last`.
fn rans_plane(n: usize, last: u8) -> Vec<u8> {
    let mut values: Vec<u8> = (0..n).map(|i| (i * i % 7 % 4) as u8).collect();
    let mut counts = [0; 256];
    histogram::count(Level::SCALAR, &values, &mut counts);
    values[n - 1] = last;
    let table = frequency::normalise(&counts).unwrap();
    let mut data = vec![rans::Lanes::Four.log2()];
    frequency::write(&table, &mut data);
    data.extend(stream(&table, &values));
    data
}

#[test]
fn the_last_values_of_a_stream_have_no_more_bits_than_others() {
    for n in [5, 9, 200, PIECE + 5] {
        for (last, good) in [(2, true), (3, true), (4, false), (255, false)] {
            let data = rans_plane(n, last);
            let coded = Coded { coder: Coder::Rans, data: &data };
            for level in Level::available() {
                let (mut scratch, mut plane) = (CoderScratch::default(), Vec::new());
                let mut out = vec![0; n];
                let whole = coded.decode(level, 2, &mut scratch, &mut out);
                assert_eq!(whole.is_some(), good, "{n} {last} {level:?}");
                let pieces = Pieces::new(level, coded, 2, n, &mut scratch, &mut plane);
                let mut pieces = pieces.unwrap();
                let mut next = |at| {
                    let piece = &mut out[at..n.min(at + PIECE)];
                    pieces.next(level, at, piece).is_some()
                };
                let all = (0..n).step_by(PIECE).map(&mut next).filter(|good| !good).count();
                assert_eq!(all == 0, good, "{n} {last} {level:?}");
            }
        }
    }
}

/// Exponents of rows of several scales, of any width.
fn exponents(n: usize) -> Vec<u8> {
    let mut x = 1u32;
    let mut next = || {
        x = x.wrapping_mul(0x915F_77F5).wrapping_add(0x3C6E_F35F);
        122 - (x >> 7 | 1 << 20).trailing_zeros() as u8
    };
    (0..n).map(|i| next() + (i / 256 * 7 % 40) as u8).collect()
}

fn coded(level: Level, policy: Policy, values: &[u8], bits: u8) -> Vec<u8> {
    let mut out = vec![9];
    encode(level, policy, values, bits, &mut CoderScratch::default(), &mut out);
    out.split_off(1)
}

/// Whole, and piece by piece, if both find the same.
fn decoded(level: Level, plane: &[u8], n: usize) -> Option<Vec<u8>> {
    let (mut scratch, mut room) = (CoderScratch::default(), Vec::new());
    let mut out = vec![0; n];
    let coded = take(&mut &plane[..])?;
    let whole = coded.decode(level, 8, &mut scratch, &mut out).map(|()| out.clone());
    let pieces = Pieces::new(level, coded, 8, n, &mut scratch, &mut room);
    let found = pieces.and_then(|mut pieces| {
        for at in (0..n).step_by(PIECE) {
            let mut buffer = vec![0; PIECE.min(n - at)];
            let piece = pieces.next(level, at, &mut buffer)?.to_vec();
            out[at..at + piece.len()].copy_from_slice(&piece);
        }
        pieces.finish().then_some(out)
    });
    assert_eq!(whole, found, "{level:?} {n}");
    whole
}

#[test]
fn shifted_cascades_are_the_same_at_every_level_and_come_back() {
    for n in [300, 2047, 2048, 5000, (1 << 15) + 77, 1 << 17] {
        let values = exponents(n);
        for log2 in [6, 8, 11] {
            let plane = coded(Level::SCALAR, Policy::Shifted(log2), &values, 8);
            assert!(log2 == 11 || plane[0] == Coder::Shifted as u8, "{n}");
            for level in Level::available() {
                assert!(coded(level, Policy::Shifted(log2), &values, 8) == plane, "{level:?} {n}");
                assert!(decoded(level, &plane, n).as_ref() == Some(&values), "{level:?} {n}");
            }
        }
        let [plain, shifted] = [Policy::Coder(Coder::Cascade), Policy::Shifted(8)]
            .map(|policy| coded(Level::best(), policy, &values, 8).len());
        assert!(n < 5000 || shifted * 3 < plain * 2, "{n}: {shifted} {plain}");
    }
}

#[test]
fn values_that_no_base_brings_together_are_packed() {
    let mut x = 1u32;
    let noise = |_| {
        x = x.wrapping_mul(0x915F_77F5).wrapping_add(0x3C6E_F35F);
        (x >> 24) as u8
    };
    let values: Vec<u8> = (0..40_000).map(noise).collect();
    let plane = coded(Level::best(), Policy::Shifted(8), &values, 8);
    assert_eq!((plane[0], plane.len()), (Coder::Packed as u8, PREFIX + values.len()));
    assert_eq!(coded(Level::best(), Policy::Shifted(8), &[7; 999], 8), [0, 1, 0, 0, 0, 7]);
    for n in 0..80 {
        let plane = coded(Level::best(), Policy::Shifted(7), &values[..n], 8);
        assert!(n == 0 || decoded(Level::best(), &plane, n).as_deref() == Some(&values[..n]));
    }
}

#[test]
fn damaged_shifted_cascades_are_found_or_read_alike_at_every_level() {
    let values = exponents(900);
    let plane = coded(Level::best(), Policy::Shifted(6), &values, 8);
    for at in PREFIX..plane.len() {
        for bit in 0..8 {
            let mut bad = plane.clone();
            bad[at] ^= 1 << bit;
            let first = decoded(Level::SCALAR, &bad, values.len());
            for level in Level::available() {
                assert!(decoded(level, &bad, values.len()) == first, "{level:?} {at}");
            }
        }
        let mut short = plane[..at].to_vec();
        put_prefix(&mut short[..PREFIX], Coder::Shifted, at - PREFIX);
        assert!(decoded(Level::best(), &short, values.len()).is_none(), "{at}");
    }
    let mut nested = plane.clone();
    nested[PREFIX + 1] = Coder::Shifted as u8;
    assert!(decoded(Level::best(), &nested, values.len()).is_none());
}
