//! Waiting that releases the interpreter and that signals interrupt.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::time::{Duration, Instant};

/// How long a wait looks away from signals at most.
const SLICE: Duration = Duration::from_millis(50);

/// A time-out in seconds, as Python has them; `None` is none.
pub(crate) fn seconds(timeout: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(timeout) = timeout else {
        return Ok(None);
    };
    if timeout.is_nan() {
        return Err(PyValueError::new_err(
            "timeout is not a number: give seconds, or None for as long as it takes",
        ));
    }
    // More than a duration holds is no time-out; less than nothing is none left.
    Ok(Duration::try_from_secs_f64(timeout.max(0.0)).ok())
}

/// Calls `wait` with a slice of the time at a time, without the interpreter, until it says what came of it or the time is
/// over (`None`). Between two slices signals are looked for: Ctrl-C interrupts.
pub(crate) fn wait<R: Send>(
    py: Python<'_>,
    timeout: Option<Duration>,
    mut wait: impl FnMut(Duration) -> Option<R> + Send,
) -> PyResult<Option<R>> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        let slice = deadline.map_or(SLICE, |deadline| {
            SLICE.min(deadline.saturating_duration_since(Instant::now()))
        });
        if let Some(found) = py.detach(|| wait(slice)) {
            return Ok(Some(found));
        }
        py.check_signals()?;
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok(None);
        }
    }
}
