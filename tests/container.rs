//! Archives put together record by record: both readers take the same ones.

use lmc_gpu::{
    Archive, CompressOptions, Entry, EntryKind, Error, Method, RestoreOptions, compress,
    dtype::Dtype,
    internals::{
        archive::{Input, Options, compress_files, verify_stream},
        codec::Form,
        container::{
            ChunkMeta, Header, Index, Manifest, Origin, Piece, RecordHeader, RecordType, Reference,
            Trailer, digest_of, hash64, hash128,
            header::{FEATURE_BASE, HEADER_LEN, TRAILER_LEN, VERSION},
            index::IndexedRecord,
        },
        source::Source,
    },
};

/// Type, metadata, payload.
type Record = (RecordType, Vec<u8>, Vec<u8>);

fn record_bytes((kind, meta, payload): &Record) -> Vec<u8> {
    let header = RecordHeader::to_bytes(*kind, meta, payload.len() as u32);
    [&header[..], meta, payload].concat()
}

/// Header, records, and the index and trailer that fit them.
fn assemble(required: u32, records: &[Record], files: &[(u64, u128)]) -> Vec<u8> {
    let mut bytes = Header { version: VERSION, required }.to_bytes().to_vec();
    let mut index = Index::default();
    for record in records {
        let (kind, meta, payload) = record.clone();
        let payload_len = payload.len() as u32;
        let offset = bytes.len() as u64;
        index.records.push(IndexedRecord { kind, offset, meta, payload_len });
        bytes.extend(record_bytes(record));
    }
    (index.lens, index.digests) = files.iter().copied().unzip();
    let (meta, payload) = index.to_record().unwrap();
    end(bytes, (RecordType::Index, meta, payload))
}

/// Appends an index record and a trailer.
fn end(mut bytes: Vec<u8>, index: Record) -> Vec<u8> {
    let index_offset = bytes.len() as u64;
    let index = record_bytes(&index);
    bytes.extend(&index);
    let archive_len = (bytes.len() + TRAILER_LEN) as u64;
    let index_digest = hash64(&index);
    bytes.extend(Trailer { index_offset, archive_len, index_digest }.to_bytes());
    bytes
}

/// The records of an archive, the index last.
fn records_of(archive: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut at = HEADER_LEN;
    while at + TRAILER_LEN < archive.len() {
        let header = RecordHeader::read(archive[at..].first_chunk().unwrap()).unwrap();
        let meta = &archive[at + 16..][..header.meta_len as usize];
        let payload = &archive[at + 16 + meta.len()..][..header.payload_len as usize];
        records.push((header.kind, meta.to_vec(), payload.to_vec()));
        at += header.record_len() as usize;
    }
    records
}

/// What both readers say, which must be the same.
fn verdict(archive: &[u8]) -> Result<u64, Error> {
    let options = Options::default().with_threads(1);
    let sought = Archive::from_bytes(archive, &options.restoring())
        .and_then(|a| a.verify(&options.restoring()))
        .map(|r| r.bytes);
    let streamed = verify_stream(&mut &archive[..], &options.restoring()).map(|r| r.bytes);
    match (&sought, &streamed) {
        (Ok(a), Ok(b)) => assert_eq!(a, b),
        (Err(a), Err(b)) => {
            assert_eq!(std::mem::discriminant(a), std::mem::discriminant(b), "{a} / {b}");
        }
        _ => panic!("one takes it, one does not: {sought:?} {streamed:?}"),
    }
    sought
}

fn refused(archive: &[u8], why: &str) {
    let found = verdict(archive);
    assert!(matches!(found, Err(Error::Corrupt(_))), "{why}: {found:?}");
}

fn directory(names: [&str; 2], contents: [&[u8]; 2]) -> Vec<u8> {
    let file = |i: usize| (names[i].to_owned(), Box::new(contents[i].to_vec()) as Box<dyn Source>);
    let input = Input::from_files(vec![file(0), file(1)]).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("x.lmc");
    compress_files(&input, &out, &CompressOptions::default()).unwrap();
    std::fs::read(out).unwrap()
}

#[test]
fn records_of_another_archive_of_the_same_lengths_are_refused() {
    let (one, two) = (b"0123456789", b"abcdefghij");
    let a = directory(["a", "b"], [one, two]);
    let b = directory(["c", "d"], [one, two]);
    assert_eq!((a.len(), verdict(&a).unwrap(), verdict(&b).unwrap()), (b.len(), 20, 20));
    let (of_a, of_b) = (records_of(&a), records_of(&b));
    assert_eq!(of_a.len(), of_b.len());
    let mut at = HEADER_LEN;
    for (mine, other) in of_a.iter().zip(&of_b) {
        let (mine, other) = (record_bytes(mine), record_bytes(other));
        assert_eq!(mine.len(), other.len());
        let mut spliced = a.clone();
        spliced[at..at + mine.len()].copy_from_slice(&other);
        if mine != other {
            refused(&spliced, "a record of another archive");
        }
        at += mine.len();
    }
    // The whole start of one, and the whole end of the other.
    let manifest = record_bytes(&of_a[0]).len() + HEADER_LEN;
    refused(&[&b[..manifest], &a[manifest..]].concat(), "another manifest");
    refused(&[&a[..a.len() - TRAILER_LEN], &b[b.len() - TRAILER_LEN..]].concat(), "a trailer");
}

