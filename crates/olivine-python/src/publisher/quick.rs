//! `publish(bytes)` without the conversions of pyo3, which take longer than sending.

use super::{Publisher, State};
use core::ffi::c_char;
use core::mem::transmute;
use core::ptr::null_mut;
use olivine::Outgoing;
use pyo3::exceptions::PyRuntimeError;
use pyo3::ffi;
use pyo3::panic::PanicException;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyBytes;
use std::ffi::CString;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A function that takes arguments as they are on the interpreter's stack.
type Function = ffi::PyCFunctionFastWithKeywords;

/// The method as pyo3 made it, and its function.
static METHOD: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
static FUNCTION: PyOnceLock<Function> = PyOnceLock::new();

/// Puts [`publish`] in the place of the method that pyo3 made, with its text for `help`.
pub(crate) fn install(py: Python<'_>) -> PyResult<()> {
    let class = py.get_type::<Publisher>();
    let method = class.getattr("publish")?;
    let signature: String = method.getattr("__text_signature__")?.extract()?;
    let doc: String = method.getattr("__doc__")?.extract()?;
    // As the interpreter takes both from one text.
    let text = CString::new(format!("publish{signature}\n--\n\n{doc}"))?;
    let definition = Box::new(ffi::PyMethodDef {
        ml_name: c"publish".as_ptr(),
        ml_meth: ffi::PyMethodDefPointer {
            PyCFunctionFastWithKeywords: publish,
        },
        ml_flags: ffi::METH_FASTCALL | ffi::METH_KEYWORDS,
        // For as long as the class, which is not freed.
        ml_doc: text.into_raw(),
    });
    // SAFETY: a class, and a definition that stays.
    let made = unsafe { ffi::PyDescr_NewMethod(class.as_type_ptr(), Box::into_raw(definition)) };
    // SAFETY: a new reference, or null with an exception.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
    let _ = METHOD.set(py, method.unbind());
    class.setattr("publish", made)
}

/// Sends `bytes` if there is room now. All else (other objects, a tag, a topic, waiting, errors) is
/// as pyo3 has it.
///
/// # Safety
///
/// For the interpreter alone, as a method of [`Publisher`].
unsafe extern "C" fn publish(
    object: *mut ffi::PyObject,
    arguments: *const *mut ffi::PyObject,
    count: ffi::Py_ssize_t,
    names: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: the interpreter calls it.
    let py = unsafe { Python::assume_attached() };
    // SAFETY: the object whose method it is, alive for the call.
    let object = unsafe { Borrowed::from_ptr(py, object) };
    if count == 1 && names.is_null() {
        // SAFETY: there is one argument.
        let argument = unsafe { *arguments };
        // SAFETY: an object, alive for the call.
        let argument = unsafe { Borrowed::from_ptr(py, argument) };
        if let Ok(message) = argument.cast_exact::<PyBytes>() {
            // SAFETY: the interpreter calls methods of a class with objects of it alone.
            let publisher = unsafe { object.cast_unchecked::<Publisher>() };
            let sent = catch_unwind(AssertUnwindSafe(|| {
                publisher.get().publish_now(py, bytes(message))
            }));
            match sent {
                // SAFETY: attached.
                Ok(Some(position)) => return unsafe { ffi::PyLong_FromUnsignedLongLong(position) },
                Ok(None) => {}
                // Not tried again: the message may have been sent.
                Err(_) => {
                    PanicException::new_err("publish panicked").restore(py);
                    return null_mut();
                }
            }
        }
    }
    match function(object) {
        // SAFETY: a function of this kind of the same class, with what we were called with.
        Ok(function) => unsafe { function(object.as_ptr(), arguments, count, names) },
        Err(error) => {
            error.restore(py);
            null_mut()
        }
    }
}

/// The bytes, by one call of the interpreter.
#[inline]
fn bytes<'a>(object: Borrowed<'a, '_, PyBytes>) -> &'a [u8] {
    let (mut data, mut length): (*mut c_char, _) = (null_mut(), 0);
    // SAFETY: `bytes`, and places for both answers.
    unsafe { ffi::PyBytes_AsStringAndSize(object.as_ptr(), &raw mut data, &raw mut length) };
    // SAFETY: `bytes` do not move or change, and have so many bytes there.
    unsafe { core::slice::from_raw_parts(data.cast(), length.unsigned_abs()) }
}

/// The function of the method that pyo3 made.
fn function(publisher: Borrowed<'_, '_, PyAny>) -> PyResult<Function> {
    let py = publisher.py();
    let found = FUNCTION.get_or_try_init(py, || {
        let wrong = || PyRuntimeError::new_err("the method publish is not as pyo3 makes it");
        let method = METHOD.get(py).ok_or_else(wrong)?.bind(py);
        let bound = method.call_method1("__get__", (publisher.to_owned(),))?;
        // SAFETY: an object; raises where it is not a function of the interpreter.
        let flags = unsafe { ffi::PyCFunction_GetFlags(bound.as_ptr()) };
        // SAFETY: as above.
        let function = unsafe { ffi::PyCFunction_GetFunction(bound.as_ptr()) };
        match function {
            Some(function) if flags == ffi::METH_FASTCALL | ffi::METH_KEYWORDS => {
                // SAFETY: the flags say that it is of this type.
                Ok(unsafe { transmute::<ffi::PyCFunction, Function>(function) })
            }
            _ => Err(PyErr::take(py).unwrap_or_else(wrong)),
        }
    });
    found.copied()
}

impl Publisher {
    /// Sends a message without label if nothing stands against it now; the position behind it.
    #[inline]
    fn publish_now(&self, py: Python<'_>, message: &[u8]) -> Option<u64> {
        if self
            .value_length
            .is_some_and(|length| length != message.len())
        {
            return None;
        }
        let mut state = self.state.take(py)?;
        let State::Open(publisher) = &mut *state else {
            return None;
        };
        let sent = publisher.try_publish(Outgoing::new(message));
        sent.ok().map(|position| position.0)
    }
}
