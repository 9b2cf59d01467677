//! Files that Python reads: whatever has `read`, `seek` and `tell`, such as those of fsspec.

use crate::buffer::Buffer;
use lmc_gpu::internals::source::Source;
use pyo3::prelude::*;
use std::{
    io,
    sync::{Mutex, PoisonError},
};

/// An open file object. Threads read it one at a time, since it has one position.
pub struct FileObject {
    file: Option<Py<PyAny>>,
    len: u64,
    turn: Mutex<()>,
}

impl FileObject {
    /// Takes hold of a file object and asks for its length.
    pub fn of(file: &Bound<'_, PyAny>) -> PyResult<FileObject> {
        file.call_method1("seek", (0, 2))?;
        let len = file.call_method0("tell")?.extract()?;
        Ok(FileObject { file: Some(file.clone().unbind()), len, turn: Mutex::new(()) })
    }

    fn read(&self, py: Python<'_>, offset: u64, buf: &mut [u8]) -> PyResult<usize> {
        let Some(file) = self.file.as_ref().map(|file| file.bind(py)) else { return Ok(0) };
        file.call_method1("seek", (offset,))?;
        let mut n = 0;
        while n < buf.len() {
            let got = file.call_method1("read", (buf.len() - n,))?;
            let got = Buffer::of(&got)?;
            let got = got.as_ref();
            if got.is_empty() {
                break;
            }
            let most = got.len().min(buf.len() - n);
            buf[n..n + most].copy_from_slice(&got[..most]);
            n += most;
        }
        Ok(n)
    }
}

impl Source for FileObject {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<()> {
        // Nobody who waits here has the interpreter: the work is done by threads without it.
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let read = Python::try_attach(|py| {
            self.read(py, offset, buf).map_err(|e| io::Error::other(e.to_string()))
        });
        match read {
            Some(Ok(n)) if n == buf.len() => Ok(()),
            Some(Ok(_)) => Err(io::ErrorKind::UnexpectedEof.into()),
            Some(Err(e)) => Err(e),
            None => Err(io::Error::other("the interpreter has ended")),
        }
    }
}

impl Drop for FileObject {
    fn drop(&mut self) {
        // Where the interpreter has ended, there is nobody left to give it back to.
        let file = self.file.take();
        if Python::try_attach(|_| ()).is_none() {
            std::mem::forget(file);
        }
    }
}

/// What Python hands over as the bytes of a file: memory where it lends some, else a file object.
pub fn source(object: &Bound<'_, PyAny>) -> PyResult<Box<dyn Source>> {
    match Buffer::of(object) {
        Ok(buffer) => Ok(Box::new(buffer)),
        Err(_) => Ok(Box::new(FileObject::of(object)?)),
    }
}
