//! The methods of the two studies that this codec descends from, as codecs of a chunk, so that
//! what was claimed for them can be measured on any data.
//!
//! | method | what becomes of a chunk |
//! |---|---|
//! | `lmc` | byte groups, runs shortened, Huffman with a codebook every 64 KiB |
//! | `lmc-plain` | the same without grouping |
//! | `plmc` | `lmc` on buffers of 128 MiB, the unit that threads work on |
//! | `sem` | sign and exponent by their order-0 entropy, the mantissa raw |
//! | `xz` | LZMA over all of it |
//! | `byteplane-xz` | byte groups, each by LZMA |
//! | `bitplane-xz` | sign, exponent, and every bit of the mantissa as a plane, each by LZMA |
//! | `class-group-xz` | the same, mantissas sorted by sign and exponent |
//! | `exponent-group-xz` | the same, signs and mantissas sorted by exponent |
//!
//! A payload holds no lengths that its caller knows: element type and decoded length come from
//! outside. Bytes at the end that fill no word are kept raw at the front of the payload. Streams
//! that a payload holds several of are each preceded by their length (u32).

mod delta;
mod lmc;
mod numbers;
mod order0;
mod planes;
mod runs;
mod sem;
#[cfg(test)]
mod tests;
mod xz;

pub use delta::Delta;

use crate::codec::study::Method;
use crate::{
    dtype::{Dtype, Fields},
    error::{Error, Result},
    simd::Level,
};

/// The preset of every LZMA stream.
pub const XZ_PRESET: u32 = 6;

/// Appends the coded `bytes` to `out`. Fails only on chunks of 4 GiB and more.
pub fn encode(
    level: Level,
    method: Method,
    dtype: Dtype,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    if u32::try_from(bytes.len()).is_err() {
        return Err(Error::InvalidArgument("a chunk of 4 GiB or more".into()));
    }
    let layout = Layout::of(dtype);
    let (words, tail) = bytes.split_at(bytes.len() - bytes.len() % layout.word_len);
    out.extend_from_slice(tail);
    match method {
        Method::Lmc | Method::Plmc => lmc::encode(level, layout.word_len, words, out),
        Method::LmcPlain => lmc::encode(level, 1, words, out),
        Method::Sem => sem::encode(&layout, words, out),
        Method::Xz => xz::put(words, out)?,
        Method::ByteplaneXz => xz::encode_groups(level, layout.word_len, words, out)?,
        Method::BitplaneXz => planes::encode(level, &layout, planes::Order::AsIs, words, out)?,
        Method::ClassGroupXz => planes::encode(level, &layout, planes::Order::Class, words, out)?,
        Method::ExponentGroupXz => {
            planes::encode(level, &layout, planes::Order::Exponent, words, out)?
        }
    }
    Ok(())
}

/// Fills `out` with the bytes that `payload` codes. What it allocates is bounded by a small
/// multiple of `out`, whatever the payload says.
pub fn decode(
    level: Level,
    method: Method,
    dtype: Dtype,
    payload: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let layout = Layout::of(dtype);
    let (words, tail) = out.split_at_mut(out.len() - out.len() % layout.word_len);
    let mut rest = payload;
    tail.copy_from_slice(take(&mut rest, tail.len())?);
    let rest = &mut rest;
    match method {
        Method::Lmc | Method::Plmc => lmc::decode(level, layout.word_len, rest, words)?,
        Method::LmcPlain => lmc::decode(level, 1, rest, words)?,
        Method::Sem => sem::decode(&layout, rest, words)?,
        Method::Xz => xz::get(rest, words)?,
        Method::ByteplaneXz => xz::decode_groups(level, layout.word_len, rest, words)?,
        Method::BitplaneXz => planes::decode(level, &layout, planes::Order::AsIs, rest, words)?,
        Method::ClassGroupXz => planes::decode(level, &layout, planes::Order::Class, rest, words)?,
        Method::ExponentGroupXz => {
            planes::decode(level, &layout, planes::Order::Exponent, rest, words)?
        }
    }
    match rest.is_empty() {
        true => Ok(()),
        false => Err(corrupt("bytes after the end of the payload")),
    }
}

/// Hands what `lmc` Huffman codes of `bytes` to `visit`, one group after the other: byte groups with
/// their runs shortened.
pub fn visit_lmc_symbols(dtype: Dtype, bytes: &[u8], visit: impl FnMut(&[u8])) {
    let word_len = Layout::of(dtype).word_len;
    lmc::visit(Level::best(), word_len, &bytes[..bytes.len() - bytes.len() % word_len], visit);
}

/// Bytes of the words that are taken apart into byte groups; 1 where there is nothing to group.
pub fn group_len(dtype: Dtype) -> usize {
    Layout::of(dtype).word_len
}

/// The fields of a word, from the top: one sign bit, `exponent_bits`, `mantissa_bits`.
/// Integers and bytes have no sign and no exponent.
pub(super) struct Layout {
    pub(super) word_len: usize,
    pub(super) sign_bits: u32,
    pub(super) exponent_bits: u32,
    pub(super) mantissa_bits: u32,
}

impl Layout {
    pub(super) fn of(dtype: Dtype) -> Layout {
        let (bits, sign_bits, exponent_bits) = match dtype.fields() {
            Fields::Float { bits, exponent } => (u32::from(bits), 1, u32::from(exponent)),
            Fields::Integer { bits } => (u32::from(bits), 0, 0),
            Fields::Quantised { .. } | Fields::Opaque => (8, 0, 0),
        };
        Layout {
            word_len: bits as usize / 8,
            sign_bits,
            exponent_bits,
            mantissa_bits: bits - sign_bits - exponent_bits,
        }
    }

    /// Bits above the mantissa: sign and exponent together.
    pub(super) fn class_bits(&self) -> u32 {
        self.sign_bits + self.exponent_bits
    }

    pub(super) fn words<'a>(&self, bytes: &'a [u8]) -> impl Iterator<Item = u64> + 'a {
        bytes.chunks_exact(self.word_len).map(|word| {
            let mut eight = [0; 8];
            eight[..word.len()].copy_from_slice(word);
            u64::from_le_bytes(eight)
        })
    }

    pub(super) fn put(&self, word: u64, bytes: &mut [u8]) {
        bytes.copy_from_slice(&word.to_le_bytes()[..self.word_len]);
    }

    /// Sign and exponent of a word as one number.
    pub(super) fn class(&self, word: u64) -> usize {
        match self.class_bits() {
            0 => 0,
            _ => (word >> self.mantissa_bits) as usize,
        }
    }
}

pub(super) fn corrupt(what: &str) -> Error {
    Error::Corrupt(what.into())
}

pub(super) fn take<'a>(rest: &mut &'a [u8], n: usize) -> Result<&'a [u8]> {
    let (taken, after) = rest
        .split_at_checked(n)
        .ok_or_else(|| Error::Truncated("the payload ends too early".into()))?;
    *rest = after;
    Ok(taken)
}

pub(super) fn take_u32(rest: &mut &[u8]) -> Result<u32> {
    let bytes = take(rest, 4)?;
    Ok(u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]))
}

/// A stream preceded by its length.
pub(super) fn take_stream<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let len = take_u32(rest)?;
    take(rest, len as usize)
}

/// Appends a stream that `write` appends, and before it its length.
pub(super) fn put_stream(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>)) {
    let mark = out.len();
    out.extend([0; 4]);
    write(out);
    let len = (out.len() - mark - 4) as u32;
    out[mark..mark + 4].copy_from_slice(&len.to_le_bytes());
}