/// 20 bytes in one file, in chunks as they are told: metadata and pieces.
fn archive_of(metas: &[ChunkMeta]) -> Vec<u8> {
    let metas = metas.iter().map(|meta| {
        let mut bytes = Vec::new();
        meta.write(&mut bytes);
        (meta.clone(), bytes)
    });
    archive_of_bytes(&metas.collect::<Vec<_>>())
}

fn content(pieces: &[Piece]) -> Vec<u8> {
    // Every 5 bytes are the same, so that there is something to copy.
    pieces.iter().flat_map(|p| (p.offset..p.offset + p.len).map(|i| (i % 5) as u8)).collect()
}

fn archive_of_bytes(metas: &[(ChunkMeta, Vec<u8>)]) -> Vec<u8> {
    let entry = Entry { kind: EntryKind::File, path: "x".into(), len: 20, flat: None };
    let manifest = Manifest { is_directory: false, entries: vec![entry] };
    let (meta, payload) = manifest.to_record().unwrap();
    let mut records = vec![(RecordType::Manifest, meta, payload)];
    let mut stretches = Vec::new();
    for (meta, bytes) in metas {
        let is_copy = meta.copy_of.is_some();
        let kind = if is_copy { RecordType::Copy } else { RecordType::Chunk };
        let payload = if is_copy { Vec::new() } else { content(&meta.pieces) };
        records.push((kind, bytes.clone(), payload));
        stretches.extend(meta.pieces.iter().map(|p| (p.offset, digest_of(&content(&[*p])))));
    }
    stretches.sort();
    let stretches: Vec<u8> = stretches.iter().flat_map(|l| l.1.to_le_bytes()).collect();
    assemble(0, &records, &[(20, hash128(&stretches))])
}

fn chunk(pieces: &[(u64, u64)]) -> ChunkMeta {
    let pieces: Vec<_> = pieces.iter().map(|&(offset, len)| Piece { offset, len }).collect();
    ChunkMeta {
        digest: digest_of(&content(&pieces)),
        pieces,
        dtype: Dtype::BYTES,
        big_endian: false,
        continues_group: false,
        row_words: 0,
        form: Form::Stored,
        references: Vec::new(),
        copy_of: None,
    }
}

fn copy(pieces: &[(u64, u64)], of: u64) -> ChunkMeta {
    ChunkMeta { form: Form::Copy, copy_of: Some(of), ..chunk(pieces) }
}

#[test]
fn both_readers_take_what_is_written_in_the_one_way() {
    let groups = ChunkMeta { continues_group: true, ..chunk(&[(5, 5), (15, 5)]) };
    let good = [
        vec![chunk(&[(0, 20)])],
        vec![chunk(&[(15, 5)]), chunk(&[(0, 15)])],
        vec![chunk(&[(0, 5), (10, 5)]), groups],
        vec![chunk(&[(0, 5)]), copy(&[(5, 5)], 0), copy(&[(10, 5)], 0), copy(&[(15, 5)], 0)],
        vec![ChunkMeta { row_words: u64::MAX, ..chunk(&[(0, 20)]) }],
        vec![ChunkMeta { row_words: 1 << 63, dtype: Dtype::F32, ..chunk(&[(0, 20)]) }],
    ];
    for metas in good {
        assert_eq!(verdict(&archive_of(&metas)).unwrap(), 20, "{metas:?}");
    }
}

