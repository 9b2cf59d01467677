//! Counts → a frequency table.
//!
//! First every present symbol gets its share of 4096, rounded, but at least one. Then shares are
//! rounded again, to the precision at which the bits lost and the bits saved in describing the
//! table are about even. Both times what rounding left over goes to, or comes from, the symbols
//! where it gains most or costs least. The gain of `s` more units, `c · log(1 + s/f)`, is
//! compared as `c / (f + s/2)`, which needs no logarithm.

use std::{cmp::Reverse, collections::BinaryHeap};

use super::{MAX_PRECISION, SCALE_BITS, Table, first_largest, rank, unrank};

const SCALE: u32 = 1 << SCALE_BITS;

/// A table for `counts` that is cheap to code with and to describe. `None` where fewer than two
/// symbols are present.
pub fn normalise(counts: &[u32; 256]) -> Option<Table> {
    let present = counts.iter().filter(|&&c| c > 0).count() as u64;
    if present < 2 {
        return None;
    }
    let total = counts.iter().map(|&c| u64::from(c)).sum();
    let mut freq = apportion(counts, total)?;
    // Precision k costs about n / (170 · 4^k) bytes in coding and saves half a bit a symbol over
    // k + 1 in the description.
    let suffices = |&k: &u32| (16 * present) << (2 * k) >= total;
    let k = (1..MAX_PRECISION).find(suffices).unwrap_or(MAX_PRECISION);
    if k < MAX_PRECISION {
        coarsen(counts, &mut freq, k);
    }
    Table::new(freq.map(|f| f as u16))
}

/// `2^20 · c / d`, to compare gains.
fn ratio(c: u32, d: u32) -> u64 {
    (u64::from(c) << 20) / u64::from(d)
}

/// Frequencies of full precision that sum to 4096. At least two symbols are present.
fn apportion(counts: &[u32; 256], total: u64) -> Option<[u32; 256]> {
    let share = |c: u32, units: u64, total: u64| match c {
        0 => 0,
        c => ((2 * u64::from(c) * units + total) / (2 * total)) as u32,
    };
    // Symbols that round to zero still take a whole unit, so the others share what is left.
    let mut freq = counts.map(|c| share(c, u64::from(SCALE), total));
    let (mut units, mut rest) = (u64::from(SCALE), total);
    for (&c, &f) in counts.iter().zip(&freq) {
        if c > 0 && f == 0 {
            units -= 1;
            rest -= u64::from(c);
        }
    }
    for (f, &c) in freq.iter_mut().zip(counts) {
        *f = if *f == 0 { u32::from(c > 0) } else { share(c, units, rest).max(1) };
    }
    let sum: u32 = freq.iter().sum();
    let missing = SCALE.saturating_sub(sum);
    if missing > 0 {
        let gain =
            |s: usize, f: u32| (counts[s] > 0).then(|| (ratio(counts[s], 2 * f + 1), Reverse(s)));
        let mut gains: BinaryHeap<_> = (0..256).filter_map(|s| gain(s, freq[s])).collect();
        for _ in 0..missing {
            let (_, Reverse(s)) = gains.pop()?;
            freq[s] += 1;
            gains.extend(gain(s, freq[s]));
        }
    } else if sum > SCALE {
        let loss = |s: usize, f: u32| (f > 1).then(|| Reverse((ratio(counts[s], 2 * f - 1), s)));
        let mut losses: BinaryHeap<_> = (0..256).filter_map(|s| loss(s, freq[s])).collect();
        for _ in SCALE..sum {
            let Reverse((_, s)) = losses.pop()?;
            freq[s] -= 1;
            losses.extend(loss(s, freq[s]));
        }
    }
    Some(freq)
}

/// Rounds all but the first largest of `freq` to precision `k`, keeping the sum. It works on the
/// symbols that are present, and keeps what each would gain or lose: each step is a scan.
fn coarsen(counts: &[u32; 256], freq: &mut [u32; 256], k: u32) {
    let present: Vec<usize> = (0..256).filter(|&s| freq[s] > 0).collect();
    let counts: Vec<u32> = present.iter().map(|&s| counts[s]).collect();
    let mut f: Vec<u32> = present.iter().map(|&s| nearest(freq[s], k)).collect();
    let sum = f.iter().sum();
    if sum > SCALE {
        shrink(&counts, &mut f, k, sum);
    } else {
        grow(&counts, &mut f, k, sum);
    }
    present.iter().zip(f).for_each(|(&s, f)| freq[s] = f);
}

/// The frequency of precision `k` that is nearest.
fn nearest(f: u32, k: u32) -> u32 {
    let q = rank(f, k);
    let (below, above) = (unrank(q, k), unrank(q + 1, k));
    if f - below <= above - f { below } else { above }
}

