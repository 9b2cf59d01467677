//! Blocks of 32 values with a scale of their own: GGUF's Q4_0, Q4_1, Q5_0, Q5_1 and Q8_0.
//!
//! ```text
//! Q4_0, Q5_0   d = furthest / −8, −16            code = trunc(x·id + 8.5), 16.5
//! Q4_1, Q5_1   d = (most − least) / 15, 31       code = trunc((x − least)·id + 0.5)
//! Q8_0         d = |furthest| / 127              code = round(x·id)
//! id = 1/d, or 0 where d is 0
//! ```
//!
//! The furthest value is the first of those furthest from 0. The file holds d and least rounded to
//! `f16`; where it holds others, they are what codes are computed with.

use super::{float, fused, magnitude, nearest, part, whole};
use crate::{
    predict::{cast, float_state},
    simd::{Level, for_every_level},
};

/// Values in a block.
pub const BLOCK: usize = 32;

/// A layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types, missing_docs, reason = "the names are the field's own")]
pub enum Kind {
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
}

/// Orders of operations of every kind: 0 as written above; 1 with the last product and sum fused,
/// or for Q8_0 with ties to even.
pub const ORDERS: u8 = 2;

/// Scales and least values, one a block.
#[derive(Default)]
pub struct Ranges {
    d: Vec<f32>,
    least: Vec<f32>,
}

impl Kind {
    /// Whether blocks have a minimum.
    pub fn has_least(self) -> bool {
        matches!(self, Kind::Q4_1 | Kind::Q5_1)
    }
}

impl Ranges {
    /// Finds the ranges of blocks of 32-bit floats, and the fields that hold them.
    pub fn find(
        &mut self,
        level: Level,
        kind: Kind,
        wide: &[u8],
        d: &mut Vec<u8>,
        m: &mut Vec<u8>,
    ) {
        let n = wide.len() / (4 * BLOCK);
        self.d.resize(n, 0.0);
        self.least.resize(n, 0.0);
        d.resize(2 * n, 0);
        m.resize(2 * n, 0);
        let Ranges { d: scales, least } = self;
        float_state::with_default(|| {
            match kind {
                Kind::Q4_0 => by_furthest(level, wide, -8.0, scales),
                Kind::Q5_0 => by_furthest(level, wide, -16.0, scales),
                Kind::Q4_1 => by_range(level, wide, 15.0, scales, least),
                Kind::Q5_1 => by_range(level, wide, 31.0, scales, least),
                Kind::Q8_0 => by_size(level, wide, 127.0, scales),
            }
            halves(level, scales, d);
            halves(level, least, m);
        });
    }

    /// Lets codes be computed with the fields that the blocks really have.
    pub fn settle(&mut self, kind: Kind, found: [&[u8]; 2], real: [&[u8]; 2]) {
        float_state::with_default(|| {
            replace(&mut self.d, found[0], real[0]);
            if kind.has_least() {
                replace(&mut self.least, found[1], real[1]);
            }
            for d in &mut self.d {
                *d = if *d == 0.0 { 0.0 } else { 1.0 / *d };
            }
        });
    }

    /// Computes the codes of blocks whose ranges are settled.
    pub fn codes(&self, level: Level, kind: Kind, order: u8, wide: &[u8], out: &mut [u8]) {
        float_state::with_default(|| {
            codes(level, (kind, order, false), wide, &self.d, &self.least, out);
        });
    }

    /// How close to the next code each value is.
    pub fn contexts(&self, level: Level, kind: Kind, order: u8, wide: &[u8], out: &mut [u8]) {
        float_state::with_default(|| {
            codes(level, (kind, order, true), wide, &self.d, &self.least, out);
        });
    }
}

/// Takes the real field of every block where another was found.
fn replace(values: &mut [f32], found: &[u8], real: &[u8]) {
    let fields = found.as_chunks::<2>().0.iter().zip(real.as_chunks::<2>().0);
    for (value, (found, real)) in values.iter_mut().zip(fields) {
        if found != real {
            *value = cast::f16_to_f32(*real);
        }
    }
}

for_every_level! {
/// Fields that hold these values.
fn halves(values: &[f32], out: &mut [u8]) {
    for (out, x) in out.as_chunks_mut::<2>().0.iter_mut().zip(values) {
        // Which NaN an operation makes is the processor's choice.
        let bits = if x.is_nan() { 0x7e00 } else { cast::f32_to_f16(*x) };
        *out = bits.to_le_bytes();
    }
}
}

/// The values of a block.
type Block = [[u8; 4]; BLOCK];

#[inline(always)]
fn blocks(wide: &[u8]) -> impl Iterator<Item = &Block> {
    wide.as_chunks::<4>().0.as_chunks::<BLOCK>().0.iter()
}

/// The largest key of a block: of eight lanes first, so that few steps are across vectors.
#[inline(always)]
fn most(block: &Block, key: impl Fn(&[u8; 4]) -> i32) -> i32 {
    let mut lanes = [i32::MIN; 8];
    for eight in block.as_chunks::<8>().0 {
        for (lane, x) in lanes.iter_mut().zip(eight) {
            *lane = key(x).max(*lane);
        }
    }
    let [a, b, c, d, e, f, g, h] = lanes;
    // Hidden from the compiler, which else gathers the same value of many blocks into vectors.
    std::hint::black_box((a.max(e).max(b.max(f))).max(c.max(g).max(d.max(h))))
}

