//! A frequency table ↔ bytes.
//!
//! Bits in the order of [`BitWriter`](crate::bits::BitWriter):
//!
//! ```text
//! [8]  first      first present symbol
//! [8]  span       last present symbol - first, at least 1
//! [4]  precision  k, at most 11
//! [2]  period     0 none, 1, 2, 3: p = 1, 2, 4 symbols
//! for each symbol i from first to last
//!      residual   of its rank q[i] at precision k, see below
//! zero bits up to a whole byte
//! ```
//!
//! The ranks stand for frequencies; those of `first` and `last` are not zero. Their sum is at
//! least 4096, and its excess is taken from the first largest frequency, which stays above zero
//! (so this frequency alone may be of a higher precision).
//!
//! A rank is predicted from those before it, where `q[j] = 0` for `j < first`. With a period
//! `p`, the histogram repeats every `p` symbols up to a factor: there are `p` mantissas to an
//! exponent.
//!
//! ```text
//! prediction  = q[i-1]                            without a period, or if q[i-p] or q[i-p-1] is 0
//!             = q[i-1] + q[i-p] - q[i-p-1]        otherwise, but at least 0 and at most rank(4096, k)
//! d           = q[i] - prediction
//! residual    = 2·d if d >= 0, else -2·d - 1
//! ```
//!
//! and written in the Rice code of parameter `r`, which follows the mean of the residuals:
//!
//! ```text
//! a = 8 before the first symbol
//! r = floor(log2(max(a / 4, 1)))                  (integer division)
//! residual / 2^r < 16:   that many zero bits, a one bit, the low r bits of the residual
//! otherwise:             16 zero bits, the residual in 13 bits
//! a = a - a / 4 + residual
//! ```

use super::{MAX_PRECISION, Table, first_largest, rank, unrank};
use crate::bits::{BitReader, BitWriter};

/// Quotients from here on are escaped.
const ESCAPE: u32 = 16;
const ESCAPED_BITS: u32 = 13;
const PERIODS: [usize; 4] = [0, 1, 2, 4];

/// Appends the description of `table` to `out`: at the lowest precision that holds it, and with
/// the period that makes it shortest.
pub fn write(table: &Table, out: &mut Vec<u8>) {
    let freq = table.freq().map(u32::from);
    let present = |f: &u32| *f > 0;
    let (first, last) = (freq.iter().position(present), freq.iter().rposition(present));
    let (first, last) = (first.unwrap_or(0), last.unwrap_or(0));
    let top = first_largest(&freq);
    let exact = |k: u32| {
        let coarse = |(i, &f): (usize, &u32)| i == top || unrank(rank(f, k), k) == f;
        freq.iter().enumerate().all(coarse)
    };
    let k = (0..MAX_PRECISION).find(|&k| exact(k)).unwrap_or(MAX_PRECISION);
    let mut ranks = Ranks::default();
    for (i, &f) in freq.iter().enumerate() {
        ranks.set(i, rank(f, k));
    }
    ranks.set(top, ranks.get(top) + u32::from(unrank(ranks.get(top), k) < freq[top]));
    let lens = [
        code_len::<0>(k, &ranks, first..=last),
        code_len::<1>(k, &ranks, first..=last),
        code_len::<2>(k, &ranks, first..=last),
        code_len::<4>(k, &ranks, first..=last),
    ];
    let shortest = (0..PERIODS.len()).min_by_key(|&p| lens[p]).unwrap_or(0);

    let mut bits = BitWriter::new(out);
    bits.write(first as u32, 8);
    bits.write((last - first) as u32, 8);
    bits.write(k, 4);
    bits.write(shortest as u32, 2);
    let mut model = Model::new(k, PERIODS[shortest]);
    for i in first..=last {
        let residual = fold(ranks.get(i) as i32 - model.prediction(&ranks, i));
        let r = model.parameter();
        if residual >> r < ESCAPE {
            bits.write_rice(residual, r);
        } else {
            bits.write(0, ESCAPE);
            bits.write(residual, ESCAPED_BITS);
        }
        model.update(residual);
    }
    bits.finish();
}

