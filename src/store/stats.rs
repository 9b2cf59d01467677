//! What a store takes, by step and by stream.
//!
//! A stream is a file of the checkpoint without its ending, the shards of one model together:
//! `model`, `master`, `exp_avg`.

mod plot;

use super::{StepRecord, Store};
use crate::Result;
use std::collections::HashMap;

/// Streams that are told apart; smaller ones are counted together.
const MOST_STREAMS: usize = 7;

/// Sizes of a store.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Names of the streams, the largest in the archives first; `other` stands last.
    pub streams: Vec<String>,
    /// Every step, in ascending order.
    pub steps: Vec<StepStats>,
    /// Bytes of all checkpoints.
    pub input_bytes: u64,
    /// Bytes of all archives.
    pub archive_bytes: u64,
    /// Records that cannot be read, and are not counted.
    pub unreadable: usize,
}

/// Sizes of a step.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct StepStats {
    /// The step.
    pub step: u64,
    /// The step that it is a delta to; `None` where it is stored in full.
    pub base: Option<u64>,
    /// Archives between it and the one stored in full that it rests on.
    pub chain: usize,
    /// Bytes of the checkpoint.
    pub input_bytes: u64,
    /// Bytes of the archive.
    pub archive_bytes: u64,
    /// Bytes of each stream in the checkpoint, in the order of [`Stats::streams`].
    pub stream_bytes: Vec<u64>,
    /// Bytes of each stream in the archive. What is missing to the length of the archive are its
    /// header and index.
    pub stored_bytes: Vec<u64>,
}

impl StepStats {
    /// Archive bytes divided by input bytes; 1 for an empty checkpoint.
    pub fn ratio(&self) -> f64 {
        ratio(self.archive_bytes, self.input_bytes)
    }

    /// Stored bytes of a stream divided by its bytes; `None` where the step has none.
    pub fn stream_ratio(&self, stream: usize) -> Option<f64> {
        let bytes = *self.stream_bytes.get(stream)?;
        (bytes > 0).then(|| ratio(self.stored_bytes[stream], bytes))
    }

    /// `"full"` or `"delta"`.
    pub fn kind(&self) -> &'static str {
        if self.base.is_some() { "delta" } else { "full" }
    }
}

impl Stats {
    /// Archive bytes divided by input bytes, of all steps.
    pub fn ratio(&self) -> f64 {
        ratio(self.archive_bytes, self.input_bytes)
    }

    /// What a step costs that is stored as a delta: the archive's bytes on average, and divided by
    /// the checkpoint's. `None` where there is none.
    pub fn delta_cost(&self) -> Option<(u64, f64)> {
        self.cost(|s| s.base.is_some())
    }

    /// The same of steps stored in full.
    pub fn full_cost(&self) -> Option<(u64, f64)> {
        self.cost(|s| s.base.is_none())
    }

    fn cost(&self, of: impl Fn(&&StepStats) -> bool) -> Option<(u64, f64)> {
        let steps: Vec<&StepStats> = self.steps.iter().filter(of).collect();
        let stored: u64 = steps.iter().map(|s| s.archive_bytes).sum();
        let bytes: u64 = steps.iter().map(|s| s.input_bytes).sum();
        (!steps.is_empty()).then(|| (stored / steps.len() as u64, ratio(stored, bytes)))
    }

    /// A page with a plot of size by step and stream and the figures as a table. It refers to
    /// nothing outside itself, and follows the reader's choice of light or dark.
    pub fn to_html(&self, title: &str) -> String {
        plot::page(self, title)
    }

    fn new(records: &[StepRecord], unreadable: usize) -> Stats {
        let mut totals: HashMap<&str, u64> = HashMap::new();
        for file in records.iter().flat_map(|r| &r.files) {
            *totals.entry(stream_of(&file.path)).or_default() += file.stored_bytes;
        }
        let mut order: Vec<_> = totals.into_iter().collect();
        order.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        let mut streams: Vec<String> = order.iter().map(|s| s.0.to_owned()).collect();
        let all = order.iter().map(|s| s.1).sum::<u64>();
        let large = order.iter().take(MOST_STREAMS).take_while(|s| s.1 >= all / 500).count();
        if streams.len() > large + 1 {
            streams.truncate(large);
            streams.push("other".into());
        }
        let mut stats = Stats { unreadable, ..Stats::default() };
        for r in records {
            let mut step = StepStats {
                step: r.step,
                base: r.base(),
                chain: r.chain.len(),
                input_bytes: r.input_bytes,
                archive_bytes: r.archive_bytes,
                stream_bytes: vec![0; streams.len()],
                stored_bytes: vec![0; streams.len()],
            };
            for file in &r.files {
                let name = stream_of(&file.path);
                let i = streams.iter().position(|s| s == name).unwrap_or(streams.len() - 1);
                step.stream_bytes[i] += file.bytes;
                step.stored_bytes[i] += file.stored_bytes;
            }
            stats.input_bytes += r.input_bytes;
            stats.archive_bytes += r.archive_bytes;
            stats.steps.push(step);
        }
        stats.streams = streams;
        stats
    }
}

impl Store {
    /// What the store takes, from its records alone.
    ///
    /// # Errors
    /// `Io` where the directory cannot be read.
    pub fn stats(&self) -> Result<Stats> {
        let listing = self.list()?;
        Ok(Stats::new(&listing.steps, listing.unreadable.len()))
    }
}

fn ratio(stored: u64, bytes: u64) -> f64 {
    if bytes == 0 { 1.0 } else { stored as f64 / bytes as f64 }
}

/// `dir/model-00001-of-00004.safetensors` → `dir/model`.
fn stream_of(path: &str) -> &str {
    let name_at = path.rfind('/').map_or(0, |i| i + 1);
    let stem = match path[name_at..].rfind('.') {
        Some(dot) if dot > 0 => &path[..name_at + dot],
        _ => path,
    };
    let is_number = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let shard = stem.rsplit_once("-of-").filter(|(_, n)| is_number(n));
    match shard.and_then(|(front, _)| front.rsplit_once('-')).filter(|(_, i)| is_number(i)) {
        Some((front, _)) if front.len() > name_at => front,
        _ => stem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_one_stream_and_endings_do_not_count() {
        for (path, stream) in [
            ("model-00001-of-00004.safetensors", "model"),
            ("a/exp_avg.safetensors", "a/exp_avg"),
            ("checkpoint.pt", "checkpoint"),
            ("meta", "meta"),
            ("a.b/meta", "a.b/meta"),
            (".hidden", ".hidden"),
            ("x-1-of-y.bin", "x-1-of-y"),
        ] {
            assert_eq!(stream_of(path), stream);
        }
    }
}
