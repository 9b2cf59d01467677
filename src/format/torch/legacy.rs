//! The form of `torch.save` before 1.6: five pickles, then the storages.
//!
//! ```text
//! [magic 0x1950a86a20f9469cfc6c] [protocol 1001] [system info] [the object] [list of keys]
//! for each key:  [i64 LE: number of elements] [the elements, little endian]
//! ```

use std::collections::HashMap;

use super::{
    Description, MAX_PICKLE, describe,
    place::{Places, place},
    storage_key,
};
use crate::{
    format::{
        Format,
        fault::{Fault, Found, quote},
        pickle::{PickleFault, load},
    },
    source::Source,
};

/// The magic's pickle after its `PROTO` opcode and, from protocol 4 on, its `FRAME`.
const MAGIC: &[u8] = b"\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.";

/// Whether a file that begins with `head` is one.
pub(crate) fn looks_like(head: &[u8]) -> bool {
    let [0x80, _protocol, rest @ ..] = head else { return false };
    rest.starts_with(MAGIC)
        || (rest.first() == Some(&0x95) && rest[1..].get(8..).is_some_and(|r| r.starts_with(MAGIC)))
}

/// Parses a whole file.
pub(crate) fn parse(source: &dyn Source) -> Result<Found, Fault> {
    let mut found = Found { format: Format::TorchLegacy, ..Found::default() };
    let mut at = 0;
    for _ in ["magic", "protocol", "system info"] {
        at += read(source, at, |bytes| Ok(((), load(bytes)?.len)))?.1;
    }
    let notes = &mut found.notes;
    let (description, len) = read(source, at, |bytes| describe(bytes, "", notes))?;
    at += len;
    let (keys, len) = read(source, at, read_keys)?;
    at += len;
    let places = match locate(source, at, &description, &keys)? {
        Ok((places, end)) => {
            if end < source.len() {
                let rest = source.len() - end;
                found.notes.push(format!("{rest} bytes follow the last storage"));
            }
            places
        }
        Err((places, why)) => {
            found.notes.push(format!("{why}; the storages from there on stay opaque"));
            places
        }
    };
    place(source, description, &places, false, &mut found)?;
    Ok(found)
}

/// Reads a pickle of unknown length at `at`: with a window that grows until it suffices.
fn read<T>(
    source: &dyn Source,
    at: u64,
    mut parse: impl FnMut(&[u8]) -> Result<(T, usize), PickleFault>,
) -> Result<(T, u64), Fault> {
    let left = source.len().saturating_sub(at);
    let limit = left.min(MAX_PICKLE);
    let mut window = 1 << 16;
    loop {
        let bytes = source.read_vec(at, limit.min(window))?;
        match parse(&bytes) {
            Ok((value, len)) => return Ok((value, len as u64)),
            Err(PickleFault::Short) if window < limit => window *= 8,
            Err(PickleFault::Short) if limit < left => return Err("its pickle is too long".into()),
            Err(PickleFault::Short) => return Err("its pickle is cut off".into()),
            Err(PickleFault::Bad(why)) => return Err(format!("its pickle {why}").into()),
        }
    }
}

/// The storages' keys in the order of their bytes.
fn read_keys(bytes: &[u8]) -> Result<(Vec<Vec<u8>>, usize), PickleFault> {
    let pickle = load(bytes)?;
    let keys = pickle.sequence(pickle.root).unwrap_or_default();
    let text = |id| storage_key(&pickle, id).unwrap_or_default();
    Ok((keys.iter().map(|id| text(*id)).collect(), pickle.len))
}

/// Places and the end of the last one, or those before a fault and what it is.
type Located = Result<(Places, u64), (Places, String)>;

/// Follows the storages from `at` to where they end; where one cannot be followed, those before it
/// and why.
fn locate(
    source: &dyn Source,
    mut at: u64,
    description: &Description,
    keys: &[Vec<u8>],
) -> Result<Located, Fault> {
    let known: HashMap<_, _> = description.storages.iter().map(|s| (&s.key, s)).collect();
    let mut places = Places::new();
    for key in keys {
        let Some(storage) = known.get(key) else {
            let why = format!("no tensor tells the type of storage {}", quote(key));
            return Ok(Err((places, why)));
        };
        let left = source.len().saturating_sub(at);
        let (Some(len), 8..) = (storage.len(), left) else {
            return Ok(Err((places, format!("storage {} is cut off", quote(key)))));
        };
        let mut count = [0; 8];
        source.read_at(at, &mut count)?;
        if u64::from_le_bytes(count) != storage.n_elements {
            let why = format!("storage {} has another size than its tensors say", quote(key));
            return Ok(Err((places, why)));
        }
        if len > left - 8 {
            return Ok(Err((places, format!("storage {} is cut off", quote(key)))));
        }
        places.insert(key.clone(), (at + 8, len));
        at += 8 + len;
    }
    Ok(Ok((places, at)))
}
