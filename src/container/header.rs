//! The fixed-size ends of an archive.

use super::{RecordHeader, RecordType, check32, hash64_of};
use crate::{Error, Result};

/// First bytes of every archive. The non-ASCII byte and the line ends show transfers that
/// changed them.
pub const MAGIC: [u8; 8] = *b"\x89LMC\r\n\x1a\n";
/// Last bytes of every complete archive.
pub const END_MAGIC: [u8; 4] = *b"LMCz";
/// Format version that this crate writes.
pub const VERSION: u16 = 2;
/// Length of the header.
pub const HEADER_LEN: usize = 24;
/// Length of the trailer.
pub const TRAILER_LEN: usize = 32;

/// Required feature: some chunks refer to a base.
pub const FEATURE_BASE: u32 = 1;
/// Every required feature that this crate knows.
pub const FEATURES_KNOWN: u32 = FEATURE_BASE;

/// What an archive says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Format version.
    pub version: u16,
    /// Features a reader must know.
    pub required: u32,
}

impl Header {
    /// Its bytes.
    pub fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut b = [0; HEADER_LEN];
        b[..8].copy_from_slice(&MAGIC);
        b[8..10].copy_from_slice(&self.version.to_le_bytes());
        b[12..16].copy_from_slice(&self.required.to_le_bytes());
        let check = check32(&[&b[..20]]);
        b[20..].copy_from_slice(&check.to_le_bytes());
        b
    }

    /// Reads and checks a header.
    ///
    /// # Errors
    /// `Corrupt` for other files and damaged headers, `Unsupported` for a newer version or an
    /// unknown required feature, `Truncated` for fewer than [`HEADER_LEN`] bytes.
    pub fn read(bytes: &[u8]) -> Result<Header> {
        let start = &bytes[..bytes.len().min(8)];
        if !MAGIC.starts_with(start) || bytes.is_empty() {
            return Err(Error::Corrupt("this is not an lmc archive (wrong first bytes)".into()));
        }
        let Some(b) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(Error::Truncated("the archive ends inside its header".into()));
        };
        if check32(&[&b[..20]]).to_le_bytes() != b[20..24] {
            return Err(Error::Corrupt("the archive header is damaged".into()));
        }
        let version = u16::from_le_bytes([b[8], b[9]]);
        let required = u32::from_le_bytes([b[12], b[13], b[14], b[15]]);
        if version != VERSION {
            let advice = match version {
                n if n > VERSION => "use a newer release of lmc-gpu",
                _ => {
                    "restore the archive with the build of lmc-gpu that made it, and compress the \
                     result with this one"
                }
            };
            return Err(Error::Unsupported(format!(
                "the archive has format version {version}; this lmc-gpu reads version {VERSION}: \
                 {advice}"
            ).into()));
        }
        if required & !FEATURES_KNOWN != 0 {
            return Err(Error::Unsupported(format!(
                "the archive needs features {:#x} that this lmc-gpu does not know: use a newer one",
                required & !FEATURES_KNOWN
            ).into()));
        }
        if b[10..12] != [0; 2] || b[16..20] != [0; 4] {
            return Err(Error::Corrupt("the archive uses reserved header fields".into()));
        }
        Ok(Header { version, required })
    }
}

impl Header {
    /// Checks that there is a base record where the header says so, and only there.
    ///
    /// # Errors
    /// `Corrupt` otherwise.
    pub fn check_base(&self, has_base: bool) -> Result<()> {
        match (self.required & FEATURE_BASE != 0) == has_base {
            true => Ok(()),
            false => Err(Error::Corrupt("header and base record contradict each other".into())),
        }
    }
}

/// Where the index is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trailer {
    /// Offset of the index record.
    pub index_offset: u64,
    /// Length of the whole archive, this trailer included.
    pub archive_len: u64,
    /// 64-bit xxh3 of the whole index record.
    pub index_digest: u64,
}

impl Trailer {
    /// Its bytes.
    pub fn to_bytes(self) -> [u8; TRAILER_LEN] {
        let mut b = [0; TRAILER_LEN];
        b[..8].copy_from_slice(&self.index_offset.to_le_bytes());
        b[8..16].copy_from_slice(&self.archive_len.to_le_bytes());
        b[16..24].copy_from_slice(&self.index_digest.to_le_bytes());
        let check = check32(&[&b[..24]]);
        b[24..28].copy_from_slice(&check.to_le_bytes());
        b[28..].copy_from_slice(&END_MAGIC);
        b
    }

    /// Reads the trailer of an archive of `archive_len` bytes.
    ///
    /// # Errors
    /// `Truncated` where the bytes are no trailer or belong to a longer archive.
    pub fn read(b: &[u8; TRAILER_LEN], archive_len: u64) -> Result<Trailer> {
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| b[i + k]));
        if b[28..] != END_MAGIC {
            return Err(Error::Truncated(
                "the archive has no trailer: it was cut short or something was appended".into(),
            ));
        }
        if check32(&[&b[..24]]).to_le_bytes() != b[24..28] {
            return Err(Error::Corrupt("the archive trailer is damaged".into()));
        }
        let trailer =
            Trailer { index_offset: word(0), archive_len: word(8), index_digest: word(16) };
        if trailer.archive_len != archive_len {
            return Err(Error::Truncated(
                format!(
                    "the archive has {archive_len} bytes and should have {}",
                    trailer.archive_len
                )
                .into(),
            ));
        }
        let most = archive_len.saturating_sub(TRAILER_LEN as u64);
        if !(HEADER_LEN as u64..=most).contains(&trailer.index_offset) {
            return Err(Error::Corrupt("the trailer points outside the archive".into()));
        }
        Ok(trailer)
    }

    /// Checks a whole index record, which has this header, metadata and payload.
    ///
    /// # Errors
    /// `Corrupt` where it is not the one that the trailer was written for.
    pub fn check_index(&self, meta: &[u8], payload: &[u8]) -> Result<()> {
        match u32::try_from(payload.len()) {
            Ok(len) if index_digest(meta, payload, len) == self.index_digest => Ok(()),
            _ => Err(Error::Corrupt("the index is not the one that the trailer names".into())),
        }
    }
}

/// The digest of an index record.
pub(crate) fn index_digest(meta: &[u8], payload: &[u8], payload_len: u32) -> u64 {
    hash64_of(&[&RecordHeader::to_bytes(RecordType::Index, meta, payload_len), meta, payload])
}
