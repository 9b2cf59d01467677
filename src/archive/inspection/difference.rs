//! What tells two checkpoints apart: which tensors, in how many words and in which bits, and what
//! the second would take as a delta to the first.
//!
//! Tensors are paired by file and name, or by name alone where that is unique in both. Bytes that
//! are no tensor are paired stretch by stretch in files of the same path; two checkpoints of one
//! file each are paired whatever their files are called.

use super::{SpanInfo, cost::Costs, spans_of};
use crate::{
    Error, Result,
    archive::{
        access::Base,
        checkpoint::{Checkpoint, CheckpointFile},
        options::Options,
        read::gather,
    },
    container::EntryKind,
    dtype::Dtype,
    format::Tensor,
    pipeline,
    source::Source,
};
use std::{collections::HashMap, path::Path};

/// Bytes compared at a time.
const STEP: u64 = 1 << 20;

/// How two checkpoints differ.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Difference {
    /// What both have and what differs, in the order of the second checkpoint.
    pub changed: Vec<Changed>,
    /// Tensors and stretches that both have and that are the same.
    pub same: u64,
    /// `FILE:TENSOR` that only the first has, or the file.
    pub only_first: Vec<String>,
    /// `FILE:TENSOR` that only the second has, or the file.
    pub only_second: Vec<String>,
    /// Bytes of the first checkpoint.
    pub first_bytes: u64,
    /// Bytes of the second checkpoint.
    pub second_bytes: u64,
    /// What an archive of the second alone is estimated to take.
    pub full_bytes: u64,
    /// What a delta to the first is estimated to take.
    pub delta_bytes: u64,
    /// What was odd about the files, a sentence each.
    pub notes: Vec<String>,
}

impl Difference {
    /// Whether nothing differs.
    pub fn is_none(&self) -> bool {
        self.changed.is_empty() && self.only_first.is_empty() && self.only_second.is_empty()
    }

    /// Adds what differs; the stretches of a file that are no tensor are one.
    fn add(&mut self, changed: Changed) {
        let joins = |c: &&mut Changed| {
            c.name.is_none() && c.file == changed.file && c.dtype == changed.dtype
        };
        let is_stretch = changed.name.is_none() && changed.incomparable.is_none();
        match self.changed.iter_mut().find(joins).filter(|c| is_stretch && c.incomparable.is_none())
        {
            Some(before) => {
                before.words += changed.words;
                before.shape = vec![before.words];
                before.changed += changed.changed;
                before.bits.iter_mut().zip(&changed.bits).for_each(|(n, more)| *n += more);
            }
            None => self.changed.push(changed),
        }
    }
}

/// A tensor, or a stretch that is none, in which two checkpoints differ.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Changed {
    /// The file in the second checkpoint.
    pub file: String,
    /// The tensor; `None` for bytes that are no tensor.
    pub name: Option<String>,
    /// What its words are, in the second checkpoint.
    pub dtype: Dtype,
    /// Its dimensions in the second checkpoint.
    pub shape: Vec<u64>,
    /// Its words.
    pub words: u64,
    /// Words that differ.
    pub changed: u64,
    /// In how many words each bit differs, the lowest bit first; empty where words are no numbers.
    pub bits: Vec<u64>,
    /// Why its words were not compared: another type, shape or length.
    pub incomparable: Option<String>,
}

/// Compares two checkpoints. Each is opened with the options, which hold for both.
///
/// # Errors
/// What reading reports.
pub fn difference(
    (first_path, first): (&Path, Checkpoint),
    (second_path, second): (&Path, Checkpoint),
    options: &Options,
) -> Result<Difference> {
    let parts = [Parts::of(&first, first_path)?, Parts::of(&second, second_path)?];
    let mut found = Difference::default();
    let (pairs, only_first, only_second) = pair(&parts);
    (found.only_first, found.only_second) = (only_first, only_second);
    let mut made = vec![None; pairs.len()];
    pipeline::run_ordered(
        options.workers(pairs.len()),
        &options.cancel,
        || (0, None),
        pipeline::numbered(pairs.len(), |state: &mut (usize, _), job| state.0 = job),
        |(job, result)| {
            let (a, b) = pairs[*job];
            let sides = [(&first, &parts[0].all[a]), (&second, &parts[1].all[b])];
            *result = compare(sides, options)?;
            Ok(())
        },
        |(job, result)| {
            made[*job] = result.take();
            Ok(())
        },
    )?;
    found.same = made.iter().filter(|m| m.is_none()).count() as u64;
    for changed in made.into_iter().flatten() {
        found.add(changed);
    }
    let base = match first {
        Checkpoint::Archive(archive) => Base::of_archive(first_path, archive),
        Checkpoint::Raw(input) => Base::of_files(first_path, input),
    };
    let second = second.into_input();
    let len = |parts: &Parts| parts.all.iter().map(|p| p.span.bytes).sum();
    (found.first_bytes, found.second_bytes) = (len(&parts[0]), second.len());
    let plain = options.clone().with_base(None).with_progress(None);
    let stored = |costs: &Costs| costs.of(0, second.len()).0.round() as u64;
    let full = Costs::estimate(&second, &plain)?;
    found.full_bytes = stored(&full);
    found.delta_bytes = stored(&Costs::estimate(&second, &plain.clone().with_base(Some(base)))?);
    found.notes = full.notes;
    Ok(found)
}

