//! Members of an archive that has lost its central directory, from one local header to the next.
//!
//! ```text
//! [local header][name][extra][data] [descriptor]  [local header] …
//! ```
//!
//! A header says how long the data are, or leaves that to a descriptor behind them, as torch
//! does. The descriptor is found by its signature and by the length that it gives, which must be the
//! distance from where the data begin.

use super::{LOCAL_LEN, Member, u16_at, u32_at, u64_at, zip64_fields};
use crate::{
    format::fault::{Fault, Notes, quote},
    source::Source,
};

/// Members that are looked for.
const MOST_MEMBERS: usize = 1 << 20;
/// Bytes read at a time where a descriptor is looked for.
const WINDOW: u64 = 1 << 20;
/// Length of a descriptor with lengths of 32 bits, and of one with 64.
const DESCRIPTOR_LEN: u64 = 16;
const DESCRIPTOR64_LEN: u64 = 24;

/// The members of the archive at the start of a file, up to where headers no longer follow each
/// other. The last may be cut off.
pub(crate) fn walk(source: &dyn Source, notes: &mut Notes) -> Result<Vec<Member>, Fault> {
    let mut members = Vec::new();
    let mut at = 0;
    while members.len() < MOST_MEMBERS
        && let Some((member, end)) = member_at(source, at)?
    {
        let cut = end > source.len();
        if cut {
            notes.push(format!("member {} is cut off", quote(member.name.as_bytes())));
        }
        members.push(member);
        if cut {
            break;
        }
        at = end;
    }
    Ok(members)
}

/// The member whose local header is at `at`, cut to the file, and where the next one begins, which
/// is past the end where this one is cut off.
fn member_at(source: &dyn Source, at: u64) -> Result<Option<(Member, u64)>, Fault> {
    let left = source.len().saturating_sub(at);
    if left < LOCAL_LEN as u64 {
        return Ok(None);
    }
    let fixed = source.read_vec(at, LOCAL_LEN as u64)?;
    let (name_len, extra_len) = (u64::from(u16_at(&fixed, 26)), u64::from(u16_at(&fixed, 28)));
    let head = LOCAL_LEN as u64 + name_len + extra_len;
    if !fixed.starts_with(b"PK\x03\x04") || left < head {
        return Ok(None);
    }
    let name = source.read_vec(at + LOCAL_LEN as u64, name_len)?;
    let extra = source.read_vec(at + LOCAL_LEN as u64 + name_len, extra_len)?;
    let (flags, method) = (u16_at(&fixed, 6), u16_at(&fixed, 8));
    let offset = at + head;
    let mut len = u64::from(u32_at(&fixed, 18));
    let wide = zip64_fields(&extra);
    if len == u64::from(u32::MAX) && wide.len() >= 16 {
        len = u64_at(wide, 8);
    }
    let mut end = offset.saturating_add(len);
    if flags & 8 != 0 {
        match descriptor(source, offset, len)? {
            Some((found, after)) => (len, end) = (found, after),
            None => (len, end) = (source.len() - offset, u64::MAX),
        }
    }
    let name = String::from_utf8_lossy(&name).into_owned();
    let len = len.min(source.len() - offset);
    let stored = method == 0 && flags & 1 == 0;
    Ok(Some((Member { name, offset, len, stored, header: at }, end)))
}

/// The length of the data from `start` on that the first fitting descriptor behind them gives, and
/// where that ends. They have `least` bytes at least.
fn descriptor(source: &dyn Source, start: u64, least: u64) -> Result<Option<(u64, u64)>, Fault> {
    let len = source.len();
    let mut from = start.saturating_add(least).min(len);
    while from < len {
        let window = source.read_vec(from, (len - from).min(WINDOW))?;
        for hit in memchr::memmem::find_iter(&window, b"PK\x07\x08") {
            let at = from + hit as u64;
            let fields = source.read_vec(at, (len - at).min(DESCRIPTOR64_LEN))?;
            let data = at - start;
            if fields.len() as u64 == DESCRIPTOR64_LEN && u64_at(&fields, 8) == data {
                return Ok(Some((data, at + DESCRIPTOR64_LEN)));
            }
            if fields.len() as u64 >= DESCRIPTOR_LEN && u64::from(u32_at(&fields, 8)) == data {
                return Ok(Some((data, at + DESCRIPTOR_LEN)));
            }
        }
        if len - from <= WINDOW {
            break;
        }
        // A signature may lie across two windows.
        from += WINDOW - 3;
    }
    Ok(None)
}
