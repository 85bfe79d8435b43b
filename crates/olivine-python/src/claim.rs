//! A reserved message, to be filled in place.

use crate::errors::{of_sent, ours};
use crate::publisher::{Publisher, State, lock};
use crate::tensor;
use crate::views::{Span, Views, export};
use core::ffi::c_int;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyMemoryView, PyTuple};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Numbers the claims of the process.
static CLAIMS: AtomicU64 = AtomicU64::new(0);

/// A reserved message. Leaving its block commits it, an exception aborts it.
///
/// A view of it that was taken before a fork shows the parent's message in the child, too: the
/// child must not write there.
#[pyclass(frozen, weakref, module = "olivine")]
pub(crate) struct Claim {
    publisher: Py<Publisher>,
    serial: u64,
    span: Span,
    views: Views,
    /// The view that `__enter__` gave.
    shown: Mutex<Option<Py<PyMemoryView>>>,
    /// Its block was left by an exception while its bytes were looked at: it is given up with the
    /// last view.
    failed: AtomicBool,
}

impl Claim {
    /// A claim of `publisher`, whose bytes are at `span`.
    pub(crate) fn new(
        publisher: &Bound<'_, Publisher>,
        serial: u64,
        span: Span,
        views: Views,
    ) -> Self {
        Self {
            publisher: publisher.clone().unbind(),
            serial,
            span,
            views,
            shown: Mutex::new(None),
            failed: AtomicBool::new(false),
        }
    }

    /// A number that no other claim of the process has.
    pub(crate) fn number() -> u64 {
        // Relaxed: only to tell claims apart.
        CLAIMS.fetch_add(1, Ordering::Relaxed)
    }

    /// Refused in a forked child.
    fn is_open(&self, py: Python<'_>) -> PyResult<bool> {
        ours(self.publisher.get().opener, "claim")?;
        let state = lock(py, self.publisher.get())?;
        Ok(state.has_claim(self.serial))
    }

    /// Lets go of the view that `__enter__` gave. Refused while others look at its bytes.
    fn hide(&self, py: Python<'_>) -> PyResult<()> {
        // Taken out either way: the view holds us, and must not be held by us for ever.
        if let Some(view) = self.show(None) {
            view.call_method0(py, "release")?;
        }
        Ok(())
    }

    /// Changes the view that `__enter__` gave; returns the one before. No code of Python runs under
    /// the lock.
    fn show(&self, view: Option<Py<PyMemoryView>>) -> Option<Py<PyMemoryView>> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *shown, view)
    }
}

#[pymethods]
impl Claim {
    /// Makes the message visible; returns the position. BufferError while views exist.
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        ours(self.publisher.get().opener, "claim")?;
        self.hide(py)?;
        let mut state = lock(py, self.publisher.get())?;
        let Some(claim) = state.take_claim(self.serial)? else {
            return Err(state.claim_is_over());
        };
        let (publisher, position) = claim.commit();
        let position = position
            .map(|position| position.0)
            .map_err(|error| of_sent(py, error, &publisher));
        *state = State::Open(publisher);
        position
    }

    /// Gives the message up. BufferError while its bytes are looked at.
    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        ours(self.publisher.get().opener, "claim")?;
        self.hide(py)?;
        let mut state = lock(py, self.publisher.get())?;
        if let Some(claim) = state.take_claim(self.serial)? {
            *state = State::Open(claim.abort());
        }
        Ok(())
    }

    /// A view of the bytes, to be written.
    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        let view = PyMemoryView::from(slf.as_any())?;
        drop(slf.get().show(Some(view.clone().unbind())));
        Ok(view)
    }

    /// Commits; aborts if there is an exception.
    fn __exit__(
        &self,
        py: Python<'_>,
        exception: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if let Err(forked) = ours(self.publisher.get().opener, "claim") {
            // The view of the block holds the claim in a child as well.
            let _ = self.hide(py);
            return if exception.is_none() {
                Err(forked)
            } else {
                Ok(())
            };
        }
        if !exception.is_none() {
            // Where its bytes are still looked at it is given up later, with the last view: the
            // exception matters more. Relaxed here and below: the interpreter's lock orders.
            self.failed.store(true, Ordering::Relaxed);
            let _ = self.abort(py);
        } else if self.is_open(py)? {
            self.commit(py)?;
        }
        Ok(())
    }

    fn __len__(&self) -> usize {
        self.span.length
    }

    /// The bytes for a library of tensors: a vector of 8-bit unsigned numbers, to be written.
    ///
    /// The tensor is a view, as a memoryview is: the claim is not committed while it exists.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        tensor::capsule(slf.as_any(), stream, max_version, dl_device, copy)
    }

    /// Memory of the CPU: `(1, 0)`.
    fn __dlpack_device__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tensor::device(py)
    }

    // SAFETY: for Python alone, which gives views to fill and takes them back as the buffer
    // protocol says.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let claim = slf.get();
        ours(claim.publisher.get().opener, "claim")?;
        let state = lock(slf.py(), claim.publisher.get())?;
        if !state.has_claim(claim.serial) {
            return Err(state.claim_is_over());
        }
        // SAFETY: Python's own view; open claims are neither committed nor aborted while there are
        // views.
        unsafe { export(slf.as_any(), claim.span, view, flags) }?;
        claim.views.add();
        Ok(())
    }

    // SAFETY: as above.
    unsafe fn __releasebuffer__(&self, py: Python<'_>, _view: *mut ffi::Py_buffer) {
        self.views.release();
        if self.failed.load(Ordering::Relaxed) {
            self.give_up(py);
        }
    }

    fn __repr__(&self) -> String {
        format!("<olivine.Claim of {} bytes>", self.span.length)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // No view of it exists any more: a view would keep it alive.
        Python::attach(|py| self.give_up(py));
    }
}

impl Claim {
    /// Aborts it, unless its bytes are still looked at. Where the publisher is in use it has no
    /// claim of ours.
    fn give_up(&self, py: Python<'_>) {
        if let Ok(mut state) = lock(py, self.publisher.get())
            && let Ok(Some(claim)) = state.take_claim(self.serial)
        {
            *state = State::Open(claim.abort());
        }
    }
}
