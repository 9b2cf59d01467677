//! What a checkpoint consists of, and what its parts cost.

mod cost;
#[cfg(feature = "cli")]
mod difference;
mod guessed;
mod lineage;
#[cfg(feature = "cli")]
mod stored;

pub use self::lineage::{BaseFile, BaseInfo};
#[cfg(feature = "cli")]
pub use self::{
    difference::{Changed, Difference, difference},
    stored::stored_bytes,
};

use self::cost::Costs;
use super::{
    access::digest::file_ends,
    checkpoint::{Checkpoint, CheckpointFile},
    options::Options,
};

use crate::{
    Error, Result,
    container::{EntryKind, Name},
    dtype::{Dtype, Fields},
    format::{Format, Parsed, Span},
    pipeline,
    source::Source,
};
use std::{borrow::Cow, path::Path};

/// A description of a raw checkpoint or an archive.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Inspection {
    /// Whether it is an archive.
    pub is_archive: bool,
    /// Bytes of all files.
    pub bytes: u64,
    /// Length of the archive, or of the one that compressing is estimated to give.
    pub stored_bytes: u64,
    /// Number of chunks.
    pub chunks: u64,
    /// What it is a delta to, where it is one.
    pub base: Option<BaseInfo>,
    /// Files and directories.
    pub files: Vec<FileInfo>,
    /// Tensors, and the stretches that are none, in order of file and offset.
    pub spans: Vec<SpanInfo>,
    /// What was odd about the files, a sentence each.
    pub notes: Vec<String>,
}

/// A file or directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FileInfo {
    /// Path below the checkpoint's root.
    pub path: Name,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Which format it has.
    pub format: Format,
    /// Its length.
    pub bytes: u64,
    /// What its chunks cost, or are estimated to.
    pub stored_bytes: u64,
    /// Number of tensors.
    pub tensors: u64,
}

/// A tensor, or a stretch of a file that is none.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SpanInfo {
    /// Its file, as an index into [`Inspection::files`].
    pub file: usize,
    /// The tensor's name.
    pub name: Option<String>,
    /// What its bytes are.
    pub dtype: Dtype,
    /// The tensor's dimensions; for other stretches the number of their words.
    pub shape: Vec<u64>,
    /// First byte in the file.
    pub offset: u64,
    /// Number of bytes.
    pub bytes: u64,
    /// How its chunks are coded, the commonest way first; for raw files, how they would be.
    pub method: Cow<'static, str>,
    /// What its bytes cost, or are estimated to.
    pub stored_bytes: u64,
    /// The tensor that it is coded from, as `FILE:TENSOR`, or the file of the base, as
    /// `base:FILE`.
    pub source: Option<String>,
    /// Entropy of the exponent field in bits, of a sample where the span is large. Only for
    /// floats of raw files.
    pub exponent_entropy: Option<f64>,
    /// Where no parser knows the bytes, but they are taken for `dtype`: why.
    pub guess: Option<String>,
    big_endian: bool,
}

/// Describes the file, directory or archive at `path`. Raw files are sampled, not read whole. Of
/// an archive whose headers are damaged, or refer to a base that is not there, the files are
/// listed and a note says why their tensors are not.
///
/// # Errors
/// As for [`Checkpoint::open`], and where reading fails.
pub fn inspect(path: &Path, options: &Options) -> Result<Inspection> {
    inspect_open(&Checkpoint::open(path, options)?, options)
}