#[test]
fn both_readers_refuse_the_same_chunks() {
    let first = || chunk(&[(0, 5)]);
    let rest = || chunk(&[(5, 15)]);
    let joined = |meta: ChunkMeta| ChunkMeta { continues_group: true, ..meta };
    let refers = |origin: Origin, pieces: &[(u64, u64)], meta: ChunkMeta| {
        let pieces = chunk(pieces).pieces;
        ChunkMeta { references: vec![Reference { origin, pieces }], ..meta }
    };
    let bad = [
        ("begins with a chunk of a group", vec![joined(first()), rest()]),
        ("a copy in two pieces", vec![chunk(&[(0, 10)]), copy(&[(10, 5), (16, 4)], 0)]),
        (
            "a copy of what comes later",
            vec![copy(&[(0, 5)], 5), chunk(&[(5, 5)]), chunk(&[(10, 10)])],
        ),
        (
            "a copy of a copy",
            vec![first(), copy(&[(5, 5)], 0), copy(&[(10, 5)], 5), chunk(&[(15, 5)])],
        ),
        (
            "a copy of another type",
            vec![first(), ChunkMeta { dtype: Dtype::I8, ..copy(&[(5, 5)], 0) }, chunk(&[(10, 10)])],
        ),
        (
            "a copy in another order of bytes",
            vec![
                ChunkMeta { dtype: Dtype::F32, ..chunk(&[(0, 4)]) },
                chunk(&[(4, 1)]),
                ChunkMeta { dtype: Dtype::F32, big_endian: true, ..copy(&[(5, 4)], 0) },
                chunk(&[(9, 11)]),
            ],
        ),
        ("a copy in a group", vec![first(), joined(copy(&[(5, 5)], 0)), chunk(&[(10, 10)])]),
        ("a group after a copy", vec![first(), copy(&[(5, 5)], 0), joined(chunk(&[(10, 10)]))]),
        (
            "a base that is not there",
            vec![refers(Origin::Base { digest: 0 }, &[(0, 5)], first()), rest()],
        ),
        ("a sibling outside of a group", vec![first(), refers(Origin::Sibling, &[(0, 5)], rest())]),
        (
            "a sibling across pieces",
            vec![
                chunk(&[(0, 5), (6, 4)]),
                joined(refers(Origin::Sibling, &[(4, 3)], chunk(&[(5, 1), (10, 10)]))),
            ],
        ),
        ("a hole", vec![first(), chunk(&[(6, 14)])]),
        ("an overlap", vec![first(), chunk(&[(4, 16)])]),
        ("more than the file", vec![first(), chunk(&[(5, 16)])]),
        ("twice", vec![chunk(&[(0, 20)]), chunk(&[(0, 20)])]),
        ("nothing", vec![]),
    ];
    for (why, metas) in bad {
        refused(&archive_of(&metas), why);
    }
}

#[test]
fn rows_of_2_to_the_63_words_and_more_are_no_rows_to_both_readers() {
    // Heads that repeat with the row, so that rows matter to how they are coded.
    let word = |i: u32| 0x3c00 + ((i % 64) * 40 + i.wrapping_mul(i) % 7) as u16;
    let bytes: Vec<u8> = (0..40_000).flat_map(|i| word(i).to_le_bytes()).collect();
    for method in ["auto", "fast", "max"] {
        let method = Method::parse(method).unwrap();
        let options = Options::default().with_method(method).with_dtype(Some(Dtype::BF16));
        let mut records = records_of(&compress(&bytes, &options.compressing()).unwrap());
        records.pop();
        let chunk = records.iter().position(|r| r.0 == RecordType::Chunk).unwrap();
        let meta = ChunkMeta::read(&records[chunk].1).unwrap();
        let mut with_rows = |row_words: u64| {
            records[chunk].1.clear();
            ChunkMeta { row_words, ..meta.clone() }.write(&mut records[chunk].1);
            let stretch = hash128(&meta.digest.to_le_bytes());
            verdict(&assemble(0, &records, &[(bytes.len() as u64, stretch)]))
        };
        // What is coded by rows needs them; the rest does not care.
        let none = with_rows(0).is_ok();
        for row_words in [u64::MAX / 2, 1 << 63, (1 << 63) + 1, u64::MAX] {
            match with_rows(row_words) {
                Ok(len) => assert!(none && len == bytes.len() as u64),
                Err(e) => assert!(!none && matches!(e, Error::Corrupt(_)), "{row_words}: {e}"),
            }
        }
    }
}

#[test]
fn both_readers_refuse_other_ways_to_say_the_same() {
    let meta = chunk(&[(0, 20)]);
    let mut plain = Vec::new();
    meta.write(&mut plain);
    let change = |act: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = plain.clone();
        act(&mut bytes);
        archive_of_bytes(&[(meta.clone(), bytes)])
    };
    assert!(verdict(&change(&|_| {})).is_ok());
    let counted = |b: &mut Vec<u8>| {
        b[0] |= 4;
        b.insert(12, 1);
    };
    refused(&change(&counted), "a single piece that is counted");
    let none = |b: &mut Vec<u8>| {
        b[0] |= 8;
        b.push(0);
    };
    refused(&change(&none), "no references, counted");
    refused(&change(&|b| b[0] |= 0x20), "a reserved flag");
    refused(&change(&|b| b[0] |= 1), "an order of bytes in words of one");
    refused(&change(&|b| b.push(0)), "metadata goes on");
    let long = |b: &mut Vec<u8>| drop(b.splice(3..4, [0x80, 0]));
    refused(&change(&long), "a number longer than it needs to be");
    let touching = |b: &mut Vec<u8>| {
        b[0] |= 4;
        b.truncate(12);
        b.extend([2, 0, 5, 0, 15]);
    };
    refused(&change(&touching), "pieces that touch");
}

