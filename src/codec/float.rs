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

use super::{
    Method,
    choose::{choose_split, sample_heads},
    form, fused,
    plane::{self, Coded, Planes, Policy},
    scaled,
};
use crate::{
    bits::{read_varint, write_varint},
    simd::Level,
    transform::split::{self, PlanesMut, Split},
};

/// Fields of a chunk's words, and its rows.
#[derive(Clone, Copy, Debug)]
pub struct Float {
    /// Width of a word.
    pub bits: u8,
    /// Width of the exponent.
    pub exponent: u8,
    /// Words in a row, where the chunk is whole rows.
    pub row: Option<usize>,
}

pub(super) const SIGN_CONSTANT: u8 = 1 << 4;
pub(super) const SIGN: u8 = 1 << 5;
pub(super) const ROWS: u8 = 1 << 6;
pub(super) const COLUMNS: u8 = 1 << 7;

/// Coder of the symbols for a method.
fn symbol_policy(method: Method) -> Policy {
    match method {
        Method::Fast | Method::Cascade => Policy::Coder(plane::CASCADE),
        Method::Huffman => Policy::Coder(plane::HUFFMAN),
        Method::Runs => Policy::Coder(plane::RUNS),
        _ => Policy::Quick,
    }
}

/// The policy that has a path of its own for bf16.
const FUSED: Policy = Policy::Coder(plane::CASCADE);

/// Coder of rest and tails for a method.
fn low_policy(method: Method) -> Policy {
    match method {
        Method::Max => Policy::Smallest,
        _ => Policy::Sampled,
    }
}

/// Mantissa bits that may join the exponent in the symbol.
fn k_range(method: Method, float: &Float) -> std::ops::RangeInclusive<u8> {
    match method {
        Method::Fast | Method::Cascade | Method::Huffman | Method::Runs => 0..=0,
        // The symbols of 16-bit floats with five exponent bits fit a byte with three more.
        _ if float.exponent <= 5 => 0..=3,
        Method::Max => 0..=3,
        _ => 0..=2,
    }
}

/// Appends the payload of a chunk of floats. Returns its form.
pub fn encode(
    level: Level,
    method: Method,
    float: &Float,
    words: &[u8],
    planes: &mut Planes,
    out: &mut Vec<u8>,
) -> u8 {
    if float.bits == 16 && float.exponent == 8 && symbol_policy(method) == FUSED {
        return fused::encode(level, words, planes, out).unwrap_or(form::STORED);
    }
    let n = words.len() / usize::from(float.bits / 8);
    let stats = split::stats(level, float.bits, 0, words);
    let mut heads = std::mem::take(&mut planes.heads);
    sample_heads(level, float, words, method == Method::Max, &mut heads);
    let range = k_range(method, float);
    let (fields, cost) =
        choose_split(float, &heads, n, stats.sign(), range.clone(), &mut planes.counts);
    planes.heads = heads;
    let scaled = match (method, float.row) {
        (Method::Auto | Method::Max, Some(row)) => {
            scaled::plan(level, method, float, row, words, &fields, cost, planes)
        }
        _ => None,
    };
    let start = out.len();
    let symbol_coder = |out: &mut Vec<u8>, coder| out[start] = coder;
    let fields = scaled.as_ref().map_or(fields, |s| s.fields);
    let scale_flags = scaled.as_ref().map_or(0, |s| s.flags);
    let sign = fields.sign.map_or(0, |s| SIGN_CONSTANT | if s { SIGN } else { 0 });
    out.extend_from_slice(&[0, fields.rest_bits | sign | scale_flags]);
    out.extend_from_slice(&fields.base.to_le_bytes());
    let escapes = match &scaled {
        None => split_words(level, &fields, words, planes),
        Some(scaled) => scaled.finish_split(level, float, words, planes),
    };
    let low = low_policy(method);
    let coder = &mut planes.coder;
    for tail in planes.tails[..fields.n_tails()].iter().rev() {
        plane::encode(level, low, &tail[..n], 8, coder, out);
    }
    let rest_bits = fields.stored_rest_bits();
    if rest_bits > 8 {
        plane::encode(level, low, &planes.rest_hi[..n], rest_bits - 8, coder, out);
    }
    if rest_bits > 0 {
        plane::encode(level, low, &planes.rest_lo[..n], rest_bits.min(8), coder, out);
    }
    match &scaled {
        None => {
            let at = out.len();
            let symbols = &planes.symbols[..n];
            plane::encode(level, symbol_policy(method), symbols, 8, coder, out);
            let used = out[at];
            symbol_coder(out, used);
        }
        Some(scaled) => {
            scaled.encode_scales(out);
            let used = scaled.encode_symbols(level, n, planes, out);
            symbol_coder(out, used);
        }
    }
    if fields.is_windowed() || scaled.is_some() {
        write_escapes(&planes.escapes[..escapes], out);
    }
    form::SPLIT
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
        split::escapes(level, fields, words, &planes.symbols[..n], list);
    }
    escapes
}

