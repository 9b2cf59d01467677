//! LMC: byte grouping, run lengths, Huffman with a fresh codebook every 64 KiB.
//!
//! ```text
//! payload  group*              one per byte of a word, the least significant first
//! group    runs_len: u32       length after shortening runs, 0 where that was left out
//!          stream              entropy/huffman.rs
//! ```
//!
//! Runs are shortened where that saves a thirty-second of the group at least and the Huffman
//! coder makes less of it then; other groups, like every mantissa, go to it as they are.

use std::cell::RefCell;

use super::{corrupt, put_stream, runs, take_stream, take_u32};
use crate::{entropy::huffman, error::Result, simd::Level, transform::group};

/// Working memory, kept by each thread: fresh pages would cost more than the coding.
#[derive(Default)]
struct Work {
    groups: Vec<u8>,
    shortened: Vec<u8>,
    scratch: huffman::Scratch,
}

thread_local! {
    static WORK: RefCell<Work> = RefCell::default();
}

/// What a thread may keep; more is given back.
const KEPT_LEN: usize = 16 << 20;

impl Work {
    /// Runs `code` with the working memory of this thread.
    fn with<T>(code: impl FnOnce(&mut Work) -> T) -> T {
        WORK.with_borrow_mut(|work| {
            let result = code(work);
            if work.groups.capacity() + work.shortened.capacity() > KEPT_LEN {
                (work.groups, work.shortened) = Default::default();
            }
            result
        })
    }
}

pub(super) fn encode(word_len: usize, bytes: &[u8], out: &mut Vec<u8>) {
    Work::with(|Work { groups, shortened, scratch }| {
        if word_len == 1 {
            return encode_group(bytes, shortened, scratch, out);
        }
        let n = bytes.len() / word_len;
        groups.resize(bytes.len(), 0);
        let mut slices: Vec<&mut [u8]> = groups.chunks_mut(n.max(1)).collect();
        slices.resize_with(word_len, || &mut []);
        group::split(Level::best(), bytes, &mut slices);
        for k in 0..word_len {
            encode_group(&groups[k * n..(k + 1) * n], shortened, scratch, out);
        }
    });
}

fn encode_group(
    group: &[u8],
    shortened: &mut Vec<u8>,
    scratch: &mut huffman::Scratch,
    out: &mut Vec<u8>,
) {
    let mark = out.len();
    out.extend([0; 4]);
    put_stream(out, |out| huffman::encode(Level::best(), group, scratch, out));
    if runs::saved_len(group) <= group.len() / 32 {
        return;
    }
    shortened.clear();
    runs::encode(group, shortened);
    if shortened.len() >= group.len() {
        return;
    }
    let plain_len = out.len() - mark;
    out.extend_from_slice(&(shortened.len() as u32).to_le_bytes());
    put_stream(out, |out| huffman::encode(Level::best(), shortened, scratch, out));
    // Two forms stand there now; the shorter stays.
    if out.len() - mark < 2 * plain_len {
        out.drain(mark..mark + plain_len);
    } else {
        out.truncate(mark + plain_len);
    }
}

pub(super) fn decode(word_len: usize, rest: &mut &[u8], out: &mut [u8]) -> Result<()> {
    Work::with(|Work { groups, shortened, .. }| {
        if word_len == 1 {
            return decode_group(rest, shortened, out);
        }
        let n = out.len() / word_len;
        groups.resize(out.len(), 0);
        for k in 0..word_len {
            decode_group(rest, shortened, &mut groups[k * n..(k + 1) * n])?;
        }
        let slices: Vec<&[u8]> = (0..word_len).map(|k| &groups[k * n..(k + 1) * n]).collect();
        group::join(Level::best(), &slices, out);
        Ok(())
    })
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
    let fine = huffman::decode(Level::best(), stream, shortened) && runs::decode(shortened, out);
    if fine { Ok(()) } else { Err(corrupt("a Huffman stream or run lengths of lmc")) }
}
