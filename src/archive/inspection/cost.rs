//! What each byte of a checkpoint costs: measured in an archive, estimated for raw files.
//!
//! A chunk's stored bytes are shared out evenly over the bytes it restores, so that a tensor's
//! cost is the sum over its bytes, however small tensors were gathered. The estimate cuts raw
//! files as compressing would and codes a few chunks of each span.

use crate::{
    Result,
    archive::{
        access::{Archive, Input, digest::file_ends},
        options::Options,
        write::{
            coder::ChunkCoder,
            plan::{ChunkPlan, plan},
        },
    },
    codec,
    container::{Piece, RECORD_HEADER_LEN},
    pipeline,
};
use std::collections::BTreeMap;

/// Chunks coded of every span, beside one in 64.
const SAMPLES: usize = 3;

/// Cost of the bytes of an address space.
pub(in crate::archive) struct Costs {
    /// Pieces in order of offset, with their chunk.
    places: Vec<(Piece, usize)>,
    /// Stored bytes a byte, and how they are coded, of each chunk.
    chunks: Vec<(f64, &'static str)>,
    /// What was odd about the files.
    pub notes: Vec<String>,
}

impl Costs {
    /// Stored bytes of the range `from..to` and how they are coded, the commonest way first.
    pub fn of(&self, from: u64, to: u64) -> (f64, Vec<&'static str>) {
        let mut stored = 0.0;
        let mut methods: BTreeMap<&str, u64> = BTreeMap::new();
        let first = self.places.partition_point(|(p, _)| p.offset + p.len <= from);
        for (piece, chunk) in self.places[first..].iter().take_while(|(p, _)| p.offset < to) {
            let len = to.min(piece.offset + piece.len) - from.max(piece.offset);
            let (rate, method) = self.chunks[*chunk];
            stored += rate * len as f64;
            *methods.entry(method).or_default() += len;
        }
        let mut methods: Vec<_> = methods.into_iter().collect();
        methods.sort_by_key(|&(name, len)| (std::cmp::Reverse(len), name));
        (stored, methods.into_iter().map(|(name, _)| name).collect())
    }

    /// Number of chunks.
    pub fn n_chunks(&self) -> u64 {
        self.chunks.len() as u64
    }

    /// From the index of an archive and the first bytes of every payload.
    pub fn of_archive(archive: &Archive<'_>) -> Result<Costs> {
        let mut chunks = Vec::with_capacity(archive.chunks.len());
        for chunk in &archive.chunks {
            let payload_len = u64::from(chunk.payload_len);
            let payload_at = chunk.offset + chunk.stored_len - payload_len;
            let mut start = [0; 16];
            let start = &mut start[..payload_len.min(16) as usize];
            archive.source.read_at(payload_at, start)?;
            let rate = chunk.stored_len as f64 / chunk.meta.len() as f64;
            chunks.push((rate, codec::describe(chunk.meta.form, start)));
        }
        let places = archive.places.iter().map(|p| (p.piece, p.chunk as usize)).collect();
        Ok(Costs { places, chunks, notes: Vec::new() })
    }

    /// By coding a sample of the chunks that compressing would make.
    pub fn estimate(input: &Input<'_>, options: &Options) -> Result<Costs> {
        let mut plan = plan(input, options)?;
        // In the order of the files, so that the chunks of a span are neighbours.
        plan.chunks.sort_by_key(|c| c.pieces.first().map(|p| p.offset));
        let ends = file_ends(input.manifest.entries.iter().map(|e| e.len));
        let groups = groups(&plan.chunks);
        let mut jobs = Vec::new();
        for group in &groups {
            let n = group.len().min(SAMPLES + group.len() / 64);
            jobs.extend((0..n).map(|k| group.start + k * group.len() / n));
        }
        let mut chunks = vec![(0.0, ""); plan.chunks.len()];
        pipeline::run_ordered(
            options.workers(jobs.len()),
            &options.cancel,
            || (ChunkCoder::default(), 0),
            pipeline::numbered(jobs.len(), |(_, job): &mut (_, usize), i| *job = i),
            |(coder, job)| coder.measure(input, &plan.chunks[jobs[*job]], &ends, options),
            |(coder, job)| {
                let i = jobs[*job];
                let stored = RECORD_HEADER_LEN + coder.coded.meta.len() + coder.coded.payload.len();
                let method = codec::describe(coder.coded.form, &coder.coded.payload);
                chunks[i] = (stored as f64 / plan.chunks[i].len() as f64, method);
                if let Some(progress) = &options.progress {
                    progress(plan.chunks[i].len());
                }
                Ok(())
            },
        )?;
        for group in groups {
            let measured = chunks[group.clone()].iter().filter(|c| !c.1.is_empty());
            let (sum, n) = measured.fold((0.0, 0), |(sum, n), c| (sum + c.0, n + 1));
            let (mean, method) = (sum / f64::from(n.max(1)), chunks[group.start].1);
            for chunk in chunks[group].iter_mut().filter(|c| c.1.is_empty()) {
                *chunk = (mean, method);
            }
        }
        let mut places = Vec::new();
        for (i, chunk) in plan.chunks.iter().enumerate() {
            places.extend(chunk.pieces.iter().map(|&p| (p, i)));
        }
        places.sort();
        Ok(Costs { places, chunks, notes: plan.notes })
    }
}

/// Runs of chunks that were cut from one span, or are copies of such.
fn groups(chunks: &[ChunkPlan]) -> Vec<std::ops::Range<usize>> {
    let mut groups: Vec<std::ops::Range<usize>> = Vec::new();
    for (i, chunk) in chunks.iter().enumerate() {
        let joins = i > 0 && {
            let before = &chunks[i - 1];
            let touch = match (&before.pieces[..], &chunk.pieces[..]) {
                ([a], [b]) => a.offset + a.len == b.offset && b.len <= a.len,
                _ => false,
            };
            touch
                && before.dtype == chunk.dtype
                && before.row_words == chunk.row_words
                && before.copy_of.is_some() == chunk.copy_of.is_some()
        };
        match groups.last_mut() {
            Some(group) if joins => group.end = i + 1,
            _ => groups.push(i..i + 1),
        }
    }
    groups
}
