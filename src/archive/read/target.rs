//! Where restored bytes go: a file or a directory.

use crate::{
    Error, Result,
    archive::{
        disk::{AtomicDirectory, AtomicFile},
        options::Overwrite,
    },
    container::{EntryKind, Manifest, Piece},
    remote,
    source::{FileSource, Source},
};
use std::{
    fs::File,
    path::{Path, PathBuf},
};

/// A file or directory that is filled in any order and appears whole or not at all.
pub(in crate::archive) struct Target<'m> {
    manifest: &'m Manifest,
    ends: &'m [u64],
    place: Place,
}

enum Place {
    File(AtomicFile, PathBuf),
    Directory(AtomicDirectory),
}

impl<'m> Target<'m> {
    /// Starts what will become `out`: every file gets its length at once. `ends` are the ends of
    /// the manifest's entries in the address space.
    pub fn create(
        manifest: &'m Manifest,
        ends: &'m [u64],
        out: &Path,
        overwrite: Overwrite,
    ) -> Result<Target<'m>> {
        remote::refuse(out, "files are restored on disk")?;
        if !manifest.is_directory {
            let file = AtomicFile::create(out, overwrite)?;
            let len = manifest.entries.first().map_or(0, |e| e.len);
            file.file()?.set_len(len).map_err(|e| Error::io("write", out, e))?;
            return Ok(Target { manifest, ends, place: Place::File(file, out.to_owned()) });
        }
        let directory = AtomicDirectory::create(out, overwrite, manifest)?;
        for entry in &manifest.entries {
            let path = directory.path().join(entry.path.to_path()?);
            let failed = |e| Error::io("create", &path, e);
            if entry.kind == EntryKind::Directory {
                std::fs::create_dir(&path).map_err(failed)?;
            } else {
                File::create_new(&path).and_then(|f| f.set_len(entry.len)).map_err(failed)?;
            }
        }
        Ok(Target { manifest, ends, place: Place::Directory(directory) })
    }

    /// Writes decoded bytes to their pieces, which lie inside the address space.
    pub fn put(&self, pieces: &[Piece], bytes: &[u8]) -> Result<()> {
        scatter(pieces, self.ends, |entry, offset, at| {
            self.with_file(entry, "write", |f| write_at(f, offset, &bytes[at]))
        })
    }

    /// Reads back what [`Target::put`] wrote.
    pub fn get(&self, pieces: &[Piece], bytes: &mut [u8]) -> Result<()> {
        scatter(pieces, self.ends, |entry, offset, at| {
            let bytes = &mut bytes[at];
            self.with_file(entry, "read", |f| {
                FileSource::new(f.try_clone()?)?.read_at(offset, bytes)
            })
        })
    }

    /// A file of the target, as it is so far.
    pub fn file(&self, entry: usize) -> Result<FileSource> {
        let mut source = None;
        self.with_file(entry, "read", |f| {
            source = Some(FileSource::new(f.try_clone()?)?);
            Ok(())
        })?;
        source.ok_or_else(|| Error::InvalidArgument("not a file".into()))
    }

    fn with_file(
        &self,
        entry: usize,
        action: &str,
        act: impl FnOnce(&File) -> std::io::Result<()>,
    ) -> Result<()> {
        match &self.place {
            Place::File(file, out) => act(file.file()?).map_err(|e| Error::io(action, out, e)),
            Place::Directory(directory) => {
                let path = directory.path().join(self.manifest.entries[entry].path.to_path()?);
                File::options()
                    .read(true)
                    .write(true)
                    .open(&path)
                    .and_then(|f| act(&f))
                    .map_err(|e| Error::io(action, &path, e))
            }
        }
    }

    /// Puts everything on disk and gives it its name.
    pub fn commit(self) -> Result<()> {
        match self.place {
            Place::File(file, _) => file.commit(),
            Place::Directory(directory) => directory.commit(self.manifest),
        }
    }
}

/// Calls `visit` for every stretch of `pieces` that lies in one file: entry of the manifest,
/// first byte within it, range within the bytes that fill the pieces.
pub(in crate::archive) fn scatter(
    pieces: &[Piece],
    ends: &[u64],
    mut visit: impl FnMut(usize, u64, std::ops::Range<usize>) -> Result<()>,
) -> Result<()> {
    let mut at = 0;
    for piece in pieces {
        let (mut from, end) = (piece.offset, piece.offset + piece.len);
        while from < end {
            let entry = ends.partition_point(|&e| e <= from);
            let start = if entry == 0 { 0 } else { ends[entry - 1] };
            let n = (end.min(ends[entry]) - from) as usize;
            visit(entry, from - start, at..at + n)?;
            at += n;
            from += n as u64;
        }
    }
    Ok(())
}

/// Writes all of `bytes` at an offset.
pub(in crate::archive) fn write_at(file: &File, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, offset);
    #[cfg(not(unix))]
    {
        use std::io::{Seek, SeekFrom, Write};
        let mut file = file;
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(bytes)
    }
}
