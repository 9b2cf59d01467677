//! The words that the window does not hold: collected when splitting, put back when joining.
//!
//! Escapes are rare where a window pays, so both go through the symbols once more and look only
//! where a 255 is.
use super::{
    Planes, Split,
    head::{head_at, set_head},
};
use crate::simd::Level;

/// Number of symbols that are 255.
pub fn count_escapes(level: Level, symbols: &[u8]) -> usize {
    level.run(count, symbols)
}

#[inline(always)]
fn count(symbols: &[u8]) -> usize {
    let mut n = 0;
    for group in symbols.chunks(128) {
        let mut sum = 0u8;
        for s in group {
            sum += u8::from(*s == 255);
        }
        n += usize::from(sum);
    }
    n
}

/// Writes the `s` behind each escape among the `symbols` that [`super::split`] made of `bytes`.
///
/// # Panics
/// If lengths differ, `out` by the number of escapes.
pub fn escapes(level: Level, fields: &Split, bytes: &[u8], symbols: &[u8], out: &mut [u16]) {
    let len = fields.word_len();
    assert!(bytes.len() == symbols.len() * len);
    collect(level, fields, symbols, out, |i| head_at(&bytes[i * len..][..len]));
}

/// [`escapes`] of `symbols` that [`super::split_heads`] made, with or without shifts.
///
/// # Panics
/// As [`escapes`].
pub fn escapes_of_heads(
    level: Level,
    fields: &Split,
    heads: &[u16],
    symbols: &[u8],
    out: &mut [u16],
) {
    assert!(heads.len() == symbols.len());
    collect(level, fields, symbols, out, |i| heads[i]);
}

fn collect(
    level: Level,
    fields: &Split,
    symbols: &[u8],
    out: &mut [u16],
    head: impl Fn(usize) -> u16,
) {
    let mut out = out.iter_mut();
    each_escape(level, symbols, |i| {
        *out.next().expect("one place for each escape") = head(i) >> fields.rest_bits;
        true
    });
    assert!(out.next().is_none(), "one escape for each place");
}

/// Puts the escapes into joined words; false if they are not the ones that splitting listed.
pub(super) fn patch_words(level: Level, f: &Split, planes: Planes<'_>, bytes: &mut [u8]) -> bool {
    let len = f.word_len();
    let mut escapes = planes.escapes.iter();
    let all = each_escape(level, planes.symbols, |i| {
        let word = &mut bytes[i * len..][..len];
        let Some(head) = patched(f, escapes.next(), head_at(word), None) else { return false };
        set_head(word, head);
        true
    });
    all && escapes.next().is_none()
}

/// [`patch_words`] for heads.
pub(super) fn patch_heads(
    level: Level,
    f: &Split,
    planes: Planes<'_>,
    shifts: Option<&[u8]>,
    heads: &mut [u16],
) -> bool {
    let mut escapes = planes.escapes.iter();
    let all = each_escape(level, planes.symbols, |i| {
        let shift = shifts.map(|shifts| shifts[i]);
        let Some(head) = patched(f, escapes.next(), heads[i], shift) else { return false };
        heads[i] = head;
        true
    });
    all && escapes.next().is_none()
}

/// The head with the rest of `head` and the escaped `s`, if such an `s` is escaped at all.
fn patched(f: &Split, s: Option<&u16>, head: u16, shift: Option<u8>) -> Option<u16> {
    let &s = s?;
    let rest = head & ((1 << f.rest_bits) - 1);
    let fits = u32::from(s) < 1 << f.symbol_bits();
    let head = s.checked_shl(f.rest_bits.into())? | rest;
    (fits && f.window(f.shifted(head, shift)) == 255).then_some(head)
}

/// Calls `visit` with the place of each 255 until it says false; whether it never did.
fn each_escape(level: Level, symbols: &[u8], mut visit: impl FnMut(usize) -> bool) -> bool {
    for (g, group) in symbols.chunks(1024).enumerate() {
        if count_escapes(level, group) == 0 {
            continue;
        }
        for (i, _) in group.iter().enumerate().filter(|(_, s)| **s == 255) {
            if !visit(g * 1024 + i) {
                return false;
            }
        }
    }
    true
}