/// Makes frequencies smaller where that costs least, until their sum is at most 4096, and grows
/// them where it then is less.
fn shrink(counts: &[u32], f: &mut [u32], k: u32, mut sum: u32) {
    let below = |f: u32| unrank(rank(f, k) - 1, k);
    let loss = |c: u32, f: u32| if f > 1 { ratio(c, f + below(f)) } else { u64::MAX };
    let mut losses: Vec<u64> = counts.iter().zip(&*f).map(|(&c, &f)| loss(c, f)).collect();
    while sum > SCALE {
        let least = losses.iter().fold(u64::MAX, |a, &b| a.min(b));
        let i = losses.iter().position(|&loss| loss == least);
        let Some(i) = i.filter(|_| least < u64::MAX) else { return };
        sum -= f[i] - below(f[i]);
        f[i] = below(f[i]);
        losses[i] = loss(counts[i], f[i]);
    }
    grow(counts, f, k, sum);
}

/// Makes frequencies larger where that gains most, until their sum is 4096. The first largest
/// takes what is left as soon as it gains more that way.
fn grow(counts: &[u32], f: &mut [u32], k: u32, mut sum: u32) {
    let top = first_largest(f);
    let above = |f: u32| unrank(rank(f, k) + 1, k);
    let mut aboves: Vec<u32> = f.iter().map(|&f| above(f)).collect();
    let gain = |c: u32, f: u32, above: u32| ratio(c, f + above);
    let mut gains: Vec<u64> = (0..f.len()).map(|i| gain(counts[i], f[i], aboves[i])).collect();
    while sum < SCALE {
        let missing = SCALE - sum;
        let (mut best, mut most) = (None, ratio(counts[top], 2 * f[top] + missing) + 1);
        let now = f.iter().zip(&aboves).zip(&gains);
        for (i, ((&f_i, &above), &gain)) in now.enumerate() {
            if gain >= most && above <= f[top].min(f_i + missing) {
                (best, most) = (Some(i), gain);
            }
        }
        let Some(i) = best else {
            f[top] += missing;
            return;
        };
        sum += aboves[i] - f[i];
        f[i] = aboves[i];
        aboves[i] = above(f[i]);
        gains[i] = gain(counts[i], f[i], aboves[i]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::frequency::{cost, entropy};
    use proptest::prelude::*;

    fn check(counts: &[u32; 256]) {
        let total = counts.iter().map(|&c| u64::from(c)).sum();
        let present = counts.iter().filter(|&&c| c > 0).count();
        let Some(table) = normalise(counts) else { return assert!(present < 2) };
        for (&c, &f) in counts.iter().zip(table.freq()) {
            assert_eq!(c > 0, f > 0);
        }
        let best = Table::new(apportion(counts, total).unwrap().map(|f| f as u16)).unwrap();
        let (coarse, fine) = (cost(counts, &table), cost(counts, &best));
        // At most a few bits a present symbol are lost to rounding.
        assert!(coarse >> 8 <= (fine >> 8) + 8 * present as u64 + total / 200, "{coarse} {fine}");
    }

    #[test]
    fn every_present_symbol_gets_a_frequency() {
        let mut counts = [0; 256];
        check(&counts);
        counts[0] = 5;
        check(&counts);
        counts[255] = u32::MAX;
        check(&counts);
        check(&[1; 256]);
        check(&[u32::MAX; 256]);
        check(&std::array::from_fn(|i| if i == 7 { 1 << 30 } else { 1 }));
        check(&std::array::from_fn(|i| if i < 16 { 1 << i } else { 0 }));
        check(&std::array::from_fn(|i| (i as u32 + 1).pow(3)));
    }

    #[test]
    fn full_precision_is_the_optimum() {
        // Moving one unit from any symbol to any other gains nothing.
        let counts: [u32; 256] =
            std::array::from_fn(|i| [0, 3, 900, 17, 60_000, 1 << 20][i * i % 6]);
        let total = counts.iter().map(|&c| u64::from(c)).sum();
        let freq = apportion(&counts, total).unwrap();
        let loss =
            |s: usize| f64::from(counts[s]) * (f64::from(freq[s]) / f64::from(freq[s] - 1)).ln();
        let gain = |s: usize| f64::from(counts[s]) * (1.0 + 1.0 / f64::from(freq[s])).ln();
        for a in (0..256).filter(|&s| freq[s] > 1) {
            for b in (0..256).filter(|&s| freq[s] > 0 && s != a) {
                assert!(gain(b) <= loss(a) * 1.1 + 1e-9, "{a} {b} {} {}", freq[a], freq[b]);
            }
        }
        let table = normalise(&counts).unwrap();
        assert!(cost(&counts, &table) < entropy(&counts) / 100 * 101);
    }

    proptest! {
        #[test]
        fn any_counts_give_a_table(counts in prop::collection::vec((any::<u32>(), 0u32..32), 0..256)) {
            let mut all = [0; 256];
            for (slot, (c, shift)) in all.iter_mut().zip(counts) {
                *slot = c >> shift;
            }
            check(&all);
        }
    }
}
