//! Compressing and decompressing, in memory and on disk.
//!
//! `_lent` in these functions keeps what Python lent until the work has ended, so that it is given
//! back by the calling thread: the worker would have to wait for the interpreter, for each tensor.

use crate::{
    buffer::{Buffer, BufferMut},
    bytes::NewBytes,
    options::{Choices, Plan, dtype},
    work,
};
use lmc_gpu::{
    Archive, Error, OnDamage, RestoreOptions, Result,
    internals::{
        archive::{self, Checkpoint, Input, Options},
        json,
        source::Source,
    },
    store::{Snapshot, Tensor, safetensors},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

type Progress = Option<Py<PyAny>>;

/// Does `job` with the options of a plan, as [`work::run`] does; errors name `file`.
fn run<T: Send + 'static>(
    py: Python<'_>,
    plan: Plan,
    file: Option<&Path>,
    progress: Progress,
    job: impl FnOnce(&Options) -> Result<T> + Send + 'static,
) -> PyResult<T> {
    let file = file.map(|path| path.display().to_string());
    work::run(py, file.as_deref(), progress, move |control| job(&control.options(plan.open()?)))
}

/// Memory for an archive of so many bytes: seldom more than they are.
fn room_for(bytes: usize) -> usize {
    bytes + bytes / 64 + 4096
}

/// Bytes as one archive.
#[pyfunction]
pub fn compress(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    choices: Choices<'_>,
    progress: Progress,
) -> PyResult<Py<PyBytes>> {
    let data = Buffer::of(data)?;
    let _lent = data.clone();
    let plan = choices.plan(py)?;
    let mut out = NewBytes::with_room(py, room_for(data.as_ref().len()))?;
    let out = run(py, plan, None, progress, move |options| {
        let input = Input::from_source("data", Box::new(data), options.dtype);
        archive::compress_to_writer(&input, &mut out, &options.compressing())?;
        Ok(out)
    })?;
    out.finish(py)
}

/// The only file of an archive, as new bytes or into memory of the caller's.
#[pyfunction]
pub fn decompress(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    out: Option<&Bound<'_, PyAny>>,
    choices: Choices<'_>,
    progress: Progress,
) -> PyResult<Option<Py<PyBytes>>> {
    let data = Buffer::of(data)?;
    let _lent = data.clone();
    let plan = choices.plan(py)?;
    let open = move || Archive::from_source(Box::new(data), &RestoreOptions::default());
    if let Some(out) = out {
        let mut out = BufferMut::of(out)?;
        run(py, plan, None, progress, move |options| {
            open()?.restore_into(out.as_mut(), &options.restoring())
        })?;
        return Ok(None);
    }
    let (archive, len) = work::run(py, None, None, move |_| {
        let archive = open()?;
        let fits = usize::try_from(archive.total_len()).ok().filter(|&n| n <= isize::MAX as usize);
        let len =
            fits.ok_or_else(|| Error::LimitExceeded("the file does not fit into memory".into()))?;
        Ok((archive, len))
    })?;
    let mut out = NewBytes::with_room(py, len)?;
    let out = run(py, plan, None, progress, move |options| {
        archive.restore_into(out.as_mut(), &options.restoring())?;
        Ok(out)
    })?;
    out.finish(py).map(Some)
}

/// A file or directory into an archive; a summary as JSON.
#[pyfunction]
pub fn compress_file(
    py: Python<'_>,
    source: PathBuf,
    out: PathBuf,
    choices: Choices<'_>,
    progress: Progress,
) -> PyResult<String> {
    let plan = choices.plan(py)?;
    let file = source.clone();
    run(py, plan, Some(&file), progress, move |options| {
        lmc_gpu::compress_path(&source, &out, &options.compressing())
            .map(|s| json::summary(&s).to_string())
    })
}

/// An archive into a file or directory; a summary as JSON.
#[pyfunction]
pub fn decompress_file(
    py: Python<'_>,
    source: PathBuf,
    out: PathBuf,
    keep_going: bool,
    choices: Choices<'_>,
    progress: Progress,
) -> PyResult<String> {
    let plan = choices.plan(py)?;
    let file = source.clone();
    run(py, plan, Some(&file), progress, move |options| {
        let options = options.clone().with_damage(on_damage(keep_going)).restoring();
        let archive = Archive::open(&source, &options)?;
        archive.restore(&out, &options).map(|r| json::restored(&r).to_string())
    })
}

/// Checks every checksum; what was found as JSON.
#[pyfunction]
pub fn verify(
    py: Python<'_>,
    source: PathBuf,
    keep_going: bool,
    choices: Choices<'_>,
    progress: Progress,
) -> PyResult<String> {
    let plan = choices.plan(py)?;
    let file = source.clone();
    run(py, plan, Some(&file), progress, move |options| {
        let options = options.clone().with_damage(on_damage(keep_going)).restoring();
        let archive = Archive::open(&source, &options)?;
        archive.verify(&options).map(|r| json::restored(&r).to_string())
    })
}

fn on_damage(keep_going: bool) -> OnDamage {
    if keep_going { OnDamage::Fill } else { OnDamage::Fail }
}

