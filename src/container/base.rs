//! The base record: which files the chunks of a delta refer to.

use super::{
    Limits,
    manifest::{is_safe, pack_table, unpack_table},
};
use crate::{
    Error, Result,
    bits::{read_varint, write_varint},
};

/// The base of an archive: its name, for people and as a hint, and its files, which laid end to
/// end in this order are the address space that references to the base lie in. What bytes they
/// hold is guarded by the digest of every reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseRecord {
    /// Last part of the path that it had.
    pub name: String,
    /// Path and length of every file.
    pub files: Vec<(String, u64)>,
}

impl BaseRecord {
    /// Bytes of all files; `None` where they overflow.
    pub fn total_len(&self) -> Option<u64> {
        self.files.iter().try_fold(0u64, |n, f| n.checked_add(f.1))
    }

    /// Metadata and payload of the record.
    pub fn to_record(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut body = Vec::new();
        put_text(&mut body, &self.name);
        write_varint(&mut body, self.files.len() as u64);
        for (path, len) in &self.files {
            put_text(&mut body, path);
            write_varint(&mut body, *len);
        }
        pack_table(&body)
    }

    /// Reads a record.
    ///
    /// # Errors
    /// `Corrupt`, and `LimitExceeded` where it is larger than `limits.table_len`.
    pub fn from_record(meta: &[u8], payload: &[u8], limits: &Limits) -> Result<BaseRecord> {
        let body = unpack_table(meta, payload, limits, "base record")?;
        Self::parse(&body).ok_or_else(|| Error::Corrupt("the base record is damaged".into()))
    }

    fn parse(mut body: &[u8]) -> Option<BaseRecord> {
        let b = &mut body;
        let name = text(b)?;
        let n = read_varint(b)?;
        let mut files = Vec::new();
        for _ in 0..n {
            let path = text(b)?;
            let len = read_varint(b)?;
            if !is_safe(&path) {
                return None;
            }
            files.push((path, len));
        }
        let record = BaseRecord { name, files };
        (body.is_empty() && record.total_len().is_some()).then_some(record)
    }
}

fn put_text(body: &mut Vec<u8>, text: &str) {
    write_varint(body, text.len() as u64);
    body.extend_from_slice(text.as_bytes());
}

fn text(b: &mut &[u8]) -> Option<String> {
    let len = usize::try_from(read_varint(b)?).ok()?;
    let (text, rest) = b.split_at_checked(len)?;
    *b = rest;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_cuts_are_refused() {
        let record = BaseRecord {
            name: "step00600".into(),
            files: vec![("a/model.safetensors".into(), 77), ("meta.json".into(), 0)],
        };
        let (meta, payload) = record.to_record().unwrap();
        let limits = Limits::default();
        assert_eq!(BaseRecord::from_record(&meta, &payload, &limits).unwrap(), record);
        for n in 0..payload.len() {
            assert!(BaseRecord::from_record(&meta, &payload[..n], &limits).is_err());
        }
        let bad = BaseRecord { files: vec![("../x".into(), 1)], ..record };
        let (meta, payload) = bad.to_record().unwrap();
        assert!(BaseRecord::from_record(&meta, &payload, &limits).is_err());
    }
}
