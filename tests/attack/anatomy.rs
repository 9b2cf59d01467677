//! An archive taken apart after `docs/FORMAT.md`, and put together again with every checksum right.

use twox_hash::XxHash3_64;

pub const HEADER: usize = 24;
pub const TRAILER: usize = 32;
pub const MANIFEST: u8 = 1;
pub const BASE: u8 = 2;
pub const CHUNK: u8 = 3;
pub const COPY: u8 = 4;
pub const INDEX: u8 = 6;

/// A record as it stands in the archive.
#[derive(Clone, Debug)]
pub struct Record {
    pub kind: u8,
    pub meta: Vec<u8>,
    pub payload: Vec<u8>,
    /// What is added to the lengths in its header.
    pub lie: [u32; 2],
}

impl Record {
    pub fn new(kind: u8, meta: Vec<u8>, payload: Vec<u8>) -> Record {
        Record { kind, meta, payload, lie: [0; 2] }
    }

    /// A manifest, base or index of these bytes, which say that they are `len`.
    pub fn table(kind: u8, body: &[u8], len: u64) -> Record {
        let payload = zstd::bulk::compress(body, 3).unwrap();
        let mut meta = varint(len);
        meta.extend(XxHash3_64::oneshot(&payload).to_le_bytes());
        Record::new(kind, meta, payload)
    }

    /// The decoded bytes of a manifest, base or index.
    pub fn body(&self) -> Option<Vec<u8>> {
        zstd::bulk::decompress(&self.payload, 16 << 20).ok()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![self.kind, 0, 0, 0];
        out.extend((self.meta.len() as u32).wrapping_add(self.lie[0]).to_le_bytes());
        out.extend((self.payload.len() as u32).wrapping_add(self.lie[1]).to_le_bytes());
        out.extend((XxHash3_64::oneshot(&[&out, &self.meta[..]].concat()) as u32).to_le_bytes());
        out.extend(&self.meta);
        out.extend(&self.payload);
        out
    }

    /// The record at the start of `bytes`, and what follows it.
    pub fn read(bytes: &[u8]) -> Option<(Record, &[u8])> {
        let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?) as usize);
        let (meta, payload) = (word(4)?, word(8)?);
        let (meta, rest) = bytes.get(16..)?.split_at_checked(meta)?;
        let (payload, rest) = rest.split_at_checked(payload)?;
        Some((Record::new(bytes[0], meta.to_vec(), payload.to_vec()), rest))
    }
}

/// A record as the index lists it.
#[derive(Clone, Debug)]
pub struct Listed {
    pub kind: u8,
    pub payload_len: u64,
    pub meta: Vec<u8>,
}

#[derive(Clone, Debug)]
pub struct Anatomy {
    pub header: Vec<u8>,
    /// All records but the index.
    pub records: Vec<Record>,
    pub listed: Vec<Listed>,
    /// The rest of the index: lengths and digests of the entries.
    pub tail: Vec<u8>,
    /// What is added to the numbers in the trailer.
    pub lie: [u64; 2],
}

impl Anatomy {
    /// Takes a sound archive apart.
    pub fn read(archive: &[u8]) -> Anatomy {
        let mut rest = &archive[HEADER..archive.len() - TRAILER];
        let mut records = Vec::new();
        while !rest.is_empty() {
            let (record, after) = Record::read(rest).expect("records follow one another");
            records.push(record);
            rest = after;
        }
        let index = records.pop().expect("there is an index");
        assert_eq!(index.kind, INDEX);
        let body = index.body().expect("the index is a table");
        let (mut b, mut listed) = (&body[..], Vec::new());
        for _ in 0..read_varint(&mut b) {
            let kind = b[0];
            b = &b[1..];
            let (meta_len, payload_len) = (read_varint(&mut b), read_varint(&mut b));
            let (meta, after) = b.split_at(meta_len as usize);
            listed.push(Listed { kind, payload_len, meta: meta.to_vec() });
            b = after;
        }
        assert_eq!(listed.len(), records.len());
        let header = archive[..HEADER].to_vec();
        Anatomy { header, records, listed, tail: b.to_vec(), lie: [0; 2] }
    }

    pub fn version(&self) -> u16 {
        u16::from_le_bytes([self.header[8], self.header[9]])
    }

    /// Lists every record as it is.
    pub fn relist(&mut self) {
        let list = |r: &Record| Listed {
            kind: r.kind,
            payload_len: r.payload.len() as u64,
            meta: r.meta.clone(),
        };
        self.listed = self.records.iter().map(list).collect();
    }

    pub fn index_body(&self) -> Vec<u8> {
        let mut body = varint(self.listed.len() as u64);
        for l in &self.listed {
            body.push(l.kind);
            body.extend(varint(l.meta.len() as u64));
            body.extend(varint(l.payload_len));
            body.extend(&l.meta);
        }
        body.extend(&self.tail);
        body
    }

    /// The archive, with its index as listed.
    pub fn bytes(&self) -> Vec<u8> {
        let body = self.index_body();
        self.with_index(&Record::table(INDEX, &body, body.len() as u64))
    }

    /// The archive, with another index.
    pub fn with_index(&self, index: &Record) -> Vec<u8> {
        let mut out = self.header.clone();
        let check = XxHash3_64::oneshot(&out[..20]) as u32;
        out[20..24].copy_from_slice(&check.to_le_bytes());
        for record in &self.records {
            out.extend(record.bytes());
        }
        let at = out.len() as u64;
        let index = index.bytes();
        out.extend(&index);
        let mut trailer = at.wrapping_add(self.lie[0]).to_le_bytes().to_vec();
        let len = (out.len() + TRAILER) as u64;
        trailer.extend(len.wrapping_add(self.lie[1]).to_le_bytes());
        let digest = if self.version() >= 2 { XxHash3_64::oneshot(&index) } else { 0 };
        trailer.extend(digest.to_le_bytes());
        trailer.extend((XxHash3_64::oneshot(&trailer) as u32).to_le_bytes());
        trailer.extend(*b"LMCz");
        out.extend(trailer);
        out
    }
}

/// The digest of decoded bytes, as chunks and stretches have it: the hash of the hashes of leaves.
pub fn digest(bytes: &[u8]) -> u64 {
    let hashes = bytes.chunks(16 << 10).map(|leaf| XxHash3_64::oneshot(leaf).to_le_bytes());
    XxHash3_64::oneshot(hashes.collect::<Vec<_>>().as_flattened())
}

/// The decoded manifest of an archive that may be damaged.
pub fn manifest_body(archive: &[u8]) -> Option<Vec<u8>> {
    Record::read(archive.get(HEADER..)?)?.0.body()
}

pub fn varint(mut n: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while n >= 0x80 {
        out.push(n as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
    out
}

/// A number from a sound archive.
pub fn read_varint(b: &mut &[u8]) -> u64 {
    let (mut n, mut shift) = (0, 0);
    loop {
        let (&byte, rest) = b.split_first().expect("a number ends");
        *b = rest;
        n |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte < 0x80 {
            return n;
        }
    }
}
