//! Python's arguments as the library's options.

use crate::{buffer::Buffer, error::raise};
use lmc_gpu::{
    Base, Error, Method, Overwrite, Result, Symlinks,
    dtype::Dtype,
    internals::archive::{Input, Options},
};
use pyo3::prelude::*;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

/// What a delta refers to: a path, or bytes in memory.
pub enum BaseOf {
    Path(PathBuf),
    Memory(Buffer),
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
            Some(base) => Some(match base.extract::<PathBuf>() {
                Ok(path) => BaseOf::Path(path),
                Err(_) => BaseOf::Memory(Buffer::of(base)?),
            }),
        };
        let symlinks = if self.follow_symlinks { Symlinks::Follow } else { Symlinks::Refuse };
        let options = Options::default()
            .with_method(method)
            .with_threads(self.threads.unwrap_or(0))
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
            Some(BaseOf::Path(path)) => Base::open_with(&path, &[], &options)?,
            Some(BaseOf::Memory(buffer)) => base_in_memory(buffer, &options)?,
        };
        Ok(options.with_base(Some(base)))
    }
}

/// A base in memory: an archive in itself, or the bytes as they are.
fn base_in_memory(buffer: Buffer, options: &Options) -> Result<Arc<Base>> {
    let input = Input::from_source("data", Box::new(buffer), options.dtype);
    Ok(Base::of_files(Path::new("data"), input))
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
