//! A residual for every word: symbols under a table for each cluster of contexts, then the bits
//! that follow their classes.
//!
//! ```text
//! body     clusters of contexts (1 byte, 1 … 16)
//!          first context of every cluster but the first (1 byte each, ascending)
//!          log2 of the lanes (1 byte)
//!          a frequency table for each cluster
//!          length of the stream (4 bytes), rANS stream of the symbols
//!          for each word: the bits that follow its symbol's class
//! ```
//!
//! Bits fill bytes from the lowest one up, as `bits` has it; what is left of the last byte is zero.

use super::{
    classes::{self, Classes},
    cluster::{Clusters, Joint, MOST},
};
use crate::{
    codec::plane::{self, CoderScratch},
    entropy::{
        frequency::{self, Table},
        rans,
    },
    simd::Level,
    transform::delta,
};

/// Buffers for residuals.
#[derive(Default)]
pub struct Buffers {
    pub symbols: Vec<u8>,
    pub gaps: Vec<u8>,
    pub bits: Vec<u8>,
    pub coder: CoderScratch,
    pub delta: Vec<u8>,
    pub classes: Vec<u8>,
    pub contexts: Vec<u8>,
    pub joint: Joint,
}

/// Appends the body. Contexts are one byte a word.
#[allow(clippy::too_many_arguments, reason = "one caller")]
pub fn encode(
    level: Level,
    word: usize,
    words: &[u8],
    predicted: &[u8],
    contexts: &[u8],
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) {
    let Buffers { symbols, bits, coder, delta: deltas, classes: clustered, joint, .. } = buffers;
    let n = contexts.len();
    deltas.resize(words.len(), 0);
    delta::diff(level, word, words, predicted, deltas);
    symbols.resize(n, 0);
    symbols_of(word, deltas, symbols);
    joint.count(contexts, symbols);
    encode_symbols(level, joint, symbols, contexts, clustered, coder, out);
    bits.clear();
    let classes = Classes::of_word(word);
    let mut writer = Bits::new(bits);
    for (i, &symbol) in symbols.iter().enumerate() {
        let class = classes::class_of(symbol);
        let n_bits = classes.bits(class);
        if n_bits > 0 {
            let magnitude = signed_at(word, deltas, i).unsigned_abs();
            writer.push(magnitude - classes.least(class), n_bits);
        }
    }
    writer.finish();
    out.extend_from_slice(bits);
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
    let n = symbols.len();
    let clusters = Clusters::of(joint);
    let map = Clusters::map(&clusters.starts);
    clustered.clear();
    clustered.extend(contexts.iter().map(|&c| map[usize::from(c)]));
    let tables: Vec<Table> = clusters.counts.into_iter().filter_map(table_of).collect();
    let lanes = plane::lanes_for(n);
    out.push(tables.len() as u8);
    out.extend_from_slice(&clusters.starts);
    out.push(lanes.log2());
    plane::write_tables(&tables, out);
    let tables: Vec<_> = tables.iter().map(rans::EncodeTable::new).collect();
    let room = rans::bound(n, lanes);
    coder.stream.resize(coder.stream.len().max(room), 0);
    let stream = &mut coder.stream[..room];
    // Every symbol was counted, so every table has it.
    let at =
        rans::encode_contexts(level, lanes, symbols, clustered, &tables, stream).unwrap_or(room);
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
    let map = Clusters::map(starts);
    let (&lanes, mut rest) = rest.split_first()?;
    let tables = plane::read_tables(n_tables, &mut rest)?;
    let (len, rest) = rest.split_first_chunk()?;
    let (stream, rest) = rest.split_at_checked(u32::from_le_bytes(*len) as usize)?;
    *payload = rest;
    clustered.clear();
    clustered.extend(contexts.iter().map(|&c| map[usize::from(c)]));
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
    let classes = Classes::of_word(word);
    let largest = symbols.iter().fold(0, |a, &s| a.max(s));
    if usize::from(largest) >= classes.symbols() {
        return None;
    }
    let mut bits = BitSource::new(payload);
    match word {
        1 => join::<1>(classes, symbols, &mut bits, predicted, out),
        2 => join::<2>(classes, symbols, &mut bits, predicted, out),
        4 => join::<4>(classes, symbols, &mut bits, predicted, out),
        _ => join::<8>(classes, symbols, &mut bits, predicted, out),
    }
    bits.finish().then_some(())
}

fn join<const W: usize>(
    classes: &Classes,
    symbols: &[u8],
    bits: &mut BitSource,
    predicted: &[u8],
    out: &mut [u8],
) {
    let outs = out.as_chunks_mut::<W>().0.iter_mut();
    for ((out, p), &symbol) in outs.zip(predicted.as_chunks::<W>().0).zip(symbols) {
        let class = classes::class_of(symbol);
        let magnitude = classes.least(class).wrapping_add(bits.take(classes.bits(class)));
        let minus = u64::from(classes::is_negative(symbol)).wrapping_neg();
        let residual = (magnitude ^ minus).wrapping_sub(minus);
        let word = order::<W>(order::<W>(load(p)).wrapping_add(residual));
        out.copy_from_slice(&word.to_le_bytes()[..W]);
    }
}

