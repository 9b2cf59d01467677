//! Which files an archive holds.

use super::{
    Limits, Name,
    table::{check_entries, pack_table, unpack_table},
};
use crate::{
    Error, Result,
    bits::{read_varint, write_varint},
    dtype::Dtype,
};
use std::cmp::Ordering;

/// What an entry of the manifest is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    /// A file of known length.
    File = 0,
    /// A directory.
    Directory = 1,
    /// A file whose length was not known when its first byte was written: the only entry, and
    /// the index says how long it is.
    Stream = 2,
}

/// A file or directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What it is.
    pub kind: EntryKind,
    /// Path below the archive's root.
    pub path: Name,
    /// Length of a file in bytes.
    pub len: u64,
    /// Element type that the user gave for a headerless file; directories have none.
    pub flat: Option<Dtype>,
}

/// The files of an archive, in the order of its address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Whether the input was a directory: its files are then restored below one.
    pub is_directory: bool,
    /// Files and directories, in the order of their paths: parents before children.
    pub entries: Vec<Entry>,
}

impl Manifest {
    /// Bytes in the address space; `None` where they overflow.
    pub fn total_len(&self) -> Option<u64> {
        self.entries.iter().try_fold(0u64, |n, e| n.checked_add(e.len))
    }

    /// What is wrong with it, if anything: names that are none, that stand twice or out of order,
    /// directories that are missing.
    fn fault(&self) -> Option<String> {
        let mut before: Option<&Entry> = None;
        // The directories that the entry before lies in, and itself where it is one.
        let mut open: Vec<&Name> = Vec::new();
        for e in &self.entries {
            if let Err(Error::InvalidArgument(why)) = e.path.check() {
                return Some(why.to_string());
            }
            match before.map(|b| b.path.cmp(&e.path)) {
                Some(Ordering::Equal) => return Some(format!("{} stands twice", e.path)),
                Some(Ordering::Greater) => return Some(format!("{} is out of order", e.path)),
                _ => before = Some(e),
            }
            let parent = e.path.parent();
            while open.last().is_some_and(|dir| Some(dir.as_bytes()) != parent) {
                open.pop();
            }
            if open.last().is_none() && parent.is_some() {
                return Some(format!("{} lies in no directory", e.path));
            }
            match e.kind {
                EntryKind::Directory if e.flat.is_some() => {
                    return Some(format!("{} is a directory with an element type", e.path));
                }
                EntryKind::Directory => open.push(&e.path),
                EntryKind::Stream if self.is_directory => {
                    return Some(format!("{} has no length", e.path));
                }
                _ => {}
            }
            if e.kind != EntryKind::File && e.len != 0 {
                return Some(format!("{} has a length", e.path));
            }
        }
        let one_file = matches!(&self.entries[..], [e] if e.kind != EntryKind::Directory);
        if !self.is_directory && !one_file {
            return Some("a single file is a file, and one".into());
        }
        self.total_len().is_none().then(|| "the files are too long for one archive".into())
    }

    /// Metadata and payload of the manifest record.
    ///
    /// # Errors
    /// `InvalidArgument` for names that cannot be stored, stand twice, or are not in the order of
    /// their parts, each after the directory it lies in.
    pub fn to_record(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        match self.fault() {
            Some(why) => Err(Error::InvalidArgument(why.into())),
            None => pack_table(&self.to_table()),
        }
    }

    fn to_table(&self) -> Vec<u8> {
        let mut body = vec![u8::from(self.is_directory)];
        write_varint(&mut body, self.entries.len() as u64);
        for e in &self.entries {
            body.push(e.kind as u8);
            body.push(e.flat.map_or(0, |d| d as u8));
            write_varint(&mut body, e.path.as_bytes().len() as u64);
            body.extend_from_slice(e.path.as_bytes());
            write_varint(&mut body, e.len);
        }
        body
    }

    /// Reads the manifest record.
    ///
    /// # Errors
    /// `Corrupt`, and `LimitExceeded` where it is larger than `limits.table_len`.
    pub fn from_record(meta: &[u8], payload: &[u8], limits: &Limits) -> Result<Manifest> {
        let body = unpack_table(meta, payload, limits, "manifest")?;
        let damaged = || Error::Corrupt("the manifest is damaged".into());
        let n = body.get(1..).and_then(|mut rest| read_varint(&mut rest)).ok_or_else(damaged)?;
        check_entries(n, limits, "manifest")?;
        let manifest = Self::parse(&body).ok_or_else(damaged)?;
        match manifest.fault() {
            Some(why) => Err(Error::Corrupt(format!("the manifest is damaged: {why}").into())),
            None => Ok(manifest),
        }
    }

