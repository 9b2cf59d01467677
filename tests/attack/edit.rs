//! Metadata of a chunk, field by field, so that one of them can say something else.

use crate::{
    anatomy::{read_varint, varint},
    case::Draw,
    common::Rng,
};

const PIECES: u8 = 4;
const REFERENCES: u8 = 8;
const COPY: u8 = 16;

#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    pub kind: u8,
    pub pieces: Vec<[u64; 2]>,
    pub digest: u64,
}

/// The fields of `docs/FORMAT.md`, as written: pieces have gaps, not offsets.
#[derive(Clone, Debug, PartialEq)]
pub struct Fields {
    pub flags: u8,
    pub dtype: u8,
    pub form: u8,
    pub row_words: u64,
    pub digest: u64,
    pub pieces: Vec<[u64; 2]>,
    pub references: Vec<Reference>,
    pub copy_of: u64,
}

impl Fields {
    /// The fields of a sound chunk.
    pub fn read(mut b: &[u8]) -> Fields {
        let [flags, dtype, form] = *b.first_chunk().expect("a chunk has three bytes");
        b = &b[3..];
        let row_words = read_varint(&mut b);
        let word = |b: &mut &[u8]| {
            let (word, rest) = b.split_first_chunk().expect("a digest has eight bytes");
            *b = rest;
            u64::from_le_bytes(*word)
        };
        let digest = word(&mut b);
        let pairs = |b: &mut &[u8], n: u64| -> Vec<[u64; 2]> {
            (0..n).map(|_| [read_varint(b), read_varint(b)]).collect()
        };
        let n = if flags & PIECES != 0 { read_varint(&mut b) } else { 1 };
        let pieces = pairs(&mut b, n);
        let n = if flags & REFERENCES != 0 { read_varint(&mut b) } else { 0 };
        let mut references = Vec::new();
        for _ in 0..n {
            let kind = b[0];
            b = &b[1..];
            let n = if kind & 2 != 0 { read_varint(&mut b) } else { 1 };
            let pieces = pairs(&mut b, n);
            let digest = if kind & 1 == 0 { word(&mut b) } else { 0 };
            references.push(Reference { kind, pieces, digest });
        }
        let copy_of = if flags & COPY != 0 { read_varint(&mut b) } else { 0 };
        assert!(b.is_empty());
        Fields { flags, dtype, form, row_words, digest, pieces, references, copy_of }
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut out = vec![self.flags, self.dtype, self.form];
        out.extend(varint(self.row_words));
        out.extend(self.digest.to_le_bytes());
        if self.flags & PIECES != 0 {
            out.extend(varint(self.pieces.len() as u64));
        }
        out.extend(self.pieces.iter().flatten().flat_map(|n| varint(*n)));
        if self.flags & REFERENCES != 0 {
            out.extend(varint(self.references.len() as u64));
        }
        for r in &self.references {
            out.push(r.kind);
            if r.kind & 2 != 0 {
                out.extend(varint(r.pieces.len() as u64));
            }
            out.extend(r.pieces.iter().flatten().flat_map(|n| varint(*n)));
            if r.kind & 1 == 0 {
                out.extend(r.digest.to_le_bytes());
            }
        }
        if self.flags & COPY != 0 {
            out.extend(varint(self.copy_of));
        }
        out
    }

    /// Makes one field, or two that go together, say something else. `near` is a number that means
    /// something in this archive.
    pub fn edit(&mut self, rng: &mut Rng, near: u64) {
        match rng.below(14) {
            0 => self.flags ^= 1 << rng.below(8),
            1 => self.dtype = rng.below(64) as u8,
            2 => self.form = [0, 128][rng.below(2)] + rng.below(12) as u8,
            3 | 4 => self.row_words = rng.number(self.row_words),
            5 => {
                let at = rng.below(self.pieces.len());
                let (field, other) = (rng.below(2), rng.one_in(2));
                let piece = &mut self.pieces[at];
                piece[field] = rng.number(if other { near } else { piece[field] });
            }
            6 => {
                // Cut in two, or joined: the same bytes in other pieces.
                self.flags |= PIECES;
                let at = rng.below(self.pieces.len());
                if rng.one_in(2) && self.pieces[at][1] > 1 {
                    let head = 1 + rng.below(self.pieces[at][1] as usize - 1) as u64;
                    let tail = self.pieces[at][1] - head;
                    self.pieces[at][1] = head;
                    self.pieces.insert(at + 1, [0, tail]);
                } else {
                    self.pieces.remove(at);
                }
            }
            7 => {
                self.flags |= PIECES;
                let n = 1 << rng.below(12);
                let piece = [rng.number(near), rng.number(near)];
                self.pieces.resize(n, piece);
            }
            8 => {
                self.flags ^= COPY;
                self.copy_of = rng.number(near);
            }
            9 => self.copy_of = rng.number(self.copy_of),
            10 => {
                self.flags |= REFERENCES;
                let pieces = vec![[rng.number(near), rng.number(near)]; 1 + rng.below(2)];
                let kind = rng.below(4) as u8;
                self.references.push(Reference { kind, pieces, digest: self.digest });
            }
            11 | 12 if !self.references.is_empty() => {
                let at = rng.below(self.references.len());
                let r = &mut self.references[at];
                match rng.below(5) {
                    0 => r.kind ^= 1 << rng.below(3),
                    1 => r.digest = rng.next(),
                    2 => {
                        r.kind |= 2;
                        r.pieces.resize(rng.below(6), [rng.number(near), rng.number(near)]);
                    }
                    _ => {
                        let (piece, field) = (rng.below(r.pieces.len()), rng.below(2));
                        if let Some(piece) = r.pieces.get_mut(piece) {
                            piece[field] = rng.number(piece[field]);
                        }
                    }
                }
            }
            11 | 12 => self.digest ^= 1 << rng.below(64),
            _ => {
                // No length of a chunk, but one that decodes to it with another type.
                self.dtype = [0, 1, 4, 6, 8, 24, 25, 26, 27][rng.below(9)];
                self.row_words = rng.below(64) as u64;
            }
        }
    }
}

/// Other bytes for a table or a payload: bits, numbers, stretches.
pub fn scramble(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..1 + rng.below(3) {
        let at = rng.below(bytes.len() + 1);
        // Heads decide more than what follows.
        let at = if rng.one_in(3) { at.min(rng.below(24)) } else { at };
        match rng.below(8) {
            0..3 => {
                if let Some(b) = bytes.get_mut(at) {
                    *b ^= 1 << rng.below(8);
                }
            }
            3 => {
                if let Some(b) = bytes.get_mut(at) {
                    *b = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff, b'/', b'.', b'\\']);
                }
            }
            4 => {
                let number = varint(rng.number(bytes.len() as u64));
                bytes.splice(at..(at + 1).min(bytes.len()), number);
            }
            5 => bytes.truncate(at),
            6 => {
                let end = (at + 1 + rng.below(12)).min(bytes.len());
                bytes.drain(at..end.max(at).min(bytes.len()));
            }
            _ => {
                let end = (at + 1 + rng.below(40)).min(bytes.len());
                let again = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, again);
            }
        }
    }
}
