//! Splits words into a plane of symbols, a plane of remainders and planes of low bytes.
//!
//! The *head* of a word is its top 16 bits (all 8 of an 8-bit word), rotated left by one, so that
//! the sign is the lowest bit. What is below the head of a 32- or 64-bit word is its *tail*, one
//! plane a byte, tail 0 the least significant.
//!
//! ```text
//! bf16 word   s eeeeeeee mmmmmmm       bit 15 … 0
//! head        eeeeeeee mmmmmmm s
//! r = 6       eeeeeeeemm|mmmmm s       s = head >> r, the symbol before mapping
//!                s      | rest         rest = head mod 2^r
//!
//! f32 word    s eeeeeeee mmmmmmm | mmmmmmmm | mmmmmmmm
//!                   head            tail 1     tail 0
//! ```
//!
//! Where the sign is the same all over the chunk, the rest drops its lowest bit and has `r − 1`
//! bits. The rest goes to `rest_lo` (its low 8 bits) and, if it has more than 8, to `rest_hi`.
//!
//! An `s` of at most 8 bits is the symbol. A wider one goes through a window of 254 values:
//!
//! ```text
//! symbol   0                  s = 0
//!          s − base + 1       base ≤ s < base + 254
//!          255                any other s, an escape: s itself goes to a list of its own, in order
//! ```
//!
//! With a shift per word (the scale of its row or column), `t = s + 255 − shift` goes through the
//! window in place of an `s` that is not 0, whatever the width of `s`; escapes still list `s`.
//!
//! All arithmetic is modulo 2^16, so that any planes, corrupt ones too, join to the same words
//! at every level.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod escape;
mod head;
mod portable;
mod scalar;
mod sign;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vector;
mod wide;

pub use escape::{escapes, escapes_of_heads};
pub use head::{heads, words_of_heads};
pub use sign::sign;

use crate::simd::{Level, dispatch};

/// How words are split; see the module's diagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split {
    /// Width of a word: 8, 16, 32 or 64.
    pub word_bits: u8,
    /// Bits of the head that are left to the rest, sign included: 0 to 11, at most the head's.
    pub rest_bits: u8,
    /// First value of the window; unused where symbols have at most 8 bits and no shift.
    pub base: u16,
    /// The sign bit that all words share and that the rest therefore drops. Needs a rest.
    pub sign: Option<bool>,
}

/// Planes that [`split`] writes, each of one byte a word.
#[derive(Debug)]
pub struct PlanesMut<'a> {
    /// One symbol a word.
    pub symbols: &'a mut [u8],
    /// Low 8 bits of the rest; not looked at if [`Split::stored_rest_bits`] is 0.
    pub rest_lo: &'a mut [u8],
    /// What is above; not looked at unless [`Split::stored_rest_bits`] exceeds 8.
    pub rest_hi: &'a mut [u8],
    /// One plane for each byte below the head, the least significant first.
    pub tails: &'a mut [&'a mut [u8]],
}

/// Planes that [`join`] reads; the fields are those of [`PlanesMut`].
#[derive(Clone, Copy, Debug)]
pub struct Planes<'a> {
    /// One symbol a word.
    pub symbols: &'a [u8],
    /// Low 8 bits of the rest.
    pub rest_lo: &'a [u8],
    /// What is above.
    pub rest_hi: &'a [u8],
    /// One plane for each byte below the head, the least significant first.
    pub tails: &'a [&'a [u8]],
}

impl Split {
    /// Bytes of a word.
    pub fn word_len(&self) -> usize {
        usize::from(self.word_bits / 8)
    }

    /// Width of the head: 8 or 16.
    pub fn head_bits(&self) -> u8 {
        self.word_bits.min(16)
    }

    /// Width of `s`.
    pub fn symbol_bits(&self) -> u8 {
        self.head_bits() - self.rest_bits
    }

    /// Whether `s` is too wide for a byte and goes through the window (without shifts).
    pub fn is_windowed(&self) -> bool {
        self.symbol_bits() > 8
    }

    /// Width of the stored rest: without the sign if that is constant.
    pub fn stored_rest_bits(&self) -> u8 {
        self.rest_bits - u8::from(self.sign.is_some())
    }

    /// Number of bytes below the head.
    pub fn n_tails(&self) -> usize {
        self.word_len() - usize::from(self.head_bits() / 8)
    }

    /// Whether the fields are in range and the window, if used, holds no `s` that cannot occur.
    pub fn is_valid(&self) -> bool {
        let window_fits = || {
            let end = u32::from(self.base) + 254;
            self.base > 0 && end <= 1 << self.symbol_bits()
        };
        self.is_in_range() && (!self.is_windowed() || window_fits())
    }

    /// [`Split::is_valid`] for words with shifts: needs a rest, and a window that ends at 2^16 or below.
    pub fn is_valid_shifted(&self) -> bool {
        self.is_in_range() && self.rest_bits > 0 && (1..=u16::MAX - 253).contains(&self.base)
    }

    fn is_in_range(&self) -> bool {
        matches!(self.word_bits, 8 | 16 | 32 | 64)
            && self.rest_bits <= self.head_bits().min(11)
            && (self.sign.is_none() || self.rest_bits > 0)
    }

