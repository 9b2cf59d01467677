//! The `SPLIT` form: floats as symbols (exponent and top mantissa bits), rest and tails.
//!
//! ```text
//! payload   coder of the symbols (1 byte, repeated in their plane)
//!           bits 0–3 rest_bits, bit 4 constant sign, bit 5 that sign, bit 6 row scales,
//!           bit 7 column scales (only with bit 6)
//!           base (2 bytes)
//!           tails, most significant first · rest_hi · rest_lo: coded planes
//!           with bit 6: rows · with bit 7: columns: coded planes, one value a row or column
//!           symbols: coded plane
//!           where symbols go through a window: varint count of escapes, 2 bytes each
//! ```

mod bf16;
mod choice;
mod cut;
mod decode;
mod fields;
mod scale;
mod scaling;

pub use choice::{choose_split, sample_heads};
pub use decode::{CodedLow, Symbols, decode, join, read_escapes};
pub use fields::Float;
use fields::ROWS;
pub(in crate::codec) use fields::{SIGN, SIGN_CONSTANT};

use super::{
    Form, Made, Method,
    plane::{self, Coder, Planes, Policy},
};
use crate::{
    bits::write_varint,
    simd::Level,
    transform::split::{self, PlanesMut, Split},
};

/// Coder of the symbols for a method.
fn symbol_policy(method: Method, float: &Float) -> Policy {
    match method {
        // Scales differ by rows and columns; of words of a byte, a base weighs more.
        Method::Fast if (float.bits, float.exponent) != (16, 8) => {
            Policy::Shifted(if float.bits == 8 { 7 } else { 8 })
        }
        Method::Fast | Method::Cascade => Policy::Coder(Coder::Cascade),
        Method::Max => Policy::Smallest,
        _ => Policy::Quick,
    }
}

/// The policy that has a path of its own for bf16.
const FUSED: Policy = Policy::Coder(Coder::Cascade);

/// Coder of rest and tails for a method.
fn low_policy(method: Method) -> Policy {
    match method {
        Method::Max => Policy::Quarter,
        _ => Policy::Sampled,
    }
}

/// Mantissa bits that may join the exponent in the symbol.
fn k_range(method: Method, float: &Float) -> std::ops::RangeInclusive<u8> {
    match method {
        Method::Fast | Method::Cascade => 0..=0,
        // The symbols of 16-bit floats with five exponent bits fit a byte with three more.
        _ if float.exponent <= 5 => 0..=3,
        Method::Max => 0..=3,
        _ => 0..=2,
    }
}

/// Appends the payload of a chunk of floats.
pub fn encode(
    level: Level,
    method: Method,
    float: &Float,
    words: &[u8],
    planes: &mut Planes,
    out: &mut Vec<u8>,
) -> Made {
    if float.bits == 16 && float.exponent == 8 && symbol_policy(method, float) == FUSED {
        return bf16::encode(level, words, planes, out).unwrap_or(Form::Stored.into());
    }
    let n = words.len() / usize::from(float.bits / 8);
    let mut heads = std::mem::take(&mut planes.heads);
    sample_heads(level, float, words, method == Method::Max, &mut heads);
    let sign = sign_of_all(level, float, words, &heads);
    let range = k_range(method, float);
    let (fields, cost) = choose_split(float, &heads, n, sign, range, &mut planes.counts);
    planes.heads = heads;
    // Words of any kind: scales would be looked for in vain, and planes coded for a gain of less
    // than a five-hundredth. (The cost is that of heads: wider words may gain below them.)
    let raw = n as u64 * u64::from(float.bits);
    if method == Method::Auto && float.bits <= 16 && cost + raw / 500 >= raw {
        return Form::Stored.into();
    }
    let (scaled, mut digest) = match (method, float.row) {
        (Method::Auto | Method::Max, Some(row)) => {
            let solo = scaling::Solo { sign: fields.sign, cost };
            scaling::plan(level, method, float, row, words, &solo, planes)
        }
        _ => None,
    }
    .unzip();
    let start = out.len();
    let fields = scaled.as_ref().map_or(fields, |s| s.fields);
    let scale_flags = scaled.as_ref().map_or(0, |s| s.flags);
    let sign = fields.sign.map_or(0, |s| SIGN_CONSTANT | if s { SIGN } else { 0 });
    let [base_low, base_high] = fields.base.to_le_bytes();
    let head = [0, fields.rest_bits | sign | scale_flags, base_low, base_high];
    let low = low_policy(method);
    let escapes = if scaled.is_none() && planes.device.is_none() {
        let (escapes, found) = cut::encode_low(level, low, &fields, words, head, planes, out);
        digest = Some(found);
        escapes
    } else {
        let escapes = match &scaled {
            None => split_words(level, &fields, words, planes),
            Some(scaled) => scaled.finish_split(level, float, words, planes),
        };
        out.extend_from_slice(&head);
        encode_low(level, low, &fields, n, planes, out);
        escapes
    };
    out[start] = match &scaled {
        None => {
            let at = out.len();
            let symbols = &planes.symbols[..n];
            let policy = symbol_policy(method, float);
            plane::encode(level, policy, symbols, 8, &mut planes.coder, out);
            out[at]
        }
        Some(scaled) => {
            scaled.encode_scales(out);
            scaled.encode_symbols(level, n, planes, out) as u8
        }
    };
    if fields.is_windowed() || scaled.is_some() {
        write_escapes(&planes.escapes[..escapes], out);
    }
    Made { form: Form::Split, digest }
}

