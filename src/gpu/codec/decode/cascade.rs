//! Digit cascades into symbols: level by level, the last first.

use crate::{
    entropy::cascade::MAX_LEVELS,
    error::Result,
    gpu::{Buffer, Device, Pass, Recorder},
    shader::CascadeParams,
};

/// Symbols of a tile.
const TILE: usize = 4096;

/// The buffers of one chunk's cascade.
pub(super) struct Cascade {
    order: Buffer,
    tiles: Buffer,
    /// Of each level.
    totals: Vec<Buffer>,
    digits: Buffer,
    /// The symbols below a level and those of it, in turn.
    below: [Buffer; 2],
}

/// A cascade whose lengths fit each other.
pub(super) struct Parsed<'a> {
    symbols: Vec<u8>,
    /// Symbols that reach each level, then raw ones.
    sizes: Vec<usize>,
    levels: Vec<&'a [u8]>,
    raw: &'a [u8],
}

impl<'a> Parsed<'a> {
    pub fn new(n: usize, bytes: &'a [u8]) -> Option<Self> {
        let (&n_levels, bytes) = bytes.split_first()?;
        let n_levels = usize::from(n_levels);
        if n_levels == 0 || n_levels > MAX_LEVELS {
            return None;
        }
        let (symbols, bytes) = bytes.split_at_checked(3 * n_levels)?;
        let (counts, mut bytes) = bytes.split_at_checked(4 * n_levels)?;
        let (mut sizes, mut levels) = (vec![n], Vec::new());
        for count in counts.as_chunks::<4>().0 {
            let reached = sizes[levels.len()];
            let (digits, rest) = bytes.split_at_checked(reached.div_ceil(4))?;
            let used = reached % 4 * 2;
            if used > 0 && digits.last()? >> used != 0 {
                return None;
            }
            let passed = u32::from_le_bytes(*count) as usize;
            if passed > reached {
                return None;
            }
            levels.push(digits);
            sizes.push(passed);
            bytes = rest;
        }
        let distinct = (1..symbols.len()).all(|i| !symbols[..i].contains(&symbols[i]));
        let fits = distinct && bytes.len() == sizes[n_levels];
        fits.then_some(Parsed { symbols: symbols.to_vec(), sizes, levels, raw: bytes })
    }
}

impl Cascade {
    pub fn new(device: &Device, n: u64) -> Result<Cascade> {
        let below = || device.storage("symbols of a level", n + 4);
        Ok(Cascade {
            order: device.storage("order", 4 * 3 * MAX_LEVELS as u64)?,
            tiles: device.storage("tiles", 16 * n.div_ceil(TILE as u64))?,
            totals: (0..MAX_LEVELS).map(|_| device.storage("totals", 16)).collect::<Result<_>>()?,
            // Each level begins at a word.
            digits: device.storage("digits", MAX_LEVELS as u64 * (n / 4 + 4))?,
            below: [below()?, below()?],
        })
    }

    /// The buffers that hold how many symbols pass each level, once expanded.
    pub fn totals(&self) -> &[Buffer] {
        &self.totals
    }

    /// Writes a cascade to the device and returns how many symbols reach each level.
    pub fn upload(&self, recorder: &mut Recorder<'_>, cascade: Parsed<'_>) -> Result<Vec<usize>> {
        let order: Vec<u8> =
            cascade.symbols.iter().flat_map(|s| u32::from(*s).to_le_bytes()).collect();
        recorder.write(&self.order, 0, &order)?;
        for (digits, at) in cascade.levels.iter().zip(starts(&cascade.sizes)) {
            recorder.write(&self.digits, 4 * at as u64, digits)?;
        }
        recorder.write(&self.below[0], 0, cascade.raw)?;
        Ok(cascade.sizes)
    }

    /// Adds the expansion of all levels; the symbols end in `out`.
    pub fn expand(&self, pass: &mut Pass<'_>, sizes: &[usize], out: &Buffer) -> Result<()> {
        let [mut below, mut symbols] = [&self.below[0], &self.below[1]];
        let levels: Vec<_> = starts(sizes).zip(sizes).enumerate().take(sizes.len() - 1).collect();
        for (level, (digits_at, &size)) in levels.into_iter().rev() {
            let n_tiles = size.div_ceil(TILE);
            let params = CascadeParams {
                n_symbols: size as u32,
                n_tiles: n_tiles as u32,
                first: 3 * level as u32,
                digits_at: digits_at as u32,
                ..Default::default()
            };
            let whole = 256 * n_tiles as u64;
            let to = if level == 0 { out } else { symbols };
            pass.dispatch("count_digits", &params, whole, &[&self.tiles, &self.digits])?;
            pass.dispatch("scan", &params, 256, &[&self.tiles, &self.totals[level]])?;
            let buffers = [to, &self.order, &self.tiles, &self.digits, below];
            pass.dispatch("expand", &params, whole, &buffers)?;
            (below, symbols) = (symbols, below);
        }
        Ok(())
    }
}

/// First u32 word of the digits of each level.
fn starts(sizes: &[usize]) -> impl Iterator<Item = usize> {
    sizes.iter().scan(0, |at, size| {
        let start = *at;
        *at += size.div_ceil(16);
        Some(start)
    })
}
