//! Records of an archive, one after another, without seeking.

use crate::{
    Error, Result,
    archive::access::digest::file_ends,
    container::{
        BaseRecord, ChunkMeta, EntryKind, HEADER_LEN, Header, Index, Layout, Limits, Manifest,
        RECORD_HEADER_LEN, RecordHeader, RecordType, TRAILER_LEN, Trailer, index::IndexedRecord,
    },
};
use std::io::Read;

/// One record as it arrived.
#[derive(Default)]
pub(in crate::archive) struct Record {
    pub kind: RecordType,
    /// Offset of its header in the archive.
    pub offset: u64,
    pub meta: Vec<u8>,
    pub payload: Vec<u8>,
}

pub(in crate::archive) struct Receiver<'r> {
    reader: &'r mut (dyn Read + Send),
    limits: Limits,
    offset: u64,
    /// What the archive says first, unless that is damaged.
    header: Option<Header>,
    /// What the chunks so far are.
    layout: Layout,
    /// The records so far, to be compared with the index.
    seen: Vec<IndexedRecord>,
    index: Record,
    /// What chunks may refer to.
    pub base_record: Option<BaseRecord>,
}

impl<'r> Receiver<'r> {
    /// Reads the header. With `keep_going` it may be damaged.
    pub fn new(
        reader: &'r mut (dyn Read + Send),
        limits: Limits,
        keep_going: bool,
    ) -> Result<Self> {
        let index = Record::default();
        let mut receiver = Receiver {
            reader,
            limits,
            offset: 0,
            header: None,
            layout: Layout::new(&limits, Vec::new()),
            seen: Vec::new(),
            index,
            base_record: None,
        };
        let mut header = Vec::new();
        receiver.read(HEADER_LEN as u64, &mut header, false)?;
        match Header::read(&header) {
            Err(Error::Corrupt(_)) if keep_going && header.len() == HEADER_LEN => {}
            done => receiver.header = Some(done?),
        }
        Ok(receiver)
    }

    /// Reads the manifest, which comes first.
    pub fn manifest(&mut self) -> Result<Manifest> {
        let mut record = Record::default();
        self.record(&mut record)?;
        if record.kind != RecordType::Manifest {
            return Err(Error::Corrupt("the archive does not begin with a manifest".into()));
        }
        let manifest = Manifest::from_record(&record.meta, &record.payload, &self.limits)?;
        self.layout = Layout::new(&self.limits, ends_of(&manifest));
        Ok(manifest)
    }

    /// Reads the next chunk or copy into `record`; `None` where the index has come instead.
    pub fn chunk(&mut self, record: &mut Record) -> Result<Option<ChunkMeta>> {
        self.record(record)?;
        if record.kind == RecordType::Base && self.seen.len() == 2 {
            let base = BaseRecord::from_record(&record.meta, &record.payload, &self.limits)?;
            self.layout.set_base(&base);
            self.base_record = Some(base);
            self.record(record)?;
        }
        if let Some(header) = &self.header {
            header.check_base(self.base_record.is_some())?;
        }
        if record.kind == RecordType::Index {
            self.index = std::mem::take(record);
            return Ok(None);
        }
        let wrong = || Error::Corrupt("its metadata is wrong".into());
        let meta = ChunkMeta::read(&record.meta).ok_or_else(wrong)?;
        // The payload has arrived, so its length is one of 32 bits.
        self.layout.add(record.kind, record.payload.len() as u32, &meta)?;
        Ok(Some(meta))
    }

    /// Reads the trailer and checks the index of so many files against it and the records. What
    /// the chunks must cover is then up to the caller.
    pub fn finish(mut self, entries: usize) -> Result<(Index, Layout)> {
        let record = std::mem::take(&mut self.index);
        let Record { offset, meta, payload, .. } = &record;
        let index = Index::from_record(meta, payload, *offset, entries, &self.limits)?;
        // The index itself is the last record seen.
        self.seen.pop();
        if index.records != self.seen {
            return Err(Error::Corrupt("the index does not list the records that came".into()));
        }
        let mut trailer = Vec::new();
        self.read(TRAILER_LEN as u64, &mut trailer, true)?;
        let bytes = trailer.first_chunk().ok_or_else(|| self.cut())?;
        let trailer = Trailer::read(bytes, self.offset)?;
        if trailer.index_offset != *offset {
            return Err(Error::Corrupt("the trailer does not point to the index".into()));
        }
        trailer.check_index(meta, payload)?;
        let mut more = Vec::new();
        if self.read(1, &mut more, false)? > 0 {
            return Err(Error::Corrupt("something follows the end of the archive".into()));
        }
        Ok((index, self.layout))
    }

    fn record(&mut self, record: &mut Record) -> Result<()> {
        record.offset = self.offset;
        let mut header = Vec::with_capacity(RECORD_HEADER_LEN);
        self.read(RECORD_HEADER_LEN as u64, &mut header, true)?;
        let header = header.first_chunk().ok_or_else(|| self.cut())?;
        let header = RecordHeader::read(header)?;
        record.kind = header.kind;
        let is_table =
            matches!(header.kind, RecordType::Manifest | RecordType::Base | RecordType::Index);
        let (meta_limit, payload_limit) = match is_table {
            true => (self.limits.table_len, self.limits.table_len),
            false => (self.limits.table_len, self.limits.chunk_len),
        };
        for (len, limit) in [(header.meta_len, meta_limit), (header.payload_len, payload_limit)] {
            if u64::from(len) > limit {
                return Err(Error::LimitExceeded(
                    format!("a record has {len} bytes, more than the limit of {limit}").into(),
                ));
            }
        }
        self.read(u64::from(header.meta_len), &mut record.meta, true)?;
        header.check_meta(&record.meta)?;
        self.read(u64::from(header.payload_len), &mut record.payload, true)?;
        self.seen.push(IndexedRecord {
            kind: header.kind,
            offset: record.offset,
            meta: record.meta.clone(),
            payload_len: header.payload_len,
        });
        Ok(())
    }

    /// Reads `len` bytes, or as many as there are unless `all` are needed. Memory grows as they
    /// arrive.
    fn read(&mut self, len: u64, out: &mut Vec<u8>, all: bool) -> Result<u64> {
        out.clear();
        let n = (&mut *self.reader)
            .take(len)
            .read_to_end(out)
            .map_err(|source| Error::Io { context: "cannot read the archive".into(), source })?
            as u64;
        self.offset += n;
        if all && n < len {
            return Err(self.cut());
        }
        Ok(n)
    }

    fn cut(&self) -> Error {
        Error::Truncated(
            format!("the archive is cut short: it ends after {} bytes", self.offset).into(),
        )
    }
}

/// Ends of the entries; a stream may end anywhere.
pub(in crate::archive) fn ends_of(manifest: &Manifest) -> Vec<u64> {
    match &manifest.entries[..] {
        [only] if only.kind == EntryKind::Stream => vec![u64::MAX],
        entries => file_ends(entries.iter().map(|e| e.len)),
    }
}
