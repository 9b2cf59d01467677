//! Symbols relative to the scales of their row and column, with a table for every eighth of an
//! octave that the scale is above a whole one.

mod decode;

pub use decode::Pieces;

use super::{
    super::{
        Method,
        plane::{self, Coder, Planes, Policy},
    },
    choice,
    fields::{COLUMNS, Float, ROWS},
    scale::{self, HeadFields},
};
use crate::{
    entropy::{
        frequency::{self, Table},
        histogram, rans,
    },
    hash,
    simd::{self, Level, for_every_level},
    transform::split::{self, Split},
};

/// Number of contexts: eighths of an octave.
const CONTEXTS: usize = 8;

/// A chunk that will be coded with scales.
pub struct Scaled {
    pub fields: Split,
    pub flags: u8,
    tables: Vec<Table>,
    escapes: usize,
    /// The tables, and the planes of scales, as they are stored.
    stored_tables: Vec<u8>,
    stored_scales: Vec<u8>,
}

fn head_fields(float: &Float) -> HeadFields {
    HeadFields { mantissa: u32::from(float.bits.min(16) - 1 - float.exponent) }
}

/// Mantissa bits in the symbols of a split.
fn k_of(float: &Float, fields: &Split) -> u32 {
    u32::from(fields.symbol_bits() - float.exponent)
}

/// What a chunk comes to without scales.
pub struct Solo {
    /// The sign that all words share, if they do.
    pub sign: Option<bool>,
    /// About how many bits.
    pub cost: u64,
}

/// Decides whether scales pay for a chunk of rows of `row` words. Leaves heads, scales, shifts,
/// contexts, and the words but for escapes and tails split, in `planes`. Returns the digest, too.
pub fn plan(
    level: Level,
    method: Method,
    float: &Float,
    row: usize,
    words: &[u8],
    solo: &Solo,
    planes: &mut Planes,
) -> Option<(Scaled, u64)> {
    let n = words.len() / usize::from(float.bits / 8);
    let hf = head_fields(float);
    let word = usize::from(float.bits / 8);
    let varying = vary(level, hf, words, row, word);
    // In `auto` contexts must repay the slower coding, too: of MiniLM in bf16 the half of the chunks
    // that vary less would gain .1 % at 1.5 times the time of all.
    let worthwhile = match (method, float.exponent) {
        (Method::Auto, 8) if float.bits == 16 => 24,
        (Method::Auto, _) => 12,
        _ => 1,
    };
    let worthwhile = worthwhile * u64::from(float.bits);
    if varying.rows + varying.columns <= worthwhile {
        return None;
    }
    // From here on all words are near.
    let digest = hash::digest(level, words);
    planes.heads.resize(n, 0);
    split::heads(level, float.bits, words, &mut planes.heads);
    let least = scale::rows(level, hf, &planes.heads, row, &mut planes.rows);
    let columns = varying.columns > u64::from(float.bits) / 2;
    if columns {
        let (rows, columns) = (&planes.rows, &mut planes.columns);
        scale::columns(level, hf, &planes.heads, row, least, rows, columns);
    }
    let most = float.bits.min(16) - 1 - float.exponent;
    let k = if float.exponent <= 5 { most.min(3) } else { most.min(2) };
    let rest_bits = float.bits.min(16) - float.exponent - k;
    let sign = solo.sign.filter(|_| rest_bits > 1);
    let fields = Split { word_bits: float.bits, rest_bits, base: 1, sign };
    let (cost, scaled) = try_scales(level, method, float, fields, row, columns, planes)?;
    let margin = if method == Method::Auto { n as u64 * u64::from(float.bits) / 400 } else { 0 };
    (cost + margin < solo.cost).then_some((scaled, digest))
}

