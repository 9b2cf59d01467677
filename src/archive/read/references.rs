//! What chunks of a forward stream refer to: the base, and earlier chunks of their group.

use crate::{
    Error, Result,
    archive::access::{base::Attached, decode::Buffers, memory::LARGEST_KEPT},
    container::{ChunkMeta, Origin, Piece, layout::MAX_GROUP},
    hash,
    simd::Level,
};

/// Pieces in ascending order, and the place of each in the bytes of their chunk.
type Places = Vec<(Piece, usize)>;

/// Chunks of the group at hand.
#[derive(Default)]
pub(in crate::archive) struct Kept {
    chunks: Vec<(Places, Vec<u8>)>,
    spare: Vec<Vec<u8>>,
    seen: usize,
}

impl Kept {
    /// Notes the next chunk: the first of a group lets go of those before.
    pub fn start(&mut self, meta: &ChunkMeta) -> Result<()> {
        if !meta.continues_group {
            let freed = self.chunks.drain(..).map(|(_, bytes)| bytes);
            self.spare.extend(freed.filter(|b| b.capacity() <= LARGEST_KEPT));
            self.spare.truncate(MAX_GROUP);
            self.seen = 0;
        }
        self.seen += 1;
        if self.seen > MAX_GROUP {
            return Err(Error::Corrupt("a group of chunks is too long".into()));
        }
        Ok(())
    }

    /// Takes a chunk's bytes; other memory takes their place.
    pub fn keep(&mut self, meta: &ChunkMeta, bytes: &mut Vec<u8>) {
        let taken = std::mem::replace(bytes, self.spare.pop().unwrap_or_default());
        let mut at = 0;
        let place = |piece: &Piece| {
            let place = (*piece, at);
            at += piece.len as usize;
            place
        };
        self.chunks.push((meta.pieces.iter().map(place).collect(), taken));
    }

    /// Copies a piece that lies inside a piece of a kept chunk. There may be as many of both as an
    /// archive has bytes, so they are not looked at one by one.
    fn read(&self, piece: Piece, out: &mut [u8]) -> Option<()> {
        let bytes = self.chunks.iter().find_map(|(places, bytes)| {
            let after = places.partition_point(|(p, _)| p.offset <= piece.offset);
            let (p, at) = places.get(after.checked_sub(1)?)?;
            let from = at + (piece.offset - p.offset) as usize;
            bytes.get(from..)?.get(..out.len()).filter(|_| piece.end() <= p.end())
        });
        out.copy_from_slice(bytes?);
        Some(())
    }
}

/// Reads what the references of a chunk name into `buffers`, and lends it.
pub(in crate::archive) fn resolve<'b>(
    level: Level,
    meta: &ChunkMeta,
    base: Option<&Attached>,
    kept: Option<&Kept>,
    buffers: &'b mut Vec<Vec<u8>>,
) -> Result<Vec<&'b [u8]>> {
    buffers.resize_with(meta.references.len().max(buffers.len()), Vec::new);
    for (r, bytes) in meta.references.iter().zip(buffers.iter_mut()) {
        bytes.resize(r.len() as usize, 0);
        if let Origin::Base { digest } = r.origin {
            let base = base.ok_or_else(|| {
                Error::BaseMismatch(
                    "this is a delta and needs its base: pass it with --base".into(),
                )
            })?;
            base.read(&r.pieces, &Buffers::default(), bytes)?;
            let found = hash::digest(level, bytes);
            if found != digest {
                return Err(base.other_bytes(&r.pieces, digest, found));
            }
            continue;
        }
        let mut rest = &mut bytes[..];
        for piece in &r.pieces {
            let (head, tail) = rest.split_at_mut(piece.len as usize);
            let found = kept.and_then(|kept| kept.read(*piece, head));
            found.ok_or_else(|| {
                Error::Corrupt("it refers to a chunk that is damaged or not there".into())
            })?;
            rest = tail;
        }
    }
    Ok(buffers[..meta.references.len()].iter().map(|b| &b[..]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::Dtype;

    fn meta(pieces: &[(u64, u64)]) -> ChunkMeta {
        ChunkMeta {
            pieces: pieces.iter().map(|&(offset, len)| Piece { offset, len }).collect(),
            dtype: Dtype::BYTES,
            big_endian: false,
            continues_group: true,
            row_words: 0,
            digest: 0,
            form: crate::codec::Form::Stored,
            references: Vec::new(),
            copy_of: None,
        }
    }

    #[test]
    fn every_piece_of_a_kept_chunk_is_found_and_nothing_beside_it() {
        let mut kept = Kept::default();
        // 5 bytes of every 7, and in another chunk the byte after them; the seventh is nowhere.
        let byte = |at: u64| (at * 31 % 251) as u8;
        for (skip, len) in [(0, 5), (5, 1)] {
            let pieces: Vec<(u64, u64)> = (0..1000).map(|i| (7 * i + skip, len)).collect();
            let all = pieces.iter().flat_map(|&(offset, len)| offset..offset + len);
            kept.keep(&meta(&pieces), &mut all.map(byte).collect());
        }
        for offset in 0..7000 {
            for len in 1..8 {
                let piece = Piece { offset, len };
                let mut out = vec![0; len as usize];
                let (at, end) = (offset % 7, offset % 7 + len);
                let inside = if at < 5 { end <= 5 } else { at == 5 && end == 6 };
                assert_eq!(kept.read(piece, &mut out).is_some(), inside, "{piece:?}");
                assert!(!inside || out.iter().zip(offset..).all(|(b, at)| *b == byte(at)));
            }
        }
        let beyond = Piece { offset: u64::MAX - 1, len: 1 };
        assert!(kept.read(beyond, &mut [0]).is_none());
    }
}
