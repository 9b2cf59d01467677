//! Records: the unit that an archive is read in, forward.

use super::check32;
use crate::{Error, Result};

/// Length of the fixed part in front of every record.
pub const RECORD_HEADER_LEN: usize = 16;

/// What a record holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordType {
    /// The files of the archive.
    #[default]
    Manifest = 1,
    /// The files of the base that chunks refer to.
    Base = 2,
    /// A coded chunk.
    Chunk = 3,
    /// A chunk whose bytes equal those of an earlier one.
    Copy = 4,
    /// The index, which is the last record.
    Index = 6,
}

impl RecordType {
    /// The type of this code.
    ///
    /// # Errors
    /// `Corrupt` for codes that no type has.
    pub fn from_code(code: u8) -> Result<RecordType> {
        let all = [Self::Manifest, Self::Base, Self::Chunk, Self::Copy, Self::Index];
        let found = all.into_iter().find(|kind| *kind as u8 == code);
        found.ok_or_else(|| Error::Corrupt(format!("a record has the unknown type {code}").into()))
    }
}

/// The fixed part of a record. `meta_len` bytes of metadata follow it, which it guards, then
/// `payload_len` bytes of payload, which the digest of the decoded bytes guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// What the record holds.
    pub kind: RecordType,
    /// Bytes of metadata.
    pub meta_len: u32,
    /// Bytes of payload.
    pub payload_len: u32,
    /// Guard of the first twelve bytes and the metadata.
    pub check: u32,
}

impl RecordHeader {
    /// The bytes of the header of a record with this metadata.
    pub fn to_bytes(kind: RecordType, meta: &[u8], payload_len: u32) -> [u8; RECORD_HEADER_LEN] {
        let mut b = [0; RECORD_HEADER_LEN];
        b[0] = kind as u8;
        b[4..8].copy_from_slice(&(meta.len() as u32).to_le_bytes());
        b[8..12].copy_from_slice(&payload_len.to_le_bytes());
        let check = check32(&[&b[..12], meta]);
        b[12..].copy_from_slice(&check.to_le_bytes());
        b
    }

    /// Reads the fixed part. The guard is checked by [`RecordHeader::check_meta`].
    ///
    /// # Errors
    /// `Corrupt` for an unknown type or used reserved fields.
    pub fn read(b: &[u8; RECORD_HEADER_LEN]) -> Result<RecordHeader> {
        let word = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| b[i + k]));
        let kind = RecordType::from_code(b[0])?;
        if b[1..4] != [0; 3] {
            return Err(Error::Corrupt("a record header is damaged".into()));
        }
        Ok(RecordHeader { kind, meta_len: word(4), payload_len: word(8), check: word(12) })
    }

    /// Checks header and metadata against the guard.
    ///
    /// # Errors
    /// `Corrupt` where they do not match.
    pub fn check_meta(&self, meta: &[u8]) -> Result<()> {
        let again = RecordHeader::to_bytes(self.kind, meta, self.payload_len);
        if again[12..] != self.check.to_le_bytes() {
            return Err(Error::Corrupt("a record header or its metadata is damaged".into()));
        }
        Ok(())
    }

    /// Length of the whole record.
    pub fn record_len(&self) -> u64 {
        RECORD_HEADER_LEN as u64 + u64::from(self.meta_len) + u64::from(self.payload_len)
    }
}
