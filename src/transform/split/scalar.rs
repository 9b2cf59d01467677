//! The reference: every other variant equals these functions. They begin at word `start`, so
//! that they also end what the others leave over. Those that join say whether an escape was seen.
use super::{Planes, PlanesMut, Split, head::head_at};

impl Split {
    /// Symbol of `s` through the window.
    #[inline(always)]
    pub(super) fn window(&self, s: u16) -> u8 {
        if s == 0 { 0 } else { s.wrapping_sub(self.base).min(254) as u8 + 1 }
    }

    /// Inverse of [`Split::window`], but for escapes.
    #[inline(always)]
    pub(super) fn unwindow(&self, symbol: u8) -> u16 {
        if symbol == 0 { 0 } else { self.base.wrapping_add(u16::from(symbol) - 1) }
    }

    fn rest_mask(&self) -> u16 {
        (1 << self.rest_bits) - 1
    }

    fn stored_rest(&self, head: u16) -> u16 {
        (head & self.rest_mask()) >> u8::from(self.sign.is_some())
    }

    /// The head without its symbol.
    fn rest_of(&self, planes: &Planes<'_>, i: usize) -> u16 {
        let stored = self.stored_rest_bits();
        let lo = if stored > 0 { u16::from(planes.rest_lo[i]) } else { 0 };
        let hi = if stored > 8 { u16::from(planes.rest_hi[i]) } else { 0 };
        let rest = hi << 8 | lo;
        match self.sign {
            None => rest,
            Some(sign) => rest << 1 | u16::from(sign),
        }
    }

    fn put_rest(&self, planes: &mut PlanesMut<'_>, i: usize, head: u16) {
        let (stored, rest) = (self.stored_rest_bits(), self.stored_rest(head));
        if stored > 0 {
            planes.rest_lo[i] = rest as u8;
        }
        if stored > 8 {
            planes.rest_hi[i] = (rest >> 8) as u8;
        }
    }

    /// `s` of a head as the window sees it.
    pub(super) fn shifted(&self, head: u16, shift: Option<u8>) -> u16 {
        match (wide_shr(head, self.rest_bits), shift) {
            (0, _) => 0,
            (s, None) => s,
            (s, Some(shift)) => s.wrapping_add(255 - u16::from(shift)),
        }
    }
}

/// `head >> bits` for `bits` up to 16.
fn wide_shr(head: u16, bits: u8) -> u16 {
    (u32::from(head) >> bits) as u16
}

pub(super) fn split(f: &Split, start: usize, bytes: &[u8], mut planes: PlanesMut<'_>) -> usize {
    let (len, windowed, mut n_escapes) = (f.word_len(), f.is_windowed(), 0);
    for (i, word) in bytes.chunks_exact(len).enumerate().skip(start) {
        let head = head_at(word);
        let s = f.shifted(head, None);
        planes.symbols[i] = if windowed { f.window(s) } else { s as u8 };
        n_escapes += usize::from(windowed && planes.symbols[i] == 255);
        f.put_rest(&mut planes, i, head);
        for (tail, &byte) in planes.tails.iter_mut().zip(word) {
            tail[i] = byte;
        }
    }
    n_escapes
}

pub(super) fn join(f: &Split, start: usize, planes: Planes<'_>, bytes: &mut [u8]) -> bool {
    let (len, windowed, mut escaped) = (f.word_len(), f.is_windowed(), false);
    for (i, word) in bytes.chunks_exact_mut(len).enumerate().skip(start) {
        let symbol = planes.symbols[i];
        escaped |= windowed && symbol == 255;
        let s = if windowed { f.unwindow(symbol) } else { symbol.into() };
        let head = s << f.rest_bits | f.rest_of(&planes, i);
        super::head::set_head(word, head);
        for (tail, byte) in planes.tails.iter().zip(word) {
            *byte = tail[i];
        }
    }
    escaped
}

pub(super) fn split_heads(
    f: &Split,
    start: usize,
    heads: &[u16],
    shifts: Option<&[u8]>,
    mut planes: PlanesMut<'_>,
) -> usize {
    let windowed = shifts.is_some() || f.is_windowed();
    let mut n_escapes = 0;
    for (i, &head) in heads.iter().enumerate().skip(start) {
        let s = f.shifted(head, shifts.map(|shifts| shifts[i]));
        planes.symbols[i] = if windowed { f.window(s) } else { s as u8 };
        n_escapes += usize::from(windowed && planes.symbols[i] == 255);
        f.put_rest(&mut planes, i, head);
    }
    n_escapes
}

pub(super) fn join_heads(
    f: &Split,
    start: usize,
    planes: Planes<'_>,
    shifts: Option<&[u8]>,
    heads: &mut [u16],
) -> bool {
    let (windowed, mut escaped) = (shifts.is_some() || f.is_windowed(), false);
    for (i, head) in heads.iter_mut().enumerate().skip(start) {
        let symbol = planes.symbols[i];
        escaped |= windowed && symbol == 255;
        let mut s = if windowed { f.unwindow(symbol) } else { symbol.into() };
        if let Some(shifts) = shifts
            && symbol != 0
        {
            s = s.wrapping_sub(255 - u16::from(shifts[i]));
        }
        *head = s << f.rest_bits | f.rest_of(&planes, i);
    }
    escaped
}
