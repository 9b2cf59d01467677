//! Where the fields of the quantised layouts lie.
//!
//! A group holds 32 or 256 *elements* of 2 to 8 bits, cut into sub-groups that share a scale, and
//! often a minimum:
//!
//! ```text
//! element i stands for   d · scale · (q + constant)                Q4_0 Q5_0 Q8_0 Q8_1 Q3_K Q6_K Q8_K
//!                        d · scale · q + m                         Q4_1 Q5_1
//!                        d · scale · q − dmin · min                Q2_K Q4_K Q5_K
//! ```
//!
//! `d`, `m` and `dmin` are 16-bit floats, one a group; `scale` and `min` are small integers, one a
//! sub-group, or absent where a group is a single sub-group. Elements, scales and mins are gathered
//! from bit fields by [`Move`]s.

use crate::dtype::Dtype;

/// Bits `bit` to `bit + width − 1` of each of `len` bytes at `from` go to bits `shift` and up of as
/// many values, from value `to` on.
#[derive(Clone, Copy, Debug)]
pub struct Move {
    pub from: usize,
    pub len: usize,
    pub bit: u32,
    pub width: u32,
    pub to: usize,
    pub shift: u32,
}

/// Bit i mod 8 of byte `from` + i div 8 goes to bit `shift` of value i.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    pub from: usize,
    pub shift: u32,
}

/// Values of a group that form one plane.
#[derive(Clone, Copy, Debug)]
pub struct Values {
    /// Values in a group: a multiple of 4; of 8 with `spread`.
    pub count: usize,
    /// Width of a value.
    pub bits: u8,
    pub moves: &'static [Move],
    pub spread: Option<Spread>,
}

impl Values {
    /// The largest value.
    pub fn most(&self) -> u8 {
        (0xff_u16 >> (8 - self.bits)) as u8
    }
}

/// Every `step`th byte from `from` on, `count` in all: a plane as they are.
#[derive(Clone, Copy, Debug)]
pub struct Bytes {
    pub from: usize,
    pub count: usize,
    pub step: usize,
}

/// The integer that a stored scale stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    Plain,
    /// 32 more than it stands for.
    Offset32,
    /// Two's complement.
    Signed,
}

/// Which element stands for zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Zero {
    /// Always the same one.
    Fixed,
    /// −m / d.
    Minus,
    /// dmin · min / (d · scale).
    Plus,
}

/// The fields of a group.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// Length in bytes.
    pub len: usize,
    /// Offsets of the 16-bit floats: d, and m or dmin.
    pub halves: &'static [usize],
    pub bytes: &'static [Bytes],
    pub scales: Option<Values>,
    pub mins: Option<Values>,
    pub elements: Values,
    pub scale: Scale,
    pub zero: Zero,
}

impl Layout {
    /// Sub-groups of a group.
    pub fn subs(&self) -> usize {
        self.scales.map_or(1, |s| s.count)
    }

    /// Elements of a sub-group: 16, 32 or 256.
    pub fn sub_len(&self) -> usize {
        self.elements.count / self.subs()
    }
}

const fn mv(from: usize, len: usize, bit: u32, width: u32, to: usize, shift: u32) -> Move {
    Move { from, len, bit, width, to, shift }
}

const fn values(count: usize, bits: u8, moves: &'static [Move]) -> Values {
    Values { count, bits, moves, spread: None }
}

/// Moves of values of `width` bits that lie in runs of `run` bytes: the lowest bits of all bytes of
/// a run, then the next higher ones.
const fn runs<const N: usize>(from: usize, run: usize, width: u32, shift: u32) -> [Move; N] {
    let mut moves = [mv(0, 0, 0, 0, 0, 0); N];
    let a_byte = 8 / width as usize;
    let mut i = 0;
    while i < N {
        let (at, bit) = (from + i / a_byte * run, (i % a_byte) as u32 * width);
        moves[i] = mv(at, run, bit, width, i * run, shift);
        i += 1;
    }
    moves
}

const fn join<const A: usize, const B: usize, const N: usize>(
    a: [Move; A],
    b: [Move; B],
) -> [Move; N] {
    let mut all = [mv(0, 0, 0, 0, 0, 0); N];
    let mut i = 0;
    while i < N {
        all[i] = if i < A { a[i] } else { b[i - A] };
        i += 1;
    }
    all
}

/// Nibbles of 16 bytes at `from`: low ones first.
const fn nibbles16<const FROM: usize>(bits: u8) -> Values {
    values(32, bits, const { &runs::<2>(FROM, 16, 4, 0) })
}

const PLAIN: Layout = Layout {
    len: 0,
    halves: &[0],
    bytes: &[],
    scales: None,
    mins: None,
    elements: values(0, 0, &[]),
    scale: Scale::Plain,
    zero: Zero::Fixed,
};

const Q4_0: Layout = Layout { len: 18, elements: nibbles16::<2>(4), ..PLAIN };
const Q4_1: Layout =
    Layout { len: 20, halves: &[0, 2], elements: nibbles16::<4>(4), zero: Zero::Minus, ..PLAIN };
const Q5_0: Layout = Layout {
    len: 22,
    elements: Values { spread: Some(Spread { from: 2, shift: 4 }), ..nibbles16::<6>(5) },
    ..PLAIN
};
const Q5_1: Layout = Layout {
    len: 24,
    halves: &[0, 2],
    elements: Values { spread: Some(Spread { from: 4, shift: 4 }), ..nibbles16::<8>(5) },
    zero: Zero::Minus,
    ..PLAIN
};
const Q8_0: Layout = Layout { len: 34, elements: values(32, 8, &[mv(2, 32, 0, 8, 0, 0)]), ..PLAIN };
const Q8_1: Layout =
    Layout { len: 36, halves: &[0, 2], elements: values(32, 8, &[mv(4, 32, 0, 8, 0, 0)]), ..PLAIN };
