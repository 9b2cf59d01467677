//! Frequency tables of 12 bits.
//!
//! - [`normalise`]: counts → a table that codes them in few bits and is itself short;
//! - [`entropy`], [`cost`]: bits that counts need at best, and under a table;
//! - [`write()`], [`read`]: a table ↔ bytes.
//!
//! All of it is integer arithmetic: an archive must not depend on how a machine rounds.
//!
//! ## Coarse frequencies
//! A frequency of precision `k` has at most `k + 1` significant bits. In ascending order, the
//! frequencies of precision `k` are numbered by their rank `q`:
//!
//! ```text
//! q < 2^(k+1)     q stands for q itself
//! q >= 2^(k+1)    q = (e + 1) · 2^k + m stands for (2^k + m) · 2^e, 0 <= m < 2^k
//! ```
//!
//! so a rank grows like the logarithm of its frequency, which is what is smooth in the histogram
//! of an exponent. In a table of precision `k` all frequencies are of precision `k` but for the
//! first largest, which takes what is missing to 4096.

mod bytes;
mod cost;
mod normalise;

pub use bytes::{read, write};
pub use cost::{cost, entropy};
pub use normalise::normalise;

/// Bits of a frequency: the frequencies of a table sum to `1 << SCALE_BITS`.
pub const SCALE_BITS: u32 = 12;

/// Highest precision: every frequency is of precision 11.
const MAX_PRECISION: u32 = 11;

/// Frequencies of the 256 symbols. They sum to 4096, and at least two of them are not zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    freq: [u16; 256],
}

impl Table {
    /// A table of these frequencies, if they sum to 4096 and at least two are not zero.
    pub fn new(freq: [u16; 256]) -> Option<Table> {
        let sum: u32 = freq.iter().map(|&f| u32::from(f)).sum();
        let several = freq.iter().all(|&f| f < 1 << SCALE_BITS);
        (sum == 1 << SCALE_BITS && several).then_some(Table { freq })
    }

    /// The frequency of each symbol.
    pub fn freq(&self) -> &[u16; 256] {
        &self.freq
    }
}

/// The rank of the largest frequency of precision `k` that is not above `f`.
fn rank(f: u32, k: u32) -> u32 {
    if f >> k < 2 {
        return f;
    }
    let e = f.ilog2() - k;
    (e << k) + (f >> e)
}

/// The frequency of precision `k` with rank `q`, which is at most `rank(4096, k)`.
fn unrank(q: u32, k: u32) -> u32 {
    if q >> k < 2 {
        return q;
    }
    let e = (q >> k) - 1;
    (q - (e << k)) << e
}

/// Position of the first largest element.
fn first_largest(f: &[u32]) -> usize {
    let mut at = 0;
    for (i, &x) in f.iter().enumerate() {
        if x > f[at] {
            at = i;
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_number_the_coarse_frequencies() {
        for k in 0..=MAX_PRECISION {
            let top = rank(4096, k);
            for q in 0..=top {
                assert_eq!(rank(unrank(q, k), k), q);
                assert!(q == 0 || unrank(q - 1, k) < unrank(q, k));
            }
            assert_eq!(unrank(top, k), 4096);
            for f in 0..4096 {
                let q = rank(f, k);
                assert!(unrank(q, k) <= f && f < unrank(q + 1, k));
            }
        }
        assert!((0..4096).all(|f| rank(f, MAX_PRECISION) == f));
    }

    #[test]
    fn a_table_sums_to_4096_and_has_two_symbols() {
        let mut freq = [0; 256];
        assert_eq!(Table::new(freq), None);
        freq[3] = 4096;
        assert_eq!(Table::new(freq), None);
        freq[3] = 4095;
        assert_eq!(Table::new(freq), None);
        freq[255] = 1;
        assert!(Table::new(freq).is_some());
        freq[0] = 1;
        assert_eq!(Table::new(freq), None);
        assert_eq!(Table::new([u16::MAX; 256]), None);
    }
}
