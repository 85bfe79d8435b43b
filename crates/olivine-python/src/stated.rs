//! The type that a program states, beside the arrays that it gives: their rows are values of it.

use crate::rows::Rows;
use olivine::MessageType;
use olivine::raw::KnownType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use std::sync::{Mutex, PoisonError};

/// A stated type.
pub(crate) struct Stated {
    size: usize,
    known: KnownType,
    /// The dtype and the shape of rows that fitted last.
    fits: Mutex<Option<(Py<PyAny>, Vec<usize>)>>,
}

impl Stated {
    pub(crate) fn new(stated: &MessageType) -> Self {
        Self {
            size: stated.size(),
            known: KnownType::new(0, stated.name(), &stated.fields().to_string()),
            fits: Mutex::new(None),
        }
    }

    /// Bytes of each value.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Refuses an array whose rows are other values.
    pub(crate) fn check_rows(&self, array: &Bound<'_, PyAny>, rows: &Rows) -> PyResult<()> {
        if rows.count > 0 {
            self.check_length(rows.row)?;
        }
        let dtype = array.getattr_opt(intern!(array.py(), "dtype"))?;
        self.check_fields(array, dtype.as_ref(), &rows.shape)
    }

    /// Refuses a dtype of rows, of this length, that are other values.
    pub(crate) fn check_dtype(&self, dtype: &Bound<'_, PyAny>, row: usize) -> PyResult<()> {
        self.check_length(row)?;
        self.check_fields(dtype, Some(dtype), &[])
    }

    fn check_length(&self, row: usize) -> PyResult<()> {
        if row == self.size {
            return Ok(());
        }
        Err(PyValueError::new_err(format!(
            "a row of the array has {row} bytes, and values of the channel's type have {}",
            self.size
        )))
    }

    fn check_fields(
        &self,
        given: &Bound<'_, PyAny>,
        dtype: Option<&Bound<'_, PyAny>>,
        shape: &[usize],
    ) -> PyResult<()> {
        let py = given.py();
        if self.known.fields.is_empty() {
            return Ok(());
        }
        if let Some(dtype) = dtype {
            let fits = self.fits.lock().unwrap_or_else(PoisonError::into_inner);
            let last = fits.as_ref().filter(|(_, of)| of == shape);
            let last = last.map(|(last, _)| last.clone_ref(py));
            drop(fits);
            if last.is_some_and(|last| last.is(dtype) || last.bind(py).eq(dtype).unwrap_or(false)) {
                return Ok(());
            }
        }
        let texts = py
            .import("olivine._fields")?
            .call_method1("rows", (given,))?;
        let mut differs = None;
        for text in texts.extract::<Vec<String>>()? {
            let given = KnownType::new(0, &self.known.name, &text);
            let difference = self.known.difference(&given);
            if difference.is_none() {
                differs = None;
                break;
            }
            differs = differs.or(difference);
        }
        if let Some((ours, theirs)) = differs {
            return Err(PyTypeError::new_err(format!(
                "the channel carries '{ours}', and a row of the array is '{theirs}': give an array \
                 of the stated type, or its bytes as rows of \"u1\""
            )));
        }
        if let Some(dtype) = dtype {
            let new = Some((dtype.clone().unbind(), shape.to_vec()));
            let mut fits = self.fits.lock().unwrap_or_else(PoisonError::into_inner);
            let old = std::mem::replace(&mut *fits, new);
            drop(fits);
            // Code of Python may run here, and publish: the metadata of a dtype is any object.
            drop(old);
        }
        Ok(())
    }
}
