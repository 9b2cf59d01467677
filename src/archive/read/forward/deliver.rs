//! Results of workers, taken in the order of the archive.

use super::{
    super::{
        damage::{Damage, damage, locate, parse},
        receiver::Receiver,
        restore::is_content,
    },
    Forward, Sink, Worker, refers_to_siblings,
};
use crate::{
    Error, Result,
    archive::{access::digest::stretches, options::Options},
    container::{ChunkMeta, EntryKind, Index, Name, Piece},
    hash,
    simd::Level,
};

impl Forward<'_> {
    /// Takes a worker's result in the order of the archive.
    pub(in crate::archive) fn deliver(&mut self, w: &mut Worker, options: &Options) -> Result<()> {
        let target = match self.sink {
            Sink::Target(target) => Some(target),
            _ => None,
        };
        let deferred = w.meta.as_ref().is_some_and(refers_to_siblings);
        if let Some(meta) = &w.meta {
            self.kept.start(meta)?;
        }
        if deferred && w.damage.is_none() {
            match w.decode(options, self.ends, target, self.base.get(), Some(&self.kept)) {
                Err(e) if is_content(&e) => w.damage = Some(e),
                done => done?,
            }
        }
        let Some(meta) = w.meta.take() else { return Ok(()) };
        if meta.copy_of.is_some() {
            match self.copy(options.level, &meta, w) {
                Err(e) if is_content(&e) => w.damage = Some(e),
                done => done?,
            }
        }
        if let Some(e) = w.damage.take_if(|_| !self.keep_going) {
            return Err(locate(e, w.chunk, &self.damage_of(w.chunk, &meta.pieces, "")));
        }
        let mut spooled = None;
        if let Sink::Writer(out, spool) = &mut self.sink {
            // What a chunk of a group refers to is gone when a copy of it comes.
            spooled = match meta.references.is_empty() {
                true => spool.keep(&w.record.payload, false),
                false => spool.keep(&w.bytes, true),
            };
            if w.damage.is_none() {
                out.put(&meta.pieces, &w.bytes)?;
            }
        }
        match w.damage.take() {
            Some(e) => {
                let reason = e.to_string();
                let found = self.damage_of(w.chunk, &meta.pieces, &reason);
                self.damage.extend(found);
            }
            None => self.digests.add(std::mem::take(&mut w.stretches)),
        }
        if self.damage.last().is_none_or(|d| d.chunk != w.chunk) {
            self.kept.keep(&meta, &mut w.bytes);
        }
        self.by_offset.entry(meta.offset()).or_insert(self.metas.len());
        self.metas.push((meta, spooled));
        Ok(())
    }

    /// Repeats the chunk that `meta` is a copy of.
    fn copy(&mut self, level: Level, meta: &ChunkMeta, w: &mut Worker) -> Result<()> {
        let source = meta.copy_of.and_then(|s| self.by_offset.get(&s));
        let source = source.map(|&i| &self.metas[i]).filter(|(s, ..)| {
            s.copy_of.is_none() && s.len() == meta.len() && s.digest == meta.digest
        });
        let Some((source, spooled)) = source else {
            return Err(Error::Corrupt("a copy has no source".into()));
        };
        w.bytes.resize(meta.len() as usize, 0);
        match &self.sink {
            // Equal digests and a source that was checked are proof enough.
            Sink::Nothing => {
                let end_of = |p: Piece| {
                    self.ends.get(self.ends.partition_point(|&end| end <= p.offset)).copied()
                };
                return match meta.pieces[..] {
                    [p] if end_of(p).is_some_and(|end| p.end() <= end) => {
                        w.stretches = vec![(p.offset, meta.digest)];
                        Ok(())
                    }
                    _ => Err(Error::Corrupt("a copy in several pieces".into())),
                };
            }
            Sink::Target(target) => target.get(&source.pieces, &mut w.bytes)?,
            Sink::Writer(_, spool) => {
                spool.restore(*spooled, source, level, &mut w.scratch, &mut w.bytes)?;
            }
        }
        if hash::digest(level, &w.bytes) != meta.digest {
            return Err(Error::Corrupt("the checksum does not match".into()));
        }
        if let Sink::Target(target) = &self.sink {
            target.put(&meta.pieces, &w.bytes)?;
        }
        w.stretches = stretches(level, meta, &w.bytes, self.ends);
        Ok(())
    }

    /// Reads index, trailer and end, and compares them with what came before. Returns the
    /// lengths of the entries.
    pub(in crate::archive) fn finish(&mut self, receiver: Receiver<'_>) -> Result<Vec<u64>> {
        let entries = &self.manifest.entries;
        let (Index { lens, digests, .. }, layout) = receiver.finish(entries.len())?;
        let fits =
            entries.iter().zip(&lens).all(|(e, &l)| e.kind == EntryKind::Stream || e.len == l);
        if !fits {
            return Err(Error::Corrupt("index and manifest contradict each other".into()));
        }
        layout.finish(lens.iter().sum())?;
        if !self.damage.is_empty() {
            return Ok(lens);
        }
        let mut start = 0;
        for ((entry, len), digest) in entries.iter().zip(&lens).zip(&digests) {
            if self.digests.file(start, start + len) != *digest {
                let e = Error::Corrupt("the digest of the file does not match".into());
                return Err(e.in_file(&entry.path));
            }
            start += len;
        }
        Ok(lens)
    }

    /// Lists what no chunk restored as damage.
    pub(in crate::archive) fn add_holes(&mut self, e: &Error) {
        let mut pieces: Vec<Piece> =
            self.metas.iter().flat_map(|m| m.0.pieces.iter().copied()).collect();
        pieces.sort();
        let mut holes = Vec::new();
        let mut at = 0;
        for p in &pieces {
            if p.offset > at {
                holes.push(Piece { offset: at, len: p.offset - at });
            }
            at = at.max(p.offset + p.len);
        }
        let end = self.ends.last().copied().unwrap_or(0);
        let is_stream = end == u64::MAX;
        if at < end && !is_stream {
            holes.push(Piece { offset: at, len: end - at });
        }
        let reason = e.to_string();
        let chunk = self.metas.len();
        let found = self.damage_of(chunk, &holes, &reason);
        if found.is_empty() {
            let file = self.manifest.entries.first().map_or(Name::default(), |e| e.path.clone());
            let tensors = Vec::new();
            self.damage.push(Damage { chunk, file, offset: at, len: 0, tensors, reason });
        }
        self.damage.extend(found);
    }

    fn damage_of(&self, chunk: usize, pieces: &[Piece], reason: &str) -> Vec<Damage> {
        damage(chunk, pieces, self.manifest, self.ends, reason, |entry| match &self.sink {
            Sink::Target(target) => parse(self.manifest, entry, &target.file(entry).ok()?),
            _ => None,
        })
    }
}
