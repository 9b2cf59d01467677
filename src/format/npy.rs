//! NumPy arrays: `.npy` files, and `.npz` archives of them.
//!
//! ```text
//! "\x93NUMPY" [u8 major] [u8 minor] [u16 or u32 LE: n] [n bytes: header] [data]
//! header   {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
//! ```
//!
//! The length has 16 bits in version 1 and 32 in 2 and 3. Fortran order means that the first
//! dimension is the innermost. A structured type whose fields are all of one type adds a dimension;
//! others and object types stay opaque.

mod header;

use super::{
    Format, Span, Tensor,
    fault::{Fault, Found, quote},
    row_words,
    zip::Member,
};
use crate::source::{Slice, Source};
use header::Header;

/// The longest header that is read; NumPy's own have some 100 bytes.
const MAX_HEADER: u64 = 1 << 20;

/// Whether a file that begins with `head` is one.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.starts_with(b"\x93NUMPY")
}

/// Parses a whole `.npy` file, whose array is named `array`.
pub(crate) fn parse(source: &dyn Source) -> Result<Found, Fault> {
    let mut found = Found { format: Format::Npy, ..Found::default() };
    let end = add(source, 0, "array", &mut found)?;
    if end < source.len() {
        found.notes.push(format!("{} bytes follow the array", source.len() - end));
    }
    Ok(found)
}

/// Adds the arrays of an archive; `prefix` starts their names.
pub(crate) fn parse_zip(
    source: &dyn Source,
    members: &[Member],
    prefix: &str,
    found: &mut Found,
) -> Result<(), Fault> {
    let mut names = std::collections::HashSet::new();
    for member in members {
        let Some(name) = member.name.strip_suffix(".npy") else { continue };
        let note = |why: &str| format!("member {} {why}", quote(member.name.as_bytes()));
        if !member.stored {
            found.notes.push(note("is compressed and stays opaque"));
            continue;
        }
        if !names.insert(name) {
            found.notes.push(note("stands twice in the archive"));
            continue;
        }
        let Some(slice) = Slice::new(source, member.offset, member.len) else { continue };
        let name = if prefix.is_empty() { name.to_string() } else { format!("{prefix}.{name}") };
        match add(&slice, member.offset, &name, found) {
            Ok(_) => {}
            Err(Fault::Content(why)) => found.notes.push(note(&format!("is opaque: {why}"))),
            Err(fault) => return Err(fault),
        }
    }
    Ok(())
}

/// Adds the array in `source`, which begins at `start` of the file; gives where it ends in
/// `source`.
fn add(source: &dyn Source, start: u64, name: &str, found: &mut Found) -> Result<u64, Fault> {
    let len = source.len();
    let head = source.read_vec(0, len.min(12))?;
    let (at, n) = match &head[..] {
        _ if !looks_like(&head) => return Err("it does not begin like an array".into()),
        [_, _, _, _, _, _, 1, _, a, b, ..] => (10, u64::from(u16::from_le_bytes([*a, *b]))),
        [_, _, _, _, _, _, 2 | 3, _, a, b, c, d] => {
            (12, u64::from(u32::from_le_bytes([*a, *b, *c, *d])))
        }
        [_, _, _, _, _, _, major, ..] => return Err(format!("its version is {major}").into()),
        _ => return Err("it is cut off".into()),
    };
    if n > len - at {
        return Err(format!("its header of {n} bytes is longer than the file").into());
    }
    if n > MAX_HEADER {
        return Err(format!("its header of {n} bytes is too long").into());
    }
    let Header { dtype, big_endian, fortran_order, shape } =
        header::parse(&source.read_vec(at, n)?)?;
    let data = at + n;
    let Some(bytes) = dtype.tensor_len(&shape) else {
        return Err("its shape has no size".into());
    };
    let offset = start + data;
    if bytes > len - data {
        // The words that are there are of no tensor, but of its type.
        let whole = (len - data) / dtype.word_len() as u64 * dtype.word_len() as u64;
        found.spans.push(Span { offset, len: whole, dtype, row_words: 0, big_endian });
        let name = quote(name.as_bytes());
        found.notes.push(format!("the data of {name} have {} bytes of {bytes}", len - data));
        return Ok(len);
    }
    let mut in_memory = shape.clone();
    if fortran_order {
        in_memory.reverse();
    }
    let row_words = row_words(dtype, &in_memory);
    found.spans.push(Span { offset, len: bytes, dtype, row_words, big_endian });
    let strides = (fortran_order && shape.len() > 1).then(|| fortran_strides(&shape));
    let name = name.to_string();
    found.tensors.push(Tensor { name, dtype, shape, strides, offset, big_endian });
    Ok(data + bytes)
}

/// Strides of an array whose first dimension is the innermost. Its size was checked before.
fn fortran_strides(shape: &[u64]) -> Vec<u64> {
    let mut stride = 1u64;
    let next = |&d: &u64| {
        let this = stride;
        stride = stride.saturating_mul(d);
        this
    };
    shape.iter().map(next).collect()
}
