//! A residual for every word: symbols under a table for each cluster of contexts, then the bits
//! that follow their classes.
//!
//! ```text
//! body     clusters of contexts (1 byte, 1 … 16)
//!          first context of every cluster but the first (1 byte each, ascending)
//!          log2 of the lanes of the stream (1 byte)
//!          a frequency table for each cluster
//!          length of the stream (4 bytes), rANS stream of the symbols
//!          the bits that follow the symbols' classes
//! ```
//!
//! Of words of up to four bytes, if there are 4096 or more, those bits go in lanes (`lanes`). Else
//! they follow one another, word for word, and fill bytes from the lowest bit up, as `bits` has it;
//! what is left of the last byte is zero.

use super::{
    bits::{BitSource, Bits},
    classes::{self, Classes},
    cluster::{Clusters, Joint, MOST},
    lanes, words,
};
use std::ops::Range;

use crate::{
    codec::{
        Delta,
        plane::{self, CoderScratch},
        transforms::{self, Device},
    },
    entropy::{
        frequency::{self, Table},
        histogram, rans,
    },
    simd::{self, Level},
};

/// Buffers for residuals.
#[derive(Default)]
pub struct Buffers {
    pub symbols: Vec<u8>,
    pub gaps: Vec<u8>,
    pub groups: Vec<usize>,
    pub places: Vec<usize>,
    pub bits: Vec<u8>,
    pub coder: CoderScratch,
    pub delta: Vec<u8>,
    pub classes: Vec<u8>,
    pub contexts: Vec<u8>,
    pub joint: Joint,
}

impl Buffers {
    /// Makes room for the residuals of `n` words.
    pub fn resize(&mut self, n: usize, word: usize) {
        self.delta.resize(n * word, 0);
        self.symbols.resize(n, 0);
    }

    /// Forms the residuals of a range of words: deltas, and their symbols.
    pub fn form(
        &mut self,
        level: Level,
        word: usize,
        words: &[u8],
        predicted: &[u8],
        range: Range<usize>,
    ) {
        let deltas = &mut self.delta[range.start * word..range.end * word];
        words::residuals(level, word, words, predicted, deltas, &mut self.symbols[range]);
    }

    /// Forms all residuals, with deltas from the device if it makes them.
    pub fn form_on(
        &mut self,
        device: &mut Device,
        level: Level,
        word: usize,
        words: &[u8],
        predicted: &[u8],
    ) {
        let kind = (Delta::Diff, word);
        transforms::delta(device, level, kind, words, predicted, &mut self.delta);
        words::symbols(level, word, &self.delta, &mut self.symbols);
    }
}

/// Appends the body of the residuals that were formed. Contexts are one byte a word.
pub fn encode(
    level: Level,
    word: usize,
    contexts: &[u8],
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) {
    encode_in(level, word, plane::lanes_for(contexts.len()), contexts, buffers, out);
}

/// [`encode`] with a stream of so many lanes.
pub fn encode_in(
    level: Level,
    word: usize,
    lanes: rans::Lanes,
    contexts: &[u8],
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) {
    let Buffers { symbols, bits, coder, delta: deltas, classes: clustered, joint, .. } = buffers;
    let n = contexts.len();
    // Clusters rest on all of a small chunk, else on 64 words of every 256 or 512.
    let step = match n {
        0..=0x8000 => 1,
        0x8001..=0x1_ffff => 4,
        _ => 8,
    };
    joint.count(level, contexts, symbols, 64, step);
    encode_symbols_in(level, lanes, joint, symbols, contexts, clustered, coder, out);
    if in_lanes(word, n) {
        return lanes::write(level, word, deltas, symbols, out);
    }
    bits.clear();
    match word {
        1 => list::<1>(deltas, symbols, bits),
        2 => list::<2>(deltas, symbols, bits),
        4 => list::<4>(deltas, symbols, bits),
        _ => list::<8>(deltas, symbols, bits),
    }
    out.extend_from_slice(bits);
}

