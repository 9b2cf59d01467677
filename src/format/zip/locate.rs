//! Finding the central directories of a file that is one zip archive or several, one after
//! another.
//!
//! An archive says at its end where its directory is, relative to its own start. So the last one
//! is found first, its start follows, and there the archive before it must end.

use super::{u16_at, u32_at, u64_at};
use crate::{format::fault::Fault, source::Source};

/// Where the central directory of an archive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Directory {
    /// First byte of the archive.
    pub(crate) start: u64,
    /// First byte of the directory.
    pub(crate) offset: u64,
    /// Its length.
    pub(crate) len: u64,
    /// First byte after the archive's end record, its comment included.
    pub(crate) end: u64,
}

/// Length of the end record without its comment.
const END_LEN: u64 = 22;
/// Length of the zip64 locator.
const LOCATOR_LEN: u64 = 20;
/// Length of the zip64 end record.
const END64_LEN: u64 = 56;
/// How far before the end of the file the last end record is looked for.
const MAX_TAIL: u64 = END_LEN + 0xffff;

/// The archives of the file in order; the error says why there is none. Bytes before the first
/// and after the last belong to none of them.
pub(crate) fn directories(source: &dyn Source) -> Result<Vec<Directory>, Fault> {
    let len = source.len();
    let tail_start = len - len.min(MAX_TAIL);
    let tail = source.read_vec(tail_start, len - tail_start)?;
    let last = find_last(source, &tail, tail_start)?;
    let Some(last) = last else {
        return Err(Fault::Content("has no central directory (is it cut off?)".into()));
    };
    let mut found = vec![last];
    let mut start = last.start;
    while start >= END_LEN {
        let Some(directory) = directory_at(source, start - END_LEN)? else { break };
        start = directory.start;
        found.push(directory);
    }
    found.reverse();
    Ok(found)
}

/// The last end record in the tail that leads to a directory.
fn find_last(
    source: &dyn Source,
    tail: &[u8],
    tail_start: u64,
) -> Result<Option<Directory>, Fault> {
    let mut tries = 0;
    for at in (0..tail.len().saturating_sub(END_LEN as usize - 1)).rev() {
        if tail[at..].starts_with(b"PK\x05\x06") {
            if let Some(directory) = directory_at(source, tail_start + at as u64)? {
                return Ok(Some(directory));
            }
            tries += 1;
            if tries == 100 {
                break;
            }
        }
    }
    Ok(None)
}

/// The archive whose end record is at `at`, if one is there and leads to a directory.
fn directory_at(source: &dyn Source, at: u64) -> Result<Option<Directory>, Fault> {
    let record = source.read_vec(at, END_LEN)?;
    if !record.starts_with(b"PK\x05\x06") || u16_at(&record, 4) != u16_at(&record, 6) {
        return Ok(None);
    }
    let comment = u64::from(u16_at(&record, 20));
    let end = (at + END_LEN + comment).min(source.len());
    let narrow = (at, u64::from(u32_at(&record, 12)), u64::from(u32_at(&record, 16)));
    let wide = zip64_end(source, at)?;
    for (directory_end, len, relative) in wide.into_iter().chain([narrow]) {
        let Some(offset) = directory_end.checked_sub(len) else { continue };
        let Some(start) = offset.checked_sub(relative) else { continue };
        if len >= 4 && source.read_vec(offset, 4)? == b"PK\x01\x02" {
            return Ok(Some(Directory { start, offset, len, end }));
        }
    }
    Ok(None)
}

/// Where the directory ends, its length and its relative offset, from a zip64 end record.
fn zip64_end(source: &dyn Source, end_record: u64) -> Result<Option<(u64, u64, u64)>, Fault> {
    let Some(at) = end_record.checked_sub(LOCATOR_LEN + END64_LEN) else { return Ok(None) };
    let bytes = source.read_vec(at, LOCATOR_LEN + END64_LEN)?;
    let (record, locator) = bytes.split_at(END64_LEN as usize);
    if !record.starts_with(b"PK\x06\x06") || !locator.starts_with(b"PK\x06\x07") {
        return Ok(None);
    }
    Ok(Some((at, u64_at(record, 40), u64_at(record, 48))))
}
