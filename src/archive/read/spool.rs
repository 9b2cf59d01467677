//! Chunks that went to a pipe, kept in an anonymous temporary file for the copies of them that may
//! follow: their payloads, which are smaller than their bytes.

use super::target::write_at;
use crate::{
    Error, Result,
    archive::access::decode::payload_of,
    codec::{self, Scratch},
    container::ChunkMeta,
    simd::Level,
    source::{FileSource, Source},
};
use std::{fs::File, io};

/// The temporary file, until it cannot be written: copies then fail, nothing else does.
pub(in crate::archive) struct Spool(Option<(File, u64)>);

/// Where a chunk is kept.
#[derive(Clone, Copy)]
pub(in crate::archive) struct Spooled {
    at: u64,
    len: u64,
    /// Whether its bytes are kept instead of its payload.
    is_decoded: bool,
}

impl Spool {
    pub fn new() -> Spool {
        let file = tempfile::tempfile().map_err(|e| log::debug!("no temporary file: {e}"));
        Spool(file.ok().map(|file| (file, 0)))
    }

    /// Keeps the payload of a chunk, or its bytes.
    pub fn keep(&mut self, bytes: &[u8], is_decoded: bool) -> Option<Spooled> {
        let (file, end) = self.0.as_mut()?;
        let spooled = Spooled { at: *end, len: bytes.len() as u64, is_decoded };
        match write_at(file, *end, bytes) {
            Ok(()) => *end += spooled.len,
            Err(e) => {
                log::debug!("copies will not be possible: {e}");
                self.0 = None;
                return None;
            }
        }
        Some(spooled)
    }

    /// Fills `out` with the bytes of a chunk that was kept.
    pub fn restore(
        &self,
        spooled: Option<Spooled>,
        meta: &ChunkMeta,
        level: Level,
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<()> {
        let none = || failed(io::ErrorKind::StorageFull.into());
        let (file, _) = self.0.as_ref().ok_or_else(none)?;
        let Spooled { at, len, is_decoded } = spooled.ok_or_else(none)?;
        let source = file.try_clone().and_then(FileSource::new).map_err(failed)?;
        if is_decoded && len == out.len() as u64 {
            return source.read_at(at, out).map_err(failed);
        }
        let payload = source.read_vec(at, len).map_err(failed)?;
        codec::decode(level, &payload_of(meta, &payload, &[]), scratch, out).map(|_| ())
    }
}

fn failed(source: io::Error) -> Error {
    let dir = std::env::temp_dir();
    Error::Io {
        context: format!(
            "the archive repeats an earlier chunk, for which temporary space in {} is needed",
            dir.display()
        )
        .into(),
        source,
    }
}
