//! Planes decoded piece by piece, so that what joins them finds them in the nearest cache, and
//! decoded words that go to the caller from there, hashed on the way.

use super::plane::{self, Coded, Coder, CoderScratch};
use crate::{
    bits::unpack,
    entropy::{frequency, rans},
    hash::Stream,
    simd::{self, Level, far},
};
use std::ops::Range;

/// Words of a piece: whole blocks of the hash, whole groups of every coder's lanes, and whole
/// bytes of packed values, whatever the width.
pub const PIECE: usize = 2048;

/// Bytes that are fetched ahead.
const AHEAD: usize = 4 << 10;

/// A coded plane of which the next piece can be had.
#[allow(clippy::large_enum_variant, reason = "there are a dozen of them at a time")]
pub enum Pieces<'a> {
    /// It lies somewhere, a byte a value.
    Whole(&'a [u8]),
    Packed {
        data: &'a [u8],
        bits: u8,
    },
    Constant(u8),
    Rans {
        decoder: rans::Decoder<'a>,
        table: Box<rans::DecodeTable>,
        bits: u8,
    },
    Cascade {
        decoder: plane::CascadeDecoder<'a>,
        bits: u8,
    },
}

impl<'a> Pieces<'a> {
    /// A plane of `n` values below 2^`bits`; coders that can't stop are run to their end, into
    /// `plane`. `None` where it is damaged.
    pub fn new(
        level: Level,
        coded: Coded<'a>,
        bits: u8,
        n: usize,
        scratch: &mut CoderScratch,
        plane: &'a mut Vec<u8>,
    ) -> Option<Self> {
        match (coded.coder, coded.data) {
            (Coder::Packed, data) => {
                let fits = data.len() == (n * usize::from(bits)).div_ceil(8);
                let pieces = match bits {
                    8 => Pieces::Whole(data),
                    _ => Pieces::Packed { data, bits },
                };
                fits.then_some(pieces)
            }
            (Coder::Constant, &[value]) => {
                (u32::from(value) >> bits == 0).then_some(Pieces::Constant(value))
            }
            (Coder::Rans, data) => {
                let (&lanes, data) = data.split_first()?;
                let (table, used) = frequency::read(data)?;
                plane::fits(&table, bits).then_some(())?;
                let lanes = rans::Lanes::from_log2(lanes)?;
                let decoder = rans::Decoder::new(lanes, n, data.get(used..)?)?;
                let table = Box::new(rans::DecodeTable::new(&table));
                Some(Pieces::Rans { decoder, table, bits })
            }
            (Coder::Cascade | Coder::Shifted, _) if n > 0 => {
                let decoder = plane::CascadeDecoder::new(level, coded, n, scratch, plane)?;
                Some(Pieces::Cascade { decoder, bits })
            }
            _ => {
                plane.resize(plane.len().max(n), 0);
                coded.decode(level, bits, scratch, &mut plane[..n])?;
                Some(Pieces::Whole(&plane[..n]))
            }
        }
    }

    /// The values from `at` on, where the last piece ended: as many as `buffer` has room for,
    /// which is a whole piece but at the end. `None` where the plane is damaged.
    #[inline]
    pub fn next<'b>(
        &'b mut self,
        level: Level,
        at: usize,
        buffer: &'b mut [u8],
    ) -> Option<&'b [u8]> {
        let good = match self {
            Pieces::Whole(plane) => {
                simd::prefetch(plane, at + AHEAD, buffer.len());
                return plane.get(at..at + buffer.len());
            }
            Pieces::Packed { data, bits } => {
                let start = at / 8 * usize::from(*bits);
                let len = (buffer.len() * usize::from(*bits)).div_ceil(8);
                simd::prefetch(data, start + AHEAD, len);
                unpack(level, *bits, data.get(start..start + len)?, buffer)
            }
            Pieces::Constant(value) => {
                buffer.fill(*value);
                true
            }
            // The last symbols stand in the states: no table bounds them.
            Pieces::Rans { decoder, table, bits } => {
                decoder.decode(level, table, buffer) && plane::below(buffer, *bits)
            }
            Pieces::Cascade { decoder, bits } => {
                decoder.decode(buffer) && plane::below(buffer, *bits)
            }
        };
        good.then_some(buffer)
    }

    /// Whether the plane, of which all pieces were taken, ended as it should.
    pub fn finish(self) -> bool {
        match self {
            Pieces::Rans { decoder, .. } => decoder.finish(),
            _ => true,
        }
    }
}

