//! The record of a step, and the guard of the store's JSON files.

use super::chain::MAX_CHAIN;
use crate::{Error, Result, archive::Archive, container::hash64};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Version of both JSON files.
pub(super) const VERSION: u64 = 1;
const STEP_FORMAT: &str = "lmc-store-step";

/// An archive that another one is a delta to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Link {
    /// Its step.
    pub step: u64,
    /// File name of its archive in `steps`.
    pub archive: String,
}

/// One file of a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StoredFile {
    /// Its path in the checkpoint, with U+FFFD for what is not UTF-8.
    pub path: String,
    /// The bytes of a path that is not UTF-8, in hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_bytes: Option<String>,
    /// Its length.
    pub bytes: u64,
    /// Its digest in the archive, in hexadecimal digits.
    pub digest: String,
    /// Bytes of the archive's chunks that restore it; a chunk that several files share is
    /// counted by their bytes in it.
    pub stored_bytes: u64,
}

/// What a store knows of a step without opening its archive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepRecord {
    /// The step.
    pub step: u64,
    /// File name of its archive in `steps`.
    pub archive: String,
    /// What it is a delta to, its base first, the one stored in full last; empty for one that is
    /// stored in full itself.
    pub chain: Vec<Link>,
    /// When it was saved, in seconds since 1970 by the clock of whoever saved it.
    pub saved_at: u64,
    /// Length of the checkpoint.
    pub input_bytes: u64,
    /// Length of the archive.
    pub archive_bytes: u64,
    /// Its files, in the order of the archive.
    pub files: Vec<StoredFile>,
    /// Whether it was found to take less with the state of its optimizer than without.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keeps_state: bool,
}

impl StepRecord {
    /// The step that it is a delta to.
    pub fn base(&self) -> Option<u64> {
        self.chain.first().map(|link| link.step)
    }

    /// Archive bytes divided by input bytes; 1 for an empty checkpoint.
    pub fn ratio(&self) -> f64 {
        if self.input_bytes == 0 {
            return 1.0;
        }
        self.archive_bytes as f64 / self.input_bytes as f64
    }

    /// Names of the archives that restoring it reads, its own first.
    pub(super) fn archives(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.archive.as_str()).chain(self.chain.iter().map(|l| l.archive.as_str()))
    }

    pub(super) fn link(&self) -> Link {
        Link { step: self.step, archive: self.archive.clone() }
    }

    pub(super) fn to_json(&self) -> Map<String, Value> {
        let mut object = match serde_json::to_value(self) {
            Ok(Value::Object(object)) => object,
            _ => Map::new(),
        };
        object.insert("format".into(), STEP_FORMAT.into());
        object.insert("version".into(), VERSION.into());
        object
    }

    /// Reads the record of `step`.
    pub(super) fn from_json(bytes: &[u8], step: u64) -> Result<StepRecord> {
        let object = read_guarded(bytes, STEP_FORMAT)?;
        StepRecord::deserialize(Value::Object(object))
            .ok()
            .filter(|r| r.step == step && is_archive_of(&r.archive, step))
            .filter(|r| r.chain.iter().all(|l| is_archive_of(&l.archive, l.step)))
            .filter(|r| r.chain.len() as u64 <= MAX_CHAIN && descends(step, &r.chain))
            .ok_or_else(|| Error::Corrupt("the record contradicts itself".into()))
    }
}

/// Whether every link is a step below what is a delta to it.
fn descends(step: u64, chain: &[Link]) -> bool {
    let below = |above, link: &Link| (link.step < above).then_some(link.step);
    chain.iter().try_fold(step, below).is_some()
}

/// File names of a step without their endings.
pub(super) fn stem(step: u64) -> String {
    format!("{step:010}")
}

/// The step whose stem this is.
pub(super) fn parse_stem(text: &str) -> Option<u64> {
    text.parse().ok().filter(|&step| stem(step) == text)
}

/// Name of the archive of a step: the first one, or the `n`th that replaces it.
pub(super) fn archive_name(step: u64, n: u64) -> String {
    match n {
        0 => format!("{}.lmc", stem(step)),
        n => format!("{}-{n}.lmc", stem(step)),
    }
}

/// The step that a file name in `steps` says it is an archive of.
pub(super) fn parse_archive_name(name: &str) -> Option<u64> {
    let body = name.strip_suffix(".lmc")?;
    let (first, n) = match body.split_once('-') {
        Some((first, n)) => (first, n.parse().ok()?),
        None => (body, 0),
    };
    parse_stem(first).filter(|&step| archive_name(step, n) == name)
}

fn is_archive_of(name: &str, step: u64) -> bool {
    parse_archive_name(name) == Some(step)
}

