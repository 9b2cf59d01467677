//! The coder as it is defined: one code word after the other, every access checked.

use super::{N_STREAMS, codebook::Codebook, quarters, table::Table};

/// Writes the code words of `symbols` to `out[at..]` and returns where the next stream begins.
/// Up to eight bytes after that may be overwritten.
pub(super) fn encode(book: &Codebook, symbols: &[u8], out: &mut [u8], mut at: usize) -> usize {
    let (mut bits, mut n_bits) = (0u64, 0u32);
    // Four code words and what the last round left are 51 bits at most.
    for group in symbols.chunks(4) {
        for &symbol in group {
            bits |= u64::from(book.codes[usize::from(symbol)]) << n_bits;
            n_bits += u32::from(book.lens[usize::from(symbol)]);
        }
        (bits, n_bits, at) = flush(bits, n_bits, out, at);
    }
    finish(bits, n_bits, out, at)
}

/// Writes whole bytes of up to 56 bits and keeps what is left.
#[inline(always)]
pub(super) fn flush(bits: u64, n_bits: u32, out: &mut [u8], at: usize) -> (u64, u32, usize) {
    out[at..at + 8].copy_from_slice(&bits.to_le_bytes());
    (bits >> (n_bits & 56), n_bits & 7, at + (n_bits >> 3) as usize)
}

/// Writes the last, unfinished byte of a stream.
#[inline(always)]
pub(super) fn finish(bits: u64, n_bits: u32, out: &mut [u8], at: usize) -> usize {
    out[at] = bits as u8;
    at + usize::from(n_bits > 0)
}

/// Decodes what is left of the four quarters of `out` after `done` symbols and `position` bits
/// of each stream. False where a stream is too short or too long.
pub(super) fn decode(
    table: &Table,
    streams: [&[u8]; N_STREAMS],
    out: &mut [u8],
    done: [usize; N_STREAMS],
    position: [usize; N_STREAMS],
) -> bool {
    let parts = quarters(out.len());
    for k in 0..N_STREAMS {
        let (stream, mut position) = (streams[k], position[k]);
        for group in out[parts[k].clone()][done[k]..].chunks_mut(5) {
            // 57 bits at least, zeros after the end: enough for five code words.
            let mut window = window(stream, position);
            for symbol in group {
                let (value, len) = table.single(window);
                *symbol = value;
                window >>= len;
                position += len;
            }
        }
        if position.div_ceil(8) != stream.len() {
            return false;
        }
        // What fills the last byte is zero.
        let padding = stream.last().map_or(0, |&last| u32::from(last) >> ((position + 7) % 8 + 1));
        if padding != 0 {
            return false;
        }
    }
    true
}

fn window(stream: &[u8], position: usize) -> u64 {
    let rest = stream.get(position / 8..).unwrap_or_default();
    let word = match rest.first_chunk::<8>() {
        Some(bytes) => u64::from_le_bytes(*bytes),
        None => rest.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    word >> (position % 8)
}
