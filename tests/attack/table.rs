//! Manifest, base and index, field by field, so that one of them says something else and all the
//! rest agrees with it.

use crate::{
    anatomy::{BASE, INDEX, MANIFEST, Record, read_varint, varint},
    case::Draw,
    common::Rng,
    forge::{Claim, Forged, forged},
    recode::redigest,
    subject::Subject,
};

#[derive(Clone, Debug)]
struct Entry {
    /// Kind and element type; nothing in a base.
    fixed: Vec<u8>,
    path: Vec<u8>,
    len: u64,
}

/// A manifest, or the files of a base.
#[derive(Clone, Debug)]
struct Files {
    head: Vec<u8>,
    entries: Vec<Entry>,
    fixed: usize,
}

impl Files {
    fn read(kind: u8, mut b: &[u8]) -> Files {
        let take = |b: &mut &[u8], n: usize| {
            let (head, rest) = b.split_at(n);
            *b = rest;
            head.to_vec()
        };
        let (head, fixed) = match kind {
            MANIFEST => (take(&mut b, 1), 2),
            _ => {
                let len = read_varint(&mut b);
                let name = take(&mut b, len as usize);
                ([varint(len), name].concat(), 0)
            }
        };
        let entries = (0..read_varint(&mut b))
            .map(|_| {
                let fixed = take(&mut b, fixed);
                let len = read_varint(&mut b) as usize;
                Entry { fixed, path: take(&mut b, len), len: read_varint(&mut b) }
            })
            .collect();
        Files { head, entries, fixed }
    }

    fn bytes(&self, count: u64) -> Vec<u8> {
        let mut out = self.head.clone();
        out.extend(varint(count));
        for e in &self.entries {
            out.extend(&e.fixed);
            out.extend(varint(e.path.len() as u64));
            out.extend(&e.path);
            out.extend(varint(e.len));
        }
        out
    }

    fn edit(&mut self, rng: &mut Rng) {
        let n = self.entries.len();
        let at = rng.below(n);
        let Some(entry) = self.entries.get_mut(at) else {
            let fixed = vec![0; self.fixed];
            return self.entries.push(Entry { fixed, path: b"a".to_vec(), len: 1 });
        };
        match rng.below(10) {
            0 => self.head[0] ^= 1 << rng.below(3),
            1 if self.fixed > 0 => entry.fixed[0] = rng.below(5) as u8,
            2 if self.fixed > 0 => entry.fixed[1] = rng.below(60) as u8,
            1..4 => entry.path = name(&entry.path, rng),
            4 => entry.len = rng.number(entry.len),
            5 => {
                // Bytes go from one file to the next: the address space stays.
                let moved = rng.below(entry.len.min(1 << 20) as usize + 1) as u64;
                entry.len -= moved;
                let to = rng.below(n);
                let to = &mut self.entries[to];
                to.len = to.len.wrapping_add(moved);
            }
            6 => {
                let again = entry.clone();
                self.entries.insert(rng.below(n + 1), again);
            }
            7 => drop(self.entries.remove(at)),
            8 => self.entries.swap(at, rng.below(n)),
            _ => {
                let mut more = entry.clone();
                more.path = name(&more.path, rng);
                more.len = 0;
                self.entries.insert(at + 1, more);
            }
        }
    }
}

/// Another name, often one that is none.
fn name(old: &[u8], rng: &mut Rng) -> Vec<u8> {
    let odd: [&[u8]; 12] = [
        b"",
        b".",
        b"..",
        b"/",
        b"/a",
        b"a/",
        b"a//b",
        b"../a",
        b"a/../../b",
        b"a\0b",
        b"C:\\a",
        b"\x1b]0;a\x07",
    ];
    let odd: &[u8] = odd[rng.below(odd.len())];
    match rng.below(4) {
        0 => odd.to_vec(),
        1 => [old, b"/", odd].concat(),
        2 => [odd, b"/", old].concat(),
        _ => {
            let mut name = old.to_vec();
            crate::edit::scramble(&mut name, rng);
            name
        }
    }
}

/// Whether every name of a manifest is one, in order and in a directory that is there.
pub fn names_are_sound(manifest: &[u8]) -> bool {
    let entries = Files::read(MANIFEST, manifest).entries;
    let parts = |e: &Entry| e.path.split(|b| *b == b'/').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let paths: Vec<_> = entries.iter().map(parts).collect();
    let is_name = |part: &Vec<u8>| {
        !part.is_empty() && part[..] != *b"." && part[..] != *b".." && !part.contains(&0)
    };
    let directory =
        |path: &[Vec<u8>]| entries.iter().zip(&paths).any(|(e, p)| e.fixed[0] == 1 && p == path);
    paths.iter().flatten().all(is_name)
        && paths.windows(2).all(|pair| pair[0] < pair[1])
        && paths.iter().all(|p| p.len() == 1 || directory(&p[..p.len() - 1]))
}

/// Fields of manifest, base or index, one or two.
pub fn fields(subject: &Subject, rng: &mut Rng) -> Forged {
    let mut a = subject.anatomy.clone();
    let is_table = |r: &Record| matches!(r.kind, MANIFEST | BASE);
    let tables = a.records.iter().take_while(|r| is_table(r)).count();
    if rng.one_in(4) {
        return listed(subject, rng);
    }
    let at = rng.below(tables);
    let kind = a.records[at].kind;
    let mut files = Files::read(kind, &a.records[at].body().unwrap());
    for _ in 0..1 + rng.below(2) {
        files.edit(rng);
    }
    let mut count = files.entries.len() as u64;
    if rng.one_in(12) {
        count = rng.number(count);
    }
    let body = files.bytes(count);
    a.records[at] = Record::table(kind, &body, body.len() as u64);
    a.relist();
    // The index says the same of the files, with digests of what they would be.
    if kind == MANIFEST && !rng.one_in(4) {
        let total = files.entries.iter().try_fold(0u64, |n, e| n.checked_add(e.len));
        a.tail = varint(files.entries.len() as u64);
        for e in &files.entries {
            a.tail.extend(varint(e.len));
            a.tail.extend([0; 16].iter().take(if e.len > 0 { 16 } else { 0 }));
        }
        if total == Some(subject.original.len() as u64) {
            redigest(&mut a, &subject.original);
        }
    }
    forged("fields of a table", a.bytes(), Claim::Bytes)
}

/// What the index lists of a record, or says of a file.
fn listed(subject: &Subject, rng: &mut Rng) -> Forged {
    let mut a = subject.anatomy.clone();
    let n = a.listed.len();
    let at = rng.below(n);
    match rng.below(6) {
        0 => a.listed[at].kind = rng.below(9) as u8,
        1 => a.listed[at].payload_len = rng.number(a.listed[at].payload_len),
        2 => a.listed.swap(at, rng.below(n)),
        3 => drop(a.listed.remove(at)),
        4 => {
            let again = a.listed[at].clone();
            a.listed.insert(rng.below(n + 1), again);
        }
        _ => {
            let mut tail = &a.tail[..];
            let count = read_varint(&mut tail);
            let rest = tail.to_vec();
            a.tail = varint(rng.number(count));
            a.tail.extend(rest);
        }
    }
    let body = a.index_body();
    let index = Record::table(INDEX, &body, body.len() as u64);
    forged("fields of the index", a.with_index(&index), Claim::Bytes)
}
