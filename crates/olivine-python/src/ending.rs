//! How a stream ends: in order, or as failed with a reason.

use crate::errors::of_described;
use crate::waits::{aside, raise_later};
use olivine::{Described, Publisher as RustPublisher};
use pyo3::exceptions::{PyGeneratorExit, PyResourceWarning, PySystemExit};
use pyo3::prelude::*;
use pyo3::types::{PyCFunction, PyString, PyType};
use std::ffi::CString;
use std::sync::OnceLock;

/// Most characters of an exception's text in a reason.
const TEXT_MAX: usize = 200;

/// Why the program ends, where no `with` block says it: nothing handled an exception.
static UNCAUGHT: OnceLock<String> = OnceLock::new();

/// Ends a stream, as failed if there is a reason, also when it is dropped: where no thread can be
/// started to end it.
pub(crate) struct Ending {
    publisher: Option<Box<RustPublisher>>,
    failure: Option<String>,
}

impl Ending {
    pub(crate) fn new(publisher: Box<RustPublisher>, failure: Option<String>) -> Self {
        Self {
            publisher: Some(publisher),
            failure,
        }
    }

    /// Ends it, once.
    pub(crate) fn end(&mut self) -> Result<(), Described> {
        match self.publisher.take() {
            Some(publisher) => {
                let ended = publisher.close_described(self.failure.as_deref());
                ended.map(|_| ())
            }
            None => Ok(()),
        }
    }

    /// Ends the stream of a publisher that Python collects, and says that it was open: by a
    /// ResourceWarning, as files do. What `close` would raise is printed, by `sys.unraisablehook`:
    /// nothing can be raised there. An exception by a signal is raised right after.
    pub(crate) fn collect(mut self) {
        Python::attach(|py| {
            // Collected while something else is being raised: that goes on afterwards.
            let raised = PyErr::take(py);
            let uri = self.publisher.as_ref().map(|publisher| publisher.uri());
            let what = format!("<olivine.Publisher {}>", uri.unwrap_or_default());
            let what = PyString::new(py, &what);
            let text = format!("unclosed {what}: close it, or use it by 'with'");
            // Before it waits for a far side: it says what waits.
            let warned = CString::new(text)
                .map_err(PyErr::from)
                .and_then(|text| PyErr::warn(py, &py.get_type::<PyResourceWarning>(), &text, 1));
            if let Err(error) = warned {
                error.write_unraisable(py, Some(&what));
            }
            self.failure = self.failure.take().or_else(|| UNCAUGHT.get().cloned());
            match aside(py, "closing", move || self.end()) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => of_described(py, &error).write_unraisable(py, Some(&what)),
                Err(interrupted) => raise_later(py, interrupted),
            }
            if let Some(raised) = raised {
                raised.restore(py);
            }
        });
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        // Nothing can be raised here; the stream has ended in any case.
        let _ = self.end();
    }
}

/// Has the interpreter look, where it exits, whether it does so by an exception.
pub(crate) fn watch_exit(py: Python<'_>) -> PyResult<()> {
    let look = PyCFunction::new_closure(py, None, None, |arguments, _| {
        // A program without `sys` as it was has no say.
        let _ = look_for_uncaught(arguments.py());
    })?;
    let atexit = py.import("atexit")?;
    atexit.call_method1("register", (look,)).map(|_| ())
}

/// Keeps the exception that ended the program. An interactive one went on after its exceptions, and
/// so did a program whose callback raised what a library printed.
fn look_for_uncaught(py: Python<'_>) -> PyResult<()> {
    let sys = py.import("sys")?;
    let value = sys.getattr("last_value")?;
    let is_inspected: bool = sys.getattr("flags")?.getattr("inspect")?.is_truthy()?;
    if !is_inspected
        && !sys.hasattr("ps1")?
        && has_left_the_program(&value)?
        && let Some(reason) = failure(value.get_type().as_any(), &value)
    {
        let _ = UNCAUGHT.set(reason);
    }
    Ok(())
}

/// Whether an exception has left the outermost code: a script, or a module that runpy runs. What
/// was printed elsewhere was caught below that.
fn has_left_the_program(value: &Bound<'_, PyAny>) -> PyResult<bool> {
    let traceback = value.getattr("__traceback__")?;
    if traceback.is_none() {
        return Ok(false);
    }
    let frame = traceback.getattr("tb_frame")?;
    let code: String = frame.getattr("f_code")?.getattr("co_name")?.extract()?;
    let module = frame.getattr("f_globals")?.get_item("__name__")?;
    let is_outermost = code == "<module>" || module.eq("runpy")?;
    Ok(is_outermost && frame.getattr("f_back")?.is_none())
}

/// Why a `with` block ends its stream as failed; `None` where it ends in order, also by an exit of
/// the program without an error.
pub(crate) fn failure(exception: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Option<String> {
    let class = exception.cast::<PyType>().ok()?;
    if value.is_none() || value.is_instance_of::<PyGeneratorExit>() {
        return None;
    }
    if value.is_instance_of::<PySystemExit>() {
        let code = value.getattr("code").ok()?;
        if code.is_none() || code.extract::<i64>().is_ok_and(|code| code == 0) {
            return None;
        }
    }
    let name = class
        .name()
        .map_or_else(|_| "an exception".to_owned(), |name| name.to_string());
    Some(format!("its program raised {name}{}", text(value)))
}

/// What an exception says, behind a colon, as one line of bounded length; empty where it says
/// nothing.
fn text(value: &Bound<'_, PyAny>) -> String {
    let said = value.str().map_or_else(
        |_| String::new(),
        |said| said.to_string_lossy().into_owned(),
    );
    let line = said.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(TEXT_MAX) {
        _ if line.is_empty() => line,
        Some((end, _)) => format!(": {} …", line[..end].trim_end()),
        None => format!(": {line}"),
    }
}
