//! What an archive is a delta to.

use crate::{Result, archive::access::Archive, container::Name};

/// The base of a delta, as the archive remembers it, and what was found of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BaseInfo {
    /// Its name when the archive was made.
    pub name: Name,
    /// Whether any chunk refers to it: otherwise the archive restores without it.
    pub is_needed: bool,
    /// Where it is, where it was given or found beside the archive.
    pub path: Option<String>,
    /// Whether what was found is an archive.
    pub is_archive: bool,
    /// Its files.
    pub files: Vec<BaseFile>,
}

/// A file of a base.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct BaseFile {
    /// Its path.
    pub path: Name,
    /// Its length.
    pub bytes: u64,
    /// Its digest, where the base is an archive, which has them.
    pub digest: Option<u128>,
}

impl BaseInfo {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|f| f.bytes).sum()
    }

    pub(super) fn of(archive: &Archive<'_>) -> Result<Option<BaseInfo>> {
        let Some(record) = &archive.base_record else { return Ok(None) };
        let base = archive.attached().map(|attached| attached.base());
        let base_archive = base.and_then(|base| base.archive());
        let digest = |path: &Name| {
            let base = base_archive?;
            let entries = &base.manifest.entries;
            let entry = match (&entries[..], record.files.len()) {
                ([_], 1) => 0,
                _ => entries.iter().position(|e| e.path == *path)?,
            };
            base.digest(entry).ok()
        };
        let files = record.files.iter().map(|(path, bytes)| BaseFile {
            path: path.clone(),
            bytes: *bytes,
            digest: digest(path),
        });
        Ok(Some(BaseInfo {
            name: record.name.clone(),
            is_needed: archive.refers_to_base(),
            path: base.map(|base| base.shown().to_owned()),
            is_archive: base_archive.is_some(),
            files: files.collect(),
        }))
    }
}
