//! Ways to damage and to forge an archive.

use crate::{
    anatomy::{BASE, CHUNK, COPY, INDEX, MANIFEST, Record, varint},
    case::Draw,
    common::Rng,
    edit::{Fields, scramble},
    subject::Subject,
};

/// What an archive that is accepted all the same must restore.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Claim {
    /// The bytes, under the names that they had.
    Everything,
    /// The bytes: digests of chunks and files still guard them.
    Bytes,
}

pub struct Forged {
    pub how: &'static str,
    pub bytes: Vec<u8>,
    pub claim: Claim,
    /// Whether readers have small limits.
    pub limited: bool,
    /// What it restores if it is accepted, where that is not what the sound archive restores.
    pub restores: Option<Vec<u8>>,
}

pub fn forged(how: &'static str, bytes: Vec<u8>, claim: Claim) -> Forged {
    Forged { how, bytes, claim, limited: true, restores: None }
}

/// Bits, cuts and stretches, with no checksum set right.
pub fn damage(subject: &Subject, rng: &mut Rng) -> Forged {
    let mut bytes = subject.archive.clone();
    let len = bytes.len();
    let how = match rng.below(8) {
        0..3 => {
            for _ in 0..1 + rng.below(3) {
                let at = rng.below(len);
                bytes[at] ^= 1 << rng.below(8);
            }
            "bits"
        }
        3 => {
            bytes.truncate(rng.below(len));
            "cut"
        }
        4 => {
            let n = 1 + rng.below(40);
            bytes.extend(rng.bytes(n));
            "appended"
        }
        5 => {
            let (at, n) = (rng.below(len), 1 + rng.below(40));
            let end = (at + n).min(len);
            bytes[at..end].fill(*rng.pick(&[0, 0xff]));
            "filled"
        }
        6 => {
            let at = rng.below(len);
            bytes.drain(at..(at + 1 + rng.below(20)).min(len));
            "removed"
        }
        _ => {
            let (from, to) = (rng.below(len), rng.below(len));
            let stretch = bytes[from..(from + 1 + rng.below(60)).min(len)].to_vec();
            let end = (to + stretch.len()).min(len);
            bytes[to..end].copy_from_slice(&stretch[..end - to]);
            "moved"
        }
    };
    forged(how, bytes, Claim::Everything)
}

/// Fields of a chunk's metadata, where it stands and in the index.
pub fn metadata(subject: &Subject, rng: &mut Rng) -> Forged {
    let mut a = subject.anatomy.clone();
    let chunks: Vec<usize> =
        (0..a.records.len()).filter(|i| matches!(a.records[*i].kind, CHUNK | COPY)).collect();
    if chunks.is_empty() {
        return damage(subject, rng);
    }
    let near = subject.original.len() as u64;
    for _ in 0..1 + rng.below(2) {
        let at = *rng.pick(&chunks);
        let mut meta = subject.anatomy.records[at].meta.clone();
        if rng.one_in(8) {
            scramble(&mut meta, rng);
        } else {
            let mut fields = Fields::read(&meta);
            fields.edit(rng, near);
            meta = fields.bytes();
        }
        let kind = match rng.below(12) {
            0 => 1 + rng.below(6) as u8,
            1 => CHUNK + COPY - a.records[at].kind,
            _ => a.records[at].kind,
        };
        // Mostly both places say it; else they contradict each other.
        let (here, there) =
            [(true, true), (true, true), (true, false), (false, true)][rng.below(4)];
        if here {
            (a.records[at].meta, a.records[at].kind) = (meta.clone(), kind);
        }
        if there {
            (a.listed[at].meta, a.listed[at].kind) = (meta, kind);
        }
    }
    forged("metadata", a.bytes(), Claim::Bytes)
}

/// Payloads of chunks; lengths in all places are right, or in one they are not.
pub fn payload(subject: &Subject, rng: &mut Rng) -> Forged {
    let mut a = subject.anatomy.clone();
    let chunks: Vec<usize> = (0..a.records.len()).filter(|i| a.records[*i].kind == CHUNK).collect();
    if chunks.is_empty() {
        return damage(subject, rng);
    }
    let at = *rng.pick(&chunks);
    // What takes another chunk's place needs another chunk.
    let first = if chunks.len() > 1 { 0 } else { 2 };
    match first + rng.below(8) {
        0 => {
            let other = rng.pick(&chunks);
            a.records[at].payload = a.records[*other].payload.clone();
        }
        2 => {
            a.records[at].lie[rng.below(2)] = rng.number(0) as u32;
        }
        3 => a.listed[at].payload_len = rng.number(a.listed[at].payload_len) & 0xffff_ffff,
        1 => {
            // Form and payload of another chunk, under this one's digest and pieces.
            let other = *rng.pick(&chunks);
            let form = a.records[other].meta[2];
            a.records[at].payload = a.records[other].payload.clone();
            a.records[at].meta[2] = form;
        }
        _ => scramble(&mut a.records[at].payload, rng),
    }
    if !rng.one_in(4) {
        let kept = a.listed[at].payload_len;
        let wrong = kept != subject.anatomy.listed[at].payload_len;
        a.relist();
        if wrong {
            a.listed[at].payload_len = kept;
        }
    }
    forged("payload", a.bytes(), Claim::Bytes)
}

