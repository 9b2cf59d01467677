//! How often words differ, by context, and the frequency tables that follow from it.
//!
//! ```text
//! rate r       one word in 2^(r/4) differs; 0: none does
//! bits p       bytes of 8 such bits have the probability a^b · (2^14 − a)^(8−b) / 2^112,
//!              b of their bits set, a = 2^14 · 2^(−r/4)
//! any of 8     is not zero about as often as a bit of the rate `up(r)` is set
//! ```
//!
//! A rate is stored in a byte where a table would take a hundred: there are few words that differ.
//! All tables that there can be are made once.

use crate::{
    bits::log2_q16,
    codec::prediction::predictor::take,
    entropy::{
        frequency::Table,
        rans::{DecodeTable, EncodeTable},
    },
};
use std::sync::OnceLock;

/// The highest rate.
pub const MOST: u8 = 80;
/// The highest rate of strings that are stored as they are.
const WHOLE: u8 = 12;
/// Bytes that are not zero have the same table from this rate on.
const RARE: u8 = 40;
/// Most runs of contexts.
const MOST_RUNS: usize = 16;
/// Runs of a chunk that is made. Of every rate all words are looked at: more runs than these cost a third
/// of the time, and save a hundredth of the bytes.
const RUNS: usize = 6;
/// Estimated bits of a run.
const RUN_BITS: i64 = 20;

/// The rate at which one of eight bits is set; `None` where strings of this rate are stored whole.
pub fn up(rate: u8) -> Option<u8> {
    (rate > WHOLE).then(|| rate - 10 - u8::from(rate >= 16) - u8::from(rate >= 24))
}

/// Index of the table of whole bytes.
pub fn whole(rate: u8) -> u8 {
    rate.clamp(1, WHOLE) - 1
}

/// Index of the table of bytes that are not zero, of a rate that has [`up`].
pub fn rest(rate: u8) -> u8 {
    rate.clamp(WHOLE + 1, RARE) - 1
}

/// Tables by index.
pub struct Tables {
    /// The encoder's view.
    pub encode: Vec<EncodeTable>,
    /// The decoder's view.
    pub decode: Vec<DecodeTable>,
}

/// All tables.
pub fn tables() -> &'static Tables {
    static TABLES: OnceLock<Tables> = OnceLock::new();
    TABLES.get_or_init(|| {
        let all: Vec<Table> = (1..=RARE).filter_map(|rate| Table::new(frequencies(rate))).collect();
        Tables {
            encode: all.iter().map(EncodeTable::new).collect(),
            decode: all.iter().map(DecodeTable::new).collect(),
        }
    })
}

/// Frequencies of bytes: whole ones up to the rate [`WHOLE`], above it those that are not zero.
fn frequencies(rate: u8) -> [u16; 256] {
    const QUARTERS: [u128; 4] = [16384, 13777, 11585, 9742];
    let a = QUARTERS[usize::from(rate % 4)] >> (rate / 4);
    let weight = |bits: u32| a.pow(bits) * ((1 << 14) - a).pow(8 - bits);
    let mut of_bits = [0u16; 9];
    let whole = rate <= WHOLE;
    for bits in u32::from(!whole)..9 {
        let frequency = match whole {
            true => weight(bits) >> 100,
            false => (weight(bits) << 12) / ((1 << 112) - weight(0)),
        };
        of_bits[bits as usize] = frequency.max(1) as u16;
    }
    let mut frequencies: [u16; 256] = std::array::from_fn(|b| of_bits[b.count_ones() as usize]);
    // The most frequent bytes get what is left.
    let most: &[usize] = match (whole, a > 1 << 13) {
        (true, false) => &[0],
        (true, true) => &[255],
        (false, _) => &[1, 2, 4, 8, 16, 32, 64, 128],
    };
    most.iter().for_each(|&b| frequencies[b] = 0);
    let left = 4096 - frequencies.iter().sum::<u16>();
    most.iter().for_each(|&b| frequencies[b] = left / most.len() as u16);
    frequencies[most[0]] += left % most.len() as u16;
    frequencies
}

/// Ranges of contexts, each with the rate at which its words differ.
#[derive(Debug, PartialEq)]
pub struct Runs {
    /// First context of every run but the first.
    starts: Vec<u8>,
    rates: Vec<u8>,
}

impl Runs {
    /// The runs for so many words of every context, about, so many of which differ.
    pub fn of(words: &[u32; 256], changed: &[u32; 256]) -> Runs {
        let all = (0..=255).zip(words.iter().zip(changed));
        let part = |(start, (&n, &changed)): (u8, (&u32, &u32))| Part {
            start,
            n: n.max(changed).into(),
            changed: changed.into(),
        };
        let mut parts: Vec<Part> = all.map(part).filter(|p| p.n > 0).collect();
        while let Some((gain, i)) =
            parts.windows(2).map(|w| w[0].gain(&w[1])).zip(0..).max_by_key(|&(g, i)| (g, -i))
        {
            if gain < 0 && parts.len() <= RUNS {
                break;
            }
            let next = parts.remove(i as usize + 1);
            let part = &mut parts[i as usize];
            (part.n, part.changed) = (part.n + next.n, part.changed + next.changed);
        }
        Runs {
            starts: parts.iter().skip(1).map(|p| p.start).collect(),
            rates: parts.iter().map(Part::rate).collect(),
        }
    }

