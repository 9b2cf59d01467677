//! Random access to the tensors of an archive or a raw file.

use crate::{
    buffer::BufferMut,
    codec::open_source,
    error::raise,
    file,
    options::Choices,
    work::{self, Control},
};
use lmc_gpu::{
    Entry, EntryKind, Error, Result,
    internals::{
        archive::{self, CheckpointFile, Options},
        remote,
        source::Source,
    },
};
use pyo3::{
    prelude::*,
    types::{PyBytes, PyList},
};
use std::{path::PathBuf, sync::Arc};

/// Bytes that one thread reads before it looks whether to stop.
const STEP: usize = 4 << 20;

/// An open checkpoint.
#[pyclass(frozen, module = "lmc_gpu._native")]
pub struct Checkpoint {
    inner: Arc<archive::Checkpoint>,
    options: Options,
    path: Option<String>,
}

impl Checkpoint {
    /// One that was opened elsewhere.
    pub fn new(inner: archive::Checkpoint, options: Options, path: Option<String>) -> Checkpoint {
        Checkpoint { inner: Arc::new(inner), options, path }
    }
}

#[pymethods]
impl Checkpoint {
    /// Opens what is at a path.
    #[staticmethod]
    fn open(py: Python<'_>, path: PathBuf, choices: Choices<'_>) -> PyResult<Checkpoint> {
        let plan = choices.plan(py)?;
        // Nothing that is secret in a URL stands in an error.
        let path = remote::clean(&path).map_err(|e| raise(py, e, None))?;
        let file = path.display().to_string();
        let (inner, options) = work::run(py, Some(&file), None, move |_| {
            let options = plan.open()?;
            Ok((archive::Checkpoint::open(&path, &options)?, options))
        })?;
        Ok(Checkpoint::new(inner, options, Some(file)))
    }

    /// Opens what is in memory, or what a file object reads.
    #[staticmethod]
    fn from_bytes(
        py: Python<'_>,
        data: &Bound<'_, PyAny>,
        choices: Choices<'_>,
    ) -> PyResult<Checkpoint> {
        let data = file::source(data)?;
        let plan = choices.plan(py)?;
        let (inner, options) = work::run(py, None, None, move |_| {
            let options = plan.open()?;
            Ok((open_source(data, &options)?, options))
        })?;
        Ok(Checkpoint::new(inner, options, None))
    }

    /// Bytes of all files.
    #[getter]
    fn total(&self) -> u64 {
        match &*self.inner {
            archive::Checkpoint::Raw(input) => input.len(),
            archive::Checkpoint::Archive(archive) => archive.total_len(),
        }
    }

    /// Whether it holds a directory.
    #[getter]
    fn is_directory(&self) -> bool {
        self.inner.manifest().is_directory
    }

    /// Path, length and whether it is a directory, of every entry.
    fn files(&self) -> Vec<(String, u64, bool)> {
        let entries = self.inner.manifest().entries.iter();
        let one =
            |e: &Entry| (e.path.to_text().into_owned(), e.len, e.kind == EntryKind::Directory);
        entries.map(one).collect()
    }

    /// The format of an entry and its tensors: name, element type, shape, strides, offset, length
    /// of the stretch they lie in, whether words are big-endian.
    fn tensors<'py>(
        &self,
        py: Python<'py>,
        entry: usize,
    ) -> PyResult<(&'static str, Bound<'py, PyList>)> {
        let inner = self.inner.clone();
        let parsed = work::run(py, self.path.as_deref(), None, move |_| inner.parse(entry))?;
        let list = PyList::empty(py);
        for t in parsed.tensors {
            let extent = t.extent().unwrap_or(0);
            let big = t.big_endian;
            list.append((t.name, t.dtype.name(), t.shape, t.strides, t.offset, extent, big))?;
        }
        Ok((parsed.format.name(), list))
    }

    /// Bytes of an entry.
    fn read<'py>(
        &self,
        py: Python<'py>,
        entry: usize,
        offset: u64,
        len: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let inner = self.inner.clone();
        let bytes = work::run(py, self.path.as_deref(), None, move |_| {
            Ok(inner.file(entry).read_vec(offset, len)?)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Fills memory of the caller's with bytes of an entry; `tensor` is what an error names.
    fn read_into(
        &self,
        py: Python<'_>,
        entry: usize,
        offset: u64,
        out: &Bound<'_, PyAny>,
        tensor: Option<String>,
    ) -> PyResult<()> {
        let mut out = BufferMut::of(out)?;
        let inner = self.inner.clone();
        let threads = self.options.threads;
        work::run(py, self.path.as_deref(), None, move |control| {
            let file = inner.file(entry);
            read_parallel(&file, offset, out.as_mut(), threads, control).map_err(|e| match tensor {
                Some(name) => e.in_tensor(&name),
                None => e,
            })
        })
    }

    /// Fills memory of the caller's with all files, end to end.
    fn read_all_into(&self, py: Python<'_>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut out = BufferMut::of(out)?;
        let inner = self.inner.clone();
        let options = self.options.clone();
        work::run(py, self.path.as_deref(), None, move |control| {
            let options = control.options(options);
            let mut rest = out.as_mut();
            match &*inner {
                archive::Checkpoint::Archive(archive) => {
                    archive.restore_all_into(rest, &options.restoring())
                }
                archive::Checkpoint::Raw(input) => {
                    for (i, entry) in input.manifest.entries.iter().enumerate() {
                        let (head, tail) =
                            rest.split_at_mut_checked(entry.len as usize).ok_or_else(too_short)?;
                        let file = inner.file(i);
                        read_parallel(&file, 0, head, options.threads, control)?;
                        rest = tail;
                    }
                    Ok(())
                }
            }
        })
    }
}

fn too_short() -> Error {
    Error::InvalidArgument("the output is shorter than the files".into())
}

/// Reads a stretch of a file with several threads, a part each.
fn read_parallel(
    file: &CheckpointFile<'_>,
    offset: u64,
    out: &mut [u8],
    threads: usize,
    control: &Control,
) -> Result<()> {
    let threads = lmc_gpu::internals::pipeline::worker_count(threads)
        .min(out.len().div_ceil(2 * STEP))
        .max(1);
    let part = out.len().div_ceil(threads).next_multiple_of(STEP);
    let read = |at: u64, out: &mut [u8]| -> Result<()> {
        for (i, step) in out.chunks_mut(STEP).enumerate() {
            control.check()?;
            file.read_at(at + (i * STEP) as u64, step)?;
        }
        Ok(())
    };
    if threads == 1 {
        return read(offset, out);
    }
    std::thread::scope(|scope| {
        let parts = out.chunks_mut(part).enumerate();
        let spawn = |(i, out)| scope.spawn(move || read(offset + (i * part) as u64, out));
        let parts: Vec<_> = parts.map(spawn).collect();
        let join = |part: std::thread::ScopedJoinHandle<'_, Result<()>>| {
            part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        parts.into_iter().try_for_each(join)
    })
}
