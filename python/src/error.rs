//! The library's errors as Python's. The classes and what they carry are in `lmc_gpu/_errors.py`.

use lmc_gpu::Error;
use pyo3::{prelude::*, types::PyAny};

/// The exception for an error while working on `file`.
pub fn raise(py: Python<'_>, error: Error, file: Option<&str>) -> PyErr {
    let kind = match &error {
        Error::Corrupt(_) => "corrupt",
        Error::Truncated(_) => "truncated",
        Error::Unsupported(_) => "unsupported",
        Error::InvalidArgument(_) => "argument",
        Error::LimitExceeded(_) => "limit",
        Error::BaseMismatch(_) => "base",
        Error::Device(_) => "device",
        Error::Io { .. } => "io",
        _ => "other",
    };
    let (mut errno, mut os) = (None, None);
    if let Error::Io { source, .. } = &error {
        errno = source.raw_os_error();
        os = Some(format!("{:?}", source.kind()));
    }
    let make = || -> PyResult<Bound<'_, PyAny>> {
        let make = py.import("lmc_gpu._errors")?.getattr("make")?;
        let place = (error.tensor(), error.chunk());
        make.call1((kind, error.to_string(), file, errno, os, place))
    };
    make().map_or_else(|e| e, PyErr::from_value)
}
