//! The index: metadata of every record again, and what is only known at the end.

use super::{
    HEADER_LEN, Limits, RECORD_HEADER_LEN, RecordType, hash128,
    table::{pack_table, unpack_table},
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
    /// Metadata and payload of the index record. Records must follow one another, the first one
    /// the header of the archive. Files without bytes have the digest of no stretches.
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
            if *len > 0 {
                body.extend_from_slice(&digest.to_le_bytes());
            }
        }
        pack_table(&body)
    }

    /// Reads an index record that stands at `index_offset`, of an archive of so many files and
    /// directories. What is listed is never more than those and the records that fit in front of
    /// the index.
    ///
    /// # Errors
    /// `Corrupt`, and `LimitExceeded` where it is larger than `limits.table_len`.
    pub fn from_record(
        meta: &[u8],
        payload: &[u8],
        index_offset: u64,
        entries: usize,
        limits: &Limits,
    ) -> Result<Index> {
        let body = unpack_table(meta, payload, limits, "index")?;
        Self::parse(&body, index_offset, entries)
            .ok_or_else(|| Error::Corrupt("the index is damaged".into()))
    }

    fn parse(mut body: &[u8], index_offset: u64, entries: usize) -> Option<Index> {
        let b = &mut body;
        let mut index = Index::default();
        let mut offset = HEADER_LEN as u64;
        for _ in 0..read_varint(b)? {
            let (&kind, rest) = b.split_first()?;
            *b = rest;
            let kind = RecordType::from_code(kind).ok()?;
            let meta_len = read_varint(b)?;
            let payload_len = u32::try_from(read_varint(b)?).ok()?;
            let (meta, rest) = b.split_at_checked(usize::try_from(meta_len).ok()?)?;
            *b = rest;
            let len = RECORD_HEADER_LEN as u64 + meta_len + u64::from(payload_len);
            let end = offset.checked_add(len).filter(|&end| end <= index_offset)?;
            index.records.push(IndexedRecord { kind, offset, meta: meta.to_vec(), payload_len });
            offset = end;
        }
        if offset != index_offset || read_varint(b)? != entries as u64 {
            return None;
        }
        for _ in 0..entries {
            let len = read_varint(b)?;
            index.lens.push(len);
            index.digests.push(match len {
                0 => hash128(&[]),
                _ => {
                    let (digest, rest) = b.split_first_chunk::<16>()?;
                    *b = rest;
                    u128::from_le_bytes(*digest)
                }
            });
        }
        b.is_empty().then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn index() -> Index {
        let record = |kind, offset, payload_len| IndexedRecord {
            kind,
            offset,
            meta: vec![1, 2, 3],
            payload_len,
        };
        Index {
            records: vec![
                record(RecordType::Manifest, 24, 100),
                record(RecordType::Chunk, 24 + 119, 7),
            ],
            lens: vec![0, 5],
            digests: vec![hash128(&[]), 77],
        }
    }

    const END: u64 = 24 + 119 + 26;

    #[test]
    fn an_index_is_read_as_it_was_written() {
        let (meta, payload) = index().to_record().unwrap();
        let limits = Limits::default();
        assert_eq!(Index::from_record(&meta, &payload, END, 2, &limits).unwrap(), index());
        for (end, entries) in [(END, 1), (END, 3), (END - 1, 2), (END + 1, 2)] {
            assert!(Index::from_record(&meta, &payload, end, entries, &limits).is_err());
        }
    }

    #[test]
    fn counts_beyond_what_the_archive_can_hold_are_refused_at_once() {
        for n in [1u64 << 20, u64::MAX] {
            let mut body = Vec::new();
            write_varint(&mut body, n);
            // Records of a chunk without metadata and payload.
            body.resize(1 << 20, 0);
            body[10..].chunks_exact_mut(3).for_each(|record| record[0] = 3);
            assert_eq!(Index::parse(&body, 24 + 16 * 100, 1), None);
            let mut body = vec![0];
            write_varint(&mut body, n);
            body.resize(1 << 20, 0);
            assert_eq!(Index::parse(&body, 24, 1), None);
        }
    }
}
