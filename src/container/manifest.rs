//! Which files an archive holds.

use super::Limits;
use crate::{
    Error, Result,
    bits::{read_varint, write_varint},
    dtype::Dtype,
};
use std::io::Read;

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
    /// Path below the archive's root, with `/` between its parts: relative, without `..`.
    pub path: String,
    /// Length of a file in bytes.
    pub len: u64,
    /// Element type that the user gave for a headerless file.
    pub flat: Option<Dtype>,
}

/// The files of an archive, in the order of its address space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Whether the input was a directory: its files are then restored below one.
    pub is_directory: bool,
    /// Files and directories, parents before children.
    pub entries: Vec<Entry>,
}

impl Manifest {
    /// Bytes in the address space; `None` where they overflow.
    pub fn total_len(&self) -> Option<u64> {
        self.entries.iter().try_fold(0u64, |n, e| n.checked_add(e.len))
    }

    /// Metadata and payload of the manifest record.
    pub fn to_record(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut body = vec![u8::from(self.is_directory)];
        write_varint(&mut body, self.entries.len() as u64);
        for e in &self.entries {
            body.push(e.kind as u8);
            body.push(e.flat.map_or(0, |d| d as u8));
            write_varint(&mut body, e.path.len() as u64);
            body.extend_from_slice(e.path.as_bytes());
            write_varint(&mut body, e.len);
        }
        pack_table(&body)
    }

    /// Reads the manifest record.
    ///
    /// # Errors
    /// `Corrupt`, and `LimitExceeded` where it is larger than `limits.table_len`.
    pub fn from_record(meta: &[u8], payload: &[u8], limits: &Limits) -> Result<Manifest> {
        let body = unpack_table(meta, payload, limits, "manifest")?;
        Self::parse(&body).ok_or_else(|| Error::Corrupt("the manifest is damaged".into()))
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
                2 if n == 1 && !is_directory => EntryKind::Stream,
                _ => return None,
            };
            let flat = match fixed[1] {
                0 => None,
                code => Some(Dtype::from_code(code)?),
            };
            let path_len = usize::try_from(read_varint(body)?).ok()?;
            let path = String::from_utf8(take(body, path_len)?.to_vec()).ok()?;
            let len = read_varint(body)?;
            if !is_safe(&path) || (kind != EntryKind::File && len != 0) {
                return None;
            }
            entries.push(Entry { kind, path, len, flat });
        }
        let manifest = Manifest { is_directory, entries };
        let shape_fits = manifest.is_directory || manifest.entries.len() == 1;
        (body.is_empty() && shape_fits && manifest.total_len().is_some()).then_some(manifest)
    }
}

/// Whether a path from an archive stays below the directory it is restored into.
pub(crate) fn is_safe(path: &str) -> bool {
    !path.is_empty()
        && !path.contains(['\0', '\\'])
        && path.split('/').all(|part| !part.is_empty() && part != "." && part != "..")
}

fn take<'a>(body: &mut &'a [u8], n: usize) -> Option<&'a [u8]> {
    let (head, tail) = body.split_at_checked(n)?;
    *body = tail;
    Some(head)
}

/// Compresses a table: metadata is its decoded length and the digest of the
/// payload, which is a zstd frame.
pub(super) fn pack_table(body: &[u8]) -> Result<(Vec<u8>, Vec<u8>)> {
    let mut meta = Vec::new();
    write_varint(&mut meta, body.len() as u64);
    let payload = zstd::bulk::compress(body, 9)?;
    meta.extend_from_slice(&super::hash64(&payload).to_le_bytes());
    if u32::try_from(payload.len()).is_err() {
        return Err(Error::LimitExceeded("too many files for one archive".into()));
    }
    Ok((meta, payload))
}

/// Inverse of [`pack_table`], reading no more than the limit.
pub(super) fn unpack_table(
    mut meta: &[u8],
    payload: &[u8],
    limits: &Limits,
    what: &str,
) -> Result<Vec<u8>> {
    let damaged = || Error::Corrupt(format!("the {what} is damaged"));
    let len = read_varint(&mut meta).ok_or_else(damaged)?;
    let digest = u64::from_le_bytes(meta.try_into().map_err(|_| damaged())?);
    if len > limits.table_len {
        return Err(Error::LimitExceeded(format!(
            "the {what} has {len} bytes, more than the limit of {}",
            limits.table_len
        )));
    }
    if super::hash64(payload) != digest {
        return Err(damaged());
    }
    let mut body = Vec::new();
    let decoder = zstd::stream::read::Decoder::with_buffer(payload)?;
    decoder.take(len + 1).read_to_end(&mut body).map_err(|_| damaged())?;
    if body.len() as u64 != len {
        return Err(damaged());
    }
    Ok(body)
}