/// Whether the bits that follow the symbols of `n` words go in lanes, which costs some 32 bytes.
pub fn in_lanes(word: usize, n: usize) -> bool {
    word < 8 && n >= 4 << 10
}

/// Appends the bits that follow, word for word.
fn list<const N: usize>(deltas: &[u8], symbols: &[u8], bits: &mut Vec<u8>) {
    let classes = Classes::of_word(N);
    let mut writer = Bits::new(bits);
    for (delta, &symbol) in deltas.as_chunks::<N>().0.iter().zip(symbols) {
        let class = classes::class_of(symbol);
        writer.push(signed(*delta).unsigned_abs() - classes.least(class), classes.bits(class));
    }
    writer.finish();
}

/// Clusters contexts and appends everything up to the stream.
pub fn encode_symbols(
    level: Level,
    joint: &Joint,
    symbols: &[u8],
    contexts: &[u8],
    clustered: &mut Vec<u8>,
    coder: &mut CoderScratch,
    out: &mut Vec<u8>,
) {
    let lanes = plane::lanes_for(symbols.len());
    encode_symbols_in(level, lanes, joint, symbols, contexts, clustered, coder, out);
}

#[allow(clippy::too_many_arguments, reason = "as encode_symbols")]
fn encode_symbols_in(
    level: Level,
    lanes: rans::Lanes,
    joint: &Joint,
    symbols: &[u8],
    contexts: &[u8],
    clustered: &mut Vec<u8>,
    coder: &mut CoderScratch,
    out: &mut Vec<u8>,
) {
    let n = symbols.len();
    let clusters = Clusters::of(joint);
    words::clusters(level, &clusters.starts, contexts, clustered);
    let mut counts = clusters.counts;
    counts.resize(clusters.starts.len() + 1, [0; 256]);
    histogram::mark_contexts(level, symbols, clustered, &mut counts);
    let tables: Vec<Table> = counts.into_iter().filter_map(table_of).collect();
    out.push(tables.len() as u8);
    out.extend_from_slice(&clusters.starts);
    out.push(lanes.log2());
    plane::write_tables(&tables, out);
    let tables: Vec<_> = tables.iter().map(rans::EncodeTable::new).collect();
    let room = rans::bound(n, lanes);
    coder.stream.resize(coder.stream.len().max(room), 0);
    let ahead = std::mem::take(&mut coder.ahead);
    let stream = &mut coder.stream[..room];
    let mut encoder = rans::Encoder::new(lanes, n, stream).fetching(ahead);
    // A sample misses no symbol, so every table has it.
    let done = encoder.encode_contexts(level, clustered, &tables, symbols);
    let at = if done { encoder.finish() } else { room };
    out.extend_from_slice(&((room - at) as u32).to_le_bytes());
    out.extend_from_slice(&stream[at..]);
}

/// A table for any counts: with fewer than two symbols, others join them.
fn table_of(mut counts: [u32; 256]) -> Option<Table> {
    let mut absent = (0..256).filter(|&s| counts[s] == 0);
    let (a, b) = (absent.next(), absent.next());
    let present = counts.iter().filter(|&&c| c > 0).count();
    for s in [a, b].into_iter().flatten().take(2usize.saturating_sub(present)) {
        counts[s] = 1;
    }
    frequency::normalise(&counts)
}