/// As [`inspect`], of a checkpoint that is open.
///
/// # Errors
/// Where reading fails.
pub fn inspect_open(checkpoint: &Checkpoint, options: &Options) -> Result<Inspection> {
    let mut found = Inspection::default();
    let costs = match checkpoint {
        Checkpoint::Raw(input) => Costs::estimate(input, options)?,
        Checkpoint::Archive(archive) => {
            found.is_archive = true;
            found.base = BaseInfo::of(archive)?;
            Costs::of_archive(archive)?
        }
    };
    let entries = &checkpoint.manifest().entries;
    let ends = file_ends(entries.iter().map(|e| e.len));
    for (i, entry) in entries.iter().enumerate() {
        let start = ends[i] - entry.len;
        let parsed = match checkpoint.parse_and_guess(i) {
            Err(e) if found.is_archive && !matches!(e, Error::Io { .. }) => {
                found.notes.push(format!("{}: its tensors are not known: {e}", entry.path));
                Parsed::opaque(entry.len)
            }
            parsed => parsed?,
        };
        found.files.push(FileInfo {
            path: entry.path.clone(),
            is_directory: entry.kind == EntryKind::Directory,
            format: parsed.format,
            bytes: entry.len,
            stored_bytes: costs.of(start, ends[i]).0.round() as u64,
            tensors: parsed.tensors.len() as u64,
        });
        let mut spans = spans_of(i, parsed);
        if let Checkpoint::Archive(archive) = checkpoint {
            spans = guessed::from_chunks(archive, start, spans);
        }
        for mut span in spans {
            let (stored, methods) = costs.of(start + span.offset, start + span.offset + span.bytes);
            span.stored_bytes = stored.round() as u64;
            span.method = match methods[..] {
                [only] => only.into(),
                _ => methods.join("+").into(),
            };
            found.spans.push(span);
        }
    }
    name_sources(&mut found, &costs, &ends, &base_files(checkpoint, options));
    found.bytes = ends.last().copied().unwrap_or(0);
    found.chunks = costs.n_chunks();
    found.stored_bytes = match checkpoint {
        Checkpoint::Archive(archive) => archive.stored_len(),
        Checkpoint::Raw(_) => found.files.iter().map(|f| f.stored_bytes).sum(),
    };
    if let Checkpoint::Raw(_) = checkpoint {
        add_entropies(checkpoint, &mut found.spans, options)?;
    }
    found.notes.extend(costs.notes);
    Ok(found)
}

/// Paths and lengths of the base's files, if there is a base.
fn base_files(checkpoint: &Checkpoint, options: &Options) -> Vec<(Name, u64)> {
    match (checkpoint, &options.base) {
        (Checkpoint::Archive(a), _) => a.base_record.as_ref().map(|r| r.files.clone()),
        (Checkpoint::Raw(_), base) => base.as_ref().map(|base| base.record().files),
    }
    .unwrap_or_default()
}

/// Says what spans are coded from.
fn name_sources(found: &mut Inspection, costs: &Costs, ends: &[u64], base: &[(Name, u64)]) {
    let start = |s: &SpanInfo| ends[s.file] - found.files[s.file].bytes + s.offset;
    let base_ends = file_ends(base.iter().map(|(_, len)| *len));
    let name = |(of_base, at): (bool, u64)| {
        if of_base {
            let file = base_ends.partition_point(|end| *end <= at);
            return base.get(file).map(|(path, _)| format!("base:{path}"));
        }
        let after = found.spans.partition_point(|s| start(s) <= at);
        let s = after.checked_sub(1).map(|i| &found.spans[i])?;
        Some(format!("{}:{}", found.files[s.file].path, s.name.as_deref()?))
    };
    let of = |s: &SpanInfo| costs.source_of(start(s), start(s) + s.bytes).and_then(name);
    let sources: Vec<Option<String>> = found.spans.iter().map(of).collect();
    for (span, source) in found.spans.iter_mut().zip(sources) {
        span.source = source;
    }
}

