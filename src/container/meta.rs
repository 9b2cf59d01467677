//! Metadata of chunk records: what they restore and what they refer to.

use crate::{
    bits::{read_varint, write_varint},
    codec::Form,
    dtype::Dtype,
};

/// A range of the archive's address space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// First byte.
    pub offset: u64,
    /// Number of bytes, at least one.
    pub len: u64,
}

impl Piece {
    /// First byte after it, where there is one.
    pub fn end(&self) -> u64 {
        self.offset + self.len
    }
}

/// Bytes outside a chunk that its coding was conditioned on: `pieces`, one after another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Where they are.
    pub origin: Origin,
    /// Ranges of the address space of the base or of this archive.
    pub pieces: Vec<Piece>,
}

/// Which address space a reference lies in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The base's.
    Base {
        /// Digest of the referenced bytes.
        digest: u64,
    },
    /// This archive's: bytes that earlier chunks of the same group restore.
    Sibling,
}

impl Reference {
    /// Number of bytes.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(|p| p.len).sum()
    }

    /// Whether it refers to nothing, which no valid reference does.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }
}

/// What a chunk record says of itself in front of its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChunkMeta {
    /// What it restores: its decoded bytes are cut into these pieces, in ascending order.
    pub pieces: Vec<Piece>,
    /// Type of its words.
    pub dtype: Dtype,
    /// Whether words, of two bytes or more, are stored most significant byte first.
    pub big_endian: bool,
    /// Whether it is decoded after, and beside, the chunk before it.
    pub continues_group: bool,
    /// Words in a row, 0 where rows are not known.
    pub row_words: u64,
    /// Digest of the decoded bytes.
    pub digest: u64,
    /// How the payload is coded.
    pub form: Form,
    /// What else must be known to decode it.
    pub references: Vec<Reference>,
    /// For a copy: the first piece of the chunk that it equals.
    pub copy_of: Option<u64>,
}

const BIG_ENDIAN: u8 = 1;
const CONTINUES: u8 = 2;
const PIECES: u8 = 4;
const REFERENCES: u8 = 8;
const COPY: u8 = 16;
/// In the kind of a reference: its pieces are counted.
const MANY_PIECES: u8 = 2;

impl ChunkMeta {
    /// Decoded length in bytes.
    pub fn len(&self) -> u64 {
        self.pieces.iter().map(|p| p.len).sum()
    }

    /// Whether it restores nothing, which no valid chunk does.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// First byte it restores.
    pub fn offset(&self) -> u64 {
        self.pieces.first().map_or(0, |p| p.offset)
    }

    /// Appends its bytes.
    pub fn write(&self, out: &mut Vec<u8>) {
        let flag = |on: bool, bit: u8| if on { bit } else { 0 };
        out.push(
            flag(self.big_endian, BIG_ENDIAN)
                | flag(self.continues_group, CONTINUES)
                | flag(self.pieces.len() != 1, PIECES)
                | flag(!self.references.is_empty(), REFERENCES)
                | flag(self.copy_of.is_some(), COPY),
        );
        out.push(self.dtype as u8);
        out.push(self.form as u8);
        write_varint(out, self.row_words);
        out.extend_from_slice(&self.digest.to_le_bytes());
        if self.pieces.len() != 1 {
            write_varint(out, self.pieces.len() as u64);
        }
        let mut end = 0;
        for p in &self.pieces {
            write_varint(out, p.offset - end);
            write_varint(out, p.len);
            end = p.offset + p.len;
        }
        if !self.references.is_empty() {
            write_varint(out, self.references.len() as u64);
        }
        for r in &self.references {
            let kind = u8::from(r.origin == Origin::Sibling);
            out.push(kind | flag(r.pieces.len() != 1, MANY_PIECES));
            if r.pieces.len() != 1 {
                write_varint(out, r.pieces.len() as u64);
            }
            for p in &r.pieces {
                write_varint(out, p.offset);
                write_varint(out, p.len);
            }
            if let Origin::Base { digest } = r.origin {
                out.extend_from_slice(&digest.to_le_bytes());
            }
        }
        if let Some(source) = self.copy_of {
            write_varint(out, source);
        }
    }

    /// Reads what [`ChunkMeta::write`] wrote; `None` for anything else, such as another way to say
    /// the same.
    pub fn read(bytes: &[u8]) -> Option<ChunkMeta> {
        let meta = Self::parse(bytes)?;
        let mut again = Vec::with_capacity(bytes.len());
        meta.write(&mut again);
        (again == bytes).then_some(meta)
    }

    fn parse(mut b: &[u8]) -> Option<ChunkMeta> {
        let b = &mut b;
        let ([flags, dtype, form], rest) = b.split_first_chunk()?;
        let (flags, dtype, form) = (*flags, Dtype::from_code(*dtype)?, Form::from_code(*form)?);
        *b = rest;
        if flags & !(BIG_ENDIAN | CONTINUES | PIECES | REFERENCES | COPY) != 0 {
            return None;
        }
        let row_words = read_varint(b)?;
        let digest = read_u64(b)?;
        let n = if flags & PIECES != 0 { read_varint(b)? } else { 1 };
        let mut pieces = Vec::new();
        let (mut end, mut total) = (0u64, 0u64);
        for _ in 0..n {
            let offset = end.checked_add(read_varint(b)?)?;
            let len = read_varint(b)?;
            end = offset.checked_add(len)?;
            total = total.checked_add(len)?;
            // Pieces that touch are one piece.
            if len == 0 || (offset == pieces.last().map_or(u64::MAX, Piece::end)) {
                return None;
            }
            pieces.push(Piece { offset, len });
        }
        let n = if flags & REFERENCES != 0 { read_varint(b)? } else { 0 };
        let mut references = Vec::new();
        for _ in 0..n {
            references.push(read_reference(b)?);
        }
        let copy_of = if flags & COPY != 0 { Some(read_varint(b)?) } else { None };
        let meta = ChunkMeta {
            pieces,
            dtype,
            big_endian: flags & BIG_ENDIAN != 0,
            continues_group: flags & CONTINUES != 0,
            row_words,
            digest,
            form,
            references,
            copy_of,
        };
        let whole_words = total % dtype.word_len() as u64 == 0;
        let has_order = dtype.word_len() > 1 || !meta.big_endian;
        (b.is_empty() && whole_words && has_order && !meta.pieces.is_empty()).then_some(meta)
    }
}