    /// Panics unless the planes' lengths suit `n` words.
    fn check(&self, n: usize, symbols: usize, lo: usize, hi: usize) {
        let rest = self.stored_rest_bits();
        assert!(symbols == n && (rest == 0 || lo == n) && (rest <= 8 || hi == n));
    }
}

/// Splits the little-endian words of `bytes` and returns how many symbols are escapes.
///
/// # Panics
/// If `fields` is not valid, or `bytes` is not whole words, or a plane in use is not one byte a
/// word.
pub fn split(level: Level, fields: &Split, bytes: &[u8], planes: PlanesMut<'_>) -> usize {
    let n = bytes.len() / fields.word_len();
    assert!(fields.is_valid() && bytes.len() == n * fields.word_len());
    fields.check(n, planes.symbols.len(), planes.rest_lo.len(), planes.rest_hi.len());
    assert!(planes.tails.len() == fields.n_tails() && planes.tails.iter().all(|t| t.len() == n));
    if fields.word_bits == 64 {
        return wide::split(level, fields, bytes, planes);
    }
    dispatch!(level,
        Avx512 => avx512::split(fields, bytes, planes),
        Avx2 => avx2::split(fields, bytes, planes),
        _ => portable::split(fields, bytes, planes),
    )
}

/// Inverse of [`split`]. `escapes` are the values of `s` behind the symbols 255 of a window, in
/// order; those that were used are taken off its front. False if there were too few, or one is a
/// value that [`split`] would not have escaped: `bytes` is then of no use.
///
/// # Panics
/// As [`split`].
#[must_use]
pub fn join(
    level: Level,
    fields: &Split,
    planes: Planes<'_>,
    escapes: &mut &[u16],
    bytes: &mut [u8],
) -> bool {
    let n = bytes.len() / fields.word_len();
    assert!(fields.is_valid() && bytes.len() == n * fields.word_len());
    fields.check(n, planes.symbols.len(), planes.rest_lo.len(), planes.rest_hi.len());
    assert!(planes.tails.len() == fields.n_tails() && planes.tails.iter().all(|t| t.len() == n));
    let escaped = match fields.word_bits {
        64 => wide::join(level, fields, planes, bytes),
        _ => dispatch!(level,
            Avx512 => avx512::join(fields, planes, bytes),
            Avx2 => avx2::join(fields, planes, bytes),
            _ => portable::join(fields, planes, bytes),
        ),
    };
    !escaped || escape::patch_words(fields, planes.symbols, escapes, bytes)
}

/// [`split`] for heads from [`heads`], with a shift per word if there are `shifts`; there are no
/// tails here. Returns how many symbols are escapes.
///
/// # Panics
/// If `fields` is not valid ([`Split::is_valid_shifted`] with shifts) or lengths differ.
pub fn split_heads(
    level: Level,
    fields: &Split,
    heads: &[u16],
    shifts: Option<&[u8]>,
    planes: PlanesMut<'_>,
) -> usize {
    let n = heads.len();
    check_heads(fields, n, shifts);
    fields.check(n, planes.symbols.len(), planes.rest_lo.len(), planes.rest_hi.len());
    split_head_planes(level, fields, heads, shifts, planes)
}

/// Inverse of [`split_heads`]; escapes and result as those of [`join`].
///
/// # Panics
/// As [`split_heads`].
#[must_use]
pub fn join_heads(
    level: Level,
    fields: &Split,
    planes: Planes<'_>,
    escapes: &mut &[u16],
    shifts: Option<&[u8]>,
    heads: &mut [u16],
) -> bool {
    let n = heads.len();
    check_heads(fields, n, shifts);
    fields.check(n, planes.symbols.len(), planes.rest_lo.len(), planes.rest_hi.len());
    let escaped = join_head_planes(level, fields, planes, shifts, heads);
    !escaped || escape::patch_heads(fields, planes.symbols, escapes, shifts, heads)
}

fn check_heads(fields: &Split, n: usize, shifts: Option<&[u8]>) {
    match shifts {
        None => assert!(fields.is_valid()),
        Some(shifts) => assert!(fields.is_valid_shifted() && shifts.len() == n),
    }
}

/// [`split_heads`] without its checks of lengths.
fn split_head_planes(
    level: Level,
    fields: &Split,
    heads: &[u16],
    shifts: Option<&[u8]>,
    planes: PlanesMut<'_>,
) -> usize {
    dispatch!(level,
        Avx512 => avx512::split_heads(fields, heads, shifts, planes),
        Avx2 => avx2::split_heads(fields, heads, shifts, planes),
        _ => portable::split_heads(fields, heads, shifts, planes),
    )
}

/// [`join_heads`] without its checks, and with wrong words where escapes are; whether there are.
fn join_head_planes(
    level: Level,
    fields: &Split,
    planes: Planes<'_>,
    shifts: Option<&[u8]>,
    heads: &mut [u16],
) -> bool {
    dispatch!(level,
        Avx512 => avx512::join_heads(fields, planes, shifts, heads),
        Avx2 => avx2::join_heads(fields, planes, shifts, heads),
        _ => portable::join_heads(fields, planes, shifts, heads),
    )
}
