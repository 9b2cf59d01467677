//! The zip form of `torch.save` and TorchScript: one stored member for each storage.
//!
//! ```text
//! NAME/data.pkl            the object
//! NAME/data/KEY            a storage, aligned to 64 bytes by default
//! NAME/byteorder           "little" or "big"; little where it is missing
//! NAME/constants.pkl, NAME/constants/KEY        TorchScript only
//! ```
//!
//! Everything else is left opaque.

use std::collections::HashSet;

use super::{
    MAX_PICKLE, describe,
    place::{Places, place},
};
use crate::{
    format::{
        fault::{Fault, Found, Notes},
        pickle::PickleFault,
        zip::Member,
    },
    source::Source,
};

/// The directory (`NAME/`, or nothing) whose `data.pkl` makes an archive one of torch's.
pub(crate) fn root(members: &[Member]) -> Option<&str> {
    let roots = members.iter().filter_map(|m| m.name.strip_suffix("data.pkl"));
    roots.filter(|r| r.is_empty() || r.ends_with('/')).min_by_key(|r| r.len())
}

/// Adds the tensors of one archive; `prefix` starts their names.
pub(crate) fn parse(
    source: &dyn Source,
    members: &[Member],
    prefix: &str,
    found: &mut Found,
) -> Result<(), Fault> {
    let Some(root) = root(members) else { return Ok(()) };
    let big_endian = is_big_endian(source, members, root)?;
    for part in ["data", "constants"] {
        let name = format!("{root}{part}.pkl");
        let Some(pickle) = members.iter().find(|m| m.name == name) else { continue };
        let mut prefix = prefix.to_string();
        if part == "constants" {
            prefix += if prefix.is_empty() { "constants" } else { ".constants" };
        }
        let bytes = match read_pickle(source, pickle)? {
            Ok(bytes) => bytes,
            Err(why) => {
                found.notes.push(format!("{name} {why}; its tensors stay opaque"));
                continue;
            }
        };
        match describe(&bytes, &prefix, &mut found.notes) {
            Ok((description, _)) => {
                let places = places(members, &format!("{root}{part}/"), &mut found.notes);
                let known = found.tensors.len();
                place(source, description, &places, big_endian, found)?;
                if part == "constants" {
                    drop_known_names(found, known);
                }
            }
            Err(fault) => {
                let why = match fault {
                    PickleFault::Short => "is cut off".into(),
                    PickleFault::Bad(why) => why,
                };
                found.notes.push(format!("{name} {why}; its tensors stay opaque"));
            }
        }
    }
    Ok(())
}

/// Keeps of the tensors from `known` on those whose names no earlier one has. An attribute may be
/// called `constants` too.
fn drop_known_names(found: &mut Found, known: usize) {
    let added = found.tensors.split_off(known);
    let names: HashSet<&str> = found.tensors.iter().map(|t| t.name.as_str()).collect();
    let added: Vec<_> = added.into_iter().filter(|t| !names.contains(t.name.as_str())).collect();
    found.tensors.extend(added);
}

fn read_pickle(source: &dyn Source, member: &Member) -> Result<Result<Vec<u8>, String>, Fault> {
    if !member.stored {
        return Ok(Err("is compressed".into()));
    }
    if member.len > MAX_PICKLE {
        return Ok(Err(format!("of {} bytes is too long", member.len)));
    }
    Ok(Ok(source.read_vec(member.offset, member.len)?))
}

/// The storages in a directory of the archive.
fn places(members: &[Member], directory: &str, notes: &mut Notes) -> Places {
    let mut places = Places::new();
    let mut n_compressed = 0u64;
    for member in members {
        let Some(key) = member.name.strip_prefix(directory) else { continue };
        if member.stored {
            places.insert(key.as_bytes().to_vec(), (member.offset, member.len));
        } else {
            n_compressed += 1;
        }
    }
    if n_compressed > 0 {
        notes.push(format!("{n_compressed} members are compressed and stay opaque"));
    }
    places
}

fn is_big_endian(source: &dyn Source, members: &[Member], root: &str) -> Result<bool, Fault> {
    let name = format!("{root}byteorder");
    match members.iter().find(|m| m.name == name) {
        Some(m) if m.stored && m.len == 3 => Ok(source.read_vec(m.offset, 3)? == b"big"),
        _ => Ok(false),
    }
}
