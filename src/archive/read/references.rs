//! What chunks of a forward stream refer to: the base, and earlier chunks of their group.

use crate::{
    Error, Result,
    archive::access::{
        base::Attached,
        decode::{Buffers, LARGEST_KEPT},
    },
    container::{ChunkMeta, Origin, Piece, layout::MAX_GROUP},
    hash,
    simd::Level,
};

/// Chunks of the group at hand.
#[derive(Default)]
pub(in crate::archive) struct Kept {
    chunks: Vec<(Vec<Piece>, Vec<u8>)>,
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
        self.chunks.push((meta.pieces.clone(), taken));
    }

    /// Copies a piece that lies inside a piece of a kept chunk.
    fn read(&self, piece: Piece, out: &mut [u8]) -> Option<()> {
        for (pieces, bytes) in &self.chunks {
            let mut at = 0;
            for p in pieces {
                if p.offset <= piece.offset && piece.offset + piece.len <= p.offset + p.len {
                    let from = at + (piece.offset - p.offset) as usize;
                    out.copy_from_slice(bytes.get(from..)?.get(..out.len())?);
                    return Some(());
                }
                at += p.len as usize;
            }
        }
        None
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
            if hash::digest(level, bytes) != digest {
                return Err(base.other_bytes(&r.pieces));
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
