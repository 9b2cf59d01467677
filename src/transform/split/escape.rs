//! The words that the window does not hold: collected when splitting, put back when joining.
//!
//! Escapes are rare where a window pays, so both go through the symbols once more and look only
//! where a 255 is.
use super::{
    Split,
    head::{head_at, set_head},
};

/// Writes the `s` behind each escape among the `symbols` that [`super::split`] made of `bytes`.
///
/// # Panics
/// If lengths differ, `out` by the number of escapes.
pub fn escapes(fields: &Split, bytes: &[u8], symbols: &[u8], out: &mut [u16]) {
    let len = fields.word_len();
    assert!(bytes.len() == symbols.len() * len);
    collect(fields, symbols, out, |i| head_at(&bytes[i * len..][..len]));
}

/// [`escapes`] of `symbols` that [`super::split_heads`] made, with or without shifts.
///
/// # Panics
/// As [`escapes`].
pub fn escapes_of_heads(fields: &Split, heads: &[u16], symbols: &[u8], out: &mut [u16]) {
    assert!(heads.len() == symbols.len());
    collect(fields, symbols, out, |i| heads[i]);
}

fn collect(fields: &Split, symbols: &[u8], out: &mut [u16], head: impl Fn(usize) -> u16) {
    let mut out = out.iter_mut();
    each_escape(symbols, |i| {
        *out.next().expect("one place for each escape") = head(i) >> fields.rest_bits;
        true
    });
    assert!(out.next().is_none(), "one escape for each place");
}

/// Puts escapes into joined words and takes them off the front of their list; false if there are
/// too few or they are not ones that splitting listed.
pub(super) fn patch_words(
    f: &Split,
    symbols: &[u8],
    escapes: &mut &[u16],
    bytes: &mut [u8],
) -> bool {
    let len = f.word_len();
    each_escape(symbols, |i| {
        let word = &mut bytes[i * len..][..len];
        let s = escapes.split_off_first();
        let Some(head) = patched(f, s, head_at(word), None) else { return false };
        set_head(word, head);
        true
    })
}

/// [`patch_words`] for heads.
pub(super) fn patch_heads(
    f: &Split,
    symbols: &[u8],
    escapes: &mut &[u16],
    shifts: Option<&[u8]>,
    heads: &mut [u16],
) -> bool {
    each_escape(symbols, |i| {
        let shift = shifts.map(|shifts| shifts[i]);
        let s = escapes.split_off_first();
        let Some(head) = patched(f, s, heads[i], shift) else { return false };
        heads[i] = head;
        true
    })
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
fn each_escape(symbols: &[u8], visit: impl FnMut(usize) -> bool) -> bool {
    memchr::memchr_iter(255, symbols).all(visit)
}