/// Inverse of [`encode_symbols`]: decodes a symbol for every context.
pub fn decode_symbols(
    level: Level,
    payload: &mut &[u8],
    contexts: &[u8],
    clustered: &mut Vec<u8>,
    symbols: &mut Vec<u8>,
) -> Option<()> {
    let (&n_tables, rest) = payload.split_first()?;
    let n_tables = usize::from(n_tables);
    if !(1..=MOST).contains(&n_tables) {
        return None;
    }
    let (starts, rest) = rest.split_at_checked(n_tables - 1)?;
    if !starts.is_sorted_by(|a, b| a < b) || starts.first() == Some(&0) {
        return None;
    }
    let (&lanes, mut rest) = rest.split_first()?;
    let tables = plane::read_tables(n_tables, &mut rest)?;
    let (len, rest) = rest.split_first_chunk()?;
    let (stream, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *payload = rest;
    words::clusters(level, starts, contexts, clustered);
    symbols.resize(contexts.len(), 0);
    let tables: Vec<_> = tables.iter().map(rans::DecodeTable::new).collect();
    let lanes = rans::Lanes::from_log2(lanes)?;
    let mut decoder = rans::Decoder::new(lanes, symbols.len(), stream)?;
    let good = decoder.decode_contexts(level, clustered, &tables, symbols) && decoder.finish();
    good.then_some(())
}

/// Decodes a body into `out`.
pub fn decode(
    level: Level,
    word: usize,
    mut payload: &[u8],
    predicted: &[u8],
    contexts: &[u8],
    buffers: &mut Buffers,
    out: &mut [u8],
) -> Option<()> {
    let Buffers { symbols, classes: clustered, .. } = buffers;
    decode_symbols(level, &mut payload, contexts, clustered, symbols)?;
    let largest = simd::largest(level, symbols);
    if usize::from(largest) >= Classes::symbols_of_word(word) {
        return None;
    }
    let good = match (in_lanes(word, out.len() / word), word) {
        (true, _) => lanes::join(level, word, symbols, payload, predicted, out),
        (_, 1) => join::<1>(symbols, payload, predicted, out),
        (_, 2) => join::<2>(symbols, payload, predicted, out),
        (_, 4) => join::<4>(symbols, payload, predicted, out),
        _ => join::<8>(symbols, payload, predicted, out),
    };
    good.then_some(())
}

/// Inverse of [`list`]: moves predicted words. Whether all bits were used and nothing is left.
fn join<const N: usize>(symbols: &[u8], bits: &[u8], predicted: &[u8], out: &mut [u8]) -> bool {
    let classes = Classes::of_word(N);
    let mut bits = BitSource::new(bits);
    out.copy_from_slice(predicted);
    for (word, &symbol) in out.as_chunks_mut::<N>().0.iter_mut().zip(symbols) {
        let class = classes::class_of(symbol);
        let magnitude = classes.least(class).wrapping_add(bits.take(classes.bits(class)));
        *word = moved(*word, magnitude, classes::is_negative(symbol));
    }
    bits.finish()
}

/// A word as a signed integer.
#[inline(always)]
fn signed<const N: usize>(word: [u8; N]) -> i64 {
    let mut bytes = [0; 8];
    bytes[8 - N..].copy_from_slice(&word);
    i64::from_le_bytes(bytes) >> (64 - 8 * N)
}

/// A number whose order is that of the word; its own inverse.
#[inline(always)]
fn ordered<const N: usize>(x: i64) -> i64 {
    x ^ (x >> 63) & (i64::MAX >> (64 - 8 * N))
}

/// Residual of a word.
#[inline(always)]
pub fn residual<const N: usize>(word: [u8; N], predicted: [u8; N]) -> i64 {
    let up = 64 - 8 * N;
    let x = ordered::<N>(signed(word)).wrapping_sub(ordered::<N>(signed(predicted)));
    (x << up) >> up
}

/// A word moved by a residual.
#[inline(always)]
pub fn moved<const N: usize>(word: [u8; N], magnitude: u64, negative: bool) -> [u8; N] {
    let residual = if negative { (magnitude as i64).wrapping_neg() } else { magnitude as i64 };
    let up = 64 - 8 * N;
    let x = (ordered::<N>(signed(word)).wrapping_add(residual) << up) >> up;
    let mut moved = [0; N];
    moved.copy_from_slice(&ordered::<N>(x).to_le_bytes()[..N]);
    moved
}
