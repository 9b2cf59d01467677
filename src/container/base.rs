//! The base record: which files the chunks of a delta refer to.

use super::{
    Limits, Name,
    table::{check_entries, pack_table, unpack_table},
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
    /// Last part of the path that it had; empty where it had none.
    pub name: Name,
    /// Path and length of every file, in the order of the paths.
    pub files: Vec<(Name, u64)>,
}

impl BaseRecord {
    /// Bytes of all files; `None` where they overflow.
    pub fn total_len(&self) -> Option<u64> {
        self.files.iter().try_fold(0u64, |n, f| n.checked_add(f.1))
    }

    /// What is wrong with it, if anything.
    fn fault(&self) -> Option<String> {
        if !self.name.is_empty() && !self.name.is_plain() {
            return Some(format!("\"{}\" is no name of a base", self.name));
        }
        for (path, _) in &self.files {
            if let Err(Error::InvalidArgument(why)) = path.check() {
                return Some(why.to_string());
            }
        }
        let leads_in = |a: &Name, b: &Name| {
            b.as_bytes().strip_prefix(a.as_bytes()).is_some_and(|rest| rest.first() == Some(&b'/'))
        };
        for pair in self.files.windows(2) {
            let (a, b) = (&pair[0].0, &pair[1].0);
            if a >= b || leads_in(a, b) {
                return Some(format!("{b} stands twice among the files of the base, or too late"));
            }
        }
        self.total_len().is_none().then(|| "the files of the base are too long".into())
    }

    /// Metadata and payload of the record.
    ///
    /// # Errors
    /// `InvalidArgument` for names that cannot be stored.
    pub fn to_record(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        match self.fault() {
            Some(why) => Err(Error::InvalidArgument(why.into())),
            None => pack_table(&self.to_table()),
        }
    }

    fn to_table(&self) -> Vec<u8> {
        let mut body = Vec::new();
        put_name(&mut body, &self.name);
        write_varint(&mut body, self.files.len() as u64);
        for (path, len) in &self.files {
            put_name(&mut body, path);
            write_varint(&mut body, *len);
        }
        body
    }

    /// Reads a record.
    ///
    /// # Errors
    /// `Corrupt`, and `LimitExceeded` where it is larger than `limits.table_len`.
    pub fn from_record(meta: &[u8], payload: &[u8], limits: &Limits) -> Result<BaseRecord> {
        let body = unpack_table(meta, payload, limits, "base record")?;
        let damaged = || Error::Corrupt("the base record is damaged".into());
        let mut rest = &body[..];
        let name = take_name(&mut rest).ok_or_else(damaged)?;
        let n = read_varint(&mut rest).ok_or_else(damaged)?;
        check_entries(n, limits, "base record")?;
        let files = Self::parse(rest, n).ok_or_else(damaged)?;
        let record = BaseRecord { name, files };
        match record.fault() {
            Some(why) => Err(Error::Corrupt(format!("the base record is damaged: {why}").into())),
            None => Ok(record),
        }
    }

    fn parse(mut body: &[u8], n: u64) -> Option<Vec<(Name, u64)>> {
        let b = &mut body;
        let mut files = Vec::new();
        for _ in 0..n {
            files.push((take_name(b)?, read_varint(b)?));
        }
        b.is_empty().then_some(files)
    }
}

fn put_name(body: &mut Vec<u8>, name: &Name) {
    write_varint(body, name.as_bytes().len() as u64);
    body.extend_from_slice(name.as_bytes());
}

fn take_name(b: &mut &[u8]) -> Option<Name> {
    let len = usize::try_from(read_varint(b)?).ok()?;
    let (name, rest) = b.split_at_checked(len)?;
    *b = rest;
    Some(Name::from(name))
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
    }

    #[test]
    fn what_a_writer_refuses_a_reader_refuses_too() {
        let of = |name: &str, files: &[&str]| BaseRecord {
            name: name.into(),
            files: files.iter().map(|path| ((*path).into(), 1)).collect(),
        };
        let limits = Limits::default();
        let read = |record: &BaseRecord| {
            let (meta, payload) = pack_table(&record.to_table()).unwrap();
            BaseRecord::from_record(&meta, &payload, &limits)
        };
        for good in [of("", &[]), of("a\\b", &["a\\b", "b/c", "b/d"]), of("\n", &["\u{1b}"])] {
            assert!(good.to_record().is_ok());
            assert_eq!(read(&good).unwrap(), good);
        }
        let bad = [
            of("a", &["../x"]),
            of("a", &["/x"]),
            of("a", &[""]),
            of("a", &["b", "a"]),
            of("a", &["a", "a"]),
            of("a", &["a", "a/b"]),
            of("..", &["a"]),
            of("a/b", &["a"]),
        ];
        for bad in bad {
            assert!(matches!(bad.to_record(), Err(Error::InvalidArgument(_))), "{bad:?}");
            assert!(matches!(read(&bad), Err(Error::Corrupt(_))), "{bad:?}");
        }
    }
}
