//! safetensors: a JSON header that names tensors, then their data.
//!
//! ```text
//! [u64 LE: n] [n bytes: JSON] [tensor data …]
//! JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …,
//!        "__metadata__": {…}}
//! ```
//!
//! Offsets count from the end of the header. The tensors must tile the data without holes; a file
//! that departs from that in any way is left to the opaque path, since whoever wrote it did not
//! mean what its header says. The length and the JSON are kept as they are, as one opaque span.
//! Shapes count elements, so an `F4` tensor of shape `[6]` has three bytes.

mod header;

use super::{
    Format, Span, Tensor,
    fault::{Fault, Found, quote},
    row_words,
};
use crate::{dtype::Dtype, source::Source};
use header::Entry;

/// The longest header the format allows.
pub const MAX_HEADER: u64 = 100_000_000;

/// Whether a file that begins with `head` claims to be safetensors: after the length, a JSON
/// object opens.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    let mut json = head.iter().skip(8).skip_while(|b| is_space(**b));
    json.next() == Some(&b'{')
        && json.find(|b| !is_space(**b)).is_none_or(|b| matches!(b, b'"' | b'}'))
}

pub(crate) fn is_space(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r')
}

/// Parses a whole file.
pub(crate) fn parse(source: &dyn Source) -> Result<Found, Fault> {
    let len = source.len();
    let mut start = [0; 8];
    source.read_at(0, &mut start)?;
    let n = u64::from_le_bytes(start);
    if n > MAX_HEADER {
        return Err(format!("its header of {n} bytes is longer than {MAX_HEADER}").into());
    }
    if n > len - 8 {
        return Err(format!("its header of {n} bytes is longer than the file").into());
    }
    let (found, end) = from_header(&source.read_vec(8, n)?)?;
    if end > len {
        return Err(format!("its data ends at byte {end}, {} bytes past the end", end - len).into());
    }
    if end < len {
        return Err(format!("{} bytes follow the last tensor", len - end).into());
    }
    Ok(found)
}

/// The spans of a file with this JSON header, and where its data ends.
pub(crate) fn from_header(json: &[u8]) -> Result<(Found, u64), Fault> {
    let entries = header::parse(json)?;
    let data = 8 + json.len() as u64;
    let mut found = Found { format: Format::Safetensors, ..Found::default() };
    found.spans.reserve(entries.len() + 1);
    found.spans.push(Span::opaque(0, data));
    found.tensors.reserve(entries.len());
    for entry in entries {
        let (span, tensor) = place(entry, data)?;
        found.spans.push(span);
        found.tensors.push(tensor);
    }
    let spans = &mut found.spans;
    // An empty tensor comes before the one that starts at the same byte.
    let order = |s: &Span| (s.offset, s.len);
    if !spans.is_sorted_by_key(order) {
        spans.sort_by_key(order);
    }
    let mut end = 0;
    for s in spans.iter() {
        if s.offset > end {
            return Err(format!("no tensor holds the {} bytes at {end}", s.offset - end).into());
        }
        if s.offset < end {
            return Err(format!("two tensors overlap at byte {}", s.offset).into());
        }
        end = s.offset + s.len;
    }
    Ok((found, end))
}

/// Checks one header entry and gives its place in the file.
fn place(entry: Entry<'_>, data: u64) -> Result<(Span, Tensor), Fault> {
    let Entry { name, dtype, shape, begin, end } = entry;
    let at = |why: String| Fault::Content(format!("tensor {} {why}", quote(name.as_bytes())));
    let dtype = match Dtype::ALL.into_iter().find(|d| d.name() == dtype) {
        Some(d) if is_legal(d) => d,
        _ => return Err(at(format!("has the unknown dtype {}", quote(dtype.as_bytes())))),
    };
    let Some(bytes) = dtype.tensor_len(&shape) else {
        return Err(at(format!("of shape {} {dtype} has no size", show(&shape))));
    };
    if end.checked_sub(begin) != Some(bytes) {
        return Err(at(format!(
            "has offsets [{begin}, {end}] for shape {} {dtype} ({bytes} bytes)",
            show(&shape)
        )));
    }
    // With this, offset + len cannot overflow from here on.
    let Some(offset) = data.checked_add(begin).filter(|_| end <= u64::MAX - data) else {
        return Err(at(format!("has offsets [{begin}, {end}]")));
    };
    let row_words = row_words(dtype, &shape);
    let span = Span { offset, len: bytes, dtype, row_words, big_endian: false };
    let name = name.into_owned();
    Ok((span, Tensor { name, dtype, shape, strides: None, offset, big_endian: false }))
}

/// Whether the format has this type: not bytes, quantised layouts or `C128`.
fn is_legal(dtype: Dtype) -> bool {
    dtype != Dtype::BYTES && dtype != Dtype::C128 && dtype.group_elements() == 1
}

fn show(shape: &[u64]) -> String {
    let mut text = format!("{:?}", &shape[..shape.len().min(8)]);
    if shape.len() > 8 {
        text.push('…');
    }
    text
}