/// One tensor or stretch.
struct Part {
    entry: usize,
    file: String,
    span: SpanInfo,
    /// Its number among the stretches of its file that are no tensor.
    number: usize,
    tensor: Option<Tensor>,
}

impl Part {
    fn shown(&self) -> String {
        match &self.span.name {
            Some(name) => format!("{}:{name}", self.file),
            None => format!("{} (no tensor)", self.file),
        }
    }
}

/// The tensors and stretches of one checkpoint.
struct Parts {
    all: Vec<Part>,
    /// Whether it is one file.
    is_file: bool,
}

impl Parts {
    fn of(checkpoint: &Checkpoint, path: &Path) -> Result<Parts> {
        let mut all = Vec::new();
        for (entry, e) in checkpoint.manifest().entries.iter().enumerate() {
            if e.kind == EntryKind::Directory {
                continue;
            }
            let parsed = checkpoint.parse(entry).map_err(|e| match e {
                Error::Io { .. } | Error::BaseMismatch(_) => e,
                e => e.at(path.display()),
            })?;
            let tensors: HashMap<String, Tensor> =
                parsed.tensors.iter().map(|t| (t.name.clone(), t.clone())).collect();
            let mut number = 0;
            for span in spans_of(entry, parsed) {
                let tensor = span.name.as_ref().and_then(|name| tensors.get(name).cloned());
                let part = Part { entry, file: e.path.to_string(), span, number, tensor };
                number += usize::from(part.span.name.is_none());
                all.push(part);
            }
        }
        Ok(Parts { all, is_file: !checkpoint.manifest().is_directory })
    }
}

type Paired = (Vec<(usize, usize)>, Vec<String>, Vec<String>);

/// Pairs what is the same tensor or stretch, and lists what only one has.
fn pair([first, second]: &[Parts; 2]) -> Paired {
    let one = first.is_file && second.is_file;
    // The file does not count where each has but one.
    let key = |p: &Part| {
        let file = if one { String::new() } else { p.file.clone() };
        (file, p.span.name.clone(), if p.span.name.is_some() { 0 } else { p.number })
    };
    let mut by_key = HashMap::new();
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, p) in first.all.iter().enumerate() {
        by_key.entry(key(p)).or_insert(i);
        if let Some(name) = &p.span.name {
            by_name.entry(name).or_default().push(i);
        }
    }
    let mut count: HashMap<&str, usize> = HashMap::new();
    for name in second.all.iter().filter_map(|p| p.span.name.as_deref()) {
        *count.entry(name).or_default() += 1;
    }
    let mut taken = vec![false; first.all.len()];
    let (mut pairs, mut only_second) = (Vec::new(), Vec::new());
    for (i, p) in second.all.iter().enumerate() {
        let alone = p.span.name.as_deref().filter(|name| count[name] == 1);
        let unique = || match by_name.get(alone?).map(|all| &all[..]) {
            Some([only]) => Some(*only),
            _ => None,
        };
        match by_key.get(&key(p)).copied().or_else(unique).filter(|a| !taken[*a]) {
            Some(a) => {
                taken[a] = true;
                pairs.push((a, i));
            }
            None => only_second.push(p.shown()),
        }
    }
    let left = first.all.iter().zip(taken).filter(|(_, taken)| !taken);
    let mut only_first: Vec<String> = left.map(|(p, _)| p.shown()).collect();
    only_first.dedup();
    only_second.dedup();
    (pairs, only_first, only_second)
}