/// The first value of a block that has this magnitude, as bits.
#[cold]
#[inline(never)]
fn first_of(block: &Block, magnitude: i32) -> i32 {
    let mut bits = block.iter().map(|x| i32::from_le_bytes(*x));
    bits.find(|x| x & i32::MAX == magnitude & i32::MAX).unwrap_or(magnitude)
}

for_every_level! {
fn by_furthest(wide: &[u8], over: f32, d: &mut [f32]) {
    for (block, d) in blocks(wide).zip(d) {
        let bits = |x: &[u8; 4]| i32::from_le_bytes(*x);
        let up = most(block, bits);
        let down = most(block, |x| bits(x) ^ i32::MIN);
        let mut furthest = if up > down { up } else { down ^ i32::MIN };
        if up == down {
            furthest = first_of(block, up);
        }
        *d = f32::from_bits(furthest as u32) / over;
    }
}
}

for_every_level! {
fn by_size(wide: &[u8], over: f32, d: &mut [f32]) {
    for (block, d) in blocks(wide).zip(d) {
        let furthest = most(block, |x| magnitude(float(x)) as i32);
        *d = f32::from_bits(furthest as u32) / over;
    }
}
}

for_every_level! {
fn by_range(wide: &[u8], over: f32, d: &mut [f32], least: &mut [f32]) {
    // Floats in the order of integers.
    let key = |x: &[u8; 4]| {
        let x = i32::from_le_bytes(*x);
        x ^ (x >> 31 & i32::MAX)
    };
    let value = |key: i32| f32::from_bits((key ^ (key >> 31 & i32::MAX)) as u32);
    for ((block, d), least) in blocks(wide).zip(d).zip(least) {
        let top = most(block, key);
        let bottom = !most(block, |x| !key(x));
        *least = value(bottom);
        *d = (value(top) - *least) / over;
    }
}
}

for_every_level! {
/// Codes, or contexts.
fn codes(how: (Kind, u8, bool), wide: &[u8], id: &[f32], least: &[f32], out: &mut [u8]) {
    let (kind, order, contexts) = how;
    let low = |centre: f32, most: f32| move |x: f32| whole(x + centre, most) as u8;
    let plain = |x: f32, id: f32, _: f32| x * id;
    let above = |x: f32, id: f32, least: f32| (x - least) * id;
    // A sum after a product that is not rounded is one number, so nothing is added to it.
    let fused_to = |centre: f32| move |x: f32, id: f32, _: f32| fused(x, id, centre);
    let fused_above = |x: f32, id: f32, least: f32| fused(x - least, id, 0.5);
    let all = (wide, id, least);
    match (kind, order, contexts) {
        (Kind::Q4_0, 0, false) => each(all, out, plain, low(8.5, 15.0)),
        (Kind::Q5_0, 0, false) => each(all, out, plain, low(16.5, 31.0)),
        (Kind::Q4_1, 0, false) => each(all, out, above, low(0.5, 15.0)),
        (Kind::Q5_1, 0, false) => each(all, out, above, low(0.5, 31.0)),
        (Kind::Q4_0, _, false) => each(all, out, fused_to(8.5), low(0.0, 15.0)),
        (Kind::Q5_0, _, false) => each(all, out, fused_to(16.5), low(0.0, 31.0)),
        (Kind::Q4_1, _, false) => each(all, out, fused_above, low(0.0, 15.0)),
        (Kind::Q5_1, _, false) => each(all, out, fused_above, low(0.0, 31.0)),
        (Kind::Q8_0, 0, false) => each(all, out, plain, |x| {
            // The number just below a half: what is added to it never reaches a whole.
            let size = whole(x.abs() + 0.499_999_97, 128.0);
            (if x < 0.0 { -size } else { size.min(127) }) as u8
        }),
        (Kind::Q8_0, _, false) => each(all, out, plain, |x| nearest(x, -128.0, 127.0) as u8),
        (Kind::Q4_0, _, true) => each(all, out, plain, |x| part(x + 8.5)),
        (Kind::Q5_0, _, true) => each(all, out, plain, |x| part(x + 16.5)),
        (Kind::Q8_0, _, true) => each(all, out, plain, |x| part(x + 128.5)),
        (Kind::Q4_1 | Kind::Q5_1, _, true) => each(all, out, above, |x| part(x + 0.5)),
    }
}
}

#[inline(always)]
fn each(
    (wide, id, least): (&[u8], &[f32], &[f32]),
    out: &mut [u8],
    scaled: impl Fn(f32, f32, f32) -> f32,
    code: impl Fn(f32) -> u8,
) {
    let outs = out.as_chunks_mut::<BLOCK>().0.iter_mut();
    for (((block, out), id), least) in blocks(wide).zip(outs).zip(id).zip(least) {
        for (x, out) in block.iter().zip(out) {
            *out = code(scaled(float(x), *id, *least));
        }
    }
}
