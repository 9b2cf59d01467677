//! First moments as the gradients that made them of the base's (`predict::gradient`).
//!
//! ```text
//! payload   order (1 byte), keep, gain, clip (f32 each)
//!           kinds: symbols as in `residual`; contexts are the exponents of the base's second
//!           moments
//!           lengths: symbols as in `residual`; contexts are the kinds
//!           varint number of raw words, 4 bytes each
//!           the bits of gradients, in lanes
//! kind      0      the gradient is 0
//!           1      the word is the base's
//!           2      raw: the word is in the list
//!           3 …    131 + exponent of G − 64 − half the exponent of v₀
//! length    0      kinds 0 to 2
//!           L      significant bits of G, 1 to 24
//! bits      L = 1  sign
//!           L > 1  sign, then those between the leading one and the last one, the lowest first
//! ```
//!
//! The lanes are those of `lanes` for words of four bytes. They know symbols of residuals: one of
//! `8·n + 7` has n bits to follow and the least magnitude `4·2ⁿ`.

use super::{
    lanes,
    predictor::{PIECE, exponents, take},
    residual::{self, Buffers},
};
use crate::{
    bits::{read_varint, write_varint},
    predict::gradient::{self, FOLD_ORDERS, Fold, MANTISSA, MOST_BITS},
    simd::{Level, for_every_level},
};

/// Kinds of words without an exponent.
const ZERO: u8 = 0;
const SAME: u8 = 1;
const RAW: u8 = 2;
/// First kind with an exponent.
const FIRST: u8 = 3;
/// Kind of a gradient as large as the root of its second moment.
const EVEN: i32 = 131 - 64;
/// Exponent fields of `f64` are larger by this than those of `f32`.
const BIAS: i32 = 1023 - 127;

/// Buffers for gradients.
#[derive(Default)]
pub struct Gradients {
    solved: Vec<f64>,
    kinds: Vec<u8>,
    lengths: Vec<u8>,
    contexts: Vec<u8>,
}

/// Appends the payload.
pub fn encode(
    level: Level,
    s: &Fold,
    words: &[u8],
    known: [&[u8]; 2],
    buffers: &mut Buffers,
    gradients: &mut Gradients,
    out: &mut Vec<u8>,
) {
    let n = words.len() / 4;
    let [m0, v0] = known;
    out.push(s.order);
    for x in [s.keep, s.gain, s.clip] {
        out.extend_from_slice(&x.to_le_bytes());
    }
    let Buffers { symbols, coder, delta, classes, joint, .. } = buffers;
    delta.resize(4 * n, 0);
    symbols.resize(n, 0);
    gradients.resize(n);
    let Gradients { solved, kinds, lengths, contexts } = gradients;
    for from in (0..n).step_by(PIECE) {
        let to = n.min(from + PIECE);
        let at = 4 * from..4 * to;
        let solved = &mut solved[..to - from];
        gradient::solve(level, s, &m0[at.clone()], &words[at.clone()], solved);
        exponents(level, &v0[at.clone()], &mut contexts[from..to]);
        let (kinds, lengths) = (&mut kinds[from..to], &mut lengths[from..to]);
        describe(level, solved, &contexts[from..to], kinds, lengths);
        bits(level, solved, lengths, &mut delta[at], &mut symbols[from..to]);
    }
    // Clusters rest on all of a small chunk, else on 64 words of every 256 or 512.
    let step = match n {
        0..=0x8000 => 1,
        0x8001..=0x1_ffff => 4,
        _ => 8,
    };
    joint.count(level, contexts, kinds, 64, step);
    residual::encode_symbols(level, joint, kinds, contexts, classes, coder, out);
    joint.count(level, kinds, lengths, 64, step);
    residual::encode_symbols(level, joint, lengths, kinds, classes, coder, out);
    let raw = kinds.iter().zip(words.as_chunks::<4>().0).filter(|(kind, _)| **kind == RAW);
    write_varint(out, raw.clone().count() as u64);
    raw.for_each(|(_, word)| out.extend_from_slice(word));
    lanes::write(level, 4, delta, symbols, out);
}

