//! The `.lmc` file: header, records, index, trailer. `docs/FORMAT.md` is the specification.
//!
//! An archive holds one or more files. Laid end to end in the order of the manifest they form
//! one address space; each chunk record says which pieces of that space it restores. Records can
//! be read forward without seeking; the index at the end repeats their metadata for random access.

pub mod base;
pub mod header;
pub mod index;
pub mod layout;
pub mod manifest;
pub mod meta;
pub mod name;
pub mod record;
mod table;

pub use crate::hash::{digest_of, hash64, hash128};
pub use base::BaseRecord;
pub use header::{HEADER_LEN, Header, TRAILER_LEN, Trailer};
pub use index::Index;
pub use layout::{Layout, Place};
pub use manifest::{Entry, EntryKind, Manifest};
pub use meta::{ChunkMeta, Origin, Piece, Reference};
pub use name::Name;
pub use record::{RECORD_HEADER_LEN, RecordHeader, RecordType};

/// The low half of [`hash64`], which guards headers and metadata.
pub(crate) fn check32(parts: &[&[u8]]) -> u32 {
    hash64_of(parts) as u32
}

/// [`hash64`] of byte strings, one after another.
pub(crate) fn hash64_of(parts: &[&[u8]]) -> u64 {
    use std::hash::Hasher;
    let mut hasher = twox_hash::XxHash3_64::new();
    for part in parts {
        hasher.write(part);
    }
    hasher.finish()
}

/// Size limits for everything that an archive states about itself.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest decoded chunk, in bytes. Default 256 MiB; not stored.
    pub chunk_len: u64,
    /// Largest decoded manifest, base record or index, in bytes, and 64 times the most files that
    /// one may list. Default 256 MiB, which is 4,194,304 files; not stored.
    pub table_len: u64,
    /// Most memory that coding and decoding take for the chunks at hand, in bytes, on all threads
    /// together: their bytes, their payloads, what they refer to, scratch, and what waits to be
    /// written in order. Fewer are at work at once where they are large; one that alone takes more
    /// than 7/8 of it is refused. What the caller holds, and
    /// tables, come on top. Default 2 GiB; not stored.
    pub memory: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { chunk_len: 256 << 20, table_len: 256 << 20, memory: 2 << 30 }
    }
}