/// The decoded bytes of manifest, base and index, and what stands around them.
pub fn tables(subject: &Subject, rng: &mut Rng) -> Forged {
    let mut a = subject.anatomy.clone();
    let lie = |body: &[u8], rng: &mut Rng| match rng.below(6) {
        0 => rng.number(body.len() as u64),
        _ => body.len() as u64,
    };
    match rng.below(6) {
        0 => {
            let mut body = a.index_body();
            scramble(&mut body, rng);
            let index = Record::table(INDEX, &body, lie(&body, rng));
            forged("index", a.with_index(&index), Claim::Bytes)
        }
        1 => {
            scramble(&mut a.tail, rng);
            forged("files in the index", a.bytes(), Claim::Bytes)
        }
        2 => {
            match rng.below(3) {
                0 => a.lie[rng.below(2)] = rng.number(subject.archive.len() as u64),
                1 => {
                    let at = 8 + rng.below(12);
                    a.header[at] ^= 1 << rng.below(8);
                }
                _ => {
                    let mut index = Record::table(INDEX, &a.index_body(), 0);
                    scramble(&mut index.meta, rng);
                    return forged("index metadata", a.with_index(&index), Claim::Bytes);
                }
            }
            forged("header or trailer", a.bytes(), Claim::Bytes)
        }
        n => {
            let is_table = |r: &Record| matches!(r.kind, MANIFEST | BASE);
            let tables = a.records.iter().take_while(|r| is_table(r)).count();
            let at = rng.below(tables);
            let Some(mut body) = a.records[at].body() else { return damage(subject, rng) };
            scramble(&mut body, rng);
            a.records[at] = Record::table(a.records[at].kind, &body, lie(&body, rng));
            if n == 3 {
                // The index still lists the one that was there: names are not free to change.
                return forged("manifest behind the index", a.bytes(), Claim::Everything);
            }
            a.relist();
            forged("manifest or base", a.bytes(), Claim::Bytes)
        }
    }
}

/// Tables of very many entries, in few bytes, for readers with the limits that they have unless told
/// otherwise.
pub fn bombs(subject: &Subject, rng: &mut Rng) -> Forged {
    let limited = rng.one_in(2);
    Forged { limited, ..bomb(subject, rng) }
}

fn bomb(subject: &Subject, rng: &mut Rng) -> Forged {
    let mut a = subject.anatomy.clone();
    let n = 1 << (10 + rng.below(12));
    let count = varint(if rng.one_in(4) { rng.number(n) } else { n });
    let entry: &[u8] = match rng.below(5) {
        0 => &[0],
        1 => &[3, 0, 0],
        2 => &[1, 0, 1, b'a', 0],
        3 => &[1, 0],
        _ => &[4, 3, 0, 1, 2, 3],
    };
    let body: Vec<u8> = count.into_iter().chain(entry.repeat(n as usize)).collect();
    match rng.below(4) {
        0 => {
            let index = Record::table(INDEX, &body, body.len() as u64);
            forged("index of many records", a.with_index(&index), Claim::Bytes)
        }
        1 => {
            a.tail = body;
            forged("index of many files", a.bytes(), Claim::Bytes)
        }
        2 => {
            let body = [&[1], &body[..]].concat();
            a.records[0] = Record::table(MANIFEST, &body, body.len() as u64);
            a.relist();
            forged("manifest of many files", a.bytes(), Claim::Bytes)
        }
        _ => {
            let body = [&[1, b'b'], &body[..]].concat();
            let base = Record::table(BASE, &body, body.len() as u64);
            a.header[12] = 1;
            if a.records.get(1).is_some_and(|r| r.kind == BASE) {
                a.records[1] = base;
            } else {
                a.records.insert(1, base);
            }
            a.relist();
            forged("base of many files", a.bytes(), Claim::Bytes)
        }
    }
}

/// Records of one archive in another, twice, in another order, or not at all.
pub fn splice(subject: &Subject, other: &Subject, rng: &mut Rng) -> Forged {
    let mut a = subject.anatomy.clone();
    let n = a.records.len();
    let (at, from) = (rng.below(n), rng.below(other.anatomy.records.len()));
    let theirs = other.anatomy.records[from].clone();
    let mut how = match rng.below(8) {
        0 => {
            a.records.insert(at, theirs);
            "record of another archive"
        }
        1 => {
            a.records[at] = theirs;
            "record for record"
        }
        2 => {
            let again = a.records[at].clone();
            a.records.insert(rng.below(n + 1), again);
            "record twice"
        }
        3 => {
            a.records.remove(at);
            "record dropped"
        }
        4 => {
            let to = rng.below(n);
            a.records.swap(at, to);
            "records swapped"
        }
        5 => {
            a.records[0] = other.anatomy.records[0].clone();
            "manifest of another archive"
        }
        6 => {
            // All but the manifest is another archive's, or all but the files in the index.
            let keep = if rng.one_in(2) { 1 } else { 0 };
            a.records.truncate(keep);
            a.records.extend(other.anatomy.records[keep..].iter().cloned());
            "all records of another archive"
        }
        _ => {
            let bytes = match rng.below(3) {
                0 => [&subject.archive[..], &other.archive].concat(),
                1 => {
                    let half = subject.archive.len() / 2;
                    [&subject.archive[..half], &other.archive[other.archive.len() / 2..]].concat()
                }
                _ => {
                    let cut = subject.archive.len() - crate::anatomy::TRAILER;
                    let trailer = other.archive.len() - crate::anatomy::TRAILER;
                    [&subject.archive[..cut], &other.archive[trailer..]].concat()
                }
            };
            return forged("two archives", bytes, Claim::Everything);
        }
    };
    let mut claim = Claim::Everything;
    if !rng.one_in(3) {
        a.relist();
        claim = Claim::Bytes;
        if how == "manifest of another archive" {
            how = "manifest of another archive, listed";
        }
    }
    forged(how, a.bytes(), claim)
}
