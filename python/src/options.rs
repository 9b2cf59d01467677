//! Python's arguments as the library's options.

use crate::{codec::is_archive, error::raise, file};
use lmc_gpu::{
    Archive, Base, Error, Method, Overwrite, Result, Symlinks,
    dtype::Dtype,
    internals::{
        archive::{Input, Options},
        pipeline::worker_count,
        source::Source,
    },
};
use pyo3::{prelude::*, types::PyList};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

/// What a delta refers to.
pub enum BaseOf {
    /// A path, and those of what it may itself be a delta to.
    Paths(Vec<PathBuf>),
    /// Bytes in memory, or a file that Python reads.
    File(Box<dyn Source>),
    /// Files of a directory that is not on disk.
    Files(Vec<(String, Box<dyn Source>)>),
}

impl BaseOf {
    /// What Python means: a path, a list of paths, a list of names with bytes or file objects,
    /// bytes, or a file object.
    fn of(base: &Bound<'_, PyAny>) -> PyResult<BaseOf> {
        if let Ok(path) = base.extract::<PathBuf>() {
            return Ok(BaseOf::Paths(vec![path]));
        }
        if let Ok(list) = base.cast::<PyList>() {
            if let Ok(paths) = list.extract::<Vec<PathBuf>>() {
                return Ok(BaseOf::Paths(paths));
            }
            let files = list.extract::<Vec<(String, Bound<'_, PyAny>)>>()?;
            let files = files.into_iter().map(|(name, f)| Ok((name, file::source(&f)?)));
            return Ok(BaseOf::Files(files.collect::<PyResult<_>>()?));
        }
        Ok(BaseOf::File(file::source(base)?))
    }
}

/// Options whose threads and buffers one call leaves to the next, by the number of workers.
static KEPT: Mutex<BTreeMap<usize, Options>> = Mutex::new(BTreeMap::new());
/// Most numbers of workers of which any are kept.
const MOST_KEPT: usize = 4;

/// Options with so many threads, which calls before had too: starting them takes longer than coding
/// a small archive.
fn kept(threads: usize) -> Options {
    let new = || Options::default().with_threads(threads);
    // A process that was forked while another thread held the lock would wait for ever.
    let Ok(mut kept) = KEPT.try_lock() else { return new() };
    let count = worker_count(threads);
    if !kept.contains_key(&count) && kept.len() >= MOST_KEPT {
        kept.clear();
    }
    kept.entry(count).or_insert_with(new).clone().with_threads(threads)
}

/// What all coding takes. `Choices` come from Python as a dictionary of these names.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Choices<'py> {
    method: String,
    threads: Option<usize>,
    dtype: Option<String>,
    base: Option<Bound<'py, PyAny>>,
    overwrite: bool,
    follow_symlinks: bool,
    device: Option<String>,
}

/// [`Choices`] without the interpreter.
pub struct Plan {
    options: Options,
    base: Option<BaseOf>,
    device: Option<String>,
}

impl Choices<'_> {
    /// Checks names and takes hold of what is lent.
    pub fn plan(&self, py: Python<'_>) -> PyResult<Plan> {
        let method = method(&self.method).map_err(|e| raise(py, e, None))?;
        let dtype = self.dtype.as_deref().map(dtype).transpose().map_err(|e| raise(py, e, None))?;
        let overwrite = if self.overwrite { Overwrite::Files } else { Overwrite::Refuse };
        let base = match &self.base {
            None => None,
            Some(base) => Some(BaseOf::of(base)?),
        };
        let symlinks = if self.follow_symlinks { Symlinks::Follow } else { Symlinks::Refuse };
        let options = kept(self.threads.unwrap_or(0))
            .with_method(method)
            .with_dtype(dtype)
            .with_overwrite(overwrite)
            .with_symlinks(symlinks);
        Ok(Plan { options, base, device: self.device.clone() })
    }
}

impl Plan {
    /// Options with the base opened.
    pub fn open(self) -> Result<Options> {
        let Plan { mut options, base, device } = self;
        if let Some(name) = device {
            options = options.with_device(Some(adapter(&name)?));
        }
        let base = match base {
            None => return Ok(options),
            Some(BaseOf::Paths(paths)) => match paths.split_first() {
                None => return Ok(options),
                Some((path, others)) => Base::open_with(path, others, &options)?,
            },
            Some(BaseOf::File(file)) => base_of(file, &options)?,
            Some(BaseOf::Files(files)) => {
                Base::of_files(Path::new("data"), Input::from_files(files)?)
            }
        };
        Ok(options.with_base(Some(base)))
    }
}

/// A base that has no path: an archive in itself, or the bytes as they are.
fn base_of(file: Box<dyn Source>, options: &Options) -> Result<Arc<Base>> {
    let path = Path::new("data");
    if is_archive(&*file)? {
        return Ok(Base::of_archive(path, Archive::from_source(file, &options.restoring())?));
    }
    Ok(Base::of_files(path, Input::from_source("data", file, options.dtype)))
}

#[cfg(feature = "gpu")]
fn adapter(name: &str) -> Result<Arc<dyn lmc_gpu::Accelerator>> {
    let Ok(selector) = name.parse();
    let device = lmc_gpu::gpu::Device::request(&selector)?;
    Ok(Arc::new(lmc_gpu::gpu::Transformer::new(device)))
}

#[cfg(not(feature = "gpu"))]
fn adapter(name: &str) -> Result<Arc<dyn lmc_gpu::Accelerator>> {
    Err(Error::InvalidArgument(
        format!("device=\"{name}\": this build has no GPU support; leave it out").into(),
    ))
}

/// A method by its name.
pub fn method(name: &str) -> Result<Method> {
    Method::ALL.into_iter().find(|m| m.name() == name).ok_or_else(|| {
        let all: Vec<&str> = Method::ALL.iter().map(|m| m.name()).collect();
        Error::InvalidArgument(
            format!("no method \"{name}\": choose one of {}", all.join(", ")).into(),
        )
    })
}

/// An element type by its name.
pub fn dtype(name: &str) -> Result<Dtype> {
    Dtype::parse(name)
        .ok_or_else(|| Error::InvalidArgument(format!("no element type \"{name}\"").into()))
}
