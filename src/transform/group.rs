//! Groups the bytes of words by significance: plane `j` holds byte `j` of every word.
//!
//! ```text
//! bytes   a0 a1 a2 a3  b0 b1 b2 b3  c0 …      32-bit words, byte 0 the least significant
//! plane 0 a0 b0 c0 …   plane 1 a1 b1 c1 …   plane 2 a2 b2 c2 …   plane 3 a3 b3 c3 …
//! ```

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::simd::{Level, dispatch};

/// Writes one plane for each byte of a word; `planes.len()` (2, 4 or 8) is the word's length.
///
/// # Panics
/// If the number of planes is another, or `bytes` is not one word for each byte of each plane.
pub fn split(level: Level, bytes: &[u8], planes: &mut [&mut [u8]]) {
    let n = bytes.len() / planes.len();
    assert!(planes.iter().all(|p| p.len() == n) && bytes.len() == n * planes.len());
    match planes {
        [_, _] => split_wide::<2>(level, bytes, planes),
        [_, _, _, _] => split_wide::<4>(level, bytes, planes),
        [_, _, _, _, _, _, _, _] => split_wide::<8>(level, bytes, planes),
        _ => panic!("words of {} bytes", planes.len()),
    }
}

/// Inverse of [`split`].
///
/// # Panics
/// As [`split`].
pub fn join(level: Level, planes: &[&[u8]], bytes: &mut [u8]) {
    let n = bytes.len() / planes.len();
    assert!(planes.iter().all(|p| p.len() == n) && bytes.len() == n * planes.len());
    match planes {
        [_, _] => join_wide::<2>(level, planes, bytes),
        [_, _, _, _] => join_wide::<4>(level, planes, bytes),
        [_, _, _, _, _, _, _, _] => join_wide::<8>(level, planes, bytes),
        _ => panic!("words of {} bytes", planes.len()),
    }
}

fn split_wide<const W: usize>(level: Level, bytes: &[u8], planes: &mut [&mut [u8]]) {
    dispatch!(level,
        Avx512 => avx512::split::<W>(bytes, planes),
        Avx2 => avx2::split::<W>(bytes, planes),
        _ => split_scalar::<W>(0, bytes, planes),
    )
}

fn join_wide<const W: usize>(level: Level, planes: &[&[u8]], bytes: &mut [u8]) {
    dispatch!(level,
        Avx512 => avx512::join::<W>(planes, bytes),
        Avx2 => avx2::join::<W>(planes, bytes),
        _ => join_scalar::<W>(0, planes, bytes),
    )
}

/// Words whose planes are written one by one.
const BLOCK: usize = 512;

/// From word `start` on.
fn split_scalar<const W: usize>(start: usize, bytes: &[u8], planes: &mut [&mut [u8]]) {
    // Every plane of a block by itself: the compiler makes vector code of that.
    for (block, words) in bytes.as_chunks::<W>().0[start..].chunks(BLOCK).enumerate() {
        for (j, plane) in planes.iter_mut().enumerate() {
            let plane = &mut plane[start + block * BLOCK..][..words.len()];
            plane.iter_mut().zip(words).for_each(|(to, word)| *to = word[j]);
        }
    }
}

/// From word `start` on.
fn join_scalar<const W: usize>(start: usize, planes: &[&[u8]], bytes: &mut [u8]) {
    for (block, words) in bytes.as_chunks_mut::<W>().0[start..].chunks_mut(BLOCK).enumerate() {
        for (j, plane) in planes.iter().enumerate() {
            let plane = &plane[start + block * BLOCK..][..words.len()];
            words.iter_mut().zip(plane).for_each(|(word, byte)| word[j] = *byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_level_groups_every_length() {
        let noise: Vec<u8> =
            (0..8 * 5000u32).map(|i| (i.wrapping_mul(0x9E37_79B1) >> 23) as u8).collect();
        for level in Level::available() {
            for width in [2, 4, 8] {
                for n in (0..300).chain([4095, 4096, 4097]) {
                    let bytes = &noise[noise.len() - n * width..];
                    let mut planes = vec![vec![0xAA; n]; width];
                    let mut slices: Vec<&mut [u8]> =
                        planes.iter_mut().map(|p| &mut p[..]).collect();
                    split(level, bytes, &mut slices);
                    for (j, plane) in planes.iter().enumerate() {
                        let want = bytes.iter().skip(j).step_by(width);
                        assert!(plane.iter().eq(want), "{level:?} width={width} n={n} plane={j}");
                    }
                    let slices: Vec<&[u8]> = planes.iter().map(|p| &p[..]).collect();
                    let mut back = vec![0; bytes.len()];
                    join(level, &slices, &mut back);
                    assert!(back == bytes, "{level:?} width={width} n={n}");
                }
            }
        }
    }
}