    fn parse(mut body: &[u8]) -> Option<Manifest> {
        let body = &mut body;
        let is_directory = match take(body, 1)?[0] {
            0 => false,
            1 => true,
            _ => return None,
        };
        let n = read_varint(body)?;
        let mut entries = Vec::new();
        for _ in 0..n {
            let fixed = take(body, 2)?;
            let kind = match fixed[0] {
                0 => EntryKind::File,
                1 => EntryKind::Directory,
                2 => EntryKind::Stream,
                _ => return None,
            };
            let flat = match fixed[1] {
                0 => None,
                code => Some(Dtype::from_code(code)?),
            };
            let path_len = usize::try_from(read_varint(body)?).ok()?;
            let path = Name::from(take(body, path_len)?);
            let len = read_varint(body)?;
            entries.push(Entry { kind, path, len, flat });
        }
        body.is_empty().then_some(Manifest { is_directory, entries })
    }
}

fn take<'a>(body: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (head, tail) = body.split_at_checked(n)?;
    *body = tail;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(kind: EntryKind, path: &str) -> Entry {
        let len = if kind == EntryKind::File { 3 } else { 0 };
        Entry { kind, path: path.into(), len, flat: None }
    }

    fn directory(entries: &[(EntryKind, &str)]) -> Manifest {
        let entries = entries.iter().map(|(kind, path)| entry(*kind, path)).collect();
        Manifest { is_directory: true, entries }
    }

    /// Writes a manifest as it is, without the checks of a writer.
    fn read_unchecked(manifest: &Manifest) -> Result<Manifest> {
        let (meta, payload) = pack_table(&manifest.to_table()).unwrap();
        Manifest::from_record(&meta, &payload, &Limits::default())
    }

    #[test]
    fn what_a_writer_refuses_a_reader_refuses_too() {
        use EntryKind::{Directory, File, Stream};
        let good = [
            vec![],
            vec![(File, "a")],
            vec![(Directory, "a"), (File, "a/b"), (Directory, "a/c"), (File, "a-b"), (File, "b")],
        ];
        for entries in good {
            let manifest = directory(&entries);
            let (meta, payload) = manifest.to_record().unwrap();
            let read = Manifest::from_record(&meta, &payload, &Limits::default()).unwrap();
            assert_eq!(read, manifest);
        }
        let bad = [
            vec![(File, "a"), (File, "a")],
            vec![(File, "b"), (File, "a")],
            vec![(File, "a"), (File, "a/b")],
            vec![(File, "a/b")],
            vec![(Directory, "a"), (File, "b"), (File, "a/b")],
            vec![(Directory, "a"), (Directory, "a")],
            vec![(File, "")],
            vec![(Directory, ".."), (File, "../x")],
            vec![(Stream, "a")],
        ];
        for entries in bad {
            let manifest = directory(&entries);
            assert!(matches!(manifest.to_record(), Err(Error::InvalidArgument(_))), "{entries:?}");
            assert!(matches!(read_unchecked(&manifest), Err(Error::Corrupt(_))), "{entries:?}");
        }
        let typed = Entry { flat: Some(Dtype::F32), ..entry(Directory, "a") };
        let manifest = Manifest { is_directory: true, entries: vec![typed] };
        assert!(matches!(manifest.to_record(), Err(Error::InvalidArgument(_))));
        assert!(matches!(read_unchecked(&manifest), Err(Error::Corrupt(_))));
        for entries in [vec![], vec![entry(File, "a/b")], vec![entry(Directory, "a")]] {
            let manifest = Manifest { is_directory: false, entries };
            assert!(matches!(manifest.to_record(), Err(Error::InvalidArgument(_))));
            assert!(matches!(read_unchecked(&manifest), Err(Error::Corrupt(_))));
        }
    }

    #[test]
    fn names_of_any_bytes_round_trip() {
        let name = Name::from(&b"q\r\xff\x80\n\\x"[..]);
        let manifest = Manifest {
            is_directory: false,
            entries: vec![Entry { path: name, ..entry(EntryKind::Stream, "x") }],
        };
        let (meta, payload) = manifest.to_record().unwrap();
        let read = Manifest::from_record(&meta, &payload, &Limits::default()).unwrap();
        assert_eq!(read, manifest);
    }

    #[test]
    fn more_files_than_the_limit_are_refused_before_there_is_memory_for_them() {
        let mut body = vec![1];
        write_varint(&mut body, u64::MAX);
        let (meta, payload) = pack_table(&body).unwrap();
        let read = Manifest::from_record(&meta, &payload, &Limits::default());
        assert!(matches!(read, Err(Error::Corrupt(_) | Error::LimitExceeded(_))));
        let few = Limits { table_len: 128, ..Limits::default() };
        let manifest = directory(&[(EntryKind::File, "a"), (EntryKind::File, "b")]);
        let (meta, payload) = manifest.to_record().unwrap();
        assert!(Manifest::from_record(&meta, &payload, &few).is_ok());
        let few = Limits { table_len: 127, ..few };
        let read = Manifest::from_record(&meta, &payload, &few);
        assert!(matches!(read, Err(Error::LimitExceeded(_))));
    }
}