/// The table at the front of `bytes`, and how many bytes describe it. `None` where they do not
/// describe a table.
pub fn read(bytes: &[u8]) -> Option<(Table, usize)> {
    let mut bits = BitReader::new(bytes);
    let first = bits.read(8)? as usize;
    let last = first + bits.read(8)? as usize;
    let k = bits.read(4)?;
    let period = PERIODS[bits.read(2)? as usize];
    if last == first || last > 255 || k > MAX_PRECISION {
        return None;
    }
    let largest = rank(4096, k);
    let mut model = Model::new(k, period);
    let mut ranks = Ranks::default();
    let mut freq = [0; 256];
    for (i, freq) in freq.iter_mut().enumerate().take(last + 1).skip(first) {
        let r = model.parameter();
        let residual = match bits.read_zeros(ESCAPE - 1) {
            Some(quotient) => quotient << r | bits.read(r)?,
            // A residual is escaped where it must be, and nowhere else.
            None => bits.read(ESCAPED_BITS).filter(|residual| residual >> r >= ESCAPE)?,
        };
        let rank = model.prediction(&ranks, i) + unfold(residual);
        let rank = u32::try_from(rank).ok().filter(|&q| q <= largest)?;
        ranks.set(i, rank);
        *freq = unrank(rank, k);
        model.update(residual);
    }
    let excess = freq.iter().sum::<u32>().checked_sub(4096)?;
    let top = &mut freq[first_largest(&freq)];
    *top = top.checked_sub(excess).filter(|&f| f > 0)?;
    if freq[first] == 0 || freq[last] == 0 {
        return None;
    }
    Some((Table::new(freq.map(|f| f as u16))?, bits.finish()?))
}

fn fold(d: i32) -> u32 {
    (d << 1 ^ d >> 31) as u32
}

fn unfold(residual: u32) -> i32 {
    (residual >> 1) as i32 ^ -((residual & 1) as i32)
}

/// Predicts ranks, and how far off the prediction will be.
struct Model {
    period: usize,
    largest: i32,
    /// Four times the running mean of the residuals.
    mean4: u32,
}

impl Model {
    fn new(precision: u32, period: usize) -> Self {
        Model { period, largest: rank(4096, precision) as i32, mean4: 8 }
    }

    fn prediction(&self, ranks: &Ranks, i: usize) -> i32 {
        predict(self.period, self.largest, ranks, i)
    }

    fn parameter(&self) -> u32 {
        (self.mean4 / 4).max(1).ilog2()
    }

    fn update(&mut self, residual: u32) {
        self.mean4 = self.mean4 - self.mean4 / 4 + residual;
    }
}

#[inline(always)]
fn predict(period: usize, largest: i32, ranks: &Ranks, i: usize) -> i32 {
    let at = |back: usize| ranks.before(i, back) as i32;
    let (now, before) = (at(period), at(period + 1));
    if period == 0 || now == 0 || before == 0 {
        return at(1);
    }
    (at(1) + now - before).clamp(0, largest)
}

/// Bits of all ranks with a period.
fn code_len<const PERIOD: usize>(
    precision: u32,
    ranks: &Ranks,
    symbols: std::ops::RangeInclusive<usize>,
) -> u32 {
    let mut model = Model::new(precision, PERIOD);
    let mut bits = 0;
    for i in symbols {
        let predicted = predict(PERIOD, model.largest, ranks, i);
        let residual = fold(ranks.get(i) as i32 - predicted);
        let r = model.parameter();
        model.update(residual);
        let quotient = residual >> r;
        bits += if quotient < ESCAPE { quotient + 1 + r } else { ESCAPE + ESCAPED_BITS };
    }
    bits
}

/// Ranks of all symbols, and zeros before the first one.
struct Ranks([u32; Ranks::BEFORE + 256]);

impl Default for Ranks {
    fn default() -> Self {
        Ranks([0; Ranks::BEFORE + 256])
    }
}

impl Ranks {
    /// The longest period, and one more.
    const BEFORE: usize = 5;

    fn get(&self, i: usize) -> u32 {
        self.0[Self::BEFORE + i]
    }

