//! Chunks in which some words differ from their prediction: which, by what their contexts tell, and
//! residuals of those alone.
//!
//! ```text
//! body     runs of contexts, each with the rate at which its words differ        (`rate`)
//!          stages of the strings of rates, each the length (varint) and a rANS stream
//!          the words that differ, as a dense body                                (`residual`)
//! string   of a rate: a bit for each word that has it, in order: whether it differs
//! ```
//!
//! How often the weights of a model change in a small step depends on how large they are: the
//! spacing of floats doubles with each exponent. Strings of rare bits are stored as the bytes that
//! are not zero and the string of which they are, which is a string of a higher rate, and so on until
//! a string is dense enough to be stored as it is. So the first stage holds the last strings of all
//! rates in ascending order, the next one the bytes that those tell of, down to the strings
//! themselves. Bytes of both kinds have tables that follow from the rate.
//!
//! Unlike symbols for every word, all but few bytes of this are vectors: a chunk takes a fraction of
//! the time.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod pick;
mod rate;
mod string;

use super::{
    Changes,
    residual::{self, Buffers},
    words::look_up,
};
use crate::{
    bits::{read_varint, write_varint},
    entropy::{histogram, rans},
    simd::Level,
    transform::change,
};
use rate::Runs;
use string::Strings;

/// Buffers for masked chunks.
#[derive(Default)]
pub struct Masked {
    classes: Vec<u8>,
    strings: Strings,
    masks: Vec<u64>,
    words: Vec<u8>,
    predicted: Vec<u8>,
    contexts: Vec<u8>,
    differ: Vec<u64>,
    stream: Vec<u8>,
}

/// Whether changes stand side by side far more often than contexts explain.
pub(super) fn clustered(changes: &Changes<'_>) -> bool {
    let beside = |mask: &u64| u64::from((mask & mask >> 1).count_ones());
    let pairs: u64 = changes.masks.iter().map(beside).sum();
    let (n, all) = (changes.count, (changes.words.len() / changes.word) as u64);
    pairs > 16 + n.saturating_mul(n) / all * 4
}

/// Symbols of one stage, and the table of each.
#[derive(Default)]
struct Stage {
    symbols: Vec<u8>,
    tables: Vec<u8>,
}

impl Stage {
    fn add(&mut self, symbols: &[u8], table: u8) {
        self.symbols.extend_from_slice(symbols);
        self.tables.resize(self.symbols.len(), table);
    }
}

/// Appends the body. Contexts are one byte a word.
pub(super) fn encode(
    level: Level,
    changes: &Changes<'_>,
    contexts: &[u8],
    buffers: &mut Buffers,
    masked: &mut Masked,
    out: &mut Vec<u8>,
) {
    let Changes { word, words, predicted, masks, count } = *changes;
    let n = count as usize;
    let Masked { classes, strings, stream, .. } = masked;
    pick::pick(level, 1, contexts, masks, n, &mut masked.contexts);
    let (mut of_all, mut of_changed) = ([0; 256], [0; 256]);
    histogram::count(level, &masked.contexts, &mut of_changed);
    if contexts.len() <= 1 << 15 {
        histogram::count(level, contexts, &mut of_all);
    } else {
        histogram::sample_quarter(level, contexts, &mut of_all);
        of_all.iter_mut().for_each(|n| *n *= 4);
    }
    let runs = Runs::of(&of_all, &of_changed);
    runs.write(out);
    let (class_of, rates) = runs.classes();
    look_up(level, &class_of, contexts, classes);
    strings.gather(level, classes, masks, rates.len());
    let mut stages = [const { Stage { symbols: Vec::new(), tables: Vec::new() } }; STAGES];
    for (i, &rate) in rates.iter().enumerate() {
        let mut string = strings.string(i).to_vec();
        let mut rate = rate;
        let mut below = Vec::new();
        while let Some(up) = rate::up(rate) {
            let (some, any) = string::squeeze(level, &string);
            below.push((some, rate::rest(rate)));
            (string, rate) = (any, up);
        }
        stages[0].add(&string, rate::whole(rate));
        for (stage, (some, table)) in stages[1..].iter_mut().zip(below.iter().rev()) {
            stage.add(some, *table);
        }
    }
    for stage in stages.iter().filter(|s| !s.symbols.is_empty()) {
        encode_stage(level, stage, stream, out);
    }
    pick::pick(level, word, words, masks, n, &mut masked.words);
    pick::pick(level, word, predicted, masks, n, &mut masked.predicted);
    buffers.resize(n, word);
    buffers.form(level, word, &masked.words, &masked.predicted, 0..n);
    residual::encode_in(level, word, lanes_for(n), &masked.contexts, buffers, out);
}

/// Lanes for so many bytes or symbols: what is left is so little that time counts more than the 128
/// bytes that 64 lanes cost.
fn lanes_for(n: usize) -> rans::Lanes {
    if n >= 12 << 10 { rans::Lanes::SixtyFour } else { rans::Lanes::Four }
}

/// Most stages: the highest rate needs as many.
const STAGES: usize = 7;

