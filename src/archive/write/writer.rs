//! Writes records forward and remembers them for the index.

use crate::{
    Error, Result,
    archive::access::digest::Digests,
    container::{
        HEADER_LEN, Header, Index, RECORD_HEADER_LEN, RecordHeader, RecordType, Trailer,
        header::{TRAILER_LEN, VERSION, index_digest},
        index::IndexedRecord,
    },
};
use std::io::Write;

pub(in crate::archive) struct Writer<'a, W: Write + ?Sized> {
    out: &'a mut W,
    offset: u64,
    index: Index,
}

impl<'a, W: Write + ?Sized> Writer<'a, W> {
    pub fn new(out: &'a mut W, required: u32) -> Result<Self> {
        let header = Header { version: VERSION, required };
        let mut writer = Writer { out, offset: 0, index: Index::default() };
        writer.put(&header.to_bytes())?;
        debug_assert_eq!(writer.offset, HEADER_LEN as u64);
        Ok(writer)
    }

    /// Appends a record.
    pub fn record(&mut self, kind: RecordType, meta: &[u8], payload: &[u8]) -> Result<()> {
        let payload_len = u32::try_from(payload.len())
            .map_err(|_| Error::LimitExceeded("a chunk of 4 GiB or more".into()))?;
        let record = IndexedRecord { kind, offset: self.offset, meta: meta.to_vec(), payload_len };
        self.put(&RecordHeader::to_bytes(kind, meta, payload_len))?;
        self.put(meta)?;
        self.put(payload)?;
        debug_assert_eq!(
            self.offset - record.offset,
            (RECORD_HEADER_LEN + meta.len() + payload.len()) as u64
        );
        self.index.records.push(record);
        Ok(())
    }

    /// Appends index and trailer. Returns the length of the archive.
    pub fn finish(mut self, lens: Vec<u64>, digests: &Digests) -> Result<u64> {
        let mut start = 0;
        for len in &lens {
            self.index.digests.push(digests.file(start, start + len));
            start += len;
        }
        self.index.lens = lens;
        let index_offset = self.offset;
        let (meta, payload) = self.index.to_record()?;
        let payload_len = u32::try_from(payload.len())
            .map_err(|_| Error::LimitExceeded("an index of 4 GiB or more".into()))?;
        self.put(&RecordHeader::to_bytes(RecordType::Index, &meta, payload_len))?;
        self.put(&meta)?;
        self.put(&payload)?;
        let archive_len = self.offset + TRAILER_LEN as u64;
        let index_digest = index_digest(&meta, &payload, payload_len);
        self.put(&Trailer { index_offset, archive_len, index_digest }.to_bytes())?;
        self.out.flush().map_err(write_error)?;
        Ok(archive_len)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(write_error)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

fn write_error(source: std::io::Error) -> Error {
    Error::Io { context: "cannot write the archive".into(), source }
}
