//! What is read of every chunk before its planes: counts, lengths and times.
//!
//! ```text
//! 0      totals     symbols that pass level 0, 1, 2, 3 of the cascade
//! 16     escapes    symbols that lie outside the window
//! 32     times      of the device, before and after the transforms
//! 48     order      256 symbols, the commonest first, a word each; then the number of levels
//! 1088   counts     of the 256 symbols, all of them or those of a sample
//! ```

pub(super) const TOTALS: u64 = 0;
pub(super) const ESCAPES: u64 = 16;
pub(super) const TIMES: u64 = 32;
pub(super) const ORDER: u64 = 48;
pub(super) const COUNTS: u64 = ORDER + 1040;
pub(super) const HEAD_LEN: u64 = COUNTS + 1024;

/// What is known of a chunk once its transforms are done.
pub(super) struct Head {
    pub counts: [u32; 256],
    /// Symbols of the levels, three each.
    pub symbols: Vec<u8>,
    pub totals: [u32; 4],
    pub n_levels: usize,
    pub n_escapes: u32,
    pub ticks: u64,
}

impl Head {
    pub fn parse(bytes: &[u8]) -> Head {
        let word = |at: u64, i: usize| {
            let at = at as usize + 4 * i;
            bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
        };
        let long = |at, i| u64::from(word(at, i)) | u64::from(word(at, i + 1)) << 32;
        Head {
            counts: std::array::from_fn(|i| word(COUNTS, i)),
            symbols: (0..12).map(|i| word(ORDER, i) as u8).collect(),
            totals: std::array::from_fn(|i| word(TOTALS, i)),
            n_levels: word(ORDER, 256).clamp(1, 4) as usize,
            n_escapes: word(ESCAPES, 0),
            ticks: long(TIMES, 2).saturating_sub(long(TIMES, 0)),
        }
    }

    /// The header of the cascade: levels, their symbols, what passes them.
    pub fn cascade_header(&self) -> Vec<u8> {
        let mut header = vec![self.n_levels as u8];
        header.extend(&self.symbols[..3 * self.n_levels]);
        header.extend(self.totals[..self.n_levels].iter().flat_map(|n| n.to_le_bytes()));
        header
    }

    /// Bytes of the digits of the further levels, then of the raw symbols.
    pub fn further(&self) -> impl Iterator<Item = u64> {
        let last = self.n_levels - 1;
        let len = move |(level, n): (usize, &u32)| match level {
            _ if level < last => u64::from(n.div_ceil(4)),
            _ => u64::from(*n),
        };
        self.totals.iter().enumerate().take(self.n_levels).map(len)
    }
}
