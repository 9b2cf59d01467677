//! Codes under scales that are known: GGUF's Q2_K, Q3_K, Q4_K, Q5_K and Q6_K.
//!
//! Their quantisers search for scales and minima, round these to small integers, and then compute
//! every code anew with what they rounded:
//!
//! ```text
//! Q2_K Q4_K Q5_K    code = nearest((x + dmin·min) / (d·scale))
//! Q3_K              code = nearest(x / (d·scale)) + 4
//! Q6_K              code = nearest(x / (d·scale)) + 32
//! ```
//!
//! Where d·scale is 0, codes are what the search left: mostly 0.

use super::{float, fused, nearest, part};
use crate::{
    predict::float_state,
    simd::{Level, for_every_level},
};

/// Orders of operations: 0 as written above, 1 with dmin·min and its sum fused.
pub const ORDERS: u8 = 2;

/// What the codes of values that share a scale follow from.
#[derive(Clone, Copy, Debug)]
pub struct Sub {
    /// d·scale.
    pub step: f32,
    /// dmin, or 0.
    pub dmin: f32,
    /// The minimum.
    pub min: f32,
}

/// The codes of a layout.
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    /// Values that share a scale: 16 or 32.
    pub sub_len: usize,
    /// The code of 0 where there is no minimum.
    pub centre: u8,
    /// The largest code.
    pub most: u8,
    /// Order of operations.
    pub order: u8,
}

/// Computes codes, or how close to the next code each value is.
pub fn codes(level: Level, c: Codes, contexts: bool, wide: &[u8], subs: &[Sub], out: &mut [u8]) {
    float_state::with_default(|| match (c.sub_len, c.order, contexts) {
        (16, 0, false) => codes_16(level, c, wide, subs, out),
        (16, _, false) => fused_16(level, c, wide, subs, out),
        (_, 0, false) => codes_32(level, c, wide, subs, out),
        (_, _, false) => fused_32(level, c, wide, subs, out),
        (16, _, true) => contexts_16(level, c, wide, subs, out),
        (_, _, true) => contexts_32(level, c, wide, subs, out),
    });
}

for_every_level! {
fn codes_16(c: Codes, wide: &[u8], subs: &[Sub], out: &mut [u8]) {
    each::<16>(wide, subs, out, |x, s| code(c, (x + s.dmin * s.min) / s.step));
}
}

for_every_level! {
fn codes_32(c: Codes, wide: &[u8], subs: &[Sub], out: &mut [u8]) {
    each::<32>(wide, subs, out, |x, s| code(c, (x + s.dmin * s.min) / s.step));
}
}

for_every_level! {
fn fused_16(c: Codes, wide: &[u8], subs: &[Sub], out: &mut [u8]) {
    each::<16>(wide, subs, out, |x, s| code(c, fused(s.dmin, s.min, x) / s.step));
}
}

for_every_level! {
fn fused_32(c: Codes, wide: &[u8], subs: &[Sub], out: &mut [u8]) {
    each::<32>(wide, subs, out, |x, s| code(c, fused(s.dmin, s.min, x) / s.step));
}
}

for_every_level! {
fn contexts_16(c: Codes, wide: &[u8], subs: &[Sub], out: &mut [u8]) {
    each::<16>(wide, subs, out, |x, s| context(c, (x + s.dmin * s.min) / s.step));
}
}

for_every_level! {
fn contexts_32(c: Codes, wide: &[u8], subs: &[Sub], out: &mut [u8]) {
    each::<32>(wide, subs, out, |x, s| context(c, (x + s.dmin * s.min) / s.step));
}
}

#[inline(always)]
fn code(c: Codes, x: f32) -> u8 {
    let centre = i32::from(c.centre);
    (nearest(x, -(centre as f32), (i32::from(c.most) - centre) as f32) + centre) as u8
}

#[inline(always)]
fn context(c: Codes, x: f32) -> u8 {
    part(x + f32::from(c.centre) + 0.5)
}

#[inline(always)]
fn each<const N: usize>(wide: &[u8], subs: &[Sub], out: &mut [u8], code: impl Fn(f32, &Sub) -> u8) {
    let values = wide.as_chunks::<4>().0.as_chunks::<N>().0.iter();
    for ((values, s), out) in values.zip(subs).zip(out.as_chunks_mut::<N>().0) {
        for (x, out) in values.iter().zip(out) {
            *out = if s.step == 0.0 { 0 } else { code(float(x), s) };
        }
    }
}