#[test]
fn both_readers_refuse_records_and_headers_out_of_place() {
    let archive = compress(&[7; 1000], &CompressOptions::default()).unwrap();
    let mut records = records_of(&archive);
    let index = records.pop().unwrap();
    let opened = Archive::from_bytes(&archive, &RestoreOptions::default()).unwrap();
    let files = [(1000, opened.digest(0).unwrap())];
    assert!(assemble(0, &records, &files) == archive);
    refused(&assemble(FEATURE_BASE, &records, &files), "a base is announced");
    let mut two = records.clone();
    two.insert(1, records[0].clone());
    refused(&assemble(0, &two, &files), "two manifests");
    let mut swapped = records.clone();
    swapped.swap(0, 1);
    refused(&assemble(0, &swapped, &files), "a manifest that is not the first");
    refused(&assemble(0, &records[..1], &files), "no chunk");
    refused(&assemble(0, &records, &[(1000, 1)]), "another digest");
    refused(&assemble(0, &records, &[(999, files[0].1)]), "another length");
    refused(&assemble(0, &records, &[files[0], (0, hash128(&[]))]), "another file");
    // Type 5, whose header is otherwise good.
    let mut unknown = archive.clone();
    let at = HEADER_LEN + record_bytes(&records[0]).len();
    unknown[at] = 5;
    refused(&unknown, "a record of an unknown type");
    for reserved in [10, 16] {
        let mut used = archive.clone();
        used[reserved] = 1;
        let check = hash64(&used[..20]) as u32;
        used[20..24].copy_from_slice(&check.to_le_bytes());
        refused(&used, "a reserved field");
    }
    let mut body = archive[..archive.len() - TRAILER_LEN].to_vec();
    let index_offset = (body.len() - record_bytes(&index).len()) as u64;
    let archive_len = archive.len() as u64;
    body.extend(Trailer { index_offset, archive_len, index_digest: 1 }.to_bytes());
    refused(&body, "another index");
}

#[test]
fn tables_that_claim_more_than_they_have_bytes_for_are_refused_by_both_readers() {
    let archive = compress(&[7; 1000], &CompressOptions::default()).unwrap();
    let mut records = records_of(&archive);
    records.pop();
    let huge = |start: &[u8]| {
        let mut body = start.to_vec();
        body.resize(64 << 20, 0);
        let payload = zstd::bulk::compress(&body, 3).unwrap();
        let mut meta = vec![0x80, 0x80, 0x80, 0x20];
        meta.extend(hash64(&payload).to_le_bytes());
        (meta, payload)
    };
    let many = [0x80, 0x80, 0x80, 0x80, 0x10];
    for start in [&many[..], &[&[0][..], &many].concat()] {
        let (meta, payload) = huge(start);
        let mut bytes = Header { version: VERSION, required: 0 }.to_bytes().to_vec();
        records.iter().for_each(|r| bytes.extend(record_bytes(r)));
        refused(&end(bytes, (RecordType::Index, meta, payload)), "a huge index");
    }
    let (meta, payload) = huge(&[&[1][..], &many].concat());
    let manifest = (RecordType::Manifest, meta, payload);
    refused(&assemble(0, &[manifest], &[]), "a huge manifest");
    let (meta, payload) = huge(&[&[0][..], &many].concat());
    let base = vec![records[0].clone(), (RecordType::Base, meta, payload), records[1].clone()];
    let opened = Archive::from_bytes(&archive, &RestoreOptions::default()).unwrap();
    let files = [(1000, opened.digest(0).unwrap())];
    refused(&assemble(FEATURE_BASE, &base, &files), "a huge base");
}

#[test]
fn version_1_is_refused_and_the_message_says_what_to_do() {
    let mut archive = compress(b"hello", &CompressOptions::default()).unwrap();
    archive[8] = 1;
    let check = hash64(&archive[..20]) as u32;
    archive[20..24].copy_from_slice(&check.to_le_bytes());
    let e = verdict(&archive).unwrap_err();
    assert!(matches!(e, Error::Unsupported(_)));
    let text = e.to_string();
    for part in ["version 1", "version 2", "compress"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn entries_that_there_are_not_are_errors() {
    let archive = compress(b"hello", &CompressOptions::default()).unwrap();
    let opened = Archive::from_bytes(&archive, &RestoreOptions::default()).unwrap();
    assert!(opened.digest(0).is_ok());
    assert!(matches!(opened.digest(99), Err(Error::InvalidArgument(_))));
    assert!(matches!(opened.file(99), Err(Error::InvalidArgument(_))));
    assert!(matches!(opened.file_named("data2"), Err(Error::InvalidArgument(_))));
}
