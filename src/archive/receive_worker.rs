//! Decodes single chunks of an archive that is read forward.

use super::{
    base::Attached,
    decode::spec_of,
    digest::leaves,
    known::{Kept, resolve},
    options::Options,
    receive::Record,
    target::Target,
};
use crate::{
    Error, Result,
    codec::{self, Scratch},
    container::{ChunkMeta, Origin, hash64},
};

/// One worker's record and what became of it.
#[derive(Default)]
pub(super) struct Worker {
    pub record: Record,
    pub meta: Option<ChunkMeta>,
    pub chunk: usize,
    pub bytes: Vec<u8>,
    pub known: Vec<Vec<u8>>,
    pub scratch: Scratch,
    pub leaves: Vec<(u64, u64)>,
    pub damage: Option<Error>,
}

/// Whether a chunk cannot be decoded before others of its group.
pub(super) fn refers_to_siblings(meta: &ChunkMeta) -> bool {
    meta.references.iter().any(|r| r.origin == Origin::Sibling)
}

impl Worker {
    /// Decodes a chunk that is not a copy, checks it, and writes it where there is a target. One
    /// that refers to siblings waits until there is something kept.
    pub fn decode(
        &mut self,
        options: &Options,
        ends: &[u64],
        target: Option<&Target<'_>>,
        base: Option<&Attached>,
        kept: Option<&Kept>,
    ) -> Result<()> {
        let Some(meta) = self.meta.as_ref().filter(|m| m.copy_of.is_none()) else {
            return Ok(());
        };
        if refers_to_siblings(meta) && kept.is_none() {
            return Ok(());
        }
        self.bytes.resize(meta.len() as usize, 0);
        let (spec, payload) = (spec_of(meta), &self.record.payload);
        let known = resolve(meta, base, kept, &mut self.known)?;
        let (level, form, scratch) = (options.level, meta.form, &mut self.scratch);
        codec::decode_known(level, &spec, form, payload, &known, scratch, &mut self.bytes)?;
        if hash64(&self.bytes) != meta.digest {
            return Err(Error::Corrupt("the checksum does not match".into()));
        }
        if let Some(target) = target {
            target.put(&meta.pieces, &self.bytes)?;
        }
        self.leaves = leaves(meta, &self.bytes, ends);
        Ok(())
    }
}
