//! Waiting that releases the interpreter and that signals and other threads interrupt.

use crate::errors::{Cancelled, Error};
use core::ffi::{c_int, c_void};
use pyo3::ffi;
use pyo3::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How long a wait looks away from signals and from `cancel` at most.
const SLICE: Duration = Duration::from_millis(50);

/// When a wait ends; never without a time.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(Option<Instant>);

impl Deadline {
    pub(crate) fn after(timeout: Option<Duration>) -> Self {
        Self(timeout.and_then(|timeout| Instant::now().checked_add(timeout)))
    }

    /// The time that is left; `None` if there is no end.
    pub(crate) fn left(self) -> Option<Duration> {
        self.0
            .map(|end| end.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn is_over(self) -> bool {
        self.left().is_some_and(|left| left.is_zero())
    }
}

/// Another thread asked the next wait of a handle, or the one under way, to end.
#[derive(Debug, Default)]
pub(crate) struct Cancel(AtomicBool);

impl Cancel {
    /// Asks for it.
    pub(crate) fn request(&self) {
        // Relaxed here and below: it says nothing about other memory.
        self.0.store(true, Ordering::Relaxed);
    }

    /// Raises `Cancelled` once for a request.
    fn check(&self) -> PyResult<()> {
        if self.0.load(Ordering::Relaxed) && self.0.swap(false, Ordering::Relaxed) {
            return Err(Cancelled::new_err(
                "another thread called cancel(): nothing was sent or received by this call",
            ));
        }
        Ok(())
    }
}

/// Calls `wait` with slices of the time, without the interpreter, until it returns a result or the
/// time is over (`None`). Before a slice it checks for signals and `cancel`: both interrupt.
pub(crate) fn wait<R: Send>(
    py: Python<'_>,
    cancel: Option<&Cancel>,
    timeout: Option<Duration>,
    mut wait: impl FnMut(Duration) -> Option<R> + Send,
) -> PyResult<Option<R>> {
    let deadline = Deadline::after(timeout);
    loop {
        if timeout != Some(Duration::ZERO)
            && let Some(cancel) = cancel
        {
            cancel.check()?;
        }
        let slice = deadline.left().map_or(SLICE, |left| SLICE.min(left));
        if let Some(found) = py.detach(|| wait(slice)) {
            return Ok(Some(found));
        }
        py.check_signals()?;
        if deadline.is_over() {
            return Ok(None);
        }
    }
}

/// Runs work that may block and does not see signals in a new thread, and waits for it. Ctrl-C ends
/// the wait; the thread goes on. `what` is for texts: "closing".
pub(crate) fn aside<R: Send + 'static>(
    py: Python<'_>,
    what: &str,
    work: impl FnOnce() -> R + Send + 'static,
) -> PyResult<R> {
    let (done, answer) = sync_channel(1);
    let builder = std::thread::Builder::new().name("olivine-aside".into());
    // Without the interpreter: where there is no thread left, what `work` holds is dropped here,
    // which may block.
    let started = py.detach(|| builder.spawn(move || done.send(work())));
    let thread = started.map_err(|error| {
        Error::new_err(format!(
            "cannot start a thread for {what}: {error}: end some, or raise the limit of threads"
        ))
    })?;
    let answered = wait(py, None, None, move |slice| {
        match answer.recv_timeout(slice) {
            Ok(answer) => Some(Some(answer)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => Some(None),
        }
    })?;
    // It has sent its result.
    let _ = thread.join();
    answered
        .flatten()
        .ok_or_else(|| Error::new_err(format!("{what} panicked: please report what it printed")))
}

/// Has the main thread raise `error` as soon as it runs Python again.
pub(crate) fn raise_later(py: Python<'_>, error: PyErr) {
    extern "C" fn raise(error: *mut c_void) -> c_int {
        // SAFETY: from `Box::into_raw` below, and called once.
        let error = unsafe { Box::from_raw(error.cast::<PyErr>()) };
        Python::attach(|py| error.restore(py));
        -1
    }
    let error = Box::into_raw(Box::new(error));
    // SAFETY: a function of this type, and what it takes.
    let refused = unsafe { ffi::Py_AddPendingCall(Some(raise), error.cast()) };
    if refused != 0 {
        // SAFETY: refused, so that it is still ours.
        let error = unsafe { Box::from_raw(error) };
        error.write_unraisable(py, None);
    }
}
