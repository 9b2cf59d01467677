//! LZMA streams, and byte groups each in one.
//!
//! ```text
//! stream   kind: u8   0 raw: the bytes; 1: length (u32) and an .xz stream without check
//! ```
//!
//! Raw is what a stream becomes that LZMA cannot make smaller.

use xz2::stream::{Action, Check, Filters, LzmaOptions, Status, Stream};

use super::{XZ_PRESET, corrupt, put_stream, take, take_stream};
use crate::{
    error::{Error, Result},
    simd::Level,
    transform::group,
};

/// What the decoder may allocate; the preset needs 9 MiB.
const MEMORY_LIMIT: u64 = 16 << 20;

/// Window of the preset.
const WINDOW: u32 = 8 << 20;

/// What is shorter than an .xz container around nothing is kept raw.
const MIN_LEN: usize = 64;

/// Appends the stream for `bytes`.
pub(super) fn put(bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if bytes.len() < MIN_LEN {
        out.push(0);
        out.extend_from_slice(bytes);
        return Ok(());
    }
    let failed = |e| Error::InvalidArgument(format!("liblzma cannot encode: {e}").into());
    let mut options = LzmaOptions::new_preset(XZ_PRESET).map_err(failed)?;
    // The preset's window, or less where there is less to refer to: the encoder's memory is
    // many times the window, and a fresh one a stream is what short streams would wait for.
    options.dict_size((bytes.len().min(WINDOW as usize) as u32).next_power_of_two().max(1 << 12));
    let mut filters = Filters::new();
    filters.lzma2(&options);
    let mut encoder = Stream::new_stream_encoder(&filters, Check::None).map_err(failed)?;
    let mark = out.len();
    out.push(1);
    // Capacity beyond the raw size is not given: what does not fit is not worth having.
    let mut coded = Vec::with_capacity(bytes.len());
    let mut status = Status::Ok;
    while matches!(status, Status::Ok) && coded.len() < coded.capacity() {
        let done = encoder.total_in() as usize;
        status = encoder.process_vec(&bytes[done..], &mut coded, Action::Finish).map_err(failed)?;
    }
    if matches!(status, Status::StreamEnd) && coded.len() + 4 < bytes.len() {
        put_stream(out, |out| out.extend_from_slice(&coded));
    } else {
        out.truncate(mark);
        out.push(0);
        out.extend_from_slice(bytes);
    }
    Ok(())
}

/// Fills `out` from the stream at the front of `rest`.
pub(super) fn get(rest: &mut &[u8], out: &mut [u8]) -> Result<()> {
    if take(rest, 1)?[0] == 0 {
        out.copy_from_slice(take(rest, out.len())?);
        return Ok(());
    }
    let coded = take_stream(rest)?;
    let failed = |e| corrupt(&format!("an .xz stream ({e})"));
    let mut decoder = Stream::new_stream_decoder(MEMORY_LIMIT, 0).map_err(failed)?;
    loop {
        let (read, written) = (decoder.total_in() as usize, decoder.total_out() as usize);
        let status =
            decoder.process(&coded[read..], &mut out[written..], Action::Finish).map_err(failed)?;
        let (read_now, written_now) = (decoder.total_in() as usize, decoder.total_out() as usize);
        match status {
            Status::StreamEnd if read_now == coded.len() && written_now == out.len() => {
                return Ok(());
            }
            Status::Ok if (read_now, written_now) != (read, written) => {}
            _ => return Err(corrupt("an .xz stream of another length")),
        }
    }
}

/// Every byte group in a stream of its own.
pub(super) fn encode_groups(
    level: Level,
    word_len: usize,
    bytes: &[u8],
    out: &mut Vec<u8>,
) -> Result<()> {
    if word_len == 1 {
        return put(bytes, out);
    }
    let n = bytes.len() / word_len;
    let mut groups = vec![0; bytes.len()];
    let mut slices: Vec<&mut [u8]> = groups.chunks_mut(n.max(1)).collect();
    slices.resize_with(word_len, || &mut []);
    group::split(level, bytes, &mut slices);
    (0..word_len).try_for_each(|k| put(&groups[k * n..(k + 1) * n], out))
}

/// Inverse of [`encode_groups`].
pub(super) fn decode_groups(
    level: Level,
    word_len: usize,
    rest: &mut &[u8],
    out: &mut [u8],
) -> Result<()> {
    if word_len == 1 {
        return get(rest, out);
    }
    let n = out.len() / word_len;
    let mut groups = vec![0; out.len()];
    for k in 0..word_len {
        get(rest, &mut groups[k * n..(k + 1) * n])?;
    }
    let slices: Vec<&[u8]> = (0..word_len).map(|k| &groups[k * n..(k + 1) * n]).collect();
    group::join(level, &slices, out);
    Ok(())
}