fn read_reference(b: &mut &[u8]) -> Option<Reference> {
    let (&kind, rest) = b.split_first()?;
    *b = rest;
    let n = if kind & MANY_PIECES != 0 { read_varint(b)? } else { 1 };
    let mut pieces = Vec::new();
    let mut total = 0u64;
    for _ in 0..n {
        let piece = Piece { offset: read_varint(b)?, len: read_varint(b)? };
        piece.offset.checked_add(piece.len)?;
        total = total.checked_add(piece.len)?;
        if piece.len == 0 || piece.offset == pieces.last().map_or(u64::MAX, Piece::end) {
            return None;
        }
        pieces.push(piece);
    }
    let origin = match kind & !MANY_PIECES {
        0 => Origin::Base { digest: read_u64(b)? },
        1 => Origin::Sibling,
        _ => return None,
    };
    (!pieces.is_empty()).then_some(Reference { origin, pieces })
}

fn read_u64(b: &mut &[u8]) -> Option<u64> {
    let (bytes, rest) = b.split_first_chunk()?;
    *b = rest;
    Some(u64::from_le_bytes(*bytes))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Metadata of a stored chunk of bytes that restores these pieces: offset, length.
    pub fn plain(pieces: &[(u64, u64)]) -> ChunkMeta {
        ChunkMeta {
            pieces: pieces.iter().map(|&(offset, len)| Piece { offset, len }).collect(),
            dtype: Dtype::BYTES,
            big_endian: false,
            continues_group: false,
            row_words: 0,
            digest: 1,
            form: Form::Stored,
            references: Vec::new(),
            copy_of: None,
        }
    }

    #[test]
    fn only_the_shortest_way_to_say_something_is_read() {
        let bytes = |meta: &ChunkMeta| {
            let mut bytes = Vec::new();
            meta.write(&mut bytes);
            bytes
        };
        let one = bytes(&plain(&[(5, 7)]));
        assert!(ChunkMeta::read(&one).is_some());
        // Counted, though there is one.
        let mut counted = one.clone();
        counted[0] |= PIECES;
        counted.insert(12, 1);
        assert_eq!(ChunkMeta::read(&counted), None);
        let mut none = one.clone();
        none[0] |= REFERENCES;
        none.push(0);
        assert_eq!(ChunkMeta::read(&none), None);
        let base = |pieces: &[(u64, u64)]| {
            let pieces = plain(pieces).pieces;
            let references = vec![Reference { origin: Origin::Base { digest: 3 }, pieces }];
            bytes(&ChunkMeta { references, ..plain(&[(5, 7)]) })
        };
        assert!(ChunkMeta::read(&base(&[(9, 3)])).is_some());
        assert!(ChunkMeta::read(&base(&[(9, 3), (0, 9)])).is_some());
        assert_eq!(ChunkMeta::read(&base(&[(0, 9), (9, 3)])), None);
        let mut counted = base(&[(9, 3)]);
        let at = one.len() + 1;
        counted[at] |= MANY_PIECES;
        counted.insert(at + 1, 1);
        assert_eq!(ChunkMeta::read(&counted), None);
        assert!(ChunkMeta::read(&bytes(&plain(&[(0, 4), (5, 4)]))).is_some());
        for touching in [&[(0, 4), (4, 4)][..], &[(0, 0)], &[]] {
            assert_eq!(ChunkMeta::read(&bytes(&plain(touching))), None);
        }
        let mut turned = one.clone();
        turned[0] |= BIG_ENDIAN;
        assert_eq!(ChunkMeta::read(&turned), None, "bytes have no order");
        turned[1] = Dtype::BF16 as u8;
        assert_eq!(ChunkMeta::read(&turned), None, "seven bytes are no whole words");
        turned[1] = Dtype::F64 as u8;
        turned[13] = 8;
        assert!(ChunkMeta::read(&turned).is_some());
        let mut reserved = one;
        reserved[0] |= 0x20;
        assert_eq!(ChunkMeta::read(&reserved), None);
    }

    #[test]
    fn write_and_read_are_inverses_and_every_cut_is_refused() {
        let meta = ChunkMeta {
            pieces: vec![Piece { offset: 3, len: 4 }, Piece { offset: 900, len: 4 }],
            dtype: Dtype::BF16,
            big_endian: true,
            continues_group: true,
            row_words: 384,
            digest: 0x1234_5678_9abc_def0,
            form: Form::Zstd,
            references: vec![
                Reference {
                    origin: Origin::Base { digest: 7 },
                    pieces: vec![Piece { offset: 1, len: 2 }],
                },
                Reference {
                    origin: Origin::Sibling,
                    pieces: vec![Piece { offset: 9, len: 2 }, Piece { offset: 0, len: 1 }],
                },
            ],
            copy_of: Some(300),
        };
        let mut bytes = Vec::new();
        meta.write(&mut bytes);
        assert_eq!(ChunkMeta::read(&bytes), Some(meta));
        for n in 0..bytes.len() {
            assert_eq!(ChunkMeta::read(&bytes[..n]), None);
        }
    }
}
