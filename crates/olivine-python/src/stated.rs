//! The type that a program states, beside the arrays that it gives: their rows are values of it.

use crate::rows::Rows;
use olivine::MessageType;
use olivine::raw::KnownType;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::sync::{Mutex, PoisonError};

/// A stated type.
pub(crate) struct Stated {
    size: usize,
    known: KnownType,
    /// The rows that fitted last.
    fits: Mutex<Option<Fits>>,
}

/// What says the fields of a row.
struct Kind<'a, 'py> {
    /// The dtype of numpy, or the class of the rows of an array of ctypes, or that of the array.
    says: Bound<'py, PyAny>,
    /// With a class: the format of the elements.
    format: Option<&'a [u8]>,
    /// Lengths of the axes of a row.
    shape: &'a [usize],
}

/// A [`Kind`] that is kept.
struct Fits {
    says: Py<PyAny>,
    format: Option<Vec<u8>>,
    shape: Vec<usize>,
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
        let kind = match (dtype, rows.format(array)) {
            (Some(dtype), _) => Some((dtype, None)),
            (None, Some(format)) => Some((class(array)?, Some(format))),
            (None, None) => None,
        };
        let kind = kind.map(|(says, format)| Kind {
            says,
            format,
            shape: &rows.shape,
        });
        self.check_fields(array, kind)
    }

    /// Refuses a dtype of rows, of this length, that are other values.
    pub(crate) fn check_dtype(&self, dtype: &Bound<'_, PyAny>, row: usize) -> PyResult<()> {
        self.check_length(row)?;
        let kind = Kind {
            says: dtype.clone(),
            format: None,
            shape: &[],
        };
        self.check_fields(dtype, Some(kind))
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

    fn check_fields(&self, given: &Bound<'_, PyAny>, kind: Option<Kind<'_, '_>>) -> PyResult<()> {
        let py = given.py();
        if self.known.fields.is_empty() {
            return Ok(());
        }
        if let Some(kind) = &kind {
            let fits = self.fits.lock().unwrap_or_else(PoisonError::into_inner);
            let last = fits.as_ref().filter(|last| {
                last.format.as_deref() == kind.format && last.shape.as_slice() == kind.shape
            });
            let last = last.map(|last| last.says.clone_ref(py));
            drop(fits);
            let says = &kind.says;
            if last.is_some_and(|last| last.is(says) || last.bind(py).eq(says).unwrap_or(false)) {
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
                 of the stated type, or its bytes, as many in a row as a value has"
            )));
        }
        if let Some(kind) = kind {
            let new = Some(Fits {
                says: kind.says.unbind(),
                format: kind.format.map(<[u8]>::to_vec),
                shape: kind.shape.to_vec(),
            });
            let mut fits = self.fits.lock().unwrap_or_else(PoisonError::into_inner);
            let old = std::mem::replace(&mut *fits, new);
            drop(fits);
            // Code of Python may run here, and publish: the metadata of a dtype is any object.
            drop(old);
        }
        Ok(())
    }
}

/// The class that says the fields of a row.
fn class<'py>(array: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
    static ARRAY: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = array.py();
    let class = array.get_type().into_any();
    // Classes of ctypes have other metaclasses than `type`: no other array imports ctypes.
    if class.get_type().is(py.get_type::<PyType>())
        || !array.is_instance(ARRAY.import(py, "ctypes", "Array")?)?
    {
        return Ok(class);
    }
    // Arrays of another length have another class.
    array.getattr(intern!(py, "_type_"))
}