impl Planes {
    /// Calls `f` with buffers for planes of `n` words.
    pub(super) fn with<T>(
        &mut self,
        fields: &Split,
        n: usize,
        f: impl FnOnce(PlanesMut<'_>) -> T,
    ) -> T {
        let grow = |plane: &mut Vec<u8>| {
            if plane.len() < n {
                plane.resize(n, 0);
            }
        };
        grow(&mut self.symbols);
        grow(&mut self.rest_lo);
        grow(&mut self.rest_hi);
        self.tails[..fields.n_tails()].iter_mut().for_each(grow);
        let mut tails = self.tails.each_mut().map(|t| {
            let len = t.len().min(n);
            &mut t[..len]
        });
        f(PlanesMut {
            symbols: &mut self.symbols[..n],
            rest_lo: &mut self.rest_lo[..n],
            rest_hi: &mut self.rest_hi[..n],
            tails: &mut tails[..fields.n_tails()],
        })
    }
}

pub(super) fn write_escapes(escapes: &[u16], out: &mut Vec<u8>) {
    write_varint(out, escapes.len() as u64);
    for s in escapes {
        out.extend_from_slice(&s.to_le_bytes());
    }
}

/// Reads the list of at most `n` escapes, which ends the payload.
pub(super) fn read_escapes(payload: &mut &[u8], n: usize, escapes: &mut Vec<u16>) -> Option<()> {
    let count = usize::try_from(read_varint(payload)?).ok().filter(|&c| c <= n)?;
    if payload.len() != 2 * count {
        return None;
    }
    escapes.clear();
    escapes.extend(payload.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b)));
    *payload = &[];
    Some(())
}

/// Inverse of [`encode`]; `None` where the payload is damaged.
pub fn decode(
    level: Level,
    float: &Float,
    payload: &[u8],
    planes: &mut Planes,
    out: &mut [u8],
) -> Option<()> {
    let (&[symbol_coder, flags, base_low, base_high], mut payload) =
        payload.split_first_chunk::<4>()?;
    let sign = match flags & (SIGN | SIGN_CONSTANT) {
        0 => None,
        SIGN_CONSTANT => Some(false),
        SIGN => return None,
        _ => Some(true),
    };
    let fields = Split {
        word_bits: float.bits,
        rest_bits: flags & 15,
        base: u16::from_le_bytes([base_low, base_high]),
        sign,
    };
    let scaled = flags & (ROWS | COLUMNS);
    let valid = if scaled == 0 { fields.is_valid() } else { fields.is_valid_shifted() };
    let rest_most = float.bits.min(16) - float.exponent;
    let base_unused = scaled == 0 && !fields.is_windowed();
    if !valid
        || scaled == COLUMNS
        || fields.rest_bits > rest_most
        || (base_unused && fields.base != 1)
    {
        return None;
    }
    let n = out.len() / fields.word_len();
    let payload = &mut payload;
    let mut planes_of = Coded8 { rest_bits: fields.stored_rest_bits(), ..Coded8::default() };
    for i in (0..fields.n_tails()).rev() {
        planes_of.tails[i] = Some(plane::take(payload)?);
    }
    let rest_bits = fields.stored_rest_bits();
    if rest_bits > 8 {
        planes_of.rest_hi = Some(plane::take(payload)?);
    }
    if rest_bits > 0 {
        planes_of.rest_lo = Some(plane::take(payload)?);
    }
    if scaled != 0 {
        scaled::read_scales(level, float, scaled & COLUMNS != 0, n, payload, planes)?;
    }
    let symbols = plane::take(payload)?;
    if symbols.coder != symbol_coder {
        return None;
    }
    if fields.is_windowed() || scaled != 0 {
        read_escapes(payload, n, &mut planes.escapes)?;
    } else {
        planes.escapes.clear();
    }
    if !payload.is_empty() {
        return None;
    }
    decode_low(level, &fields, &planes_of, n, planes)?;
    if scaled != 0 {
        let columns = scaled & COLUMNS != 0;
        return scaled::decode(level, float, &fields, columns, symbols, planes, &planes_of, out);
    }
    if let (plane::CASCADE, 16, 8, Some(rest)) =
        (symbols.coder, float.bits, rest_bits, Coded8::borrowed(planes_of.rest_lo, 8, n))
        && !fields.is_windowed()
    {
        return fused::decode(level, symbols, rest, planes, out);
    }
    planes.symbols.resize(planes.symbols.len().max(n), 0);
    symbols.decode(level, 8, &mut planes.coder, &mut planes.symbols[..n])?;
    let tails = planes_of.tails(planes, &fields, n);
    let joined = split::Planes {
        symbols: &planes.symbols[..n],
        escapes: &planes.escapes,
        rest_lo: planes_of.rest_lo(planes, n),
        rest_hi: if rest_bits > 8 { &planes.rest_hi[..n] } else { &[] },
        tails: &tails[..fields.n_tails()],
    };
    split::join(level, &fields, joined, out).then_some(())
}

