//! Compressing and decompressing, in memory and on disk.
//!
//! `_lent` in these functions keeps what Python lent until the work has ended, so that it is given
//! back by the calling thread: the worker would have to wait for the interpreter, for each tensor.

use crate::{
    buffer::{Buffer, BufferMut},
    bytes::NewBytes,
    options::{Choices, dtype},
    work,
};
use lmc_gpu::{
    Archive, Error, OnDamage, RestoreOptions, Result,
    internals::{
        archive::{self, Checkpoint, Input, Options},
        json,
        source::Source,
    },
    store::{Tensor, safetensors},
};
use pyo3::{prelude::*, types::PyBytes};
use std::{collections::BTreeMap, path::PathBuf};

type Progress = Option<Py<PyAny>>;

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
    let out = work::run(py, None, progress, move |control| {
        let options = control.options(plan.open()?);
        let flat = options.dtype;
        let input = Input::from_source("data", Box::new(data), flat);
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
    if let Some(out) = out {
        let mut out = BufferMut::of(out)?;
        work::run(py, None, progress, move |control| {
            let options = control.options(plan.open()?);
            let options = options.restoring();
            Archive::from_bytes(data.as_ref(), &options)?.restore_into(out.as_mut(), &options)
        })?;
        return Ok(None);
    }
    let of_length = data.clone();
    let len = work::run(py, None, None, move |_| {
        let options = RestoreOptions::default();
        let len = Archive::from_bytes(of_length.as_ref(), &options)?.total_len();
        let fits = usize::try_from(len).ok().filter(|&len| len <= isize::MAX as usize);
        fits.ok_or_else(|| Error::LimitExceeded("the file does not fit into memory".into()))
    })?;
    let mut out = NewBytes::with_room(py, len)?;
    let out = work::run(py, None, progress, move |control| {
        let options = control.options(plan.open()?).restoring();
        let archive = Archive::from_bytes(data.as_ref(), &options)?;
        archive.restore_into(out.as_mut(), &options)?;
        drop(archive);
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
    let file = source.display().to_string();
    work::run(py, Some(&file), progress, move |control| {
        let options = control.options(plan.open()?).compressing();
        lmc_gpu::compress_path(&source, &out, &options).map(|s| json::summary(&s).to_string())
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
    let file = source.display().to_string();
    work::run(py, Some(&file), progress, move |control| {
        let options = control.options(plan.open()?).with_damage(on_damage(keep_going)).restoring();
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
    let file = source.display().to_string();
    work::run(py, Some(&file), progress, move |control| {
        let options = control.options(plan.open()?).with_damage(on_damage(keep_going)).restoring();
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
    let file = source.display().to_string();
    work::run(py, Some(&file), None, move |control| {
        let options = control.options(plan.open()?);
        let found = archive::inspect(&source, &options)?;
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
    let file = out.display().to_string();
    work::run(py, Some(&file), progress, move |control| {
        let options = control.options(plan.open()?);
        let input = Input::from_source(&name, image(&tensors, &metadata)?, None);
        let made = archive::compress_files(&input, &out, &options.compressing());
        made.map(|s| json::summary(&s).to_string())
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
    let out = work::run(py, None, None, move |control| {
        let options = control.options(plan.open()?);
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
    let file = out.display().to_string();
    work::run(py, Some(&file), progress, move |control| {
        let options = control.options(plan.open()?);
        let input = Input::from_source(&name, Box::new(data), options.dtype);
        let made = archive::compress_files(&input, &out, &options.compressing());
        made.map(|s| json::summary(&s).to_string())
    })
}

/// Opens a checkpoint in memory: an archive, or a raw file.
pub fn open_in_memory(data: Buffer, options: &Options) -> Result<Checkpoint> {
    match data.as_ref().starts_with(&lmc_gpu::internals::container::header::MAGIC) {
        true => {
            let archive = Archive::from_source(Box::new(data), &options.restoring())?;
            if options.base.is_some() {
                archive.ensure_base(options)?;
            }
            Ok(Checkpoint::Archive(archive))
        }
        false => Ok(Checkpoint::Raw(Input::from_source("data", Box::new(data), options.dtype))),
    }
}
