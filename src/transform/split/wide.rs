//! 64-bit words: byte grouping, then the split of the heads, in pieces that stay in the cache.
//!
//! The grouping is the whole work for the six tails; the top two bytes of a piece go through a
//! buffer and become heads.
use super::{Planes, PlanesMut, Split, join_head_planes, split_head_planes};
use crate::{
    simd::{Level, for_every_level},
    transform::group,
};

const PIECE: usize = 512;

/// Bytes 6 and 7 of the words of a piece, and their heads.
struct Buffers {
    top: [[u8; PIECE]; 2],
    heads: [u16; PIECE],
}

impl Buffers {
    fn new() -> Self {
        Buffers { top: [[0; PIECE]; 2], heads: [0; PIECE] }
    }
}

/// `n` bytes from `start` on, of a plane in use; nothing, maybe, of one that is not.
fn part(plane: &[u8], start: usize, n: usize) -> &[u8] {
    plane.get(start..start + n).unwrap_or(&[])
}

fn part_mut(plane: &mut [u8], start: usize, n: usize) -> &mut [u8] {
    plane.get_mut(start..start + n).unwrap_or(&mut [])
}

pub(super) fn split(level: Level, f: &Split, bytes: &[u8], planes: PlanesMut<'_>) -> usize {
    let [t0, t1, t2, t3, t4, t5] = &mut *planes.tails else { panic!("six tails") };
    let Buffers { top: [mut t6, mut t7], mut heads } = Buffers::new();
    let mut n_escapes = 0;
    for (piece, bytes) in bytes.chunks(8 * PIECE).enumerate() {
        let (start, n) = (piece * PIECE, bytes.len() / 8);
        let tails = [&mut **t0, t1, t2, t3, t4, t5];
        let [t0, t1, t2, t3, t4, t5] = tails.map(|t| part_mut(t, start, n));
        group::split(level, bytes, &mut [t0, t1, t2, t3, t4, t5, &mut t6[..n], &mut t7[..n]]);
        heads_of(level, &t6[..n], &t7[..n], &mut heads[..n]);
        let planes = PlanesMut {
            symbols: part_mut(planes.symbols, start, n),
            rest_lo: part_mut(planes.rest_lo, start, n),
            rest_hi: part_mut(planes.rest_hi, start, n),
            tails: &mut [],
        };
        n_escapes += split_head_planes(level, f, &heads[..n], None, planes);
    }
    n_escapes
}

pub(super) fn join(level: Level, f: &Split, planes: Planes<'_>, bytes: &mut [u8]) -> bool {
    let [t0, t1, t2, t3, t4, t5] = planes.tails else { panic!("six tails") };
    let Buffers { top: [mut t6, mut t7], mut heads } = Buffers::new();
    let mut escaped = false;
    for (piece, bytes) in bytes.chunks_mut(8 * PIECE).enumerate() {
        let (start, n) = (piece * PIECE, bytes.len() / 8);
        let planes = Planes {
            symbols: part(planes.symbols, start, n),
            rest_lo: part(planes.rest_lo, start, n),
            rest_hi: part(planes.rest_hi, start, n),
            tails: &[],
        };
        escaped |= join_head_planes(level, f, planes, None, &mut heads[..n]);
        tops_of(level, &heads[..n], &mut t6[..n], &mut t7[..n]);
        let [t0, t1, t2, t3, t4, t5] = [t0, t1, t2, t3, t4, t5].map(|t| part(t, start, n));
        group::join(level, &[t0, t1, t2, t3, t4, t5, &t6[..n], &t7[..n]], bytes);
    }
    escaped
}

for_every_level! {
fn heads_of(lo: &[u8], hi: &[u8], heads: &mut [u16]) {
    for ((head, lo), hi) in heads.iter_mut().zip(lo).zip(hi) {
        *head = u16::from_le_bytes([*lo, *hi]).rotate_left(1);
    }
}
}

for_every_level! {
fn tops_of(heads: &[u16], lo: &mut [u8], hi: &mut [u8]) {
    for ((head, lo), hi) in heads.iter().zip(lo).zip(hi) {
        [*lo, *hi] = head.rotate_right(1).to_le_bytes();
    }
}
}
