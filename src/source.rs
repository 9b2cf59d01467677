//! Random access to the bytes of a file, wherever they are: on disk, in memory, in an archive.

use std::{
    fs::Metadata,
    io,
    ops::Range,
    time::{Duration, SystemTime},
};

/// A fixed sequence of bytes that can be read at any offset from any thread.
pub trait Source: Send + Sync {
    /// Number of bytes.
    fn len(&self) -> u64;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `buf` with the bytes from `offset` on. Fails with `UnexpectedEof` past the end.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()>;

    /// All bytes, where they are in memory already. They stay as they are while this is borrowed.
    fn as_slice(&self) -> Option<&[u8]> {
        None
    }

    /// Whether somebody wrote to it since it was opened, as far as can be told.
    fn has_changed(&self) -> io::Result<bool> {
        Ok(false)
    }

    /// Where it is on disk, if it is a file of its own.
    fn path(&self) -> Option<&std::path::Path> {
        None
    }

    /// When somebody last wrote to it before it was opened, where that is known.
    fn changed_at(&self) -> Option<SystemTime> {
        None
    }

    /// Says that these bytes will be read soon, most of them, in about their order, until
    /// [`Source::forget`] says that they were. What is far away is then fetched ahead.
    fn expect(&self, _range: &Range<u64>) {}

    /// Says that what was expected was read.
    fn forget(&self, _range: &Range<u64>) {}

    /// Reads `len` bytes at `offset` into a new buffer, having checked that they exist.
    fn read_vec(&self, offset: u64, len: u64) -> io::Result<Vec<u8>> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len() => {}
            _ => return Err(io::ErrorKind::UnexpectedEof.into()),
        }
        let mut buf = vec![0; usize::try_from(len).map_err(|_| io::ErrorKind::OutOfMemory)?];
        self.read_at(offset, &mut buf)?;
        Ok(buf)
    }
}

impl Source for [u8] {
    fn len(&self) -> u64 {
        <[u8]>::len(self) as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|o| self.get(o..))
            .and_then(|s| s.get(..buf.len()))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(self)
    }
}

impl Source for Vec<u8> {
    fn len(&self) -> u64 {
        Vec::len(self) as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        Vec::as_slice(self).read_at(offset, buf)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(self)
    }
}

/// What a file system notes of a file and changes whenever somebody writes to it: its length, when
/// its bytes and when anything about it changed, and which file it is. Two stamps of a file that
/// was written to in between are equal only where the clock did not move on since the write before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    /// Seconds and nanoseconds: programs may set the time of modification back, but not this one.
    changed: Option<(i64, i64)>,
    device_and_inode: Option<(u64, u64)>,
}

impl Stamp {
    /// What the metadata of a file says.
    pub fn of(meta: &Metadata) -> Stamp {
        #[cfg(unix)]
        let (changed, device_and_inode) = {
            use std::os::unix::fs::MetadataExt;
            (Some((meta.ctime(), meta.ctime_nsec())), Some((meta.dev(), meta.ino())))
        };
        #[cfg(not(unix))]
        let (changed, device_and_inode) = (None, None);
        Stamp { len: meta.len(), modified: meta.modified().ok(), changed, device_and_inode }
    }

    /// Length of the file.
    #[allow(clippy::len_without_is_empty, reason = "a stamp is no container")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// The latest time that it has.
    pub fn latest(&self) -> Option<SystemTime> {
        let changed = self.changed.and_then(|(seconds, nanoseconds)| {
            let since = Duration::new(seconds.try_into().ok()?, nanoseconds.try_into().ok()?);
            SystemTime::UNIX_EPOCH.checked_add(since)
        });
        self.modified.max(changed)
    }
}

/// Bytes that are expected to be read while this lives.
pub struct Expected<'s> {
    source: &'s dyn Source,
    range: Range<u64>,
}

impl<'s> Expected<'s> {
    /// Tells a source of them.
    pub fn of(source: &'s dyn Source, range: Range<u64>) -> Self {
        source.expect(&range);
        Expected { source, range }
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        self.source.forget(&self.range);
    }
}

/// A file on disk. Its length is taken when it is opened.
#[derive(Debug)]
pub struct FileSource {
    file: std::fs::File,
    stamp: Stamp,
}

impl FileSource {
    /// Wraps an open file.
    pub fn new(file: std::fs::File) -> io::Result<Self> {
        let stamp = Stamp::of(&file.metadata()?);
        Ok(FileSource { file, stamp })
    }

    /// What the file system noted of it when it was opened.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }
}

impl Source for FileSource {
    fn len(&self) -> u64 {
        self.stamp.len
    }

    fn has_changed(&self) -> io::Result<bool> {
        Ok(Stamp::of(&self.file.metadata()?) != self.stamp)
    }

    fn changed_at(&self) -> Option<SystemTime> {
        self.stamp.latest()
    }

    #[cfg(unix)]
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, buf, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, mut offset: u64, mut buf: &mut [u8]) -> io::Result<()> {
        while !buf.is_empty() {
            match std::os::windows::fs::FileExt::seek_read(&self.file, buf, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    buf = &mut buf[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

/// A window into another source: the bytes `start..start + len`.
pub struct Slice<'a> {
    inner: &'a dyn Source,
    start: u64,
    len: u64,
}

impl<'a> Slice<'a> {
    /// The window, or `None` where it does not lie inside `inner`.
    pub fn new(inner: &'a dyn Source, start: u64, len: u64) -> Option<Self> {
        (start.checked_add(len)? <= inner.len()).then_some(Slice { inner, start, len })
    }
}

impl Source for Slice<'_> {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        match offset.checked_add(buf.len() as u64) {
            Some(end) if end <= self.len => self.inner.read_at(self.start + offset, buf),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}
