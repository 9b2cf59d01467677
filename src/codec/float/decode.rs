//! Decoding of the `SPLIT` form, piece by piece: symbols, rest and tails of a piece are decoded,
//! joined, hashed and written while they are in the nearest cache.

use super::{
    super::{
        pieces::{Delivery, PIECE, Pieces},
        plane::{self, Coded, Coder, CoderScratch, Planes},
    },
    bf16,
    fields::{COLUMNS, Float, ROWS, SIGN, SIGN_CONSTANT},
    scaling,
};
use crate::{
    bits::read_varint,
    simd::Level,
    transform::split::{self, Split},
};

/// Planes below the symbols: up to eight tails, the rest's high bits and its low ones.
const LOW: usize = 10;
const REST_HI: usize = 8;
const REST_LO: usize = 9;

/// What the beginning of a payload says.
struct Head {
    symbol_coder: Coder,
    fields: Split,
    rows: bool,
    columns: bool,
}

impl Head {
    /// Reads a head that [`super::encode`] may have written for such floats.
    fn read(float: &Float, payload: &mut &[u8]) -> Option<Self> {
        let (&[symbol_coder, flags, base_low, base_high], rest) =
            payload.split_first_chunk::<4>()?;
        *payload = rest;
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
        let (rows, columns) = (flags & ROWS != 0, flags & COLUMNS != 0);
        let valid = if rows { fields.is_valid_shifted() } else { fields.is_valid() };
        let rest_most = float.bits.min(16) - float.exponent;
        let symbol_coder = Coder::from_code(symbol_coder)?;
        let good = valid
            && (rows || !columns)
            && fields.rest_bits <= rest_most
            && (rows || fields.is_windowed() || fields.base == 1);
        good.then_some(Head { symbol_coder, fields, rows, columns })
    }
}

/// Inverse of [`super::encode`]: the digest of what it decodes, `None` where the payload is damaged.
pub fn decode(
    level: Level,
    float: &Float,
    mut payload: &[u8],
    planes: &mut Planes,
    out: &mut [u8],
) -> Option<u64> {
    let payload = &mut payload;
    let head = Head::read(float, payload)?;
    let fields = &head.fields;
    let n = out.len() / fields.word_len();
    let rest_bits = fields.stored_rest_bits();
    let low = CodedLow::take(fields, payload)?;
    if head.rows {
        scaling::read_scales(level, float, head.columns, n, payload, planes)?;
    }
    let symbols = plane::take(payload)?;
    if symbols.coder != head.symbol_coder {
        return None;
    }
    if fields.is_windowed() || head.rows {
        read_escapes(payload, n, &mut planes.escapes)?;
    } else {
        planes.escapes.clear();
    }
    if !payload.is_empty() {
        return None;
    }
    if symbols.coder == Coder::Cascade
        && (float.bits, rest_bits) == (16, 8)
        && !fields.is_windowed()
        && !head.rows
        && let Some((rest, 8)) = low.0[REST_LO]
        && (rest.coder, rest.data.len()) == (Coder::Packed, n)
    {
        return bf16::decode(level, symbols, rest.data, planes, out);
    }
    let Planes { tails, rest_hi, rest_lo, coder, .. } = planes;
    let low = low.pieces(level, n, coder, tails.iter_mut().chain([rest_hi, rest_lo]))?;
    let symbols = if head.rows {
        let columns = head.columns.then_some(&planes.columns[..]);
        Symbols::Scaled(scaling::Pieces::new(float, fields, &planes.rows, columns, symbols, n)?)
    } else {
        Symbols::Plain(Pieces::new(level, symbols, 8, n, coder, &mut planes.symbols)?)
    };
    let delivery = Delivery::new(level, planes.far);
    join(level, fields, symbols, low, &planes.escapes, delivery, out)
}

/// The planes below the symbols as a payload has them, each with the width of its values.
pub struct CodedLow<'a>([Option<(Coded<'a>, u8)>; LOW]);

