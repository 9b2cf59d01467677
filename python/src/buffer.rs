//! Memory that Python objects lend: read in place, and held until the work with it has ended.
//!
//! Whoever exports a buffer may not move, resize or free it while it is lent; `bytearray` and the
//! arrays of numpy see to that themselves.

use pyo3::{exceptions::PyBufferError, ffi, prelude::*};
use std::{mem::MaybeUninit, sync::Arc};

/// One contiguous stretch of bytes.
struct View(Box<ffi::Py_buffer>);

// SAFETY: the memory stays where it is while the view exists, whatever thread looks at it, and
// the view is released with the interpreter attached.
unsafe impl Send for View {}
// SAFETY: as above; the fields are never changed.
unsafe impl Sync for View {}

impl View {
    fn of(object: &Bound<'_, PyAny>, flags: i32) -> PyResult<View> {
        let mut view = Box::new(MaybeUninit::<ffi::Py_buffer>::zeroed());
        // SAFETY: the object is alive, the view is memory of the right type, and the interpreter
        // is attached, since `object` is bound to it.
        let got = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), flags) };
        if got != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: `PyObject_GetBuffer` succeeded, so it filled the view.
        Ok(View(unsafe { view.assume_init() }))
    }

    fn len(&self) -> usize {
        usize::try_from(self.0.len).unwrap_or(0)
    }
}

impl Drop for View {
    fn drop(&mut self) {
        // Where the interpreter has ended, there is nobody left to give it back to.
        Python::try_attach(|_| {
            // SAFETY: the view was filled by `PyObject_GetBuffer` and is released once.
            unsafe { ffi::PyBuffer_Release(&mut *self.0) }
        });
    }
}

/// Bytes to read. Clones share one view.
#[derive(Clone)]
pub struct Buffer(Arc<View>);

impl Buffer {
    /// The bytes of any object with a contiguous buffer.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<Buffer> {
        Ok(Buffer(Arc::new(View::of(object, ffi::PyBUF_SIMPLE)?)))
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        if self.0.len() == 0 {
            return &[];
        }
        // SAFETY: the exporter promises `len` bytes at `buf` while the view is held, which is at
        // least as long as `self` is borrowed. That nobody writes to them meanwhile is what the
        // documentation of every function that takes data asks of its caller.
        unsafe { std::slice::from_raw_parts(self.0.0.buf.cast(), self.0.len()) }
    }
}

impl lmc_gpu::internals::source::Source for Buffer {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> std::io::Result<()> {
        self.as_ref().read_at(offset, buf)
    }

    fn as_slice(&self) -> Option<&[u8]> {
        Some(self.as_ref())
    }
}

/// Bytes to write.
pub struct BufferMut(View);

impl BufferMut {
    /// The bytes of any object with a contiguous buffer that can be written to.
    pub fn of(object: &Bound<'_, PyAny>) -> PyResult<BufferMut> {
        let view = View::of(object, ffi::PyBUF_WRITABLE)?;
        if view.0.readonly != 0 {
            return Err(PyBufferError::new_err("the output cannot be written to"));
        }
        Ok(BufferMut(view))
    }

    /// The bytes.
    pub fn as_mut(&mut self) -> &mut [u8] {
        if self.0.len() == 0 {
            return &mut [];
        }
        // SAFETY: as for `Buffer`, and the exporter said that they can be written to.
        unsafe { std::slice::from_raw_parts_mut(self.0.0.buf.cast(), self.0.len()) }
    }
}
