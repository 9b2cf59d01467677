//! Encoding by pairs of symbols; decoding four streams at once, several symbols a look-up.
//! Nothing here is vectorised: BMI2's flagless shifts are what makes it fast.

use super::{
    MAX_BITS, N_STREAMS,
    codebook::Codebook,
    quarters, scalar,
    table::{SIZE, Table},
};

/// Pairs are worth a table up to so many; it holds what follows code words of both symbols.
const MAX_PAIRS: usize = 1 << 13;

fn has_pairs(book: &Codebook) -> bool {
    let range = usize::from(book.last - book.first) + 1;
    range * book.lens.iter().filter(|&&l| l > 0).count() <= MAX_PAIRS
}

/// Fills `pairs[a | b << 8]` with the code words of `a` and `b` (bits 0..22) and their length
/// (bits 24..29), for all symbols that occur, where that pays.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn fill_pairs(book: &Codebook, pairs: &mut [u32]) {
    if !has_pairs(book) {
        return;
    }
    let range = usize::from(book.first)..usize::from(book.last) + 1;
    let (codes, lens) = (&book.codes[range.clone()], &book.lens[range.clone()]);
    for b in range.clone().filter(|&b| book.lens[b] > 0) {
        let (code, len) = (u32::from(book.codes[b]), u32::from(book.lens[b]));
        let row = &mut pairs[b << 8..][range.clone()];
        for ((pair, &code_a), &len_a) in row.iter_mut().zip(codes).zip(lens) {
            let len_a = u32::from(len_a);
            *pair = u32::from(code_a) | code << len_a | (len + len_a) << 24;
        }
    }
}

/// As [`scalar::encode`], with the table of [`fill_pairs`] for this codebook.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn encode(
    book: &Codebook,
    pairs: &[u32],
    symbols: &[u8],
    out: &mut [u8],
    mut at: usize,
) -> usize {
    let Ok(pairs) = <&[u32; 1 << 16]>::try_from(pairs) else { return at };
    if !has_pairs(book) {
        return scalar::encode(book, symbols, out, at);
    }
    let (mut bits, mut n_bits) = (0u64, 0u32);
    let (groups, rest) = symbols.as_chunks::<4>();
    for &[a, b, c, d] in groups {
        let ab = pairs[usize::from(u16::from_le_bytes([a, b]))];
        let cd = pairs[usize::from(u16::from_le_bytes([c, d]))];
        bits |= u64::from(ab & 0xff_ffff) << n_bits;
        n_bits += ab >> 24;
        bits |= u64::from(cd & 0xff_ffff) << n_bits;
        n_bits += cd >> 24;
        (bits, n_bits, at) = scalar::flush(bits, n_bits, out, at);
    }
    for &symbol in rest {
        bits |= u64::from(book.codes[usize::from(symbol)]) << n_bits;
        n_bits += u32::from(book.lens[usize::from(symbol)]);
    }
    (bits, n_bits, at) = scalar::flush(bits, n_bits, out, at);
    scalar::finish(bits, n_bits, out, at)
}

/// Look-ups between two refills: 5 × 11 bits and the up to 7 bits that are left of a byte are
/// fewer than the 63 that a refill brings.
const LOOKUPS: usize = 5;

/// As [`scalar::decode`] from the beginning.
///
/// A stream's window holds its unread bits and above them a single 1, at bit 63 when all of
/// eight bytes are unread; so the zeros above it count the bits taken, and no position needs
/// to be kept up to date.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) fn decode(table: &Table, streams: [&[u8]; N_STREAMS], out: &mut [u8]) -> bool {
    const MARK: u64 = 1 << 63;
    let four: &[u64; SIZE] = &table.four;
    let parts = quarters(out.len());
    let mut done = [0usize; N_STREAMS];
    let mut position = [0usize; N_STREAMS];
    loop {
        // A round takes up to 7 bytes and reads 8, and writes within the next 20 symbols.
        let rounds = (0..N_STREAMS)
            .map(|k| {
                let bytes = streams[k].len().saturating_sub(position[k] / 8 + 8) / 7;
                let symbols = (parts[k].len() - done[k]) / (4 * LOOKUPS);
                bytes.min(symbols)
            })
            .min()
            .unwrap_or(0);
        if rounds == 0 {
            return scalar::decode(table, streams, out, done, position);
        }
        let base = out.as_mut_ptr();
        let mut from: [*const u8; N_STREAMS] =
            std::array::from_fn(|k| streams[k][position[k] / 8..].as_ptr());
        let mut taken: [usize; N_STREAMS] = std::array::from_fn(|k| position[k] % 8);
        let mut to: [usize; N_STREAMS] = std::array::from_fn(|k| parts[k].start + done[k]);
        for _ in 0..rounds {
            let mut window = [0u64; N_STREAMS];
            for k in 0..N_STREAMS {
                // SAFETY: `rounds` was chosen so that eight bytes from here lie in the stream,
                // every round before having taken at most (7 + 55) / 8 = 7 of them.
                window[k] = unsafe { from[k].cast::<u64>().read_unaligned() }.to_le();
                window[k] = (window[k] | MARK) >> taken[k];
            }
            for _ in 0..LOOKUPS {
                for k in 0..N_STREAMS {
                    let entry = four[window[k] as usize % SIZE];
                    window[k] >>= entry & 63;
                    let symbols = ((entry >> 32) as u32).to_le();
                    // SAFETY: `rounds` was chosen so that 20 symbols from where the round
                    // began lie in the quarter; each look-up moves on by at most 4.
                    unsafe { base.add(to[k]).cast::<u32>().write_unaligned(symbols) };
                    to[k] += (entry >> 8 & 7) as usize;
                }
            }
            for k in 0..N_STREAMS {
                let n_bits = window[k].leading_zeros() as usize;
                // SAFETY: at most 7 bytes a round, so this stays in the stream, as above.
                from[k] = unsafe { from[k].add(n_bits / 8) };
                taken[k] = n_bits % 8;
            }
        }
        for k in 0..N_STREAMS {
            done[k] = to[k] - parts[k].start;
            let n_bytes = from[k].addr() - streams[k].as_ptr().addr();
            position[k] = 8 * n_bytes + taken[k];
        }
    }
}

const _: () = assert!(LOOKUPS * MAX_BITS + 7 < 63);