#[inline(always)]
fn load<const W: usize>(bytes: &[u8; W]) -> u64 {
    let mut word = [0; 8];
    word[..W].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Flips the bits below the sign where the sign of a word of `W` bytes is set; what stands above
/// the word does not matter.
#[inline(always)]
fn order<const W: usize>(x: u64) -> u64 {
    let top = 8 * W as u32 - 1;
    let sign = (x >> top & 1).wrapping_neg();
    x ^ sign & ((1 << top) - 1)
}

/// Symbols of deltas.
pub fn symbols_of(word: usize, deltas: &[u8], symbols: &mut [u8]) {
    let classes = Classes::of_word(word);
    match word {
        1 => {
            symbols.iter_mut().zip(deltas).for_each(|(s, &d)| *s = classes.symbol((d as i8).into()))
        }
        2 => symbols.iter_mut().zip(deltas.as_chunks().0).for_each(|(s, d)| {
            *s = classes.symbol(i16::from_le_bytes(*d).into());
        }),
        4 => symbols.iter_mut().zip(deltas.as_chunks().0).for_each(|(s, d)| {
            *s = classes.symbol(i32::from_le_bytes(*d).into());
        }),
        _ => symbols.iter_mut().zip(deltas.as_chunks().0).for_each(|(s, d)| {
            *s = classes.symbol(i64::from_le_bytes(*d));
        }),
    }
}

/// Word `i` as a signed integer.
#[inline(always)]
fn signed_at(word: usize, words: &[u8], i: usize) -> i64 {
    let mut bytes = [0; 8];
    bytes[..word].copy_from_slice(&words[word * i..word * (i + 1)]);
    let up = 64 - 8 * word as u32;
    (i64::from_le_bytes(bytes) << up) >> up
}

/// Residual of word `i`.
pub fn residual_at(word: usize, words: &[u8], predicted: &[u8], i: usize) -> i64 {
    let order = |b| {
        let x = signed_at(word, b, i);
        x ^ (x >> 63) & (i64::MAX >> (64 - 8 * word))
    };
    let up = 64 - 8 * word as u32;
    (order(words).wrapping_sub(order(predicted)) << up) >> up
}

/// Moves word `i` by a residual.
pub fn undo_at(word: usize, words: &mut [u8], i: usize, magnitude: u64, negative: bool) {
    let flip = i64::MAX >> (64 - 8 * word);
    let x = signed_at(word, words, i);
    let residual = if negative { (magnitude as i64).wrapping_neg() } else { magnitude as i64 };
    let up = 64 - 8 * word as u32;
    let x = ((x ^ (x >> 63) & flip).wrapping_add(residual) << up) >> up;
    let x = x ^ (x >> 63) & flip;
    words[word * i..word * (i + 1)].copy_from_slice(&x.to_le_bytes()[..word]);
}

/// Appends bits of varying number to a byte vector.
pub struct Bits<'a> {
    out: &'a mut Vec<u8>,
    pending: u64,
    n_pending: u32,
}

impl<'a> Bits<'a> {
    /// Starts at the end of `out`.
    pub fn new(out: &'a mut Vec<u8>) -> Self {
        Bits { out, pending: 0, n_pending: 0 }
    }

    /// Appends the low `n` bits (at most 63) of `value`, which has no others.
    #[inline(always)]
    pub fn push(&mut self, value: u64, n: u32) {
        if n > 32 {
            self.push_few(value & 0xffff_ffff, 32);
            return self.push_few(value >> 32, n - 32);
        }
        self.push_few(value, n);
    }

    #[inline(always)]
    fn push_few(&mut self, value: u64, n: u32) {
        self.pending |= value << self.n_pending;
        self.n_pending += n;
        if self.n_pending >= 32 {
            self.out.extend_from_slice(&(self.pending as u32).to_le_bytes());
            self.pending >>= 32;
            self.n_pending -= 32;
        }
    }

    /// Fills the last byte with zeros.
    pub fn finish(self) {
        let n = self.n_pending.div_ceil(8) as usize;
        self.out.extend_from_slice(&self.pending.to_le_bytes()[..n]);
    }
}

/// Takes bits of varying number off a byte string. Past its end they are zero, which
/// [`BitSource::finish`] reports.
pub struct BitSource<'a> {
    bytes: &'a [u8],
    /// Index of the next bit.
    at: usize,
}

impl<'a> BitSource<'a> {
    /// Starts at the first bit of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        BitSource { bytes, at: 0 }
    }

    /// The next `n` bits, at most 63.
    #[inline(always)]
    pub fn take(&mut self, n: u32) -> u64 {
        if n > 56 {
            return self.take_few(32) | self.take_few(n - 32) << 32;
        }
        self.take_few(n)
    }

    #[inline(always)]
    fn take_few(&mut self, n: u32) -> u64 {
        let byte = self.at / 8;
        let word = match self.bytes.get(byte..byte + 8) {
            Some(bytes) => {
                let mut word = [0; 8];
                word.copy_from_slice(bytes);
                u64::from_le_bytes(word)
            }
            None => self.last(byte),
        };
        let value = word >> (self.at % 8) & ((1 << n) - 1);
        self.at += n as usize;
        value
    }

    #[cold]
    fn last(&self, byte: usize) -> u64 {
        let rest = self.bytes.get(byte..).unwrap_or(&[]);
        let mut word = [0; 8];
        word[..rest.len().min(8)].copy_from_slice(&rest[..rest.len().min(8)]);
        u64::from_le_bytes(word)
    }

    /// Whether exactly all bytes were taken and the rest of the last one is zero.
    pub fn finish(mut self) -> bool {
        let padding = (8 - self.at % 8) % 8;
        self.at.div_ceil(8) == self.bytes.len() && self.take(padding as u32) == 0
    }
}