/// Takes decoded pieces to the output.
///
/// ```text
/// buffer   | nothing | carried | piece, of which whole lines go to the output   |
///          0         64 - n    64                                  carried next |
/// ```
pub struct Delivery {
    hash: Stream,
    far: bool,
    /// Bytes of the last piece that did not fill a line.
    carried: usize,
    buffer: Aligned,
}

#[repr(align(64))]
struct Aligned([u8; LINE + 8 * PIECE]);

const LINE: usize = 64;

impl Delivery {
    /// Into output that is written past the caches if it is `far`.
    pub fn new(level: Level, far: bool) -> Self {
        let buffer = Aligned([0; LINE + 8 * PIECE]);
        Delivery { hash: Stream::new(level), far, carried: 0, buffer }
    }

    /// Has `make` fill the next piece, `out[piece]`, of at most [`PIECE`] words, and returns what
    /// that returns. Pieces follow each other, and all but the last one are whole.
    #[inline]
    pub fn put(
        &mut self,
        out: &mut [u8],
        piece: Range<usize>,
        make: impl FnOnce(&mut [u8]) -> bool,
    ) -> bool {
        let (len, last) = (piece.len(), piece.end == out.len());
        let near = match self.far {
            true => &mut self.buffer.0[LINE..LINE + len],
            false => &mut out[piece.clone()],
        };
        let good = make(near);
        self.hash.add_piece(near, last);
        if self.far {
            self.write(&mut out[..piece.end], piece.start, last);
        }
        good
    }

    /// Writes what of a piece, which ends where `out` does, and before it fills lines.
    fn write(&mut self, out: &mut [u8], start: usize, last: bool) {
        let mut from = LINE - self.carried;
        let mut out = &mut out[start - self.carried..];
        if start == 0 {
            let n = (out.as_ptr().addr().wrapping_neg() % LINE).min(out.len());
            out[..n].copy_from_slice(&self.buffer.0[from..from + n]);
            (out, from) = (&mut out[n..], from + n);
        }
        let (lines, rest) = out.as_chunks_mut();
        far::stream(self.buffer.0[from..].as_chunks().0, lines);
        from += LINE * lines.len();
        if last {
            rest.copy_from_slice(&self.buffer.0[from..from + rest.len()]);
        } else {
            self.carried = rest.len();
            self.buffer.0.copy_within(from..from + rest.len(), LINE - rest.len());
        }
    }

    /// The hash of all that was put.
    pub fn finish(self, all: &[u8]) -> u64 {
        far::fence();
        self.hash.finish_of(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hash::digest_of;

    #[test]
    fn pieces_arrive_whole_wherever_the_output_starts() {
        let bytes: Vec<u8> = (0..70_000u32).map(|i| (i.wrapping_mul(i) >> 5) as u8).collect();
        for level in Level::available() {
            for start in (0..70).chain([255]) {
                for len in [0, 1, 63, 64, 65, 2047, 2048, 2049, 4096, 8191, 40_000, 65_536] {
                    for (far, word) in [(true, 1), (true, 2), (true, 8), (false, 4)] {
                        let mut room = vec![0; 70_000];
                        let out = &mut room[start..start + len];
                        let mut delivery = Delivery::new(level, far);
                        for at in (0..len).step_by(word * PIECE) {
                            let piece = at..len.min(at + word * PIECE);
                            let from = &bytes[piece.clone()];
                            delivery.put(out, piece, |to| {
                                to.copy_from_slice(from);
                                true
                            });
                        }
                        assert_eq!(delivery.finish(out), digest_of(&bytes[..len]));
                        assert_eq!(out, &bytes[..len], "{start} {len} {far} {word}");
                        let mut around = room[..start].iter().chain(&room[start + len..]);
                        assert!(around.all(|&b| b == 0));
                    }
                }
            }
        }
    }
}
