//! What is measured: the bytes of files by element type, and series of checkpoints.

use std::path::{Path, PathBuf};

use crate::{
    dtype::Dtype,
    error::{Error, Result},
    format,
    source::FileSource,
    study::codec::Delta,
};

/// Bytes of one element type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Type of the elements.
    pub dtype: Dtype,
    /// Whole words of it.
    pub bytes: Vec<u8>,
}

/// Something to measure methods on. The spans of a file are gathered by element type, in the
/// order of their first appearance; what is no tensor is a part of type `BYTES`, so that every
/// byte of the file is counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// Shown in tables.
    pub name: String,
    /// What it consists of.
    pub parts: Vec<Part>,
    /// The file as it is, one part of type `BYTES`, for codecs that find the tensors themselves.
    pub file: Option<Part>,
}

impl Input {
    /// An array of one type.
    pub fn flat(name: impl Into<String>, dtype: Dtype, bytes: Vec<u8>) -> Input {
        Input { name: name.into(), parts: vec![Part { dtype, bytes }], file: None }
    }

    /// Reads the file at `path`; with `dtype` as a headerless array of that type.
    pub fn read(path: &Path, dtype: Option<Dtype>) -> Result<Input> {
        let failed = |e| Error::io("read", path, e);
        let source = FileSource::new(std::fs::File::open(path).map_err(failed)?).map_err(failed)?;
        let parsed = match dtype {
            Some(dtype) => format::parse_flat(crate::source::Source::len(&source), dtype),
            None => format::parse_and_guess(&source).map_err(|e| e.at(path.display()))?,
        };
        let mut parts: Vec<Part> = Vec::new();
        for span in &parsed.spans {
            let bytes =
                crate::source::Source::read_vec(&source, span.offset, span.len).map_err(failed)?;
            // Words stored the other way round have their fields elsewhere.
            let dtype = if span.big_endian { Dtype::BYTES } else { span.dtype };
            match parts.iter_mut().find(|p| p.dtype == dtype) {
                Some(part) => part.bytes.extend_from_slice(&bytes),
                None => parts.push(Part { dtype, bytes }),
            }
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let len = crate::source::Source::len(&source);
        let whole = || crate::source::Source::read_vec(&source, 0, len).map_err(failed);
        // What is of one type throughout is no more as a file than as a part.
        let file = match (dtype, parts.len()) {
            (None, 2..) => Some(Part { dtype: Dtype::BYTES, bytes: whole()? }),
            _ => None,
        };
        Ok(Input { name, parts, file })
    }

    /// Bytes in all.
    pub fn len(&self) -> u64 {
        self.parts.iter().map(|p| p.bytes.len() as u64).sum()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The type that most bytes are of.
    pub fn dtype(&self) -> Dtype {
        let largest = self.parts.iter().max_by_key(|p| p.bytes.len());
        largest.map_or(Dtype::BYTES, |p| p.dtype)
    }

    /// Elements as the user counts them; bytes that are no tensor are not counted, unless there
    /// is nothing else.
    pub fn elements(&self) -> u64 {
        let of = |p: &Part| {
            let bits = 8 * p.bytes.len() as u64;
            bits / p.dtype.element_bits().max(1) * p.dtype.group_elements()
        };
        let known: u64 = self.parts.iter().filter(|p| p.dtype != Dtype::BYTES).map(of).sum();
        if known > 0 { known } else { self.len() }
    }

    /// Whether there is any tensor in it.
    pub fn has_tensors(&self) -> bool {
        self.parts.iter().any(|p| p.dtype != Dtype::BYTES)
    }

    /// Refuses a `base` that does not consist of the same parts.
    pub fn check_base(&self, base: &Input) -> Result<()> {
        let shape = |input: &Input| -> Vec<(Dtype, usize)> {
            input.parts.iter().map(|p| (p.dtype, p.bytes.len())).collect()
        };
        if shape(self) == shape(base) {
            return Ok(());
        }
        let what = "the step before holds tensors of other types or sizes";
        Err(Error::BaseMismatch(format!("{}: {what}", self.name).into()))
    }

    /// The differences to `base`, which must consist of the same parts.
    pub fn delta(&self, base: &Input, delta: Delta) -> Result<Input> {
        if delta != Delta::None {
            self.check_base(base)?;
        }
        let parts = self.parts.iter().enumerate().map(|(i, part)| {
            // Headers are text; their difference would be noise.
            if delta == Delta::None || part.dtype == Dtype::BYTES {
                return part.clone();
            }
            let mut bytes = vec![0; part.bytes.len()];
            delta.apply(part.dtype, &part.bytes, &base.parts[i].bytes, &mut bytes);
            Part { dtype: part.dtype, bytes }
        });
        Ok(Input { name: self.name.clone(), parts: parts.collect(), file: None })
    }
}

/// The files that are meant by a list of files and directories, in a fixed order. Symlinks
/// inside directories are left alone.
pub fn files(paths: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in paths {
        if path.is_dir() {
            let mut inside: Vec<PathBuf> = std::fs::read_dir(path)
                .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect())
                .map_err(|e| Error::io("list", path, e))?;
            inside.retain(|p| !p.is_symlink());
            inside.sort();
            found.extend(files(&inside)?);
        } else {
            found.push(path.clone());
        }
    }
    Ok(found)
}

/// Checkpoints of one training run: directories whose names differ in a number only.
#[derive(Clone, Debug)]
pub struct Series {
    /// Step and directory, by step.
    pub steps: Vec<(u64, PathBuf)>,
    /// Names of the files that hold tensors in at least two steps, sorted.
    pub shards: Vec<String>,
    /// What was odd: sentences.
    pub notes: Vec<String>,
}

impl Series {
    /// Finds the steps in `dir`. Where names have several stems, the stem with most steps is
    /// the series, and a note says what was left out.
    pub fn find(dir: &Path) -> Result<Series> {
        let mut stems: Vec<(String, Vec<(u64, PathBuf)>)> = Vec::new();
        let entries = std::fs::read_dir(dir).map_err(|e| Error::io("list", dir, e))?;
        for entry in entries {
            let path = entry.map_err(|e| Error::io("list", dir, e))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
            let (true, Ok(step)) = (path.is_dir(), name[stem.len()..].parse()) else { continue };
            match stems.iter_mut().find(|(s, _)| s == stem) {
                Some((_, steps)) => steps.push((step, path)),
                None => stems.push((stem.into(), vec![(step, path)])),
            }
        }
        stems.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then(a.0.cmp(&b.0)));
        let mut stems = stems.into_iter();
        let Some((_, mut steps)) = stems.next() else {
            let what = "no directories named by step, like step00100, in";
            return Err(Error::InvalidArgument(format!("{what} {}", dir.display()).into()));
        };
        let mut notes = Vec::new();
        for (_, path) in stems.flat_map(|(_, steps)| steps) {
            notes.push(format!("{} is not of the same series and was left out.", path.display()));
        }
        steps.sort();
        let mut counts: Vec<(String, usize)> = Vec::new();
        for (_, dir) in &steps {
            for file in files(std::slice::from_ref(dir))? {
                let name = file.strip_prefix(dir).unwrap_or(&file).to_string_lossy().into_owned();
                if name.ends_with(".json") {
                    continue;
                }
                match counts.iter_mut().find(|(n, _)| *n == name) {
                    Some((_, count)) => *count += 1,
                    None => counts.push((name, 1)),
                }
            }
        }
        counts.sort();
        for (name, count) in counts.iter().filter(|(_, count)| *count < steps.len()) {
            notes.push(format!("{name} is in {count} of {} steps only.", steps.len()));
        }
        let shards = counts.into_iter().filter(|(_, c)| *c > 1).map(|(n, _)| n).collect();
        Ok(Series { steps, shards, notes })
    }
}