/// What differs between the two, if anything.
fn compare(
    [(first, a), (second, b)]: [(&Checkpoint, &Part); 2],
    options: &Options,
) -> Result<Option<Changed>> {
    let is_tensor = b.span.name.is_some();
    let dtype = if a.span.dtype == b.span.dtype { b.span.dtype } else { Dtype::BYTES };
    let word = dtype.word_len();
    let mut changed = Changed {
        file: b.file.clone(),
        name: b.span.name.clone(),
        dtype: b.span.dtype,
        shape: b.span.shape.clone(),
        words: b.span.bytes / word as u64,
        changed: 0,
        bits: vec![0; if word <= 8 { 8 * word } else { 0 }],
        incomparable: None,
    };
    let why = if is_tensor && a.span.dtype != b.span.dtype {
        Some(format!("{} instead of {}", b.span.dtype, a.span.dtype))
    } else if is_tensor && a.span.shape != b.span.shape {
        Some(format!("shape {:?} instead of {:?}", b.span.shape, a.span.shape))
    } else if !is_tensor && a.span.bytes != b.span.bytes {
        Some(format!("{} bytes instead of {}", b.span.bytes, a.span.bytes))
    } else {
        None
    };
    if why.is_some() {
        changed.incomparable = why;
        changed.bits.clear();
        return Ok(Some(changed));
    }
    let files = [first.file(a.entry), second.file(b.entry)];
    let mut words = Words { word, changed: &mut changed };
    let is_view = |p: &Part| p.tensor.as_ref().is_some_and(|t| t.strides.is_some());
    if is_view(a) || is_view(b) {
        let [x, y] = [(&files[0], a), (&files[1], b)].map(|(file, part)| contiguous(file, part));
        words.add(&mut x?, &mut y?, [a, b]);
    } else {
        let step = STEP / word as u64 * word as u64;
        let (mut x, mut y) = (Vec::new(), Vec::new());
        let mut at = 0;
        while at < b.span.bytes {
            if options.cancel.is_cancelled() {
                return Err(std::io::Error::from(std::io::ErrorKind::Interrupted).into());
            }
            let n = step.min(b.span.bytes - at) as usize;
            for (file, part, buffer) in [(&files[0], a, &mut x), (&files[1], b, &mut y)] {
                buffer.resize(n, 0);
                file.read_at(part.span.offset + at, buffer)
                    .map_err(|e| Error::from(e).in_file(&part.file))?;
            }
            words.add(&mut x, &mut y, [a, b]);
            at += n as u64;
        }
    }
    Ok((changed.changed > 0).then_some(changed))
}

/// The elements of a view, in order.
fn contiguous(file: &CheckpointFile<'_>, part: &Part) -> Result<Vec<u8>> {
    let bytes = file
        .read_vec(part.span.offset, part.span.bytes)
        .map_err(|e| Error::from(e).in_file(&part.file))?;
    let Some(tensor) = part.tensor.as_ref().filter(|t| t.strides.is_some()) else {
        return Ok(bytes);
    };
    let most = tensor.dtype.tensor_len(&tensor.shape).unwrap_or(u64::MAX);
    if most > file.len() {
        let why = "the view repeats elements to more bytes than its file has";
        return Err(Error::Unsupported(why.into()).in_tensor(&tensor.name).in_file(&part.file));
    }
    let mut out = Vec::new();
    gather(&bytes, tensor, &mut out);
    Ok(out)
}

/// Counts what differs.
struct Words<'c> {
    word: usize,
    changed: &'c mut Changed,
}

impl Words<'_> {
    fn add(&mut self, x: &mut [u8], y: &mut [u8], [a, b]: [&Part; 2]) {
        if a.span.big_endian == b.span.big_endian && x == y {
            return;
        }
        for (bytes, part) in [(&mut *x, a), (&mut *y, b)] {
            if part.span.big_endian {
                bytes.chunks_exact_mut(self.word).for_each(|word| word.reverse());
            }
        }
        for (x, y) in x.chunks_exact(self.word).zip(y.chunks_exact(self.word)) {
            if x == y {
                continue;
            }
            self.changed.changed += 1;
            if self.word <= 8 {
                let number = |bytes: &[u8]| {
                    bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte))
                };
                let mut rest = number(x) ^ number(y);
                while rest != 0 {
                    self.changed.bits[rest.trailing_zeros() as usize] += 1;
                    rest &= rest - 1;
                }
            }
        }
    }
}
