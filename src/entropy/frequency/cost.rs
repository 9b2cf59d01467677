//! Bits that counts need, in integer arithmetic.

use super::{SCALE_BITS, Table};

/// Bits that coding `counts` with `table` takes, in units of 1/256 bit; `u64::MAX` where the table
/// lacks a symbol.
pub fn cost(counts: &[u32; 256], table: &Table) -> u64 {
    let mut sum = 0;
    for (&count, &freq) in counts.iter().zip(table.freq()) {
        if count > 0 {
            if freq == 0 {
                return u64::MAX;
            }
            sum += u64::from(count) * (u64::from(SCALE_BITS << 16) - log2(u64::from(freq)));
        }
    }
    sum >> 8
}

/// The order-0 entropy of all that `counts` counted, in units of 1/256 bit.
pub fn entropy(counts: &[u32; 256]) -> u64 {
    let total: u64 = counts.iter().map(|&c| u64::from(c)).sum();
    let bits = |c: u64| if c == 0 { 0 } else { c * (log2(total) - log2(c)) };
    counts.iter().map(|&c| bits(u64::from(c))).sum::<u64>() >> 8
}

/// `log2(x)` in units of 2⁻¹⁶, within two units; `x` is not zero.
fn log2(x: u64) -> u64 {
    let e = x.ilog2();
    let mantissa = x << (63 - e);
    let i = (mantissa >> 55 & 0xff) as usize;
    let part = mantissa >> 39 & 0xffff;
    let (low, high) = (u64::from(LOG2[i]), u64::from(LOG2[i + 1]));
    (u64::from(e) << 16) + low + (((high - low) * part) >> 16)
}

/// `log2(1 + i/256)` in units of 2⁻¹⁶.
const LOG2: [u32; 257] = {
    let mut table = [0; 257];
    let mut i = 0;
    while i < 256 {
        // Each squaring of 1 <= x < 2 yields the next bit of its logarithm.
        let mut x = (256 + i as u64) << 23;
        let mut log = 0;
        let mut bit = 20;
        while bit > 0 {
            bit -= 1;
            x = (x * x) >> 31;
            if x >> 32 > 0 {
                log |= 1 << bit;
                x >>= 1;
            }
        }
        table[i] = (log + 8) >> 4;
        i += 1;
    }
    table[256] = 1 << 16;
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entropy::frequency::normalise;

    #[test]
    fn the_integer_logarithm_is_close() {
        for x in (1..70_000).chain([1 << 31, u64::from(u32::MAX), (1 << 40) - 1]) {
            let exact = (x as f64).log2() * 65536.0;
            assert!((log2(x) as f64 - exact).abs() < 2.0, "{x}");
            assert!(log2(x + 1) >= log2(x));
        }
    }

    #[test]
    fn entropy_and_cost_are_bits() {
        let mut counts = [0; 256];
        assert_eq!(entropy(&counts), 0);
        counts[9] = 1000;
        assert_eq!(entropy(&counts), 0);
        counts[10] = 1000;
        assert_eq!(entropy(&counts), 2000 * 256);
        assert_eq!(cost(&counts, &normalise(&counts).unwrap()), 2000 * 256);
        assert_eq!(entropy(&[u32::MAX; 256]), u64::from(u32::MAX) * 256 * 8 * 256);
        let table = normalise(&counts).unwrap();
        counts[0] = 1;
        assert_eq!(cost(&counts, &table), u64::MAX);
    }
}
