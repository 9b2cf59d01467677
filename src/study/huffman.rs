//! Canonical Huffman coding of byte symbols, with a fresh codebook every 64 KiB block: the coder
//! of LMC.
//!
//! ```text
//! plane     block*                     65,536 symbols each, the last one what is left
//! block     kind: u8
//!   0 raw       the symbols
//!   1 constant  symbol: u8
//!   2 coded     codebook, stream_len: u16 × 4, stream × 4
//! codebook  first: u8, last: u8, code lengths of the symbols first..=last as nibbles
//!           (see codebook.rs)
//! stream    code words, first bit in bit 0 of the first byte, zero bits up to the last byte
//! ```
//!
//! The four streams hold the four quarters of a block (`n.div_ceil(4)` symbols, the last what is
//! left), so a decoder works at four places at once and never waits for one code word to know
//! where the next begins. A block is coded only where that is shorter than raw; one whose
//! collision entropy, or that of a sixteenth of it, shows that nothing can be gained is not even
//! tried.
//!
//! Encoding looks symbols up in pairs (AVX2) or 32 at a time (AVX-512); decoding takes up to four
//! symbols per look-up of an 11-bit window. Both are bit for bit what the scalar functions do.

mod codebook;
mod count;
mod scalar;
mod table;

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(test)]
mod tests;

use self::{codebook::Codebook, table::Table};
use crate::simd::{Level, dispatch};

/// Symbols that share a codebook.
pub const BLOCK_LEN: usize = 1 << 16;

/// Longest code word in bits; a decoder looks at so many bits at once.
const MAX_BITS: usize = 11;

const N_STREAMS: usize = 4;
const RAW: u8 = 0;
const CONSTANT: u8 = 1;
const CODED: u8 = 2;

/// Room for the four streams of a block, each store being eight bytes wide.
const STREAMS_LEN: usize = BLOCK_LEN * MAX_BITS / 8 + N_STREAMS * 16;

/// Working memory of [`encode`], to be kept from call to call.
#[derive(Debug)]
pub struct Scratch {
    streams: Vec<u8>,
    #[cfg(target_arch = "x86_64")]
    pairs: Vec<u32>,
}

impl Default for Scratch {
    fn default() -> Self {
        Scratch {
            streams: vec![0; STREAMS_LEN],
            #[cfg(target_arch = "x86_64")]
            pairs: vec![0; 1 << 16],
        }
    }
}

/// Appends the coded `symbols` to `out`: at most one byte per block more than they are.
pub fn encode(level: Level, symbols: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) {
    for block in symbols.chunks(BLOCK_LEN) {
        encode_block(level, block, scratch, out);
    }
}

/// How often each symbol occurs; at most [`BLOCK_LEN`] of them.
pub fn count(level: Level, symbols: &[u8]) -> [u32; 256] {
    count::count(level, &symbols[..symbols.len().min(BLOCK_LEN)])
}

/// Bytes of the code words of at most [`BLOCK_LEN`] `symbols`, without their codebook.
pub fn code_len(level: Level, symbols: &[u8]) -> u64 {
    let counts = count(level, symbols);
    match counts.iter().filter(|&&c| c > 0).count() {
        0 | 1 => 0,
        _ => Codebook::from_counts(&counts).coded_len(&counts),
    }
}

