//! Bytes of the ring as Python sees them: the buffer protocol, and how many views there are.

use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the views of one message or claim. Changes while the interpreter is held only.
#[derive(Clone, Debug, Default)]
pub(crate) struct Views(Arc<AtomicUsize>);

impl Views {
    /// How many there are.
    pub(crate) fn count(&self) -> usize {
        // Relaxed here and below: the interpreter's lock orders.
        self.0.load(Ordering::Relaxed)
    }

    /// One is gone.
    pub(crate) fn release(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// Bytes that Python may look at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) data: *mut u8,
    pub(crate) length: usize,
    pub(crate) writable: bool,
}

// SAFETY: an address and a length; code that reads the address holds the interpreter and has
// checked that the bytes are alive.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

/// Fills `view` with `span`, as a view of `owner`, which lives as long as the view.
///
/// # Safety
///
/// `view` is what Python passed to `__getbuffer__`; the bytes live for as long as `views` counts
/// the view.
pub(crate) unsafe fn export(
    owner: &Bound<'_, PyAny>,
    span: Span,
    views: &Views,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("there is no view to fill"));
    }
    let length = isize::try_from(span.length).map_err(|_| PyBufferError::new_err("too long"))?;
    // SAFETY: `view` may be filled by contract; it takes a reference to the owner, who counts it
    // below.
    let answer = unsafe {
        ffi::PyBuffer_FillInfo(
            view,
            owner.as_ptr(),
            span.data.cast::<c_void>(),
            length,
            c_int::from(!span.writable),
            flags,
        )
    };
    if answer != 0 {
        return Err(PyErr::fetch(owner.py()));
    }
    views.add();
    Ok(())
}

/// Bytes of a Python object: of `bytes`, a `bytearray`, an array of numpy, or any other object with
/// contiguous bytes.
pub(crate) struct Bytes {
    view: ffi::Py_buffer,
}

impl Bytes {
    /// Looks at the bytes of `object`.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let mut view = MaybeUninit::zeroed();
        // SAFETY: an object and a place for a view, both ours for the call.
        let answer = unsafe {
            ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), ffi::PyBUF_SIMPLE)
        };
        if answer != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: filled, as the answer says.
        let view = unsafe { view.assume_init() };
        Ok(Self { view })
    }

    /// The bytes, while the interpreter is held: no Python code writes them meanwhile. Native code
    /// that works without the interpreter (numpy does) could, which the stub forbids its caller.
    pub(crate) fn get<'a>(&'a self, _py: Python<'a>) -> &'a [u8] {
        let length = usize::try_from(self.view.len).unwrap_or(0);
        if length == 0 || self.view.buf.is_null() {
            return &[];
        }
        // SAFETY: a simple view is `len` bytes in a row, alive until it is released, which needs
        // `self`.
        unsafe { core::slice::from_raw_parts(self.view.buf.cast::<u8>(), length) }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.view.len).unwrap_or(0)
    }
}

impl Drop for Bytes {
    fn drop(&mut self) {
        // Attached already, where calls of ours make and drop them.
        Python::attach(|_| {
            // SAFETY: a view that `PyObject_GetBuffer` filled, released once.
            unsafe { ffi::PyBuffer_Release(&raw mut self.view) };
        });
    }
}