    /// Appends them.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.push(self.rates.len() as u8);
        out.extend_from_slice(&self.starts);
        out.extend_from_slice(&self.rates);
    }

    /// Reads what [`Runs::write`] wrote.
    pub fn read(payload: &mut &[u8]) -> Option<Runs> {
        let [n] = take(payload)?;
        let n = usize::from(n);
        if !(1..=MOST_RUNS).contains(&n) {
            return None;
        }
        let (starts, rest) = payload.split_at_checked(n - 1)?;
        let (rates, rest) = rest.split_at_checked(n)?;
        *payload = rest;
        let ascending = starts.is_sorted_by(|a, b| a < b) && starts.first() != Some(&0);
        let good = ascending && rates.iter().all(|&rate| rate <= MOST);
        good.then(|| Runs { starts: starts.to_vec(), rates: rates.to_vec() })
    }

    /// The class of every context, 0 where no word differs, and the rates of classes 1 and up,
    /// ascending.
    pub fn classes(&self) -> ([u8; 256], Vec<u8>) {
        let mut rates: Vec<u8> = self.rates.iter().copied().filter(|&rate| rate > 0).collect();
        rates.sort_unstable();
        rates.dedup();
        let mut classes = [0; 256];
        let starts = std::iter::once(&0).chain(&self.starts);
        for (&start, rate) in starts.zip(&self.rates) {
            let class = rates.iter().position(|r| r == rate).map_or(0, |i| i as u8 + 1);
            classes[usize::from(start)..].fill(class);
        }
        (classes, rates)
    }
}

struct Part {
    start: u8,
    n: u64,
    changed: u64,
}

impl Part {
    /// Bits of the masks.
    fn bits(&self) -> i64 {
        let log = |x: u64| u64::from(log2_q16(u32::try_from(x).unwrap_or(u32::MAX)));
        let of = |x: u64| x * log(x);
        let same = self.n - self.changed;
        (of(self.n).saturating_sub(of(self.changed) + of(same)) >> 16) as i64
    }

    /// Bits that joining the next part saves.
    fn gain(&self, next: &Part) -> i64 {
        let (n, changed) = (self.n + next.n, self.changed + next.changed);
        self.bits() + next.bits() + RUN_BITS - Part { start: 0, n, changed }.bits()
    }

    fn rate(&self) -> u8 {
        let log = |x: u64| log2_q16(u32::try_from(x).unwrap_or(u32::MAX));
        if self.changed == 0 {
            return 0;
        }
        let quarters = (4 * log(self.n).saturating_sub(log(self.changed)) + (1 << 15)) >> 16;
        quarters.clamp(1, MOST.into()) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rate_has_a_table_of_the_bytes_that_it_makes() {
        assert_eq!(tables().decode.len(), usize::from(RARE));
        for rate in 1..=RARE {
            let f = frequencies(rate);
            let none = usize::from(rate > WHOLE);
            assert!(f[none..].iter().all(|&f| f > 0) && (f[0] > 0) == (none == 0));
        }
        assert_eq!(frequencies(4), [16; 256]);
    }

    #[test]
    fn strings_are_cut_to_rates_that_are_stored_whole() {
        for rate in 1..=MOST {
            let mut strings = 1;
            let mut top = rate;
            while let Some(next) = up(top) {
                assert!((1..top).contains(&next));
                top = next;
                strings += 1;
            }
            assert!(strings <= 7, "{rate}");
            // Of eight bits, one is set as often as the next rate says, within an eighth of an octave.
            if let Some(next) = up(rate) {
                let p = (-f64::from(rate) / 4.0).exp2();
                let any = 1.0 - (1.0 - p).powi(8);
                let told = (-f64::from(next) / 4.0).exp2();
                assert!((any / told).log2().abs() < 0.2, "{rate}: {any} {told}");
            }
        }
    }

    #[test]
    fn contexts_that_differ_alike_share_a_run_and_others_do_not() {
        let (mut words, mut changed) = ([0; 256], [0; 256]);
        for c in 100..110 {
            (words[c], changed[c]) = (10_000, if c < 105 { 0 } else { 600 });
        }
        let runs = Runs::of(&words, &changed);
        assert_eq!(runs, Runs { starts: vec![105], rates: vec![0, 16] });
        let mut bytes = Vec::new();
        runs.write(&mut bytes);
        assert_eq!(Runs::read(&mut &bytes[..]), Some(runs));
        for c in 0..256 {
            (words[c], changed[c]) = (10_000, c as u32 * c as u32 % 9000);
        }
        assert_eq!(Runs::of(&words, &changed).rates.len(), RUNS);
    }
}
