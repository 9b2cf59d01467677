//! zip: where the members of an archive lie. Nothing is inflated, and no checksum is looked at
//! (torch may write zeros): a member is a name and a byte range.
//!
//! ```text
//! start            [local header][name][extra][data] [descriptor]   one for each member
//!                  …
//! start+directory  [entry][name][extra][comment]                    one for each member
//!                  [zip64 end record][zip64 locator]                in large or torch archives
//!                  [end record][comment]                            end
//! ```
//!
//! Offsets count from `start`, which is 0 but for archives put after other bytes. The central
//! directory is what readers go by, so it decides; the local header must agree with it on name and
//! method, and says where the data begin. Where there is no directory, since the end of the file is
//! missing, the local headers are followed one after another ([`walk()`]). Members that contradict it, are encrypted, reach
//! outside or overlap are left out, so their bytes stay opaque.

mod locate;
mod walk;

use super::fault::{Fault, Notes, quote};
use crate::source::Source;
pub(crate) use locate::{Directory, directories};
pub(crate) use walk::walk;

/// A member of an archive.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    /// Its path.
    pub(crate) name: String,
    /// First byte of its data in the file.
    pub(crate) offset: u64,
    /// Bytes of its data in the file.
    pub(crate) len: u64,
    /// Whether the data are the member itself rather than compressed.
    pub(crate) stored: bool,
    /// First byte of its local header.
    header: u64,
}

/// Length of the fixed part of a directory entry.
const ENTRY_LEN: usize = 46;
/// Length of the fixed part of a local header.
const LOCAL_LEN: usize = 30;
/// The longest directory that is read: some two million members.
const MAX_DIRECTORY: u64 = 1 << 28;

/// The members of one archive, in the order of their data.
pub(crate) fn members(
    source: &dyn Source,
    directory: &Directory,
    notes: &mut Notes,
) -> Result<Vec<Member>, Fault> {
    if directory.len > MAX_DIRECTORY {
        return Err(format!("its central directory of {} bytes is too long", directory.len).into());
    }
    let bytes = source.read_vec(directory.offset, directory.len)?;
    let mut members = Vec::new();
    let mut rest = &bytes[..];
    while !rest.is_empty() {
        let (entry, after) = split_entry(rest).ok_or("its central directory is cut off")?;
        rest = after;
        match locate_member(source, directory, &entry)? {
            Ok(member) => members.push(member),
            Err(why) => notes.push(format!("member {} {why}", quote(entry.name))),
        }
    }
    if members.is_empty() {
        return Err(Fault::Content("its central directory lists no usable member".into()));
    }
    members.sort_by_key(|m| m.header);
    let mut end = directory.start;
    members.retain(|m| {
        let apart = m.header >= end;
        if apart {
            end = m.offset + m.len;
        } else {
            notes.push(format!("member {} overlaps another", quote(m.name.as_bytes())));
        }
        apart
    });
    Ok(members)
}

/// A directory entry with its zip64 fields resolved.
struct Entry<'a> {
    name: &'a [u8],
    flags: u16,
    method: u16,
    packed_len: u64,
    len: u64,
    header: u64,
}

/// Reads the entry at the front and gives what follows it.
fn split_entry(bytes: &[u8]) -> Option<(Entry<'_>, &[u8])> {
    let (fixed, rest) = bytes.split_at_checked(ENTRY_LEN)?;
    if !fixed.starts_with(b"PK\x01\x02") {
        return None;
    }
    let (name, rest) = rest.split_at_checked(u16_at(fixed, 28).into())?;
    let (extra, rest) = rest.split_at_checked(u16_at(fixed, 30).into())?;
    let (_comment, rest) = rest.split_at_checked(u16_at(fixed, 32).into())?;
    let mut wide = zip64_fields(extra);
    // Only fields that are all ones stand in the extra field, in this order.
    let mut widen = |narrow: u32| -> Option<u64> {
        if narrow != u32::MAX {
            return Some(narrow.into());
        }
        let Some((value, after)) = wide.split_first_chunk::<8>() else {
            return wide.is_empty().then_some(narrow.into());
        };
        wide = after;
        Some(u64::from_le_bytes(*value))
    };
    let len = widen(u32_at(fixed, 24))?;
    let packed_len = widen(u32_at(fixed, 20))?;
    let header = widen(u32_at(fixed, 42))?;
    let (flags, method) = (u16_at(fixed, 8), u16_at(fixed, 10));
    Some((Entry { name, flags, method, packed_len, len, header }, rest))
}

/// The content of the zip64 extra field, empty where there is none.
fn zip64_fields(mut extra: &[u8]) -> &[u8] {
    while let Some((head, rest)) = extra.split_first_chunk::<4>() {
        let len = usize::from(u16_at(head, 2));
        let Some((field, after)) = rest.split_at_checked(len) else { break };
        if u16_at(head, 0) == 1 {
            return field;
        }
        extra = after;
    }
    &[]
}

/// Follows an entry to its local header. The inner error says why the member is left out.
fn locate_member(
    source: &dyn Source,
    directory: &Directory,
    entry: &Entry<'_>,
) -> Result<Result<Member, String>, Fault> {
    let local_len = LOCAL_LEN + entry.name.len();
    let header = directory.start.checked_add(entry.header);
    let Some(header) =
        header.filter(|h| h.checked_add(local_len as u64).is_some_and(|e| e <= directory.offset))
    else {
        return Ok(Err("begins outside the archive".into()));
    };
    let local = source.read_vec(header, local_len as u64)?;
    let name_len = usize::from(u16_at(&local, 26));
    if !local.starts_with(b"PK\x03\x04") {
        return Ok(Err("has no local header".into()));
    }
    if name_len != entry.name.len() || &local[LOCAL_LEN..] != entry.name {
        return Ok(Err("has another name in its local header".into()));
    }
    let described_later = u16_at(&local, 6) & 8 != 0;
    let packed_len = u32_at(&local, 18);
    if u16_at(&local, 8) != entry.method
        || !(described_later || packed_len == u32::MAX || u64::from(packed_len) == entry.packed_len)
    {
        return Ok(Err("differs from its local header".into()));
    }
    let offset = header + local_len as u64 + u64::from(u16_at(&local, 28));
    if offset.checked_add(entry.packed_len).is_none_or(|e| e > directory.offset) {
        return Ok(Err(format!("of {} bytes reaches past the data", entry.packed_len)));
    }
    let encrypted = entry.flags & 1 != 0;
    let stored = entry.method == 0 && !encrypted;
    if stored && entry.len != entry.packed_len {
        return Ok(Err("is stored with two different lengths".into()));
    }
    let name = String::from_utf8_lossy(entry.name).into_owned();
    Ok(Ok(Member { name, offset, len: entry.packed_len, stored, header }))
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}
