//! zip files by what is in them: torch, npz, or several archives one after another (`.distcp`).

use super::{
    Format,
    fault::{Fault, Found, Notes},
    npy, torch, zip,
};
use crate::source::Source;

/// Whether a file that begins with `head` is a zip archive with members.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    head.starts_with(b"PK\x03\x04")
}

/// Parses a whole file. An archive of no known kind is opaque.
pub(crate) fn parse(source: &dyn Source) -> Result<Found, Fault> {
    let directories = match zip::directories(source) {
        Ok(directories) => directories,
        Err(Fault::Content(why)) => return parse_cut(source, why),
        Err(fault) => return Err(fault),
    };
    let mut found = Found::default();
    let several = directories.len() > 1;
    for (i, directory) in directories.iter().enumerate() {
        let prefix = if several { format!("item{i}") } else { String::new() };
        let mut notes = Notes::default();
        let members = match zip::members(source, directory, &mut notes) {
            Ok(members) => members,
            Err(Fault::Content(why)) if several => {
                found.notes.push(format!("{prefix}: {why}"));
                continue;
            }
            Err(fault) => return Err(fault),
        };
        if torch::zip::root(&members).is_some() {
            found.notes.extend(&prefix, notes);
            torch::zip::parse(source, &members, &prefix, &mut found)?;
            found.format = if several { Format::Dcp } else { Format::TorchZip };
        } else if members.iter().any(|m| m.name.ends_with(".npy")) {
            found.notes.extend(&prefix, notes);
            npy::parse_zip(source, &members, &prefix, &mut found)?;
            if !several {
                found.format = Format::Npz;
            }
        }
    }
    if found.format == Format::Opaque {
        return Ok(Found::default());
    }
    if let (Some(first), Some(last)) = (directories.first(), directories.last()) {
        if first.start > 0 {
            found.notes.push(format!("{} bytes come before the archive", first.start));
        }
        if last.end < source.len() {
            found.notes.push(format!("{} bytes follow the archive", source.len() - last.end));
        }
    }
    Ok(found)
}

/// Parses an archive without its directory, `why` being what is wrong with that.
fn parse_cut(source: &dyn Source, why: String) -> Result<Found, Fault> {
    let mut found = Found::default();
    let members = zip::walk(source, &mut found.notes)?;
    if torch::zip::root(&members).is_some() {
        torch::zip::parse(source, &members, "", &mut found)?;
        found.format = Format::TorchZip;
    } else {
        npy::parse_zip(source, &members, "", &mut found)?;
        found.format = Format::Npz;
    }
    if found.spans.is_empty() {
        return Err(Fault::Content(why));
    }
    found.notes.push(format!("{why}; its members were found one after another"));
    Ok(found)
}
