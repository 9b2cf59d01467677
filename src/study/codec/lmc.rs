//! LMC: byte grouping, run lengths, Huffman with a fresh codebook every 64 KiB.
//!
//! ```text
//! payload  piece*              1 MiB of words each, the last one what is left
//! piece    group*              one per byte of a word, the least significant first
//! group    form: u8
//!   0 plain                    stream
//!   1 runs (runs.rs)           len: u32, stream
//!   2 numbers (numbers.rs)     zero: u8, two: u8, escape: u8, len: u32, stream
//! stream                       entropy/huffman.rs, of the group or of `len` bytes
//! ```
//!
//! Which form a group takes is found on a sample of it, by the length of the code words; on a
//! quarter of it where there are long runs, which a small sample may miss. Mantissas are plain; numbers serve
//! deltas, of which most bytes are one value; runs what repeats otherwise, like rows of zeros. Pieces keep the groups at hand in the cache, however large a chunk is.

use std::cell::RefCell;

use super::{
    corrupt,
    numbers::{self, Digits},
    put_stream, runs, take, take_stream, take_u32,
};
use crate::{error::Result, simd::Level, study::huffman, transform::group};

const PIECE_LEN: usize = 1 << 20;

const PLAIN: u8 = 0;
const RUNS: u8 = 1;
const NUMBERS: u8 = 2;

/// A sample is so many stretches of a group of this length.
const STRETCHES: usize = 8;
const STRETCH_LEN: usize = 2 << 10;

/// Working memory, kept by each thread: fresh pages would cost more than the coding.
#[derive(Default)]
struct Work {
    groups: Vec<u8>,
    shortened: Vec<u8>,
    sample: Vec<u8>,
    huffman: huffman::Scratch,
}

thread_local! {
    static WORK: RefCell<Work> = RefCell::default();
}

pub(super) fn encode(level: Level, word_len: usize, bytes: &[u8], out: &mut Vec<u8>) {
    WORK.with_borrow_mut(|Work { groups, shortened, sample, huffman }| {
        each_group(level, word_len, bytes, groups, |group| {
            let (form, symbols) = shorten(level, group, sample, shortened);
            form.write(symbols.len(), out);
            put_stream(out, |out| huffman::encode(level, symbols, huffman, out));
        });
    });
}

/// Hands what is Huffman coded of `bytes` to `visit`, a group at a time.
pub(super) fn visit(level: Level, word_len: usize, bytes: &[u8], mut visit: impl FnMut(&[u8])) {
    WORK.with_borrow_mut(|Work { groups, shortened, sample, .. }| {
        each_group(level, word_len, bytes, groups, |group| {
            visit(shorten(level, group, sample, shortened).1)
        });
    });
}

pub(super) fn decode(
    level: Level,
    word_len: usize,
    rest: &mut &[u8],
    out: &mut [u8],
) -> Result<()> {
    WORK.with_borrow_mut(|Work { groups, shortened, .. }| {
        for piece in out.chunks_mut(PIECE_LEN) {
            if word_len == 1 {
                decode_group(level, rest, shortened, piece)?;
                continue;
            }
            let n = piece.len() / word_len;
            groups.resize(piece.len(), 0);
            for group in groups.chunks_exact_mut(n) {
                decode_group(level, rest, shortened, group)?;
            }
            let slices: Vec<&[u8]> = groups.chunks_exact(n).collect();
            group::join(level, &slices, piece);
        }
        Ok(())
    })
}

/// Hands every group of every piece of `bytes`, which are whole words, to `code`.
fn each_group(
    level: Level,
    word_len: usize,
    bytes: &[u8],
    groups: &mut Vec<u8>,
    mut code: impl FnMut(&[u8]),
) {
    for piece in bytes.chunks(PIECE_LEN) {
        if word_len == 1 {
            code(piece);
            continue;
        }
        let n = piece.len() / word_len;
        groups.resize(piece.len(), 0);
        let mut slices: Vec<&mut [u8]> = groups.chunks_exact_mut(n).collect();
        group::split(level, piece, &mut slices);
        groups.chunks_exact(n).for_each(&mut code);
    }
}

/// How the runs of a group are written.
#[derive(Clone, Copy)]
enum Form {
    Plain,
    Runs,
    Numbers(Digits),
}

impl Form {
    fn write(self, len: usize, out: &mut Vec<u8>) {
        match self {
            Form::Plain => return out.push(PLAIN),
            Form::Runs => out.push(RUNS),
            Form::Numbers(Digits { zero, two, escape }) => out.extend([NUMBERS, zero, two, escape]),
        }
        out.extend_from_slice(&(len as u32).to_le_bytes());
    }