/// The files of an archive and what they take in it.
pub(super) fn stored_files(archive: &Archive<'_>) -> Result<Vec<StoredFile>> {
    let entries = &archive.manifest.entries;
    let mut ends = Vec::with_capacity(entries.len());
    let mut end = 0;
    for entry in entries {
        end += entry.len;
        ends.push(end);
    }
    let mut stored = vec![0u64; entries.len()];
    for chunk in &archive.chunks {
        let total = u128::from(chunk.meta.len()).max(1);
        let share = |done: u64| (u128::from(chunk.stored_len) * u128::from(done) / total) as u64;
        let mut done = 0;
        for piece in &chunk.meta.pieces {
            let (mut from, to) = (piece.offset, piece.offset + piece.len);
            while from < to {
                let entry = ends.partition_point(|&e| e <= from);
                let n = to.min(ends[entry]) - from;
                stored[entry] += share(done + n) - share(done);
                done += n;
                from += n;
            }
        }
    }
    let mut files = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        if entry.kind != crate::container::EntryKind::Directory {
            files.push(StoredFile {
                path: entry.path.to_text().into_owned(),
                path_bytes: entry.path.to_hex(),
                bytes: entry.len,
                digest: format!("{:032x}", archive.digest(i)?),
                stored_bytes: stored[i],
            });
        }
    }
    Ok(files)
}

/// The bytes of a JSON file, with its guard.
pub(super) fn write_guarded(mut object: Map<String, Value>) -> Vec<u8> {
    let check = check_of(&object);
    object.insert("check".into(), check.into());
    let mut bytes = serde_json::to_vec_pretty(&object).unwrap_or_default();
    bytes.push(b'\n');
    bytes
}

/// The object in a JSON file, without its guard, which is checked.
pub(super) fn read_guarded(bytes: &[u8], format: &str) -> Result<Map<String, Value>> {
    let damaged = || Error::Corrupt("the file is damaged".into());
    let Ok(Value::Object(mut object)) = serde_json::from_slice(bytes) else {
        return Err(damaged());
    };
    if object.get("format").and_then(Value::as_str) != Some(format) {
        return Err(damaged());
    }
    match object.get("version").and_then(Value::as_u64) {
        Some(VERSION) => {}
        Some(v) if v > VERSION => {
            return Err(Error::Unsupported(
                format!("the store has version {v}, this lmc-gpu reads {VERSION}: use a newer one")
                    .into(),
            ));
        }
        _ => return Err(damaged()),
    }
    let check = object.remove("check");
    if check.as_ref().and_then(Value::as_str) != Some(&check_of(&object)) {
        return Err(damaged());
    }
    Ok(object)
}

fn check_of(object: &Map<String, Value>) -> String {
    let mut bytes = Vec::new();
    write_object(object, &mut bytes);
    format!("{:016x}", hash64(&bytes))
}

/// Writes an object with its keys in byte order, in whichever order `serde_json` holds them.
fn write_object(object: &Map<String, Value>, out: &mut Vec<u8>) {
    let mut entries: Vec<_> = object.iter().collect();
    entries.sort_by_key(|entry| entry.0);
    out.push(b'{');
    for (i, (key, value)) in entries.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        out.extend_from_slice(Value::from(key.as_str()).to_string().as_bytes());
        out.push(b':');
        write_value(value, out);
    }
    out.push(b'}');
}

fn write_value(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Object(object) => write_object(object, out),
        Value::Array(values) => {
            out.push(b'[');
            for (i, value) in values.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_value(value, out);
            }
            out.push(b']');
        }
        plain => out.extend_from_slice(plain.to_string().as_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_of_a_record_is_noticed_or_means_nothing() {
        let record = StepRecord {
            step: 7,
            archive: "0000000007-2.lmc".into(),
            chain: vec![Link { step: 5, archive: "0000000005.lmc".into() }],
            saved_at: 12,
            input_bytes: 99,
            archive_bytes: 40,
            files: vec![],
            keeps_state: false,
        };
        let bytes = write_guarded(record.to_json());
        assert_eq!(StepRecord::from_json(&bytes, 7).unwrap(), record);
        assert!(StepRecord::from_json(&bytes, 8).is_err());
        for i in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[i] ^= 1 << bit;
                if let Ok(read) = StepRecord::from_json(&bad, 7) {
                    assert_eq!(read, record);
                }
            }
            assert!(StepRecord::from_json(&bytes[..i], 7).is_err() || i + 1 == bytes.len());
        }
    }

    #[test]
    fn names_of_archives_cannot_lead_elsewhere() {
        assert_eq!(parse_archive_name("0000000600.lmc"), Some(600));
        assert_eq!(parse_archive_name("0000000600-3.lmc"), Some(600));
        assert_eq!(parse_archive_name("12345678901.lmc"), Some(12_345_678_901));
        for bad in ["600.lmc", "../0000000600.lmc", "0000000600-0.lmc", "0000000600-01.lmc", "x"] {
            assert_eq!(parse_archive_name(bad), None, "{bad}");
        }
    }

    #[test]
    fn guards_do_not_depend_on_the_order_of_keys() {
        let bytes = br#"{"version":1,"format":"f","check":"CHECK","b":1,"a":2}"#;
        let check = format!("{:016x}", hash64(br#"{"a":2,"b":1,"format":"f","version":1}"#));
        let text = String::from_utf8_lossy(bytes).replace("CHECK", &check);
        assert!(read_guarded(text.as_bytes(), "f").is_ok());
    }
}
