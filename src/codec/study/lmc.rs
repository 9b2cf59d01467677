//! LMC: byte grouping, run lengths, Huffman with a fresh codebook every 64 KiB.
//!
//! ```text
//! payload  group*              one per byte of a word, the least significant first
//! group    runs_len: u32       length after shortening runs, 0 where that was left out
//!          stream              entropy/huffman.rs
//! ```
//!
//! Runs are shortened where that makes the group smaller at all; a group without runs, like every
//! mantissa, goes to the Huffman coder as it is.

use super::{corrupt, put_stream, runs, take_stream, take_u32};
use crate::{entropy::huffman, error::Result, simd::Level, transform::group};

pub(super) fn encode(word_len: usize, bytes: &[u8], out: &mut Vec<u8>) {
    let mut scratch = huffman::Scratch::default();
    if word_len == 1 {
        return encode_group(bytes, &mut Vec::new(), &mut scratch, out);
    }
    let n = bytes.len() / word_len;
    let mut groups = vec![0; bytes.len()];
    let mut slices: Vec<&mut [u8]> = groups.chunks_mut(n.max(1)).collect();
    slices.resize_with(word_len, || &mut []);
    group::split(Level::best(), bytes, &mut slices);
    let mut shortened = Vec::new();
    for k in 0..word_len {
        encode_group(&groups[k * n..(k + 1) * n], &mut shortened, &mut scratch, out);
    }
}

fn encode_group(
    group: &[u8],
    shortened: &mut Vec<u8>,
    scratch: &mut huffman::Scratch,
    out: &mut Vec<u8>,
) {
    shortened.clear();
    // Where one byte in 64 begins no run of four, shortening gains nothing worth a pass.
    let mut lines = group.chunks_exact(64);
    let pays = lines.any(|line| line.windows(4).any(|w| w[0] == w[1] && w[1..3] == w[2..4]));
    if pays {
        runs::encode(group, shortened);
    }
    let pays = pays && shortened.len() < group.len();
    let runs_len = if pays { shortened.len() as u32 } else { 0 };
    let symbols = if pays { &shortened[..] } else { group };
    out.extend_from_slice(&runs_len.to_le_bytes());
    put_stream(out, |out| huffman::encode(Level::best(), symbols, scratch, out));
}

pub(super) fn decode(word_len: usize, rest: &mut &[u8], out: &mut [u8]) -> Result<()> {
    let mut shortened = Vec::new();
    if word_len == 1 {
        return decode_group(rest, &mut shortened, out);
    }
    let n = out.len() / word_len;
    let mut groups = vec![0; out.len()];
    for k in 0..word_len {
        decode_group(rest, &mut shortened, &mut groups[k * n..(k + 1) * n])?;
    }
    let slices: Vec<&[u8]> = (0..word_len).map(|k| &groups[k * n..(k + 1) * n]).collect();
    group::join(Level::best(), &slices, out);
    Ok(())
}

fn decode_group(rest: &mut &[u8], shortened: &mut Vec<u8>, out: &mut [u8]) -> Result<()> {
    let runs_len = take_u32(rest)? as usize;
    let stream = take_stream(rest)?;
    if runs_len == 0 {
        return match huffman::decode(Level::best(), stream, out) {
            true => Ok(()),
            false => Err(corrupt("a Huffman stream of lmc")),
        };
    }
    if runs_len >= out.len() {
        return Err(corrupt("run lengths of lmc longer than what they stand for"));
    }
    shortened.resize(runs_len, 0);
    let fine = huffman::decode(Level::best(), stream, &mut shortened[..runs_len])
        && runs::decode(&shortened[..runs_len], out);
    if fine { Ok(()) } else { Err(corrupt("a Huffman stream or run lengths of lmc")) }
}
