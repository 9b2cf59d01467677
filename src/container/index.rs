//! The index: metadata of every record again, and what is only known at the end.

use super::{
    Limits, RECORD_HEADER_LEN, RecordType,
    manifest::{pack_table, unpack_table},
};
use crate::{
    Error, Result,
    bits::{read_varint, write_varint},
};

/// One record as the index lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexedRecord {
    /// What it holds.
    pub kind: RecordType,
    /// Offset of its header in the archive.
    pub offset: u64,
    /// Its metadata.
    pub meta: Vec<u8>,
    /// Bytes of payload.
    pub payload_len: u32,
}

/// The last record of an archive.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Index {
    /// Every record in front of the index, in order.
    pub records: Vec<IndexedRecord>,
    /// Length of each entry of the manifest.
    pub lens: Vec<u64>,
    /// Digest of each entry of the manifest.
    pub digests: Vec<u128>,
}

impl Index {
    /// Metadata and payload of the index record. Records must follow one another from
    /// `first_offset` on.
    pub fn to_record(&self) -> Result<(Vec<u8>, Vec<u8>)> {
        let mut body = Vec::new();
        write_varint(&mut body, self.records.len() as u64);
        for r in &self.records {
            body.push(r.kind as u8);
            write_varint(&mut body, r.meta.len() as u64);
            write_varint(&mut body, u64::from(r.payload_len));
            body.extend_from_slice(&r.meta);
        }
        write_varint(&mut body, self.lens.len() as u64);
        for (len, digest) in self.lens.iter().zip(&self.digests) {
            write_varint(&mut body, *len);
            body.extend_from_slice(&digest.to_le_bytes());
        }
        pack_table(&body)
    }

    /// Reads an index record whose archive's first record stands at `first_offset`.
    ///
    /// # Errors
    /// `Corrupt`, and `LimitExceeded` where it is larger than `limits.table_len`.
    pub fn from_record(
        meta: &[u8],
        payload: &[u8],
        first_offset: u64,
        limits: &Limits,
    ) -> Result<Index> {
        let body = unpack_table(meta, payload, limits, "index")?;
        Self::parse(&body, first_offset)
            .ok_or_else(|| Error::Corrupt("the index is damaged".into()))
    }

    fn parse(mut body: &[u8], first_offset: u64) -> Option<Index> {
        let b = &mut body;
        let mut index = Index::default();
        let mut offset = first_offset;
        for _ in 0..read_varint(b)? {
            let (&kind, rest) = b.split_first()?;
            *b = rest;
            let kind = match kind {
                1 => RecordType::Manifest,
                2 => RecordType::Base,
                3 => RecordType::Chunk,
                4 => RecordType::Copy,
                5 => RecordType::Context,
                _ => return None,
            };
            let meta_len = read_varint(b)?;
            let payload_len = u32::try_from(read_varint(b)?).ok()?;
            let (meta, rest) = b.split_at_checked(usize::try_from(meta_len).ok()?)?;
            *b = rest;
            index.records.push(IndexedRecord { kind, offset, meta: meta.to_vec(), payload_len });
            let len = RECORD_HEADER_LEN as u64 + meta_len + u64::from(payload_len);
            offset = offset.checked_add(len)?;
        }
        for _ in 0..read_varint(b)? {
            index.lens.push(read_varint(b)?);
            let (digest, rest) = b.split_first_chunk::<16>()?;
            *b = rest;
            index.digests.push(u128::from_le_bytes(*digest));
        }
        b.is_empty().then_some(index)
    }
}
