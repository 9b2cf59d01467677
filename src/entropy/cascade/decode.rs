//! Cascades into planes, whole or in pieces.
use super::{MAX_LEVELS, PAD, digits_len, header_len, portable, scratch_len};
#[cfg(target_arch = "x86_64")]
use super::{avx2, avx512};
use crate::{
    hash::Stream,
    simd::{Level, dispatch},
};

/// Decodes a plane piece by piece. All deeper levels are decoded into the scratch space first,
/// which is a fraction of the work; then each piece takes its digits of level 0.
#[derive(Debug)]
pub struct Decoder<'a> {
    level: Level,
    common: [u8; 3],
    /// Digits of level 0 that are still to be decoded.
    digits: &'a [u8],
    /// Escapes of level 0 that are still to be taken, and [`PAD`] bytes.
    escapes: &'a [u8],
    /// Symbols still to be decoded.
    n: usize,
}

impl<'a> Decoder<'a> {
    /// Starts to decode the cascade of `n` symbols that `bytes` is; none if it is not one.
    ///
    /// # Panics
    /// If `scratch` is shorter than [`scratch_len`].
    pub fn new(level: Level, n: usize, bytes: &'a [u8], scratch: &'a mut [u8]) -> Option<Self> {
        assert!(scratch.len() >= scratch_len(n));
        let levels = usize::from(*bytes.first()?);
        if levels == 0 || levels > MAX_LEVELS {
            return None;
        }
        let (header, mut bytes) = bytes.split_at_checked(header_len(levels))?;
        let (symbols, counts) = header[1..].split_at(3 * levels);
        if (1..symbols.len()).any(|i| symbols[..i].contains(&symbols[i])) {
            return None;
        }
        let symbols = symbols.as_chunks::<3>().0;

        // Size and digits of each level; the raw symbols are the last one.
        let mut sizes = [n; MAX_LEVELS + 1];
        let mut digits = [&bytes[..0]; MAX_LEVELS];
        for (k, count) in counts.as_chunks::<4>().0.iter().enumerate() {
            (digits[k], bytes) = bytes.split_at_checked(digits_len(sizes[k]))?;
            let used = sizes[k] % 4 * 2;
            if used > 0 && digits[k][digits[k].len() - 1] >> used != 0 {
                return None;
            }
            sizes[k + 1] = u32::from_le_bytes(*count) as usize;
            if sizes[k + 1] > sizes[k] {
                return None;
            }
        }
        if bytes.len() != sizes[levels] {
            return None;
        }

        // Two buffers in turn; level 1, the escapes of level 0, ends in `from`.
        let (mut from, to) = scratch.split_at_mut(n + PAD);
        let mut to = &mut to[..n + PAD];
        from[..bytes.len()].copy_from_slice(bytes);
        for k in (1..levels).rev() {
            let escapes = &from[..sizes[k + 1] + PAD];
            let taken = decode_level(level, symbols[k], digits[k], escapes, &mut to[..sizes[k]])?;
            if taken != sizes[k + 1] {
                return None;
            }
            std::mem::swap(&mut from, &mut to);
        }
        Some(Decoder {
            level,
            common: symbols[0],
            digits: digits[0],
            escapes: &from[..sizes[1] + PAD],
            n,
        })
    }

    /// Decodes the next `symbols.len()` symbols; false if the cascade is not one of as many
    /// symbols as was said, after which there is nothing more to be had.
    ///
    /// # Panics
    /// If more symbols are asked for than are left, or a piece other than the last is not a
    /// multiple of 64 symbols.
    #[must_use]
    pub fn decode(&mut self, symbols: &mut [u8]) -> bool {
        let digits = self.take(symbols.len());
        let taken = decode_level(self.level, self.common, digits, self.escapes, symbols);
        self.advance(taken)
    }

    /// [`Decoder::decode`] for bf16 words (little endian) with their `rest`, inverse of
    /// [`super::encode_bf16`]. With `far` and a `hash`, levels that can write past the caches do: faster where
    /// the whole output is larger than they are and not read soon. Adds as many of the bytes to
    /// `hash` as suits the level, which may be none, but never all.
    ///
    /// # Panics
    /// As [`Decoder::decode`], or if lengths differ.
    #[must_use]
    pub fn decode_bf16(
        &mut self,
        rest: &[u8],
        bytes: &mut [u8],
        far: bool,
        hash: Option<&mut Stream>,
    ) -> bool {
        assert!(bytes.len() == 2 * rest.len());
        let digits = self.take(rest.len());
        let (common, escapes) = (self.common, self.escapes);
        let taken = dispatch!(self.level,
            Avx512 => avx512::decode_bf16(common, digits, escapes, rest, bytes, far, hash),
            Avx2 => avx2::decode_bf16(common, digits, escapes, rest, bytes, far, hash),
            _ => portable::decode_bf16(common, digits, escapes, rest, bytes, far, hash),
        );
        self.advance(taken)
    }

    /// Digits of the next `n` symbols.
    fn take(&mut self, n: usize) -> &'a [u8] {
        assert!(n <= self.n && (n.is_multiple_of(64) || n == self.n));
        let (digits, rest) = self.digits.split_at(digits_len(n).min(self.digits.len()));
        self.digits = rest;
        self.n -= n;
        digits
    }

    fn advance(&mut self, taken: Option<usize>) -> bool {
        let Some(taken) = taken else {
            self.escapes = &self.escapes[..PAD];
            return false;
        };
        self.escapes = &self.escapes[taken..];
        self.n > 0 || self.escapes.len() == PAD
    }
}

/// Decodes a whole plane, inverse of [`super::encode`]; false if `bytes` is not a cascade of as
/// many symbols.
///
/// # Panics
/// If `scratch` is shorter than [`scratch_len`].
#[cfg(test)]
#[must_use]
pub fn decode(level: Level, bytes: &[u8], scratch: &mut [u8], symbols: &mut [u8]) -> bool {
    Decoder::new(level, symbols.len(), bytes, scratch).is_some_and(|mut d| d.decode(symbols))
}

/// Decodes whole bf16 words, inverse of [`super::encode_bf16`]; false if `cascade` is not one of
/// as many symbols as `rest` has.
///
/// # Panics
/// If `scratch` is shorter than [`scratch_len`] or lengths differ.
#[must_use]
pub fn decode_bf16(
    level: Level,
    cascade: &[u8],
    rest: &[u8],
    scratch: &mut [u8],
    bytes: &mut [u8],
) -> bool {
    Decoder::new(level, rest.len(), cascade, scratch)
        .is_some_and(|mut d| d.decode_bf16(rest, bytes, false, None))
}

fn decode_level(
    level: Level,
    common: [u8; 3],
    digits: &[u8],
    escapes: &[u8],
    symbols: &mut [u8],
) -> Option<usize> {
    dispatch!(level,
        Avx512 => avx512::decode(common, digits, escapes, symbols),
        Avx2 => avx2::decode(common, digits, escapes, symbols),
        _ => portable::decode(common, digits, escapes, symbols),
    )
}
