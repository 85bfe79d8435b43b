//! How a stream ends: in order, or as failed with a reason.

use olivine::{Described, Publisher as RustPublisher};
use pyo3::exceptions::{PyGeneratorExit, PySystemExit};
use pyo3::prelude::*;
use pyo3::types::PyType;

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
}

impl Drop for Ending {
    fn drop(&mut self) {
        // Nothing can be raised here; the stream has ended in any case.
        let _ = self.end();
    }
}

/// Why a `with` block ends its stream as failed; `None` where it ends in order, also by an exit of
/// the program without an error.
pub(crate) fn failure(exception: &Bound<'_, PyAny>, value: &Bound<'_, PyAny>) -> Option<String> {
    let class = exception.cast::<PyType>().ok()?;
    if value.is_instance_of::<PyGeneratorExit>() {
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
    Some(format!("its program raised {name}"))
}
