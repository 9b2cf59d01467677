//! GGUF: metadata, tensor descriptions, then the tensors' data.
//!
//! ```text
//! "GGUF" [u32 version] [n tensors] [n pairs]
//! pairs    [string key] [u32 type] [value]
//! tensors  [string name] [u32 rank] [dimensions, innermost first] [u32 type] [u64 offset]
//! padding to the alignment (general.alignment, 32 by default), from where offsets count
//! data     each tensor at a multiple of the alignment
//! ```
//!
//! Counts, lengths and dimensions have 32 bits in version 1 and 64 in 2 and 3. Version 3 may be big
//! endian, which shows in the version field. Quantised layouts whose inside is known are spans of
//! whole groups; others (and big-endian ones, whose scales are swapped but not their nibbles) stay
//! opaque.

mod read;

use std::collections::HashSet;

use super::{
    Format, Span, Tensor,
    fault::{Fault, Found, quote},
    row_words,
};
use crate::{dtype::Dtype, source::Source};
use read::{Reader, Width};

/// The most dimensions a tensor has.
const MAX_RANK: u32 = 4;
/// The longest name of a tensor or key.
const MAX_NAME: u64 = 0xffff;

/// Whether a file that begins with `head` is one.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.starts_with(b"GGUF")
}

/// Parses a whole file.
pub(crate) fn parse(source: &dyn Source) -> Result<Found, Fault> {
    let mut reader = Reader::new(source);
    reader.skip(4)?;
    let version = reader.u32()?;
    let (version, big_endian) =
        if version & 0xffff == 0 { (version.swap_bytes(), true) } else { (version, false) };
    if !(1..=3).contains(&version) || (big_endian && version < 3) {
        return Err(format!("its version is {version}").into());
    }
    reader.big_endian = big_endian;
    reader.width = if version == 1 { Width::Narrow } else { Width::Wide };
    let n_tensors = reader.count(4 * 4)?;
    let n_pairs = reader.count(3 * 4)?;
    let alignment = read_pairs(&mut reader, n_pairs)?;
    let mut infos = Vec::new();
    for _ in 0..n_tensors {
        infos.push(read_info(&mut reader)?);
    }
    let Some(data) = reader.at().checked_next_multiple_of(alignment) else {
        return Err(format!("its alignment is {alignment}").into());
    };
    let mut found = Found { format: Format::Gguf, ..Found::default() };
    let mut unknown = Unknown::default();
    let mut names = HashSet::new();
    let mut fault = None;
    for info in infos {
        if !names.insert(info.name.clone()) {
            let name = quote(info.name.as_bytes());
            found.notes.push(format!("it names {name} twice, and means the first"));
            continue;
        }
        if let Err(why) = place(info, data, alignment, &mut found, &mut unknown, big_endian) {
            found.notes.push(why.clone());
            fault.get_or_insert(why);
        }
    }
    if let Some(why) = fault.filter(|_| found.tensors.is_empty()) {
        return Err(Fault::Content(why));
    }
    unknown.note(&mut found);
    Ok(found)
}

/// Reads the metadata; of all of it only the alignment matters.
fn read_pairs(reader: &mut Reader<'_>, n_pairs: u64) -> Result<u64, Fault> {
    let mut alignment = 32;
    for _ in 0..n_pairs {
        let key = reader.string(MAX_NAME)?;
        let kind = reader.u32()?;
        if key == b"general.alignment" {
            alignment = match kind {
                4 => reader.u32()?.into(),
                10 => reader.u64()?,
                _ => return Err("its alignment is not an unsigned integer".into()),
            };
            if alignment == 0 || alignment % 8 != 0 {
                let why = format!("its alignment is {alignment}, not a multiple of 8");
                return Err(why.into());
            }
        } else {
            skip_value(reader, kind)?;
        }
    }
    Ok(alignment)
}

const STRING: u32 = 8;
const ARRAY: u32 = 9;

/// The deepest nesting of arrays.
const MAX_DEPTH: usize = 16;