/// Decodes the payload into `out`.
pub fn decode(
    level: Level,
    mut payload: &[u8],
    known: [&[u8]; 2],
    buffers: &mut Buffers,
    gradients: &mut Gradients,
    out: &mut [u8],
) -> Option<()> {
    let n = out.len() / 4;
    let [m0, v0] = known;
    let payload = &mut payload;
    let [order] = take(payload)?;
    let mut scalar = || Some(f32::from_le_bytes(take(payload)?));
    let s = Fold { order, keep: scalar()?, gain: scalar()?, clip: scalar()? };
    if order >= FOLD_ORDERS {
        return None;
    }
    let Buffers { symbols, delta, classes, .. } = buffers;
    gradients.resize(n);
    let Gradients { solved, kinds, lengths, contexts } = gradients;
    exponents(level, v0, contexts);
    residual::decode_symbols(level, payload, contexts, classes, kinds)?;
    residual::decode_symbols(level, payload, kinds, classes, lengths)?;
    if !agree(level, kinds, lengths) {
        return None;
    }
    let n_raw = kinds.iter().filter(|&&kind| kind == RAW).count();
    if read_varint(payload)? != n_raw as u64 {
        return None;
    }
    let (raw, units) = payload.split_at_checked(4 * n_raw)?;
    symbols.resize(n, 0);
    lane_symbols(level, lengths, symbols);
    delta.clear();
    delta.resize(4 * n, 0);
    if !lanes::join(level, 4, symbols, units, delta, out) {
        return None;
    }
    for from in (0..n).step_by(PIECE) {
        let to = n.min(from + PIECE);
        let at = 4 * from..4 * to;
        let solved = &mut solved[..to - from];
        let out = &mut out[at.clone()];
        join(level, &kinds[from..to], &lengths[from..to], &contexts[from..to], out, solved);
        gradient::apply(level, &s, &m0[at], solved, out);
    }
    if n_raw > 0 {
        let places = kinds.iter().zip(out.as_chunks_mut::<4>().0).filter(|(k, _)| **k == RAW);
        places.zip(raw.as_chunks::<4>().0).for_each(|((_, word), raw)| *word = *raw);
    }
    Some(())
}

impl Gradients {
    fn resize(&mut self, n: usize) {
        self.solved.resize(n.min(PIECE), 0.0);
        for bytes in [&mut self.kinds, &mut self.lengths, &mut self.contexts] {
            bytes.resize(n, 0);
        }
    }

    /// Kinds with their contexts, and lengths, of a sample, and how many bits they leave.
    pub fn sample(
        &mut self,
        level: Level,
        s: &Fold,
        words: &[u8],
        known: [&[u8]; 2],
    ) -> Sample<'_> {
        let n = words.len() / 4;
        let [m0, v0] = known;
        self.resize(n);
        self.solved.resize(n, 0.0);
        gradient::solve(level, s, m0, words, &mut self.solved);
        exponents(level, v0, &mut self.contexts);
        describe(level, &self.solved, &self.contexts, &mut self.kinds, &mut self.lengths);
        let follow = |&length: &u8| u64::from(follow(length));
        let raw = self.kinds.iter().filter(|&&kind| kind == RAW).count() as u64;
        let follow = self.lengths.iter().map(follow).sum::<u64>() + 32 * raw;
        Sample { contexts: &self.contexts, kinds: &self.kinds, lengths: &self.lengths, follow }
    }
}

/// What a sample is coded as.
pub struct Sample<'a> {
    /// Contexts of the kinds.
    pub contexts: &'a [u8],
    /// Contexts of the lengths.
    pub kinds: &'a [u8],
    /// Significant bits.
    pub lengths: &'a [u8],
    /// Bits that are stored as they are.
    pub follow: u64,
}