fn encode_block(level: Level, block: &[u8], scratch: &mut Scratch, out: &mut Vec<u8>) {
    if count::looks_flat(block) {
        out.push(RAW);
        out.extend_from_slice(block);
        return;
    }
    let counts = count::count(level, block);
    let n = block.len() as u64;
    if counts.iter().any(|&c| u64::from(c) == n) {
        out.extend([CONSTANT, block[0]]);
        return;
    }
    // Shannon's entropy is at least the collision entropy, -log2 Σ(c/n)². Where that exceeds
    // 7.98 bits, a codebook costs more than the code saves.
    let collisions: u64 = counts.iter().map(|&c| u64::from(c) * u64::from(c)).sum();
    let flat = collisions * 252 < n * n;
    let book = (!flat).then(|| Codebook::from_counts(&counts));
    let Some(book) = book.filter(|b| b.coded_len(&counts) < n) else {
        out.push(RAW);
        out.extend_from_slice(block);
        return;
    };
    let mark = out.len();
    out.push(CODED);
    book.write(out);
    let mut at = 0;
    for part in quarters(block.len()) {
        let symbols = &block[part];
        let start = at;
        at = dispatch!(level,
            Avx512 => avx512::encode(&book, symbols, &mut scratch.streams, at),
            Avx2 => {
                if start == 0 {
                avx2::fill_pairs(&book, &mut scratch.pairs);
                }
                avx2::encode(&book, &scratch.pairs, symbols, &mut scratch.streams, at)
                },
            _ => scalar::encode(&book, symbols, &mut scratch.streams, at),
        );
        out.extend_from_slice(&((at - start) as u16).to_le_bytes());
    }
    if out.len() - mark + at > block.len() {
        out.truncate(mark);
        out.push(RAW);
        out.extend_from_slice(block);
        return;
    }
    out.extend_from_slice(&scratch.streams[..at]);
}

/// Fills `out` with the symbols that `bytes` codes. False where `bytes` is not exactly what
/// [`encode`] can have written for that many symbols; `out` then holds anything.
#[must_use]
pub fn decode(level: Level, bytes: &[u8], out: &mut [u8]) -> bool {
    let mut table = Table::new();
    let mut rest = bytes;
    for block in out.chunks_mut(BLOCK_LEN) {
        match decode_block(level, rest, &mut table, block) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

fn decode_block<'a>(
    level: Level,
    bytes: &'a [u8],
    table: &mut Table,
    out: &mut [u8],
) -> Option<&'a [u8]> {
    let (&kind, bytes) = bytes.split_first()?;
    match kind {
        RAW => {
            let (symbols, rest) = bytes.split_at_checked(out.len())?;
            out.copy_from_slice(symbols);
            Some(rest)
        }
        CONSTANT => {
            let (&symbol, rest) = bytes.split_first()?;
            out.fill(symbol);
            Some(rest)
        }
        CODED => {
            let (book, bytes) = Codebook::read(bytes)?;
            let (lens, mut rest) = bytes.split_at_checked(2 * N_STREAMS)?;
            let mut streams = [&bytes[..0]; N_STREAMS];
            for (stream, len) in streams.iter_mut().zip(lens.chunks_exact(2)) {
                let len = u16::from_le_bytes([len[0], len[1]]);
                (*stream, rest) = rest.split_at_checked(usize::from(len))?;
            }
            table.fill_single(&book);
            let done = dispatch!(level,
                Avx512 => {
                    avx512::fill_multiple(table);
                    avx2::decode(table, streams, out)
                    },
                Avx2 => {
                    table.fill_multiple();
                    avx2::decode(table, streams, out)
                    },
                _ => scalar::decode(table, streams, out, [0; N_STREAMS], [0; N_STREAMS]),
            );
            done.then_some(rest)
        }
        _ => None,
    }
}

/// Which symbols of a block of `n` each stream holds.
fn quarters(n: usize) -> [std::ops::Range<usize>; N_STREAMS] {
    let quarter = n.div_ceil(N_STREAMS);
    std::array::from_fn(|k| (k * quarter).min(n)..((k + 1) * quarter).min(n))
}

/// Bytes of the codebook that a block with these counts is coded with: what a code fitted to the
/// block costs beside its code words.
pub fn codebook_len(counts: &[u32; 256]) -> usize {
    if counts.iter().filter(|&&c| c > 0).count() < 2 {
        return 1;
    }
    let mut stored = Vec::new();
    Codebook::from_counts(counts).write(&mut stored);
    stored.len()
}