fn encode_stage(level: Level, stage: &Stage, stream: &mut Vec<u8>, out: &mut Vec<u8>) {
    let n = stage.symbols.len();
    let lanes = lanes_for(n);
    let room = rans::bound(n, lanes);
    stream.resize(stream.len().max(room), 0);
    let stream = &mut stream[..room];
    let mut encoder = rans::Encoder::new(lanes, n, stream);
    // Tables have every byte that a string can have.
    let tables = &rate::tables().encode;
    let done = encoder.encode_contexts(level, &stage.tables, tables, &stage.symbols);
    let at = if done { encoder.finish() } else { room };
    write_varint(out, (room - at) as u64);
    out.extend_from_slice(&stream[at..]);
}

/// What is known of words.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub predicted: &'a [u8],
    /// One byte a word.
    pub contexts: &'a [u8],
}

/// Decodes a body.
pub fn decode(
    level: Level,
    word: usize,
    mut payload: &[u8],
    Known { predicted: all, contexts }: Known<'_>,
    buffers: &mut Buffers,
    masked: &mut Masked,
    out: &mut [u8],
) -> Option<()> {
    let payload = &mut payload;
    let Masked { classes, strings, masks, .. } = masked;
    let (class_of, rates) = Runs::read(payload)?.classes();
    look_up(level, &class_of, contexts, classes);
    strings.count(level, classes, rates.len());
    decode_strings(level, payload, &rates, strings)?;
    masks.resize(contexts.len().div_ceil(64), 0);
    strings.scatter(level, classes, masks);
    let n: usize = masks.iter().map(|mask| mask.count_ones() as usize).sum();
    if n == 0 {
        return None;
    }
    pick::pick(level, 1, contexts, masks, n, &mut masked.contexts);
    pick::pick(level, word, all, masks, n, &mut masked.predicted);
    masked.words.resize(n * word, 0);
    let Masked { words, predicted, contexts, masks, differ, .. } = masked;
    residual::decode(level, word, payload, predicted, contexts, buffers, words)?;
    differ.resize(n.div_ceil(64), 0);
    if change::masks(level, word, words, predicted, differ) != n as u64 {
        return None;
    }
    pick::place(level, word, (all, words), masks, out);
    Some(())
}

/// A string on its way from the first stage down.
struct Falling {
    bytes: Vec<u8>,
    /// Lengths in bytes and rates of the strings below, the next one last.
    below: Vec<(usize, u8)>,
}

fn decode_strings(
    level: Level,
    payload: &mut &[u8],
    rates: &[u8],
    strings: &mut Strings,
) -> Option<()> {
    let mut stage = Stage::default();
    let mut falling: Vec<Falling> = Vec::with_capacity(rates.len());
    for (&rate, &n_bits) in rates.iter().zip(&strings.n_bits) {
        let (mut below, mut rate, mut len) = (Vec::new(), rate, n_bits.div_ceil(8));
        while let Some(up) = rate::up(rate) {
            below.push((len, rate));
            (rate, len) = (up, len.div_ceil(8));
        }
        stage.tables.resize(stage.tables.len() + len, rate::whole(rate));
        falling.push(Falling { bytes: vec![0; len], below });
    }
    decode_stage(level, payload, &mut stage)?;
    let mut symbols = &stage.symbols[..];
    for f in &mut falling {
        let (own, rest) = symbols.split_at_checked(f.bytes.len())?;
        f.bytes.copy_from_slice(own);
        symbols = rest;
    }
    while falling.iter().any(|f| !f.below.is_empty()) {
        stage.tables.clear();
        for f in &falling {
            let Some(&(len, rate)) = f.below.last() else { continue };
            if !string::ends(&f.bytes, len) {
                return None;
            }
            let n = string::ones(&f.bytes);
            stage.tables.resize(stage.tables.len() + n, rate::rest(rate));
        }
        decode_stage(level, payload, &mut stage)?;
        let mut symbols = &stage.symbols[..];
        for f in &mut falling {
            let Some((len, _)) = f.below.pop() else { continue };
            let (own, rest) = symbols.split_at_checked(string::ones(&f.bytes))?;
            // Tables lack 0, but not the symbols that stand in the states.
            if own.contains(&0) {
                return None;
            }
            let mut bytes = vec![0; len];
            string::spread(level, &f.bytes, own, &mut bytes);
            f.bytes = bytes;
            symbols = rest;
        }
    }
    for (i, f) in falling.iter().enumerate() {
        if !string::ends(&f.bytes, strings.n_bits[i]) {
            return None;
        }
        strings.string_mut(i).copy_from_slice(&f.bytes);
    }
    Some(())
}

/// Decodes a symbol for each of the tables of a stage.
fn decode_stage(level: Level, payload: &mut &[u8], stage: &mut Stage) -> Option<()> {
    let Stage { symbols, tables } = stage;
    symbols.resize(tables.len(), 0);
    if tables.is_empty() {
        return Some(());
    }
    let len = usize::try_from(read_varint(payload)?).ok()?;
    let (stream, rest) = payload.split_at_checked(len)?;
    *payload = rest;
    let mut decoder = rans::Decoder::new(lanes_for(symbols.len()), symbols.len(), stream)?;
    let good = decoder.decode_contexts(level, tables, &rate::tables().decode, symbols);
    (good && decoder.finish()).then_some(())
}

#[cfg(test)]
mod tests;
