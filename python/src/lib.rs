//! The extension of the Python package `lmc_gpu`: it hands Python's arguments to the library and
//! the library's results to Python, and decides nothing.
//!
//! The public interface is written in Python, in `lib/lmc_gpu`; what it calls here is private.

mod buffer;
mod bytes;
mod checkpoint;
mod codec;
mod error;
mod file;
mod options;
mod store;
mod work;

use pyo3::prelude::*;

/// The command line; the number that the process ends with.
#[cfg(feature = "command")]
#[pyfunction]
fn command(py: Python<'_>, args: Vec<std::ffi::OsString>) -> u8 {
    py.detach(|| lmc_gpu::cli::status(args))
}

#[pymodule(gil_used = false)]
fn _native(m: &Bound<'_, PyModule>) -> PyResult<()> {
    #[cfg(feature = "command")]
    m.add_function(wrap_pyfunction!(command, m)?)?;
    m.add_function(wrap_pyfunction!(codec::compress, m)?)?;
    m.add_function(wrap_pyfunction!(codec::decompress, m)?)?;
    m.add_function(wrap_pyfunction!(codec::compress_file, m)?)?;
    m.add_function(wrap_pyfunction!(codec::decompress_file, m)?)?;
    m.add_function(wrap_pyfunction!(codec::verify, m)?)?;
    m.add_function(wrap_pyfunction!(codec::inspect, m)?)?;
    m.add_function(wrap_pyfunction!(codec::save_tensors, m)?)?;
    m.add_function(wrap_pyfunction!(codec::save_tensors_file, m)?)?;
    m.add_function(wrap_pyfunction!(codec::save_files, m)?)?;
    m.add_function(wrap_pyfunction!(codec::save_bytes_file, m)?)?;
    m.add_class::<checkpoint::Checkpoint>()?;
    m.add_class::<store::Store>()?;
    m.add_class::<store::Checkpointer>()?;
    m.add_class::<store::Ticket>()?;
    m.add("__version__", env!("CARGO_PKG_VERSION"))
}
