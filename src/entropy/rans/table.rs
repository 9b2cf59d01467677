//! Frequency tables as the coder wants them.
//!
//! ## Division by multiplication
//! The encoder's step is `x' = 4096 · q + r + cum` with `q = x / f`, `r = x % f`, that is
//! `x + cum + q · (4096 - f)`, and `x < f · 2²⁰`. With `s = floor(log2 f)`, `k = 32 + s`,
//! `q = (x + inc) · m >> k` where either `m = floor((2ᵏ - 1) / f)` and `inc = 1`, or `m` is one
//! more and `inc = 0`. Let `e = |2ᵏ - m · f|`: the first is exact if `e · f · 2²⁰ <= 2ᵏ`, and so is
//! the second. As the two `e` sum to `f < 4096`, the smaller always is; the first is preferred
//! because it alone has an `m` below 2³² for powers of two.

use crate::entropy::frequency::{SCALE_BITS, Table};

/// What the encoder needs to know of each symbol: 64 bits, so that one gather fetches it.
///
/// ```text
/// bit 63 … 52   51 … 49   48    47 … 44   43 … 32   31 … 0
///     freq      0         inc   s         cum       m          all zero for an absent symbol
/// ```
#[derive(Clone, Debug)]
#[repr(transparent)]
pub struct EncodeTable {
    pub(super) entries: [u64; 256],
}

impl EncodeTable {
    /// The encoder's view of `table`.
    pub fn new(table: &Table) -> Self {
        let mut cum = 0;
        let entries = table.freq().map(|freq| {
            let f = u64::from(freq);
            if f == 0 {
                return 0;
            }
            let s = u64::from(f.ilog2());
            let k = 32 + s;
            let mut m = ((1 << k) - 1) / f;
            let mut inc = 1;
            if ((1 << k) - m * f) * f > 1 << (k - 20) {
                m += 1;
                inc = 0;
            }
            let entry = f << 52 | inc << 48 | s << 44 | cum << 32 | m;
            cum += f;
            entry
        });
        EncodeTable { entries }
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