/// The coded planes below the symbols.
#[derive(Default)]
pub(super) struct Coded8<'a> {
    pub(super) tails: [Option<Coded<'a>>; 8],
    pub(super) rest_hi: Option<Coded<'a>>,
    pub(super) rest_lo: Option<Coded<'a>>,
    pub(super) rest_bits: u8,
}

impl<'a> Coded8<'a> {
    /// Planes that are stored byte for byte are used where they lie.
    fn borrowed(coded: Option<Coded<'a>>, bits: u8, n: usize) -> Option<&'a [u8]> {
        let coded = coded.filter(|c| c.coder == plane::PACKED && bits == 8)?;
        (coded.data.len() == n).then_some(coded.data)
    }

    pub(super) fn rest_lo<'p>(&self, planes: &'p Planes, n: usize) -> &'p [u8]
    where
        'a: 'p,
    {
        match Self::borrowed(self.rest_lo, self.rest_bits.min(8), n) {
            Some(data) => data,
            None => planes.rest_lo.get(..n).unwrap_or(&[]),
        }
    }

    pub(super) fn tails<'p>(&self, planes: &'p Planes, fields: &Split, n: usize) -> [&'p [u8]; 8]
    where
        'a: 'p,
    {
        std::array::from_fn(|i| match Self::borrowed(self.tails[i], 8, n) {
            Some(data) => data,
            None if i < fields.n_tails() => &planes.tails[i][..n],
            None => &[],
        })
    }
}

/// Decodes rest and tails into the planes' buffers, but for those used where they lie.
pub(super) fn decode_low(
    level: Level,
    fields: &Split,
    coded: &Coded8<'_>,
    n: usize,
    planes: &mut Planes,
) -> Option<()> {
    let rest_bits = fields.stored_rest_bits();
    let mut decode = |coded: Option<Coded<'_>>, bits: u8, plane: &mut Vec<u8>| {
        let Some(c) = coded else { return Some(()) };
        if Coded8::borrowed(coded, bits, n).is_some() {
            return Some(());
        }
        plane.resize(plane.len().max(n), 0);
        c.decode(level, bits, &mut planes.coder, &mut plane[..n])
    };
    decode(coded.rest_hi, rest_bits.saturating_sub(8), &mut planes.rest_hi)?;
    decode(coded.rest_lo, rest_bits.min(8), &mut planes.rest_lo)?;
    for (coded, plane) in coded.tails.iter().zip(&mut planes.tails) {
        decode(*coded, 8, plane)?;
    }
    Some(())
}

/// The coder of the symbols, for people.
pub fn describe(payload: &[u8]) -> &'static str {
    let scaled = payload.get(1).is_some_and(|f| f & ROWS != 0);
    match payload.first() {
        Some(&plane::CONSTANT) => "constant exponent",
        Some(&plane::PACKED) => "packed",
        Some(&plane::RANS) => "rans",
        Some(&plane::CASCADE) => "cascade",
        Some(&plane::HUFFMAN) => "huffman",
        Some(&plane::RUNS) => "runs",
        Some(&plane::CONTEXTS) if scaled => "rans, scaled",
        _ => "unknown",
    }
}