/// Steps over a value. Arrays of arrays are followed without recursion: `open` holds, for each
/// array begun, its elements' type and how many are left.
fn skip_value(reader: &mut Reader<'_>, kind: u32) -> Result<(), Fault> {
    let mut open = vec![(kind, 1)];
    while let Some((kind, left)) = open.pop() {
        match kind {
            _ if left == 0 => {}
            STRING => {
                for _ in 0..left {
                    reader.skip_string()?;
                }
            }
            ARRAY => {
                if open.len() >= MAX_DEPTH {
                    return Err("its arrays are nested too deeply".into());
                }
                open.push((ARRAY, left - 1));
                open.push((reader.u32()?, reader.count(1)?));
            }
            _ => {
                let Some(len) = scalar_len(kind).and_then(|len| left.checked_mul(len)) else {
                    return Err(format!("its metadata has a value of type {kind}").into());
                };
                reader.skip(len)?;
            }
        }
    }
    Ok(())
}

fn scalar_len(kind: u32) -> Option<u64> {
    Some(match kind {
        0 | 1 | 7 => 1,
        2 | 3 => 2,
        4..=6 => 4,
        10..=12 => 8,
        _ => return None,
    })
}

/// A tensor as described.
struct Info {
    name: String,
    /// Outermost first.
    shape: Vec<u64>,
    kind: u32,
    offset: u64,
}

fn read_info(reader: &mut Reader<'_>) -> Result<Info, Fault> {
    let name = String::from_utf8_lossy(&reader.string(MAX_NAME)?).into_owned();
    let rank = reader.u32()?;
    if rank > MAX_RANK {
        return Err(format!("tensor {} has {rank} dimensions", quote(name.as_bytes())).into());
    }
    let mut shape = (0..rank).map(|_| reader.size()).collect::<Result<Vec<_>, _>>()?;
    shape.reverse();
    Ok(Info { name, shape, kind: reader.u32()?, offset: reader.u64()? })
}

/// Tensors of types without a known inside.
#[derive(Default)]
struct Unknown {
    count: u64,
    kinds: Vec<u32>,
}

impl Unknown {
    fn add(&mut self, kind: u32) {
        self.count += 1;
        if self.kinds.len() < 8 && !self.kinds.contains(&kind) {
            self.kinds.push(kind);
        }
    }

    fn note(self, found: &mut Found) {
        if self.count > 0 {
            found
                .notes
                .push(format!("{} tensors of GGUF types {:?} stay opaque", self.count, self.kinds));
        }
    }
}

/// Adds one tensor to what was found; the error says what is wrong with it.
fn place(
    info: Info,
    data: u64,
    alignment: u64,
    found: &mut Found,
    unknown: &mut Unknown,
    big_endian: bool,
) -> Result<(), String> {
    let Info { name, shape, kind, offset } = info;
    let at = |why: String| format!("tensor {} {why}", quote(name.as_bytes()));
    if offset % alignment != 0 {
        return Err(at(format!("has offset {offset}, not a multiple of {alignment}")));
    }
    let Some(dtype) = dtype(kind).filter(|d| !(big_endian && d.group_elements() > 1)) else {
        unknown.add(kind);
        return Ok(());
    };
    let row = shape.last().copied().unwrap_or(1);
    let Some(len) = dtype.tensor_len(&shape).filter(|_| row % dtype.group_elements() == 0) else {
        return Err(at(format!("of shape {shape:?} {dtype} has no size")));
    };
    let Some(offset) = data.checked_add(offset) else {
        return Err(at(format!("has offset {offset}")));
    };
    let row_words = row_words(dtype, &shape);
    found.spans.push(Span { offset, len, dtype, row_words, big_endian });
    found.tensors.push(Tensor { name, dtype, shape, strides: None, offset, big_endian });
    Ok(())
}

/// The type of this number, if its inside is known.
fn dtype(kind: u32) -> Option<Dtype> {
    Some(match kind {
        0 => Dtype::F32,
        1 => Dtype::F16,
        2 => Dtype::Q4_0,
        3 => Dtype::Q4_1,
        6 => Dtype::Q5_0,
        7 => Dtype::Q5_1,
        8 => Dtype::Q8_0,
        9 => Dtype::Q8_1,
        10 => Dtype::Q2_K,
        11 => Dtype::Q3_K,
        12 => Dtype::Q4_K,
        13 => Dtype::Q5_K,
        14 => Dtype::Q6_K,
        15 => Dtype::Q8_K,
        24 => Dtype::I8,
        25 => Dtype::I16,
        26 => Dtype::I32,
        27 => Dtype::I64,
        28 => Dtype::F64,
        30 => Dtype::BF16,
        _ => return None,
    })
}
