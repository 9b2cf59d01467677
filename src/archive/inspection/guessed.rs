//! What an archive's chunks say of bytes that no parser knows: the types that were guessed when it
//! was made.

use super::SpanInfo;
use crate::{archive::access::Archive, dtype::Dtype};

/// Cuts spans of unknown bytes where chunks of floats lie in them. `start` is that of the file
/// in the address space.
pub(super) fn from_chunks(
    archive: &Archive<'_>,
    start: u64,
    spans: Vec<SpanInfo>,
) -> Vec<SpanInfo> {
    let mut out: Vec<SpanInfo> = Vec::with_capacity(spans.len());
    for span in spans {
        if span.name.is_some() || span.dtype != Dtype::BYTES || span.bytes == 0 {
            out.push(span);
            continue;
        }
        let (from, to) = (start + span.offset, start + span.offset + span.bytes);
        let first = archive.places.partition_point(|p| p.piece.offset + p.piece.len <= from);
        let places = archive.places[first..].iter().take_while(|p| p.piece.offset < to);
        let whole = out.len();
        for place in places {
            let meta = &archive.chunks[place.chunk as usize].meta;
            let at = place.piece.offset.max(from);
            let bytes = (place.piece.offset + place.piece.len).min(to) - at;
            let (dtype, big_endian) = (meta.dtype, meta.big_endian);
            let words = |bytes: u64| vec![bytes / dtype.word_len() as u64];
            match out[whole..].last_mut() {
                Some(last) if last.dtype == dtype && last.big_endian == big_endian => {
                    last.bytes += bytes;
                    last.shape = words(last.bytes);
                }
                _ => out.push(SpanInfo {
                    dtype,
                    big_endian,
                    shape: words(bytes),
                    offset: at - start,
                    bytes,
                    guess: dtype.is_float().then(|| format!("was taken for {dtype}")),
                    ..span.clone()
                }),
            }
        }
    }
    out
}