impl<'a> CodedLow<'a> {
    /// Takes them off the front of a payload.
    pub fn take(fields: &Split, payload: &mut &'a [u8]) -> Option<Self> {
        let rest_bits = fields.stored_rest_bits();
        let mut coded = [None; LOW];
        for plane in coded[..fields.n_tails()].iter_mut().rev() {
            *plane = Some((plane::take(payload)?, 8));
        }
        if rest_bits > 8 {
            coded[REST_HI] = Some((plane::take(payload)?, rest_bits - 8));
        }
        if rest_bits > 0 {
            coded[REST_LO] = Some((plane::take(payload)?, rest_bits.min(8)));
        }
        Some(CodedLow(coded))
    }

    /// Prepares to decode `n` values of each. `buffers` are those of the tails, of the rest's high
    /// bits and of its low ones.
    pub fn pieces(
        self,
        level: Level,
        n: usize,
        scratch: &mut CoderScratch,
        buffers: impl Iterator<Item = &'a mut Vec<u8>>,
    ) -> Option<Low<'a>> {
        let mut low = [const { None }; LOW];
        for ((low, coded), buffer) in low.iter_mut().zip(self.0).zip(buffers) {
            if let Some((coded, bits)) = coded {
                *low = Some(Pieces::new(level, coded, bits, n, scratch, buffer)?);
            }
        }
        Some(low)
    }
}

/// The planes below the symbols.
pub type Low<'a> = [Option<Pieces<'a>>; LOW];

/// Where symbols come from.
#[allow(clippy::large_enum_variant, reason = "there is one of them at a time")]
pub enum Symbols<'a> {
    Plain(Pieces<'a>),
    Scaled(scaling::Pieces<'a>),
}

impl Symbols<'_> {
    fn finish(self) -> bool {
        match self {
            Symbols::Plain(pieces) => pieces.finish(),
            Symbols::Scaled(pieces) => pieces.finish(),
        }
    }
}

/// Decodes and joins all pieces; the hash of what they make.
pub fn join(
    level: Level,
    fields: &Split,
    mut symbols: Symbols<'_>,
    mut low: Low<'_>,
    mut escapes: &[u16],
    mut delivery: Delivery,
    out: &mut [u8],
) -> Option<u64> {
    let (mut symbol_buffer, mut buffers) = ([0; PIECE], [[0; PIECE]; LOW]);
    let (word, total) = (fields.word_len(), out.len() / fields.word_len());
    for at in (0..total).step_by(PIECE) {
        let n = PIECE.min(total - at);
        let piece = word * at..word * (at + n);
        let mut parts: [&[u8]; LOW] = [&[]; LOW];
        for ((part, plane), buffer) in parts.iter_mut().zip(&mut low).zip(&mut buffers) {
            if let Some(plane) = plane {
                *part = plane.next(level, at, &mut buffer[..n])?;
            }
        }
        let mut planes = split::Planes {
            symbols: &[],
            rest_lo: parts[REST_LO],
            rest_hi: parts[REST_HI],
            tails: &parts[..fields.n_tails()],
        };
        let buffer = &mut symbol_buffer[..n];
        let good = match &mut symbols {
            Symbols::Plain(pieces) => {
                planes.symbols = pieces.next(level, at, buffer)?;
                plane::below(planes.symbols, fields.symbol_bits()).then_some(())?;
                delivery.put(out, piece, |words| {
                    split::join(level, fields, planes, &mut escapes, words)
                })
            }
            Symbols::Scaled(pieces) => {
                planes.symbols = pieces.next(level, at, buffer)?;
                delivery.put(out, piece, |words| {
                    pieces.join(level, fields, planes, &mut escapes, words)
                })
            }
        };
        good.then_some(())?;
    }
    let ended = symbols.finish() && low.into_iter().flatten().all(Pieces::finish);
    (ended && escapes.is_empty()).then(|| delivery.finish(out))
}

/// Reads the list of at most `n` escapes, which ends the payload.
pub fn read_escapes(payload: &mut &[u8], n: usize, escapes: &mut Vec<u16>) -> Option<()> {
    let count = usize::try_from(read_varint(payload)?).ok().filter(|&c| c <= n)?;
    if payload.len() != 2 * count {
        return None;
    }
    escapes.clear();
    escapes.extend(payload.as_chunks::<2>().0.iter().map(|b| u16::from_le_bytes(*b)));
    *payload = &[];
    Some(())
}
