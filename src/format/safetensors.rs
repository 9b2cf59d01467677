//! safetensors: a JSON header that names tensors, then their data.
//!
//! ```text
//! [u64 LE: n] [n bytes: JSON] [tensor data …]
//! JSON: {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, …,
//!        "__metadata__": {…}}
//! ```
//!
//! Offsets count from the end of the header. The tensors should tile the data without holes. Of a
//! file that was cut or changed, those are kept that lie where the header says and overlap nothing;
//! a note says what is odd. The length and the JSON are kept as they are, as one opaque span; zero
//! bytes may follow the JSON.
//! Shapes count elements, so an `F4` tensor of shape `[6]` has three bytes.

mod header;

use std::collections::HashSet;

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
    let (mut found, end) = from_header(&source.read_vec(8, n)?)?;
    if end > len {
        let note = format!("its data ends at byte {end}, {} bytes past the end", end - len);
        found.notes.push(note);
    }
    if end < len {
        found.notes.push(format!("{} bytes follow the last tensor", len - end));
    }
    Ok(found)
}

/// The spans of a file with this JSON header, and where its data ends. Fails where no tensor
/// that it names is sound.
pub(crate) fn from_header(json: &[u8]) -> Result<(Found, u64), Fault> {
    let data = 8 + json.len() as u64;
    let entries = header::parse(trim_zeros(json))?;
    let mut found = Found { format: Format::Safetensors, ..Found::default() };
    found.spans.reserve(entries.len() + 1);
    found.spans.push(Span::opaque(0, data));
    found.tensors.reserve(entries.len());
    let mut names = HashSet::with_capacity(entries.len());
    let mut fault = None;
    for entry in entries {
        let (span, tensor) = match place(entry, data) {
            Ok(placed) => placed,
            Err(why) => {
                found.notes.push(why.clone());
                fault.get_or_insert(why);
                continue;
            }
        };
        found.spans.push(span);
        if names.insert(tensor.name.clone()) {
            found.tensors.push(tensor);
        } else {
            let name = quote(tensor.name.as_bytes());
            found.notes.push(format!("it names {name} twice, and means the first"));
        }
    }
    if let Some(why) = fault.filter(|_| found.tensors.is_empty()) {
        return Err(Fault::Content(why));
    }
    let end = note_holes(&mut found);
    Ok((found, end))
}

/// Notes what no tensor holds. Returns where the last tensor ends.
fn note_holes(found: &mut Found) -> u64 {
    let spans = &mut found.spans;
    // An empty tensor comes before the one that starts at the same byte.
    let order = |s: &Span| (s.offset, s.len);
    if !spans.is_sorted_by_key(order) {
        spans.sort_by_key(order);
    }
    let mut end = 0;
    for s in spans.iter() {
        if s.offset > end {
            found.notes.push(format!("no tensor holds the {} bytes at {end}", s.offset - end));
        }
        end = end.max(s.offset + s.len);
    }
    end
}

/// The JSON without the zero bytes that some writers fill up with.
fn trim_zeros(mut json: &[u8]) -> &[u8] {
    while let [before @ .., 0] = json {
        json = before;
    }
    json
}

/// Checks one header entry and gives its place in the file, or what is wrong with it.
fn place(entry: Entry<'_>, data: u64) -> Result<(Span, Tensor), String> {
    let Entry { name, dtype, shape, begin, end } = entry;
    let at = |why: String| format!("tensor {} {why}", quote(name.as_bytes()));
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
