//! The tiling of a file by spans, checked once for all formats.
//!
//! ```text
//! file    0 ──────────────────────────────────────────── len
//! given       [ tensor b ]        [ tensor a ][ tensor c ]
//! tiled   [op][ tensor b ][opaque][ tensor a ][ tensor c ][op]
//! ```

use super::{Span, fault::Notes};

/// Sorts spans by offset, checks that they lie inside the file without overlaps and hold whole
/// words, drops empty ones, and fills holes with opaque spans. The error says what is wrong.
///
/// The result tiles `0..len` exactly.
pub fn tile(mut spans: Vec<Span>, len: u64) -> Result<Vec<Span>, String> {
    spans.retain(|s| s.len > 0);
    if !spans.is_sorted_by_key(|s| s.offset) {
        spans.sort_by_key(|s| s.offset);
    }
    let mut tiled = Vec::with_capacity(spans.len() + 1);
    let mut end = 0u64;
    for span in spans {
        if span.offset < end {
            return Err(format!("two tensors overlap at byte {}", span.offset));
        }
        let span_end = match span.offset.checked_add(span.len) {
            Some(e) if e <= len => e,
            _ => {
                return Err(format!(
                    "{} bytes at {} reach past the file's end at {len}",
                    span.len, span.offset
                ));
            }
        };
        if span.len % span.dtype.word_len() as u64 != 0 {
            return Err(format!(
                "{} bytes at {} are not whole {} words",
                span.len, span.offset, span.dtype
            ));
        }
        if span.offset > end {
            tiled.push(Span::opaque(end, span.offset - end));
        }
        tiled.push(span);
        end = span_end;
    }
    if end < len {
        tiled.push(Span::opaque(end, len - end));
    }
    Ok(tiled)
}

/// Of spans as a damaged file may describe them, those that can stand in a file of `len` bytes: what
/// reaches past the end is cut to the words that are there, and of spans that overlap others as many
/// are kept as can be.
pub(crate) fn keep_sound(mut spans: Vec<Span>, len: u64, notes: &mut Notes) -> Vec<Span> {
    for span in &mut spans {
        let left = len.saturating_sub(span.offset);
        if span.len > left {
            let (n, at) = (span.len, span.offset);
            notes.push(format!("{n} bytes at {at} reach past the file's end at {len}"));
            span.len = left;
        }
        let part = span.len % span.dtype.word_len() as u64;
        if part > 0 && span.len < left {
            let (n, at, dtype) = (span.len, span.offset, span.dtype);
            notes.push(format!("{n} bytes at {at} are not whole {dtype} words"));
        }
        span.len -= part;
    }
    spans.retain(|s| s.len > 0);
    let end = |s: &Span| s.offset + s.len;
    if spans.is_sorted_by(|a, b| end(a) <= b.offset) {
        return spans;
    }
    // Whichever ends first leaves most room for others.
    spans.sort_by_key(|s| (end(s), std::cmp::Reverse(s.offset)));
    let mut last = 0;
    spans.retain(|s| {
        let apart = s.offset >= last;
        if apart {
            last = end(s);
        } else {
            notes.push(format!("two tensors overlap at byte {}", s.offset));
        }
        apart
    });
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    fn span(offset: u64, len: u64, dtype: Dtype) -> Span {
        Span { offset, len, dtype, row_words: 0, big_endian: false }
    }

    #[test]
    fn holes_become_opaque_and_order_is_restored() {
        let spans = vec![span(12, 4, Dtype::F32), span(2, 2, Dtype::U8), span(5, 0, Dtype::U8)];
        let tiled = tile(spans, 20).unwrap();
        let got: Vec<_> = tiled.iter().map(|s| (s.offset, s.len, s.dtype)).collect();
        assert_eq!(
            got,
            [
                (0, 2, Dtype::BYTES),
                (2, 2, Dtype::U8),
                (4, 8, Dtype::BYTES),
                (12, 4, Dtype::F32),
                (16, 4, Dtype::BYTES)
            ]
        );
    }

    #[test]
    fn sound_spans_are_kept() {
        let spans = vec![
            span(0, 1000, Dtype::U8),
            span(0, 8, Dtype::F32),
            span(12, 8, Dtype::F32),
            span(16, 8, Dtype::F32),
            span(24, 7, Dtype::F16),
            span(40, 80, Dtype::F32),
            span(u64::MAX, 80, Dtype::F32),
        ];
        let kept = keep_sound(spans, 63, &mut Notes::default());
        let got: Vec<_> = kept.iter().map(|s| (s.offset, s.len)).collect();
        assert_eq!(got, [(0, 8), (12, 8), (24, 6), (40, 20)]);
        assert_eq!(tile(kept, 63).unwrap().len(), 8);
    }

    #[test]
    fn overlaps_ends_and_part_words_are_refused() {
        assert!(tile(vec![span(0, 4, Dtype::U8), span(3, 4, Dtype::U8)], 20).is_err());
        assert!(tile(vec![span(0, 4, Dtype::U8)], 3).is_err());
        assert!(tile(vec![span(u64::MAX, 4, Dtype::U8)], 3).is_err());
        assert!(tile(vec![span(0, 3, Dtype::F16)], 20).is_err());
        assert_eq!(tile(vec![], 0).unwrap(), []);
    }
}
