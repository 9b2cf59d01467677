//! What scales and minima tell about the elements of a sub-group.
//!
//! Rounding to a grid hides the size of the numbers but for two things: where on the grid zero lies
//! (numbers are dense there), and how wide the grid is beside those of its neighbours (a wide one
//! was stretched by a single large number, and the others are close to zero). Both are known before
//! the elements. Zero in the upper half of the grid is the mirror image of zero in the lower half,
//! so there elements are turned round and share the contexts of the lower half.

use super::layout::{Layout, Scale, Zero};
use crate::simd::{Level, for_every_level};

/// Bit of a sub-group's context that says its elements are turned round.
pub const TURNED: u8 = 0x80;

/// Sub-groups whose mean width one is compared with.
const RUN: usize = 16;

/// Contexts of a layout.
pub fn count(layout: &Layout) -> usize {
    if layout.zero == Zero::Fixed { 8 } else { 15 }
}

/// Known fields of all groups.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    pub d: &'a [u16],
    /// m or dmin; empty where there is none.
    pub m: &'a [u16],
    /// One a sub-group; empty where there are none.
    pub scales: &'a [u8],
    pub mins: &'a [u8],
}

/// Memory that is reused.
#[derive(Default)]
pub struct Scratch {
    widths: Vec<u16>,
    ratios: Vec<u32>,
}

/// The context of each sub-group.
pub fn contexts(
    level: Level,
    layout: &Layout,
    known: Known<'_>,
    scratch: &mut Scratch,
    out: &mut Vec<u8>,
) {
    let Scratch { widths, ratios } = scratch;
    log_widths(layout, known, widths);
    out.clear();
    out.resize(widths.len(), 0);
    if layout.zero != Zero::Fixed {
        ratios.clear();
        ratios.resize(known.d.len(), 0);
        let opposite = u16::from(layout.zero == Zero::Minus) << 15;
        find_ratios(level, known.d, known.m, opposite, &mut ratios[..]);
        let most = u32::from(layout.elements.most());
        if known.mins.is_empty() {
            plain_zero_classes(level, &ratios[..], most, &mut out[..]);
        } else {
            let fields = known.mins.iter().zip(known.scales);
            let subs = layout.subs();
            for (i, (out, (&min, &scale))) in out.iter_mut().zip(fields).enumerate() {
                *out = zero_class(ratios[i / subs], u32::from(min), u32::from(scale), most);
            }
        }
    }
    add_width_classes(level, &widths[..], layout.zero == Zero::Fixed, &mut out[..]);
}

for_every_level! {
/// [`ratio`] of m and d of each group; 0 where the sign of one should be the other's, xor
/// `opposite`, and is not.
fn find_ratios(d: &[u16], m: &[u16], opposite: u16, out: &mut [u32]) {
    for ((d, m), out) in d.iter().zip(m).zip(out) {
        let found = ratio(m & 0x7fff, d & 0x7fff);
        *out = if (d ^ m) & 0x8000 == opposite { found } else { 0 };
    }
}
}

for_every_level! {
/// [`zero_class`] where scales and mins are 1.
fn plain_zero_classes(ratios: &[u32], most: u32, out: &mut [u8]) {
    for (ratio, out) in ratios.iter().zip(out) {
        *out = zero_class(*ratio, 1, 1, most);
    }
}
}

for_every_level! {
fn add_width_classes(widths: &[u16], fixed: bool, out: &mut [u8]) {
    let (offset, shift, most, factor) = if fixed { (512, 7, 7, 1) } else { (384, 8, 2, 3) };
    for (widths, out) in widths.chunks(RUN).zip(out.chunks_mut(RUN)) {
        let sum: u32 = widths.iter().map(|&w| u32::from(w)).sum();
        let mean = (sum / widths.len() as u32) as i32;
        for (width, out) in widths.iter().zip(out) {
            let class = ((i32::from(*width) - mean + offset) >> shift).clamp(0, most) as u8;
            *out = (*out & TURNED) | ((*out & !TURNED) * factor + class);
        }
    }
}
}

/// Pseudo-logarithm of the distance of two elements, 1024 to an octave.
fn log_widths(layout: &Layout, known: Known<'_>, out: &mut Vec<u16>) {
    out.clear();
    if known.scales.is_empty() {
        out.extend(known.d.iter().map(|d| d & 0x7fff));
        return;
    }
    let logs: [u16; 256] = std::array::from_fn(|s| log(magnitude(layout.scale, s as u8)));
    for (d, scales) in known.d.iter().zip(known.scales.chunks_exact(layout.subs())) {
        out.extend(scales.iter().map(|&s| (d & 0x7fff) + logs[usize::from(s)]));
    }
}

fn magnitude(scale: Scale, stored: u8) -> u32 {
    match scale {
        Scale::Plain => u32::from(stored),
        Scale::Offset32 => u32::from(stored.abs_diff(32)),
        Scale::Signed => u32::from((stored as i8).unsigned_abs()),
    }
}

/// 1024 times the logarithm of `s`, linear between powers of two; 0 for 0.
fn log(s: u32) -> u16 {
    let s = s.max(1);
    let e = s.ilog2();
    (1024 * e + (s << 10 >> e) - 1024) as u16
}

