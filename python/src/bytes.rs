//! Python `bytes` that are written by threads which do not hold the interpreter, so that results
//! need no copy.

use pyo3::{ffi, prelude::*, types::PyBytes};
use std::io::{self, Write};

unsafe extern "C" {
    // Part of the stable ABI.
    fn _PyBytes_Resize(bytes: *mut *mut ffi::PyObject, len: ffi::Py_ssize_t) -> i32;
}

/// Asks for large pages: most of the time that fresh memory costs is spent on faults of small ones.
/// Where there are none, nothing is lost.
fn in_large_pages(start: *mut u8, len: usize) {
    #[cfg(target_os = "linux")]
    {
        const LARGE: usize = 2 << 20;
        let skip = start.align_offset(LARGE);
        let len = len.saturating_sub(skip) / LARGE * LARGE;
        if len > 0 {
            // SAFETY: the bytes belong to one object, and advice changes none of them.
            let _ = unsafe {
                rustix::mm::madvise(
                    start.wrapping_add(skip).cast(),
                    len,
                    rustix::mm::Advice::LinuxHugepage,
                )
            };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, len);
}

/// A new object that nobody else knows yet.
pub struct NewBytes {
    object: Option<Py<PyBytes>>,
    start: *mut u8,
    room: usize,
    len: usize,
    /// What there was no room for.
    rest: Vec<u8>,
}

// SAFETY: `start` points into `object`, which this holds and nobody else has seen.
unsafe impl Send for NewBytes {}

impl NewBytes {
    /// Room for so many bytes. Memory that is not written to is not touched.
    pub fn with_room(py: Python<'_>, room: usize) -> PyResult<NewBytes> {
        let len = ffi::Py_ssize_t::try_from(room).unwrap_or(ffi::Py_ssize_t::MAX);
        // SAFETY: a null pointer asks for bytes that are not initialised; null comes back with an
        // exception set, which is what `from_owned_ptr_or_err` expects.
        let object = unsafe {
            let new = ffi::PyBytes_FromStringAndSize(std::ptr::null(), len);
            Bound::from_owned_ptr_or_err(py, new)?.cast_into_unchecked::<PyBytes>()
        };
        // SAFETY: it is a bytes object.
        let start = unsafe { ffi::PyBytes_AsString(object.as_ptr()) }.cast::<u8>();
        in_large_pages(start, room);
        Ok(NewBytes { object: Some(object.unbind()), start, room, len: 0, rest: Vec::new() })
    }

    /// All of the room, to be written to as a whole.
    pub fn as_mut(&mut self) -> &mut [u8] {
        self.len = self.room;
        // SAFETY: there are `room` bytes at `start`, and nobody else knows the object. They are
        // bytes of memory that the allocator owns, of which every value is valid.
        unsafe { std::slice::from_raw_parts_mut(self.start, self.room) }
    }

    /// The object, as long as what was written.
    pub fn finish(mut self, py: Python<'_>) -> PyResult<Py<PyBytes>> {
        let Some(object) = self.object.take() else { return Ok(PyBytes::new(py, &[]).unbind()) };
        if !self.rest.is_empty() {
            let all = [&object.bind(py).as_bytes()[..self.len], &self.rest].concat();
            return Ok(PyBytes::new(py, &all).unbind());
        }
        if self.len == self.room {
            return Ok(object);
        }
        let mut raw = object.into_ptr();
        // SAFETY: this is the only reference to a bytes object that nobody has hashed. On failure
        // it is freed and `raw` becomes null, with an exception set.
        unsafe {
            _PyBytes_Resize(&mut raw, self.len as ffi::Py_ssize_t);
            Ok(Bound::from_owned_ptr_or_err(py, raw)?.cast_into_unchecked::<PyBytes>().unbind())
        }
    }
}

impl Write for NewBytes {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.rest.is_empty() && bytes.len() <= self.room - self.len {
            // SAFETY: the bytes from `len` to `room` belong to the object and to nobody else.
            let free =
                unsafe { std::slice::from_raw_parts_mut(self.start.add(self.len), bytes.len()) };
            free.copy_from_slice(bytes);
            self.len += bytes.len();
        } else {
            self.rest.extend_from_slice(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
