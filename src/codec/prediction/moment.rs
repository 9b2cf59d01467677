//! First moments in the contexts of the second ones, which are about their squares.
//!
//! ```text
//! payload   bits 0–3 rest_bits, bit 4 constant sign, bit 5 that sign (1 byte)
//!           base (2 bytes)
//!           tails, most significant first · rest_hi · rest_lo: coded planes
//!           symbols: clusters, tables and stream as in `residual`; contexts are the exponents of
//!           the second moments
//!           varint count of escapes, 2 bytes each
//! ```
//!
//! The fields are those of the `SPLIT` form.

use super::residual::{self, Buffers};
use crate::{
    codec::{
        float::{self, CodedLow, Float, SIGN, SIGN_CONSTANT, Symbols, choose_split, sample_heads},
        pieces::{Delivery, Pieces},
        plane::{Planes, Policy},
    },
    simd::Level,
    transform::split::{self, Split},
};

/// Mantissa bits in a symbol.
const MANTISSA: u8 = 2;
/// Bits beside the symbol: sign and the rest of the mantissa.
pub const REST_BITS: u64 = 32 - 8 - MANTISSA as u64;

const FLOAT: Float = Float { bits: 32, exponent: 8, row: None };

/// Symbols of a sample, near enough for an estimate.
pub fn sample_symbols(words: &[u8], symbols: &mut [u8]) {
    for (s, w) in symbols.iter_mut().zip(words.as_chunks::<4>().0) {
        *s = (u32::from_le_bytes(*w) << 1 >> (24 - MANTISSA)) as u8;
    }
}

/// Appends the payload; `None` where the symbols do not fit.
pub fn encode(
    level: Level,
    words: &[u8],
    v: &[u8],
    buffers: &mut Buffers,
    planes: &mut Planes,
    out: &mut Vec<u8>,
) -> Option<()> {
    let n = words.len() / 4;
    let sign = split::sign(level, 32, words);
    let mut heads = std::mem::take(&mut planes.heads);
    sample_heads(level, &FLOAT, words, false, &mut heads);
    let k = MANTISSA..=MANTISSA;
    let (fields, _) = choose_split(&FLOAT, &heads, n, sign, k, &mut planes.counts);
    planes.heads = heads;
    let sign = fields.sign.map_or(0, |s| SIGN_CONSTANT | if s { SIGN } else { 0 });
    out.push(fields.rest_bits | sign);
    out.extend_from_slice(&fields.base.to_le_bytes());
    let escapes = float::split_words(level, &fields, words, planes);
    if escapes * 16 > n {
        return None;
    }
    float::encode_low(level, Policy::Sampled, &fields, n, planes, out);
    let Buffers { contexts, classes, joint, coder, .. } = buffers;
    contexts_of(v, contexts);
    let symbols = &planes.symbols[..n];
    joint.count(level, contexts, symbols, 64, 1);
    residual::encode_symbols(level, joint, symbols, contexts, classes, coder, out);
    float::write_escapes(&planes.escapes[..escapes], out);
    Some(())
}

fn contexts_of(v: &[u8], contexts: &mut Vec<u8>) {
    contexts.clear();
    contexts.extend(v.as_chunks::<4>().0.iter().map(|w| (u32::from_le_bytes(*w) >> 23) as u8));
}

/// Decodes the payload into `out`, and returns the digest of that.
pub fn decode(
    level: Level,
    payload: &[u8],
    v: &[u8],
    buffers: &mut Buffers,
    planes: &mut Planes,
    out: &mut [u8],
) -> Option<u64> {
    let (&[flags, base_low, base_high], mut payload) = payload.split_first_chunk::<3>()?;
    let sign = match flags & !15 {
        0 => None,
        SIGN_CONSTANT => Some(false),
        f if f == SIGN_CONSTANT | SIGN => Some(true),
        _ => return None,
    };
    let base = u16::from_le_bytes([base_low, base_high]);
    let fields = Split { word_bits: 32, rest_bits: flags & 15, base, sign };
    let has_base = fields.is_windowed() || base == 1;
    if !fields.is_valid() || fields.rest_bits > 8 || !has_base {
        return None;
    }
    let n = out.len() / 4;
    let payload = &mut payload;
    let low = CodedLow::take(&fields, payload)?;
    let Buffers { contexts, classes, .. } = buffers;
    contexts_of(v, contexts);
    residual::decode_symbols(level, payload, contexts, classes, &mut planes.symbols)?;
    float::read_escapes(payload, n, &mut planes.escapes)?;
    let Planes { tails, rest_hi, rest_lo, coder, symbols, escapes, far, .. } = planes;
    let low = low.pieces(level, n, coder, tails.iter_mut().chain([rest_hi, rest_lo]))?;
    let symbols = Symbols::Plain(Pieces::Whole(symbols));
    let delivery = Delivery::new(level, *far);
    float::join(level, &fields, symbols, low, escapes, delivery, out)
}