const Q2_K: Layout = Layout {
    len: 84,
    halves: &[80, 82],
    scales: Some(values(16, 4, &[mv(0, 16, 0, 4, 0, 0)])),
    mins: Some(values(16, 4, &[mv(0, 16, 4, 4, 0, 0)])),
    elements: values(256, 2, const { &runs::<8>(16, 32, 2, 0) }),
    zero: Zero::Plus,
    ..PLAIN
};
const Q3_K: Layout = Layout {
    len: 110,
    halves: &[108],
    scales: Some(values(16, 6, const { &join::<2, 4, 6>(runs(96, 8, 4, 0), runs(104, 4, 2, 4)) })),
    elements: values(256, 3, const { &join::<8, 8, 16>(runs(32, 32, 2, 0), runs(0, 32, 1, 2)) }),
    scale: Scale::Offset32,
    ..PLAIN
};
/// The twelve bytes of scales and mins of Q4_K and Q5_K: of the first four in bits 0 to 5 of four
/// bytes each, of the last four low bits in nibbles and high bits above those of the first.
const SCALES_4K: Values =
    values(8, 6, &[mv(4, 4, 0, 6, 0, 0), mv(12, 4, 0, 4, 4, 0), mv(4, 4, 6, 2, 4, 4)]);
const MINS_4K: Values =
    values(8, 6, &[mv(8, 4, 0, 6, 0, 0), mv(12, 4, 4, 4, 4, 0), mv(8, 4, 6, 2, 4, 4)]);
const Q4_K: Layout = Layout {
    len: 144,
    halves: &[0, 2],
    scales: Some(SCALES_4K),
    mins: Some(MINS_4K),
    elements: values(256, 4, const { &runs::<8>(16, 32, 4, 0) }),
    zero: Zero::Plus,
    ..PLAIN
};
const Q5_K: Layout = Layout {
    len: 176,
    elements: values(256, 5, const { &join::<8, 8, 16>(runs(48, 32, 4, 0), runs(16, 32, 1, 4)) }),
    ..Q4_K
};
const Q6_K: Layout = Layout {
    len: 210,
    halves: &[208],
    scales: Some(values(16, 8, &[mv(192, 16, 0, 8, 0, 0)])),
    elements: values(256, 6, const { &join::<4, 8, 12>(runs(0, 64, 4, 0), runs(128, 32, 2, 4)) }),
    scale: Scale::Signed,
    ..PLAIN
};
/// Its d is a 32-bit float, whose upper half does as a 16-bit one.
const Q8_K: Layout = Layout {
    len: 292,
    halves: &[2],
    bytes: &[
        Bytes { from: 0, count: 2, step: 1 },
        Bytes { from: 260, count: 16, step: 2 },
        Bytes { from: 261, count: 16, step: 2 },
    ],
    elements: values(256, 8, &[mv(4, 256, 0, 8, 0, 0)]),
    ..PLAIN
};

/// The layout of a quantised type.
pub fn of(dtype: Dtype) -> Option<&'static Layout> {
    Some(match dtype {
        Dtype::Q4_0 => &Q4_0,
        Dtype::Q4_1 => &Q4_1,
        Dtype::Q5_0 => &Q5_0,
        Dtype::Q5_1 => &Q5_1,
        Dtype::Q8_0 => &Q8_0,
        Dtype::Q8_1 => &Q8_1,
        Dtype::Q2_K => &Q2_K,
        Dtype::Q3_K => &Q3_K,
        Dtype::Q4_K => &Q4_K,
        Dtype::Q5_K => &Q5_K,
        Dtype::Q6_K => &Q6_K,
        Dtype::Q8_K => &Q8_K,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_of_a_group_is_in_one_field_and_every_bit_of_a_value_is_filled() {
        let all = Dtype::ALL.into_iter().filter_map(|d| Some((d, of(d)?)));
        for (dtype, layout) in all {
            assert_eq!(layout.len, dtype.word_len(), "{dtype}");
            assert_eq!(layout.elements.count as u64, dtype.group_elements(), "{dtype}");
            let mut group = vec![0u8; layout.len];
            let mut take = |byte: usize, bits: u8| {
                assert_eq!(group[byte] & bits, 0, "{dtype} byte {byte}");
                group[byte] |= bits;
            };
            for &at in layout.halves {
                take(at, 255);
                take(at + 1, 255);
            }
            for b in layout.bytes {
                (0..b.count).for_each(|i| take(b.from + i * b.step, 255));
            }
            for v in [layout.scales, layout.mins, Some(layout.elements)].into_iter().flatten() {
                let mut filled = vec![0u8; v.count];
                let mut fill = |value: usize, bits: u8| {
                    assert_eq!(filled[value] & bits, 0, "{dtype} value {value}");
                    filled[value] |= bits;
                };
                for m in v.moves {
                    let mask = (1u32 << m.width) - 1;
                    for i in 0..m.len {
                        take(m.from + i, (mask << m.bit) as u8);
                        fill(m.to + i, (mask << m.shift) as u8);
                    }
                }
                for i in 0..v.spread.map_or(0, |_| v.count) {
                    let s = v.spread.unwrap();
                    take(s.from + i / 8, 1 << (i % 8));
                    fill(i, 1 << s.shift);
                }
                assert!(filled.iter().all(|&f| f == v.most()), "{dtype}");
            }
            assert!(group.iter().all(|&b| b == 255), "{dtype} {group:?}");
        }
    }
}