/// The tensors of a file and the spans that no tensor touches, by offset.
fn spans_of(file: usize, parsed: Parsed) -> Vec<SpanInfo> {
    let mut ranges: Vec<(u64, u64)> = parsed
        .tensors
        .iter()
        .map(|t| (t.offset, t.offset + t.extent().unwrap_or(0)))
        .filter(|r| r.0 < r.1)
        .collect();
    ranges.sort_unstable();
    // The furthest end so far, so that one look-up tells whether any range reaches a place.
    let mut furthest = 0;
    for r in &mut ranges {
        furthest = furthest.max(r.1);
        r.1 = furthest;
    }
    let is_touched = |s: &Span| {
        let before = ranges.partition_point(|r| r.0 < s.offset + s.len);
        before > 0 && ranges[before - 1].1 > s.offset
    };
    let why = |s: &Span| {
        let found = parsed.guesses.binary_search_by_key(&s.offset, |g| g.offset);
        found.ok().map(|i| parsed.guesses[i].why())
    };
    let rest = parsed.spans.iter().filter(|s| !is_touched(s)).map(|s| SpanInfo {
        file,
        name: None,
        dtype: s.dtype,
        shape: vec![s.len / s.dtype.word_len() as u64],
        offset: s.offset,
        bytes: s.len,
        method: Cow::Borrowed(""),
        stored_bytes: 0,
        source: None,
        exponent_entropy: None,
        guess: why(s),
        big_endian: s.big_endian,
    });
    let mut spans: Vec<SpanInfo> = rest.collect();
    spans.extend(parsed.tensors.into_iter().map(|t| SpanInfo {
        file,
        bytes: t.extent().unwrap_or(0),
        name: Some(t.name),
        dtype: t.dtype,
        shape: t.shape,
        offset: t.offset,
        method: Cow::Borrowed(""),
        stored_bytes: 0,
        source: None,
        exponent_entropy: None,
        guess: None,
        big_endian: t.big_endian,
    }));
    spans.sort_by_key(|s| (s.offset, s.bytes));
    spans
}

/// Stretches read of a large span, and words in each.
const STRETCHES: u64 = 4;
const STRETCH_WORDS: u64 = 32 << 10;

fn add_entropies(checkpoint: &Checkpoint, spans: &mut [SpanInfo], options: &Options) -> Result<()> {
    let mut entropies = vec![None; spans.len()];
    pipeline::run_ordered(
        options.workers(spans.len()),
        &options.cancel,
        || (0, Vec::new(), None),
        pipeline::numbered(spans.len(), |state: &mut (usize, _, _), job| state.0 = job),
        |(job, buffer, entropy)| {
            let file = checkpoint.file(spans[*job].file);
            *entropy = exponent_entropy(&file, &spans[*job], buffer)?;
            Ok(())
        },
        |(job, _, entropy)| {
            entropies[*job] = *entropy;
            Ok(())
        },
    )?;
    for (span, entropy) in spans.iter_mut().zip(entropies) {
        span.exponent_entropy = entropy;
    }
    Ok(())
}

fn exponent_entropy(
    file: &CheckpointFile<'_>,
    span: &SpanInfo,
    buffer: &mut Vec<u8>,
) -> Result<Option<f64>> {
    let Fields::Float { bits, exponent } = span.dtype.fields() else { return Ok(None) };
    let word = span.dtype.word_len();
    let words = span.bytes / word as u64;
    if words == 0 {
        return Ok(None);
    }
    let mut counts = vec![0u64; 1 << exponent];
    let (stretches, len) = match words <= STRETCHES * STRETCH_WORDS {
        true => (1, words),
        false => (STRETCHES, STRETCH_WORDS),
    };
    for k in 0..stretches {
        let at = (words - len) * k / (stretches - 1).max(1);
        buffer.resize(len as usize * word, 0);
        file.read_at(span.offset + at * word as u64, buffer)?;
        for bytes in buffer.chunks_exact(word) {
            let mut le = [0; 8];
            le[..word].copy_from_slice(bytes);
            if span.big_endian {
                le[..word].reverse();
            }
            let value = u64::from_le_bytes(le) >> (bits - 1 - exponent);
            counts[value as usize & ((1 << exponent) - 1)] += 1;
        }
    }
    let total = (stretches * len) as f64;
    let terms = counts.iter().filter(|&&n| n > 0).map(|&n| {
        let p = n as f64 / total;
        -p * p.log2()
    });
    Ok(Some(terms.sum::<f64>().max(0.0)))
}
