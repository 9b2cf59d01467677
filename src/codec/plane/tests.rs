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