/// Cost in bits of a chunk coded with its rows' (and columns') scales.
fn try_scales(
    level: Level,
    method: Method,
    float: &Float,
    fields: Split,
    row: usize,
    columns: bool,
    planes: &mut Planes,
) -> Option<(u64, Scaled)> {
    let n = planes.heads.len();
    let k = k_of(float, &fields);
    planes.shifts.resize(n, 0);
    planes.contexts.resize(n, 0);
    let columns_of = columns.then_some(&planes.columns[..]);
    let scales = scale::Scales { rows: &planes.rows, columns: columns_of, row, k };
    scales.shifts_and_contexts(level, 0, &mut planes.shifts, &mut planes.contexts);
    let base = base_for(&fields, k, &planes.heads, &planes.shifts, &mut planes.counts);
    let fields = Split { base, ..fields };
    let heads = std::mem::take(&mut planes.heads);
    let shifts = std::mem::take(&mut planes.shifts);
    let escapes =
        planes.with(&fields, n, |p| split::split_heads(level, &fields, &heads, Some(&shifts), p));
    (planes.heads, planes.shifts) = (heads, shifts);
    let mut counts = vec![[0u32; 256]; CONTEXTS];
    let (symbols, contexts) = (&planes.symbols[..n], &planes.contexts[..n]);
    if method == Method::Max {
        histogram::count_contexts(level, symbols, contexts, &mut counts);
    } else {
        histogram::sample_contexts(level, symbols, contexts, &mut counts);
    }
    let counted: u64 = counts.as_flattened().iter().map(|&c| u64::from(c)).sum();
    let mut tables = Vec::new();
    let mut bits = 0;
    for counts in &mut counts {
        let table = table_of(counts)?;
        bits += frequency::cost(counts, &table) / 256;
        tables.push(table);
    }
    bits = (u128::from(bits) * n as u128 / u128::from(counted.max(1))) as u64;
    let (mut stored_tables, mut stored_scales) = (Vec::new(), Vec::new());
    plane::write_tables(&tables, &mut stored_tables);
    encode_scale_plane(level, &planes.rows, &mut planes.coder, &mut stored_scales);
    if columns {
        encode_scale_plane(level, &planes.columns, &mut planes.coder, &mut stored_scales);
    }
    bits += 8 * (stored_tables.len() + stored_scales.len()) as u64 + 28 * escapes as u64;
    bits += n as u64 * u64::from(fields.stored_rest_bits());
    let flags = ROWS | if columns { COLUMNS } else { 0 };
    Some((bits, Scaled { fields, flags, tables, escapes, stored_tables, stored_scales }))
}

/// A table for counts of any kind: contexts that do not occur get one too.
fn table_of(counts: &mut [u32; 256]) -> Option<Table> {
    if counts.iter().filter(|&&c| c > 0).count() < 2 {
        counts[1] += 1;
        counts[2] += 1;
    }
    frequency::normalise(counts)
}

/// First value of the window for shifted symbols.
fn base_for(fields: &Split, k: u32, heads: &[u16], shifts: &[u8], counts: &mut Vec<u32>) -> u16 {
    counts.clear();
    counts.resize((1 << fields.symbol_bits()) + 512, 0);
    // One group in a few tells as much.
    let step = choice::step(heads.len(), 32);
    let groups = heads.chunks(choice::GROUP).zip(shifts.chunks(choice::GROUP)).step_by(step);
    for (heads, shifts) in groups {
        for (&head, &shift) in heads.iter().zip(shifts) {
            let s = head >> fields.rest_bits;
            counts[usize::from(s) + 255 - usize::from(shift)] += u32::from(s > 0);
        }
    }
    choice::window(counts, k)
}

/// How much scales vary beyond what chance explains, as 16 times a variance in eighths of an
/// octave squared: 96 for a gain of some .07 bits a word, in proportion.
struct Varying {
    rows: u64,
    columns: u64,
}

/// Looks at a part of the columns of a part of the rows.
fn vary(level: Level, hf: HeadFields, words: &[u8], row: usize, word: usize) -> Varying {
    const ROWS: usize = 32;
    const COLUMNS: usize = 128;
    let n_rows = words.len() / word / row;
    let width = row.min(COLUMNS);
    let mut heads = Vec::with_capacity(ROWS * width);
    let mut sampled = 0;
    let starts = (0..n_rows).step_by(n_rows.div_ceil(ROWS));
    let starts = starts.map(|r| (r * row + (row - width) / 2) * word);
    starts.clone().for_each(|start| simd::prefetch(words, start, width * word));
    for start in starts {
        heads.extend(words[start..start + width * word].chunks_exact(word).map(|w| match w {
            [b] => u16::from(b.rotate_left(1)),
            _ => u16::from_le_bytes([w[word - 2], w[word - 1]]).rotate_left(1),
        }));
        sampled += 1;
    }
    let (mut rows, mut columns) = (Vec::new(), Vec::new());
    let least = scale::rows(level, hf, &heads, width, &mut rows);
    scale::columns(level, hf, &heads, width, least, &rows, &mut columns);
    // The mean of m magnitudes has a deviation of about 8.7 / √m eighths of an octave.
    let excess = |scales: &[u8], m: usize| variance_q4(scales).saturating_sub(76 * 16 / m as u64);
    Varying { rows: excess(&rows, width), columns: excess(&columns, sampled) }
}