/// Bits that follow a length.
#[inline(always)]
fn follow(length: u8) -> u8 {
    (length - u8::from(length > 1)) & 31
}

for_every_level! {
/// Kind and length of every gradient.
fn describe(solved: &[f64], contexts: &[u8], kinds: &mut [u8], lengths: &mut [u8]) {
    let outs = kinds.iter_mut().zip(lengths);
    for ((kind, length), (x, &context)) in outs.zip(solved.iter().zip(contexts)) {
        let bits = x.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i32 - BIAS;
        let even = i32::from(context >> 1) - EVEN;
        let of = exponent - even;
        let fits = (i32::from(FIRST)..=255).contains(&of);
        let k = if fits { of } else { i32::from(RAW) };
        let k = if bits == 0 { i32::from(ZERO) } else { k };
        let k = if *x == f64::INFINITY { i32::from(SAME) } else { k };
        let k = if x.is_nan() { i32::from(RAW) } else { k };
        *kind = k as u8;
        // The lowest bit that is set, as a float: its exponent is its place.
        let mantissa = bits & MANTISSA | 1 << 52;
        let lowest = mantissa & mantissa.wrapping_neg();
        let place = (lowest as i64 as f64).to_bits() >> 52;
        let l = (53 + 1023 - place) as u8;
        *length = if k < i32::from(FIRST) { 0 } else { l };
    }
}
}

for_every_level! {
/// The bits of every gradient as a magnitude and a symbol for the lanes.
fn bits(solved: &[f64], lengths: &[u8], magnitudes: &mut [u8], symbols: &mut [u8]) {
    let outs = magnitudes.as_chunks_mut::<4>().0.iter_mut().zip(symbols);
    for ((magnitude, symbol), (x, &length)) in outs.zip(solved.iter().zip(lengths)) {
        let bits = x.to_bits();
        let inner = (bits & MANTISSA) >> ((53 - u64::from(length)) & 63);
        let value = inner as u32 & !1 | (bits >> 63) as u32;
        let n = u32::from(follow(length));
        *magnitude = (value | 4 << n).to_le_bytes();
        *symbol = symbol_of(length);
    }
}
}

/// The symbol that has a gradient's bits to follow.
#[inline(always)]
fn symbol_of(length: u8) -> u8 {
    let n = follow(length);
    if n == 0 { 0 } else { 8 * n + 7 }
}

for_every_level! {
fn lane_symbols(lengths: &[u8], symbols: &mut [u8]) {
    symbols.iter_mut().zip(lengths).for_each(|(s, &length)| *s = symbol_of(length));
}
}

for_every_level! {
/// Whether exactly the kinds with exponents have lengths, and none is too long.
fn agree(kinds: &[u8], lengths: &[u8]) -> bool {
    let bad = |(&kind, &length): (&u8, &u8)| {
        (kind >= FIRST) != (length > 0) || u32::from(length) > MOST_BITS
    };
    !kinds.iter().zip(lengths).fold(false, |any, pair| any | bad(pair))
}
}

for_every_level! {
/// Inverse of [`describe`] and [`bits`].
fn join(kinds: &[u8], lengths: &[u8], contexts: &[u8], magnitudes: &[u8], solved: &mut [f64]) {
    let fields = kinds.iter().zip(lengths).zip(contexts);
    let all = fields.zip(magnitudes.as_chunks::<4>().0).zip(solved);
    for ((((&kind, &length), &context), magnitude), x) in all {
        let value = u64::from(u32::from_le_bytes(*magnitude));
        let even = i32::from(context >> 1) - EVEN;
        let exponent = (i32::from(kind) + even + BIAS) as u64;
        let mantissa = (value | 1) << ((53 - u64::from(length)) & 63) & MANTISSA;
        let made = value << 63 | exponent << 52 | mantissa;
        let odd = if kind == SAME { f64::INFINITY.to_bits() } else { 0 };
        *x = f64::from_bits(if kind < FIRST { odd } else { made });
    }
}
}
