//! Tables: the payloads of manifest, base and index, each one zstd frame.

use super::Limits;
use crate::{
    Error, Result,
    bits::{read_varint, write_varint},
    codec::frame::{self, FRAME},
};

/// A table has at most this many bytes more than [`MOST_RATIO`] times its frame's.
const SLACK: u64 = 1 << 20;
/// Bytes of a table for each byte of its frame. Names and digests stay below a tenth of it.
const MOST_RATIO: u64 = 64;
/// Largest block of a zstd frame.
const BLOCK: usize = 128 << 10;
/// What an entry in memory counts for, against [`Limits::table_len`].
const ENTRY_LEN: u64 = 64;

/// Compresses a table: metadata is its decoded length and the digest of the payload, which is a
/// zstd frame.
pub(super) fn pack_table(body: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut meta = Vec::new();
    write_varint(&mut meta, body.len() as u64);
    let mut payload = zstd::bulk::compress(body, 9)?;
    if body.len() as u64 > most_len(payload.len()) {
        // Rare, such as millions of alike names, and readers need not trust in more.
        payload = uncompressed(body);
    }
    meta.extend_from_slice(&super::hash64(&payload).to_le_bytes());
    if u32::try_from(payload.len()).is_err() {
        return Err(Error::LimitExceeded("too many files for one archive".into()));
    }
    Ok((meta, payload))
}

/// Largest table in a frame of so many bytes.
fn most_len(payload_len: usize) -> u64 {
    SLACK.saturating_add(MOST_RATIO.saturating_mul(payload_len as u64))
}

/// A zstd frame of blocks that hold their bytes as they are.
fn uncompressed(body: &[u8]) -> Vec<u8> {
    let mut frame = FRAME.to_vec();
    // The content's length in 8 bytes, then a window of 2^20, no checksum, no dictionary.
    frame.push(0b1100_0000);
    frame.push((20 - 10) << 3);
    frame.extend_from_slice(&(body.len() as u64).to_le_bytes());
    let mut blocks = body.chunks(BLOCK).peekable();
    while let Some(block) = blocks.next() {
        let last = u32::from(blocks.peek().is_none());
        frame.extend_from_slice(&((block.len() as u32) << 3 | last).to_le_bytes()[..3]);
        frame.extend_from_slice(block);
    }
    frame
}

/// Inverse of [`pack_table`]. Nothing is allocated before it is known to be within bounds.
pub(super) fn unpack_table(
    mut meta: &[u8],
    payload: &[u8],
    limits: &Limits,
    what: &str,
) -> Result<Vec<u8>> {
    let damaged = || Error::Corrupt(format!("the {what} is damaged").into());
    let len = read_varint(&mut meta).ok_or_else(damaged)?;
    let digest = u64::from_le_bytes(meta.try_into().map_err(|_| damaged())?);
    if super::hash64(payload) != digest {
        return Err(damaged());
    }
    if len > most_len(payload.len()) || !frame::is_plain(payload, len) {
        return Err(damaged());
    }
    if len > limits.table_len {
        return Err(Error::LimitExceeded(
            format!("the {what} has {len} bytes, more than the limit of {}", limits.table_len)
                .into(),
        ));
    }
    let len = usize::try_from(len).map_err(|_| damaged())?;
    let body = zstd::bulk::decompress(payload, len).map_err(|_| damaged())?;
    if body.len() != len {
        return Err(damaged());
    }
    Ok(body)
}

/// Refuses a list of so many entries, before there is memory for it: what it takes is as large as
/// a table may be, or less.
pub(super) fn check_entries(n: u64, limits: &Limits, what: &str) -> Result<()> {
    let most = limits.table_len / ENTRY_LEN;
    if n <= most {
        return Ok(());
    }
    Err(Error::LimitExceeded(
        format!("the {what} lists {n} files, more than the limit of {most}").into(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unpack((meta, payload): &(Vec<u8>, Vec<u8>)) -> Result<Vec<u8>> {
        unpack_table(meta, payload, &Limits::default(), "table")
    }

    /// A table with a payload of the caller's, guarded as it should be.
    fn guarded(len: u64, payload: Vec<u8>) -> (Vec<u8>, Vec<u8>) {
        let mut meta = Vec::new();
        write_varint(&mut meta, len);
        meta.extend_from_slice(&crate::container::hash64(&payload).to_le_bytes());
        (meta, payload)
    }

    #[test]
    fn tables_round_trip_however_well_they_compress() {
        for len in [0, 1, 1000, BLOCK, SLACK as usize, 3 << 20, 40 << 20] {
            let noise: Vec<u8> = (0..len).map(|i| ((i * i * 31) >> 7) as u8).collect();
            for body in [vec![7; len], noise] {
                let table = pack_table(&body).unwrap();
                assert!(body.len() as u64 <= most_len(table.1.len()));
                assert!(unpack(&table).unwrap() == body, "{len}");
            }
        }
    }

    #[test]
    fn names_compress_far_less_than_the_bound() {
        let names: Vec<u8> = (0..200_000)
            .flat_map(|i| format!("\0\0\x20model/layers.{i:06}.weight.bin\0").into_bytes())
            .collect();
        let table = pack_table(&names).unwrap();
        let ratio = names.len() / table.1.len();
        assert!((ratio as u64) < MOST_RATIO / 2, "{ratio}");
    }

    #[test]
    fn a_table_is_one_frame_that_states_its_length_and_little_else() {
        let body = vec![5; 3000];
        let good = zstd::bulk::compress(&body, 9).unwrap();
        assert!(unpack(&guarded(3000, good.clone())).is_ok());
        let mut unstated = uncompressed(&body);
        unstated.drain(6..14);
        unstated[4] = 0;
        assert!(zstd::bulk::decompress(&unstated, 3000).unwrap() == body);
        let skippable = [&[0x50, 0x2a, 0x4d, 0x18, 1, 0, 0, 0, 9][..], &good].concat();
        let trailing = [&good[..], &[0x50, 0x2a, 0x4d, 0x18, 0, 0, 0, 0]].concat();
        let two = [&good[..], &good].concat();
        let mut wide = uncompressed(&body);
        wide[5] = (frame::MOST_WINDOW_LOG - 10 + 1) << 3;
        for bad in [unstated, skippable, trailing, two, wide, good[..good.len() - 1].to_vec()] {
            assert!(matches!(unpack(&guarded(3000, bad)), Err(Error::Corrupt(_))));
        }
        for len in [2999, 3001, 0, u64::MAX] {
            assert!(matches!(unpack(&guarded(len, good.clone())), Err(Error::Corrupt(_))));
        }
    }

    #[test]
    fn a_small_frame_of_a_huge_table_is_refused_before_it_is_decoded() {
        let frame = zstd::bulk::compress(&vec![0; 8 << 20], 9).unwrap();
        assert!(frame.len() < 2000);
        assert!(matches!(unpack(&guarded(8 << 20, frame)), Err(Error::Corrupt(_))));
    }
}
