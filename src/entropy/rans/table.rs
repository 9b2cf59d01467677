//! Frequency tables as the coder wants them.
//!
//! ## Division by multiplication
//! The encoder's step is `x' = 4096 · q + r + cum` with `q = x / f`, `r = x % f`, that is
//! `x + cum + q · (4096 - f)`; and `x < f · 2²⁰`. Let `s = floor(log2 f)` and `k = 32 + s`.
//!
//! - In general `q = x · m >> k` with `m = ceil(2ᵏ / f)`. Its error is below the distance of `x / f`
//!   to the next integer as long as `e · f · 2²⁰ <= 2ᵏ` with `e = m · f - 2ᵏ`. Since `e < f < 2^(s+1)`,
//!   that holds for `s < 11`.
//! - Where it does not, `q = (x + 1) · (m - 1) >> k`: exact if `(f - e) · f · 2²⁰ <= 2ᵏ`, and now
//!   `e · f > 2²³` while `f² < 2²⁴`. A table with such a frequency, which is above 2896 and so the
//!   largest, takes a slower kernel.
//! - For a power of two, `m` would be 2³²: `q = x · 2³¹ >> (k - 1)`.
//! - For 1, not even that: `x · (2³² - 1) >> 32` is `x - 1`, and 4095 is added to `cum`.

use crate::entropy::frequency::{SCALE_BITS, Table};

/// What the encoder needs to know of each symbol: 64 bits, so that one load fetches it.
///
/// ```text
/// bit 63 … 52   51        50    49 … 37     36 … 32   31 … 0
///     freq      any inc   inc   cum, bias   shift     m
/// ```
///
/// `shift` is `k - 32`, and `ABSENT` alone for a symbol that is absent; `any inc` stands in every
/// entry of a table that has an `inc`.
#[derive(Clone, Debug)]
#[repr(transparent)]
pub struct EncodeTable {
    pub(super) entries: [u64; 256],
}

/// Set in the upper half of an entry: `x + 1` is to be multiplied.
pub(super) const INC: u32 = 1 << 18;
/// Set in the upper half of all entries of a table that has an [`INC`].
pub(super) const ANY_INC: u32 = 1 << 19;
/// Set in the upper half of an entry: the symbol is absent.
pub(super) const ABSENT: u32 = 1 << 4;
/// Where in the upper half the bias is, and its mask once there.
pub(super) const BIAS_AT: u32 = 5;
pub(super) const BIAS_MASK: u32 = 0x1fff;

impl EncodeTable {
    /// The encoder's view of `table`.
    pub fn new(table: &Table) -> Self {
        let mut cum = 0;
        let mut any_inc = 0;
        let mut entries = table.freq().map(|freq| {
            let f = u64::from(freq);
            let s = u64::from(f.max(1).ilog2());
            let mut pack = f << 20 | cum << BIAS_AT | s;
            let mut m = (1 << (32 + s)) / f.max(1);
            match f {
                0 => return u64::from(ABSENT) << 32,
                1 => {
                    m -= 1;
                    pack += 4095 << BIAS_AT;
                }
                _ if f.is_power_of_two() => {
                    m = 1 << 31;
                    pack -= 1;
                }
                _ => {
                    let e = (m + 1) * f - (1 << (32 + s));
                    if e * f <= 1 << (12 + s) {
                        m += 1;
                    } else {
                        pack |= u64::from(INC);
                        any_inc = u64::from(ANY_INC) << 32;
                    }
                }
            }
            cum += f;
            pack << 32 | m
        });
        entries.iter_mut().for_each(|entry| *entry |= any_inc);
        EncodeTable { entries }
    }

    /// Whether a symbol needs an increment.
    pub(super) fn any_inc(&self) -> bool {
        (self.entries[0] >> 32) as u32 & ANY_INC != 0
    }

    /// Whether `symbol` is absent.
    pub(super) fn lacks(&self, symbol: u8) -> bool {
        (self.entries[usize::from(symbol)] >> 32) as u32 & ABSENT != 0
    }
}

/// What a slot, the low 12 bits of a state, decodes to.
///
/// ```text
/// bit 31 … 20   19 … 8       7 … 0
///     freq      slot - cum   symbol
/// ```
#[derive(Clone, Debug)]
#[repr(transparent)]
pub struct DecodeTable {
    pub(super) entries: [u32; 1 << SCALE_BITS],
}

impl DecodeTable {
    /// The decoder's view of `table`.
    pub fn new(table: &Table) -> Self {
        let mut entries = [0; 1 << SCALE_BITS];
        let mut rest = &mut entries[..];
        for (symbol, &freq) in table.freq().iter().enumerate() {
            let (slots, after) = rest.split_at_mut(usize::from(freq));
            let first = u32::from(freq) << 20 | symbol as u32;
            for (bias, slot) in slots.iter_mut().enumerate() {
                *slot = first | (bias as u32) << 8;
            }
            rest = after;
        }
        DecodeTable { entries }
    }
}