    fn set(&mut self, i: usize, rank: u32) {
        self.0[Self::BEFORE + i] = rank;
    }

    /// The rank `back` symbols before symbol `i`.
    #[inline(always)]
    fn before(&self, i: usize, back: usize) -> u32 {
        self.0[Self::BEFORE + i - back]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::frequency::normalise;
    use proptest::prelude::*;

    fn check(table: &Table) -> usize {
        let mut out = vec![1, 2, 3];
        write(table, &mut out);
        let len = out.len() - 3;
        out.extend([0xff; 4]);
        assert_eq!(read(&out[3..]), Some((table.clone(), len)));
        for cut in 0..len {
            assert_eq!(read(&out[3..3 + cut]), None, "cut to {cut} of {len}");
        }
        len
    }

    fn two(a: usize, b: usize, f: u16) -> Table {
        let mut freq = [0; 256];
        (freq[a], freq[b]) = (f, 4096 - f);
        Table::new(freq).unwrap()
    }

    #[test]
    fn tables_of_every_precision_round_trip() {
        for f in 1..4096 {
            assert!(check(&two(7, 8, f)) <= 10);
        }
        assert!(check(&two(0, 255, 2049)) < 64);
        check(&Table::new([16; 256]).unwrap());
        check(&Table::new(std::array::from_fn(|i| if i % 2 == 0 { 31 } else { 1 })).unwrap());
    }

    #[test]
    fn a_smooth_table_takes_three_bits_a_symbol() {
        // A bell in the logarithm, with four mantissas to an exponent.
        let bell = |i: i32| (2e5 * (-f64::from(i * i) / 1500.0).exp()) as u32;
        let counts = std::array::from_fn(|i| bell(i as i32 / 4 * 4 + i as i32 % 4 / 2 - 128));
        let table = normalise(&counts).unwrap();
        let present = table.freq().iter().filter(|&&f| f > 0).count();
        assert!(
            8 * check(&table) <= 3 * present + 24,
            "{present} symbols in {} bytes",
            check(&table)
        );
    }

    #[test]
    fn a_residual_that_needs_no_escape_has_none() {
        // Two symbols of frequency 2048, whose ranks at precision 0 are 12.
        let table = |escaped: bool| {
            let mut out = Vec::new();
            let mut bits = BitWriter::new(&mut out);
            for (value, n) in [(7, 8), (1, 8), (0, 4), (0, 2)] {
                bits.write(value, n);
            }
            if escaped {
                bits.write(0, ESCAPE);
                bits.write(fold(12), ESCAPED_BITS);
            } else {
                bits.write_rice(fold(12), 1);
            }
            bits.write_rice(fold(0), 2);
            bits.finish();
            out
        };
        let mut written = Vec::new();
        write(&two(7, 8, 2048), &mut written);
        assert_eq!(table(false), written);
        assert!(read(&written).is_some());
        assert_eq!(read(&table(true)), None);
    }

    proptest! {
        #[test]
        fn any_table_round_trips(counts in prop::collection::vec((any::<u32>(), 0u32..33), 0..256)) {
            let mut all = [0; 256];
            for (slot, (c, shift)) in all.iter_mut().zip(counts) {
                *slot = c.checked_shr(shift).unwrap_or(0);
            }
            if let Some(table) = normalise(&all) {
                check(&table);
            }
        }

        #[test]
        fn any_exact_table_round_trips(cuts in prop::collection::vec((0u16..4096, any::<u8>()), 1..200)) {
            let mut freq = [0; 256];
            let mut left = 4096;
            for (cut, symbol) in cuts {
                let f = cut % left.min(700);
                freq[symbol as usize] += f;
                left -= f;
            }
            freq[9] += left;
            if let Some(table) = Table::new(freq) {
                check(&table);
            }
        }

        #[test]
        fn reading_random_bytes_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..200), flip: u8) {
            let _ = read(&bytes);
            let mut out = Vec::new();
            write(&two(3, 80, 77), &mut out);
            let at = usize::from(flip) % (8 * out.len());
            out[at / 8] ^= 1 << (at % 8);
            if let Some((table, _)) = read(&out) {
                check(&table);
            }
        }
    }
}