/// 16 times the variance.
fn variance_q4(values: &[u8]) -> u64 {
    let n = values.len() as u64;
    let sum: u64 = values.iter().map(|&v| u64::from(v)).sum();
    let squares: u64 = values.iter().map(|&v| u64::from(v) * u64::from(v)).sum();
    16 * (squares * n - sum * sum) / (n * n)
}

impl Scaled {
    /// Lists escapes and cuts off tails, which [`plan`] left. Returns how many escapes there are.
    pub fn finish_split(
        &self,
        level: Level,
        float: &Float,
        words: &[u8],
        planes: &mut Planes,
    ) -> usize {
        let (n, escapes) = (planes.heads.len(), self.escapes);
        planes.escapes.resize(planes.escapes.len().max(escapes), 0);
        if escapes > 0 {
            let list = &mut planes.escapes[..escapes];
            let symbols = &planes.symbols[..n];
            split::escapes_of_heads(&self.fields, &planes.heads, symbols, list);
        }
        match (usize::from(float.bits / 8), &mut planes.tails[..self.fields.n_tails()]) {
            (4, [t0, t1]) => tails_32(level, words, &mut t0[..n], &mut t1[..n]),
            (word, tails) => {
                for (i, tail) in tails.iter_mut().enumerate() {
                    for (byte, w) in tail.iter_mut().zip(words.chunks_exact(word)) {
                        *byte = w[i];
                    }
                }
            }
        }
        escapes
    }

    /// Appends the planes of scales.
    pub fn encode_scales(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.stored_scales);
    }

    /// Appends the plane of symbols. Returns its coder.
    pub fn encode_symbols(
        &self,
        level: Level,
        n: usize,
        planes: &mut Planes,
        out: &mut Vec<u8>,
    ) -> Coder {
        let start = out.len();
        let lanes = plane::lanes_for(n);
        out.extend_from_slice(&[Coder::Contexts as u8, 0, 0, 0, 0, lanes.log2()]);
        out.extend_from_slice(&self.stored_tables);
        let tables: Vec<_> = self.tables.iter().map(rans::EncodeTable::new).collect();
        let ahead = std::mem::take(&mut planes.coder.ahead);
        let stream = &mut planes.coder.stream;
        let room = rans::bound(n, lanes);
        stream.resize(stream.len().max(room), 0);
        let stream = &mut stream[..room];
        let symbols = &planes.symbols[..n];
        let contexts = &planes.contexts[..n];
        // Every symbol was counted, so every table has it.
        let mut encoder = rans::Encoder::new(lanes, n, stream).fetching(ahead);
        if encoder.encode_contexts(level, contexts, &tables, symbols) {
            let at = encoder.finish();
            out.extend_from_slice(&stream[at..]);
        }
        let len = (out.len() - start - plane::PREFIX) as u32;
        out[start + 1..start + plane::PREFIX].copy_from_slice(&len.to_le_bytes());
        Coder::Contexts
    }
}

for_every_level! {
/// The two low bytes of 32-bit words.
fn tails_32(words: &[u8], t0: &mut [u8], t1: &mut [u8]) {
    for ((word, a), b) in words.as_chunks::<4>().0.iter().zip(t0).zip(t1) {
        (*a, *b) = (word[0], word[1]);
    }
}
}

fn encode_scale_plane(
    level: Level,
    scales: &[u8],
    scratch: &mut plane::CoderScratch,
    out: &mut Vec<u8>,
) {
    plane::encode(level, Policy::Smallest, scales, 8, scratch, out);
}

/// Reads the planes of scales of a chunk of `n` words.
pub fn read_scales(
    level: Level,
    float: &Float,
    columns: bool,
    n: usize,
    payload: &mut &[u8],
    planes: &mut Planes,
) -> Option<()> {
    let row = float.row?;
    planes.rows.resize(n.div_ceil(row), 0);
    plane::take(payload)?.decode(level, 8, &mut planes.coder, &mut planes.rows)?;
    if columns {
        planes.columns.resize(row, 0);
        plane::take(payload)?.decode(level, 8, &mut planes.coder, &mut planes.columns)?;
    }
    Some(())
}