/// 2^16 · m / d of two magnitudes, at most 2^26 − 1; 0 where d is zero.
///
/// Floats divide faster here than integers, and are as exact: what is rounded down has 27 bits, and
/// its distance from the next integer is at least 2^-11.
#[inline(always)]
fn ratio(m: u16, d: u16) -> u32 {
    let fraction = |h: u16| i32::from(h & 1023) + if h >> 10 == 0 { 0 } else { 1024 };
    let exponent = |h: u16| i32::from(h >> 10).max(1);
    let quotient = (f64::from(fraction(m) << 16) / f64::from(fraction(d).max(1))).floor();
    let power = u64::from((1023 + exponent(m) - exponent(d)) as u32) << 52;
    let scaled = (quotient * f64::from_bits(power)).min(f64::from((1 << 26) - 1)) as i32;
    if d == 0 { 0 } else { scaled as u32 }
}

/// Class of the place of zero, `ratio` · `min` / `scale`, between elements 0 and `most`: 0 in the
/// middle, 4 at the ends and beyond.
#[inline(always)]
fn zero_class(ratio: u32, min: u32, scale: u32, most: u32) -> u8 {
    if scale == 0 {
        return 4;
    }
    // Most scales are 1, and division is slow.
    let zero = if scale == 1 { ratio * min } else { ratio * min / scale };
    let zero = (zero >> 8).min(most << 8);
    let distance = (2 * zero).abs_diff(most << 8);
    let turned = if 2 * zero > most << 8 { TURNED } else { 0 };
    turned | ((distance * (2560 / most)) >> 16).min(4) as u8
}

/// Turns the elements of sub-groups round whose context says so, or back: `most` becomes 0.
pub fn turn(level: Level, layout: &Layout, subs: &[u8], elements: &mut [u8]) {
    if layout.zero == Zero::Fixed {
        return;
    }
    let most = layout.elements.most();
    match layout.sub_len() {
        16 => turn_subs::<16>(level, subs, most, elements),
        _ => turn_subs::<32>(level, subs, most, elements),
    }
}

for_every_level! {
fn turn_subs<const LEN: usize>(subs: &[u8], most: u8, elements: &mut [u8]) {
    for (sub, elements) in subs.iter().zip(elements.as_chunks_mut::<LEN>().0) {
        let mask = if sub & TURNED != 0 { most } else { 0 };
        elements.iter_mut().for_each(|e| *e ^= mask);
    }
}
}

/// Gives each element the context of its sub-group.
pub fn spread(level: Level, layout: &Layout, subs: &[u8], contexts: &mut [u8]) {
    match layout.sub_len() {
        16 => spread_subs::<16>(level, subs, contexts),
        32 => spread_subs::<32>(level, subs, contexts),
        _ => spread_subs::<256>(level, subs, contexts),
    }
}

for_every_level! {
fn spread_subs<const LEN: usize>(subs: &[u8], contexts: &mut [u8]) {
    for (sub, contexts) in subs.iter().zip(contexts.as_chunks_mut::<LEN>().0) {
        contexts.fill(sub & !TURNED);
    }
}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_of_halves_are_rounded_down() {
        let half = |e: u16, f: u16| e << 10 | f;
        assert_eq!(ratio(half(15, 0), half(15, 0)), 1 << 16);
        assert_eq!(ratio(half(18, 512), half(15, 0)), 12 << 16);
        assert_eq!(ratio(half(15, 0), half(16, 512)), (1 << 16) / 3);
        assert_eq!(ratio(half(0, 5), half(0, 10)), 1 << 15);
        assert_eq!(ratio(half(0, 1), half(1, 0)), 64);
        assert_eq!(ratio(half(31, 1023), half(0, 1)), (1 << 26) - 1);
        assert_eq!(ratio(half(31, 1023), 0), 0);
    }

    #[test]
    fn ratios_are_exact() {
        let parts =
            |h: u16| (u64::from(h & 1023) + if h >> 10 == 0 { 0 } else { 1024 }, (h >> 10).max(1));
        let halves = (0..1 << 15).step_by(7);
        for m in halves.clone() {
            for d in (1..1 << 15).step_by(1019).chain([1, 1023, 1024, 2047]) {
                let ((m_f, m_e), (d_f, d_e)) = (parts(m), parts(d));
                let quotient = (m_f << 16) / d_f;
                let exact =
                    if m_e > d_e { quotient << (m_e - d_e) } else { quotient >> (d_e - m_e) };
                assert_eq!(u64::from(ratio(m, d)), exact.min((1 << 26) - 1), "{m} {d}");
            }
        }
    }

    #[test]
    fn zero_in_the_middle_is_class_0() {
        let at = |zero: f64| zero_class((zero * 65536.0) as u32, 1, 1, 15);
        assert_eq!(at(7.5), 0);
        assert_eq!(at(7.9), TURNED);
        assert_eq!(at(8.3), TURNED | 1);
        assert_eq!(at(6.7), 1);
        assert_eq!(at(0.0), 4);
        assert_eq!(at(15.0), TURNED | 4);
        assert_eq!(at(1000.0), TURNED | 4);
        assert_eq!(zero_class(1 << 16, 15, 10, 3), 0);
        assert_eq!(zero_class(u32::MAX >> 6, 63, 1, 31), TURNED | 4);
    }

    #[test]
    fn logarithms_grow_with_the_scale() {
        assert_eq!((log(0), log(1), log(2), log(3), log(128)), (0, 0, 1024, 1536, 7168));
        assert!((1..255).all(|s| log(s) <= log(s + 1)));
    }
}