    /// The form of `bytes`, which is in `shortened` unless it is plain.
    fn apply<'a>(self, bytes: &'a [u8], shortened: &'a mut Vec<u8>) -> &'a [u8] {
        match self {
            Form::Plain => bytes,
            Form::Runs => {
                shortened.clear();
                runs::encode(bytes, shortened);
                shortened
            }
            Form::Numbers(digits) => {
                let room = numbers::room(bytes.len());
                if shortened.len() < room {
                    shortened.resize(room, 0);
                }
                let len = digits.encode(bytes, shortened);
                &shortened[..len]
            }
        }
    }
}

/// The form that suits `group` best, and its bytes in it.
fn shorten<'a>(
    level: Level,
    group: &'a [u8],
    sample: &mut Vec<u8>,
    shortened: &'a mut Vec<u8>,
) -> (Form, &'a [u8]) {
    let form = choose(level, group, sample, shortened);
    let len = form.apply(group, shortened).len();
    match form {
        Form::Runs | Form::Numbers(_) if len < group.len() => (form, &shortened[..len]),
        _ => (Form::Plain, group),
    }
}

fn choose(level: Level, group: &[u8], sample: &mut Vec<u8>, shortened: &mut Vec<u8>) -> Form {
    let mut part = stretches(group, STRETCHES, sample);
    let mut counts = huffman::count(level, part);
    // Rarer bytes take two bits and more, and then a Huffman code fits them well.
    let commonest = counts.iter().max().copied().unwrap_or(0) as usize;
    let mut has_numbers = 16 * commonest >= 5 * part.len();
    let mut has_runs = runs::saved_len(part) > part.len() / 32;
    if !has_numbers && runs::long_len(group) > group.len() / 32 {
        part = stretches(group, group.len() / (4 * STRETCH_LEN), sample);
        counts = huffman::count(level, part);
        (has_numbers, has_runs) = (true, true);
    }
    let numbers = has_numbers.then(|| Form::Numbers(Digits::of(&counts)));
    let runs = has_runs.then_some(Form::Runs);
    if numbers.is_none() && runs.is_none() {
        return Form::Plain;
    }
    let forms = [Some(Form::Plain), numbers, runs].into_iter().flatten();
    let coded_len = |form: &Form| {
        let symbols = form.apply(part, shortened);
        symbols.chunks(huffman::BLOCK_LEN).map(|s| huffman::code_len(level, s)).sum::<u64>()
    };
    forms.min_by_key(coded_len).unwrap_or(Form::Plain)
}

/// `n` stretches of `group`, the first from its beginning and the last to its end; all of it where
/// it is no longer than the usual sample.
fn stretches<'a>(group: &'a [u8], n: usize, sample: &'a mut Vec<u8>) -> &'a [u8] {
    if group.len() <= STRETCHES * STRETCH_LEN {
        return group;
    }
    sample.clear();
    for k in 0..n {
        let start = k * (group.len() - STRETCH_LEN) / (n - 1);
        sample.extend_from_slice(&group[start..start + STRETCH_LEN]);
    }
    sample
}

fn decode_group(
    level: Level,
    rest: &mut &[u8],
    shortened: &mut Vec<u8>,
    out: &mut [u8],
) -> Result<()> {
    let form = match take(rest, 1)?[0] {
        PLAIN => Form::Plain,
        RUNS => Form::Runs,
        NUMBERS => {
            let bytes = take(rest, 3)?;
            let (zero, two, escape) = (bytes[0], bytes[1], bytes[2]);
            if zero == two || zero == escape || two == escape {
                return Err(corrupt("digits of lmc that do not differ"));
            }
            Form::Numbers(Digits { zero, two, escape })
        }
        _ => return Err(corrupt("a form of run lengths of lmc that there is not")),
    };
    if let Form::Plain = form {
        return match huffman::decode(level, take_stream(rest)?, out) {
            true => Ok(()),
            false => Err(corrupt("a Huffman stream of lmc")),
        };
    }
    let len = take_u32(rest)? as usize;
    let stream = take_stream(rest)?;
    if len >= out.len() {
        return Err(corrupt("run lengths of lmc longer than what they stand for"));
    }
    if shortened.len() < len {
        shortened.resize(len, 0);
    }
    let symbols = &mut shortened[..len];
    let fine = huffman::decode(level, stream, symbols)
        && match form {
            Form::Numbers(digits) => digits.decode(symbols, out),
            _ => runs::decode(symbols, out),
        };
    if fine { Ok(()) } else { Err(corrupt("a Huffman stream or run lengths of lmc")) }
}