/// What a checkpoint consists of, as JSON.
#[pyfunction]
pub fn inspect(py: Python<'_>, source: PathBuf, choices: Choices<'_>) -> PyResult<String> {
    let plan = choices.plan(py)?;
    let file = source.clone();
    run(py, plan, Some(&file), None, move |options| {
        let found = archive::inspect(&source, options)?;
        let mut text = String::new();
        json::inspection(&found, |part| {
            text += part;
            Result::Ok(())
        })?;
        Ok(text)
    })
}

/// A tensor as Python hands it over: name, element type, shape, bytes.
pub type Lent<'py> = (String, String, Vec<u64>, Bound<'py, PyAny>);

/// Takes hold of tensors' bytes.
pub fn tensors(py: Python<'_>, lent: Vec<Lent<'_>>) -> PyResult<Vec<Tensor>> {
    let tensor = |(name, type_name, shape, bytes): Lent<'_>| {
        let bytes = Buffer::of(&bytes)?;
        let made = dtype(&type_name).and_then(|d| Tensor::new(name, d, &shape, bytes));
        made.map_err(|e| crate::error::raise(py, e, None))
    };
    lent.into_iter().map(tensor).collect()
}

/// Tensors as one safetensors file.
fn image(tensors: &[Tensor], metadata: &BTreeMap<String, String>) -> Result<Box<dyn Source>> {
    Ok(Box::new(safetensors(tensors, metadata)?))
}

/// Tensors into an archive of one safetensors file called `name`; a summary as JSON.
#[pyfunction]
pub fn save_tensors_file(
    py: Python<'_>,
    lent: Vec<Lent<'_>>,
    metadata: BTreeMap<String, String>,
    name: String,
    out: PathBuf,
    choices: Choices<'_>,
    progress: Progress,
) -> PyResult<String> {
    let plan = choices.plan(py)?;
    let tensors = tensors(py, lent)?;
    let _lent = tensors.clone();
    let file = out.clone();
    run(py, plan, Some(&file), progress, move |options| {
        let input = Input::from_source(&name, image(&tensors, &metadata)?, None);
        archive::compress_files(&input, &out, &options.compressing())
            .map(|s| json::summary(&s).to_string())
    })
}

/// Files of tensors, and files of bytes, into an archive of a directory; a summary as JSON.
#[pyfunction]
pub fn save_files(
    py: Python<'_>,
    files: Vec<(String, Vec<Lent<'_>>)>,
    others: Vec<(String, Vec<u8>)>,
    out: PathBuf,
    choices: Choices<'_>,
    progress: Progress,
) -> PyResult<String> {
    let plan = choices.plan(py)?;
    let mut snapshot = Snapshot::new();
    for (path, lent) in files {
        snapshot = snapshot.with_tensors(path, tensors(py, lent)?);
    }
    for (path, bytes) in others {
        snapshot = snapshot.with_bytes(path, bytes);
    }
    let _lent = snapshot.clone();
    let file = out.display().to_string();
    work::run(py, Some(&file), progress, move |control| {
        let options = control.options(plan.open()?);
        let input = snapshot.to_input()?;
        archive::compress_files(&input, &out, &options.compressing())
            .map(|s| json::summary(&s).to_string())
    })
}

/// As `save_tensors_file`, in memory.
#[pyfunction]
pub fn save_tensors(
    py: Python<'_>,
    lent: Vec<Lent<'_>>,
    metadata: BTreeMap<String, String>,
    name: String,
    choices: Choices<'_>,
) -> PyResult<Py<PyBytes>> {
    let plan = choices.plan(py)?;
    let tensors = tensors(py, lent)?;
    let _lent = tensors.clone();
    let bytes: usize = tensors.iter().map(|t| t.bytes.len()).sum();
    let mut out = NewBytes::with_room(py, room_for(bytes + 256 * tensors.len()))?;
    let out = run(py, plan, None, None, move |options| {
        let input = Input::from_source(&name, image(&tensors, &metadata)?, None);
        archive::compress_to_writer(&input, &mut out, &options.compressing())?;
        Ok(out)
    })?;
    out.finish(py)
}

/// Bytes into an archive of one file called `name`; a summary as JSON.
#[pyfunction]
pub fn save_bytes_file(
    py: Python<'_>,
    data: &Bound<'_, PyAny>,
    name: String,
    out: PathBuf,
    choices: Choices<'_>,
    progress: Progress,
) -> PyResult<String> {
    let plan = choices.plan(py)?;
    let data = Buffer::of(data)?;
    let _lent = data.clone();
    let file = out.clone();
    run(py, plan, Some(&file), progress, move |options| {
        let input = Input::from_source(&name, Box::new(data), options.dtype);
        archive::compress_files(&input, &out, &options.compressing())
            .map(|s| json::summary(&s).to_string())
    })
}

/// Opens a checkpoint that is not on disk: an archive, or a raw file.
pub fn open_source(data: Box<dyn Source>, options: &Options) -> Result<Checkpoint> {
    match is_archive(&*data)? {
        true => {
            let archive = Archive::from_source(data, &options.restoring())?;
            if options.base.is_some() {
                archive.ensure_base(options)?;
            }
            Ok(Checkpoint::Archive(archive))
        }
        false => Ok(Checkpoint::Raw(Input::from_source("data", data, options.dtype))),
    }
}

/// Whether a file begins as archives do.
pub fn is_archive(file: &dyn Source) -> Result<bool> {
    let magic = lmc_gpu::internals::container::header::MAGIC;
    Ok(file.len() >= magic.len() as u64 && file.read_vec(0, magic.len() as u64)? == magic)
}