/// The sign that all words share, if they do: `heads` are some of theirs.
fn sign_of_all(level: Level, float: &Float, words: &[u8], heads: &[u16]) -> Option<bool> {
    let first = heads.first()? & 1;
    if heads.iter().any(|h| h & 1 != first) {
        return None;
    }
    split::sign(level, float.bits, words)
}

/// Appends the planes below the symbols.
pub(super) fn encode_low(
    level: Level,
    policy: Policy,
    fields: &Split,
    n: usize,
    planes: &mut Planes,
    out: &mut Vec<u8>,
) {
    let coder = &mut planes.coder;
    for tail in planes.tails[..fields.n_tails()].iter().rev() {
        plane::encode(level, policy, &tail[..n], 8, coder, out);
    }
    let rest_bits = fields.stored_rest_bits();
    if rest_bits > 8 {
        plane::encode(level, policy, &planes.rest_hi[..n], rest_bits - 8, coder, out);
    }
    if rest_bits > 0 {
        plane::encode(level, policy, &planes.rest_lo[..n], rest_bits.min(8), coder, out);
    }
}

/// Splits all words into the planes' buffers. Returns how many escapes there are.
pub(super) fn split_words(
    level: Level,
    fields: &Split,
    words: &[u8],
    planes: &mut Planes,
) -> usize {
    let n = words.len() / fields.word_len();
    let mut device = planes.device.take();
    let done = device.as_mut().and_then(|d| planes.with(fields, n, |p| d.split(fields, words, p)));
    planes.device = device;
    let escapes =
        done.unwrap_or_else(|| planes.with(fields, n, |p| split::split(level, fields, words, p)));
    planes.escapes.resize(planes.escapes.len().max(escapes), 0);
    if escapes > 0 {
        let list = &mut planes.escapes[..escapes];
        split::escapes(fields, words, &planes.symbols[..n], list);
    }
    escapes
}

impl Planes {
    /// Makes room for planes of `n` words.
    fn grow(&mut self, fields: &Split, n: usize) {
        let grow = |plane: &mut Vec<u8>| {
            if plane.len() < n {
                plane.resize(n, 0);
            }
        };
        grow(&mut self.symbols);
        let rest = fields.stored_rest_bits();
        let parts = [(&mut self.rest_lo, rest > 0), (&mut self.rest_hi, rest > 8)];
        parts.into_iter().filter(|(_, used)| *used).for_each(|(plane, _)| grow(plane));
        self.tails[..fields.n_tails()].iter_mut().for_each(grow);
    }

    /// Calls `f` with buffers for planes of `n` words.
    pub(super) fn with<T>(
        &mut self,
        fields: &Split,
        n: usize,
        f: impl FnOnce(PlanesMut<'_>) -> T,
    ) -> T {
        self.grow(fields, n);
        let mut tails = self.tails.each_mut().map(|tail| up_to(tail, n));
        f(PlanesMut {
            symbols: &mut self.symbols[..n],
            rest_lo: up_to(&mut self.rest_lo, n),
            rest_hi: up_to(&mut self.rest_hi, n),
            tails: &mut tails[..fields.n_tails()],
        })
    }
}

/// The first `n` bytes of a plane, or none of one that is not in use.
fn up_to(plane: &mut [u8], n: usize) -> &mut [u8] {
    plane.get_mut(..n).unwrap_or_default()
}

pub(super) fn write_escapes(escapes: &[u16], out: &mut Vec<u8>) {
    write_varint(out, escapes.len() as u64);
    for s in escapes {
        out.extend_from_slice(&s.to_le_bytes());
    }
}

/// The coder of the symbols, for people.
pub fn describe(payload: &[u8]) -> &'static str {
    let scaled = payload.get(1).is_some_and(|f| f & ROWS != 0);
    match payload.first().and_then(|&code| Coder::from_code(code)) {
        Some(Coder::Constant) => "constant exponent",
        Some(Coder::Packed) => "packed",
        Some(Coder::Rans) => "rans",
        Some(Coder::Cascade) => "cascade",
        Some(Coder::Shifted) => "cascade, shifted",
        Some(Coder::Contexts) if scaled => "rans, scaled",
        _ => "unknown",
    }
}
