//! Whether two spans have the same bytes.

use super::input::Input;
use crate::{Result, container::Piece, format::Span};

/// Bytes of a stretch that is compared first.
const PROBE: u64 = 2048;

/// A hash of a span's bytes at three fixed places.
pub fn probe(input: &Input<'_>, span: &Span) -> Result<u64> {
    let len = PROBE.min(span.len);
    let at = |offset| Piece { offset, len };
    let middle = span.offset + (span.len - len) / 2;
    let pieces = [at(span.offset), at(middle), at(span.offset + span.len - len)];
    let mut bytes = vec![0; 3 * len as usize];
    input.read(&pieces, &mut bytes)?;
    Ok(crate::container::hash64(&bytes))
}

/// Whether all bytes of two spans of one length are the same.
pub fn equal(input: &Input<'_>, a: &Span, b: &Span) -> Result<bool> {
    const STEP: u64 = 1 << 20;
    let (mut x, mut y) = (vec![0; STEP as usize], vec![0; STEP as usize]);
    let mut at = 0;
    while at < a.len {
        let len = STEP.min(a.len - at);
        let (x, y) = (&mut x[..len as usize], &mut y[..len as usize]);
        input.read(&[Piece { offset: a.offset + at, len }], x)?;
        input.read(&[Piece { offset: b.offset + at, len }], y)?;
        if x != y {
            return Ok(false);
        }
        at += len;
    }
    Ok(true)
}
