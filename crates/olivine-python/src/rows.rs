//! Arrays whose rows are messages: those that messages are copied into, and those that are
//! published.

use crate::arguments;
use crate::errors::Error;
use crate::views::{Held, refuse_dtype, refuse_objects};
use pyo3::exceptions::{PyBufferError, PyImportError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyDict, PyInt, PyModule};

/// What came with each message, as numpy names the fields of a structure. The order and the sizes
/// are those of [`Detail`].
pub(crate) const DETAILS: [(&str, &str); 3] = [("tag", "u4"), ("lane", "u4"), ("position", "u8")];

/// A row of [`DETAILS`].
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Detail {
    pub(crate) tag: u32,
    pub(crate) lane: u32,
    pub(crate) position: u64,
}

/// How many bytes an array takes whose caller has set no limit.
const BYTES_DEFAULT: usize = 4 << 20;

/// An array, seen as rows: its first axis counts them.
pub(crate) struct Rows {
    held: Held,
    /// How many there are.
    pub(crate) count: usize,
    /// Bytes of each.
    pub(crate) row: usize,
    /// Lengths of the axes of each, as far as a type is compared.
    pub(crate) shape: Vec<usize>,
}

impl Rows {
    /// The rows of `array`, to be written or read.
    pub(crate) fn of(array: &Bound<'_, PyAny>, writable: bool) -> PyResult<Self> {
        if array.is_exact_instance_of::<PyBytes>() || array.is_exact_instance_of::<PyByteArray>() {
            return Err(PyTypeError::new_err(format!(
                "{} has no rows: give an array, or memoryview(...).cast with a format",
                array.get_type().name()?
            )));
        }
        refuse_objects(array)?;
        let access = if writable { ffi::PyBUF_WRITABLE } else { 0 };
        let flags = ffi::PyBUF_ND | ffi::PyBUF_FORMAT | access;
        let held = match Held::of(array, flags) {
            Ok(held) => held,
            Err(error) => {
                // numpy shows no dates by the buffer protocol, but their bytes.
                return match Self::bytes(array, access) {
                    Ok(Some(rows)) => Ok(rows),
                    _ => Err(refused(array.py(), &error, writable)),
                };
            }
        };
        let view = held.get();
        held.refuse_addresses(array)?;
        let dimensions = usize::try_from(view.ndim).unwrap_or(0);
        if dimensions == 0 || view.shape.is_null() {
            return Err(PyValueError::new_err(
                "an array without an axis has no rows: give one with at least one axis",
            ));
        }
        // SAFETY: `ndim` lengths, for as long as the view.
        let shape = unsafe { core::slice::from_raw_parts(view.shape, dimensions) };
        let shape: Vec<usize> = shape
            .iter()
            .map(|n| usize::try_from(*n).unwrap_or(0))
            .collect();
        let row =
            usize::try_from(view.itemsize).unwrap_or(0) * shape[1..].iter().product::<usize>();
        Self::checked(held, shape[0], row, shape[1..].to_vec())
    }

    /// As [`Rows::of`], for arrays of numpy whose bytes are in a row.
    fn bytes(array: &Bound<'_, PyAny>, access: i32) -> PyResult<Option<Self>> {
        let whole = array
            .getattr("flags")?
            .getattr("c_contiguous")?
            .is_truthy()?;
        if !whole || array.getattr("ndim")?.extract::<usize>()? == 0 {
            return Ok(None);
        }
        let count = array.len()?;
        let bytes = array.call_method1("reshape", (-1,))?;
        let bytes = bytes.call_method1("view", ("u1",))?;
        let held = Held::of(&bytes, ffi::PyBUF_ND | access)?;
        let length = usize::try_from(held.get().len).unwrap_or(0);
        let row = length.checked_div(count).unwrap_or(0);
        let shape: Vec<usize> = array.getattr("shape")?.extract()?;
        Self::checked(held, count, row, shape[1..].to_vec()).map(Some)
    }

    fn checked(held: Held, count: usize, row: usize, shape: Vec<usize>) -> PyResult<Self> {
        if row == 0 && count > 0 {
            return Err(PyValueError::new_err(
                "rows of 0 bytes: give an array whose rows have bytes",
            ));
        }
        Ok(Self {
            held,
            count,
            row,
            shape,
        })
    }

    /// The rows of an array that [`Empty`] made.
    pub(crate) fn made(array: &Bound<'_, PyAny>, count: usize, row: usize) -> PyResult<Self> {
        let held = Held::of(array, ffi::PyBUF_WRITABLE)?;
        Ok(Self {
            held,
            count,
            row,
            shape: Vec::new(),
        })
    }

    /// The format of the elements, where that and the class of `array` say the fields of a row.
    pub(crate) fn format(&self, array: &Bound<'_, PyAny>) -> Option<&[u8]> {
        self.held.is_of(array).then(|| self.held.format())
    }

    /// The bytes of a row, while the interpreter is held (see `Bytes::get`).
    #[inline]
    pub(crate) fn get<'a>(&'a self, _py: Python<'a>, index: usize) -> &'a [u8] {
        assert!(index < self.count, "an array has no such row");
        let view = self.held.get();
        // SAFETY: within the array, whose bytes are in a row.
        let data = unsafe { view.buf.cast::<u8>().add(index * self.row) };
        // SAFETY: as above, and alive as long as the view.
        unsafe { core::slice::from_raw_parts(data, self.row) }
    }

    /// Copies a message into a row. The array was asked for to be written.
    #[inline]
    pub(crate) fn put(&self, index: usize, message: &[u8]) {
        assert!(
            index < self.count && message.len() == self.row,
            "it fits the row"
        );
        let view = self.held.get();
        // SAFETY: within the array, whose bytes are in a row.
        let data = unsafe { view.buf.cast::<u8>().add(index * self.row) };
        // SAFETY: as many bytes as the row has. A message is in memory of the ring or a copy of
        // ours, so it does not overlap the array.
        unsafe { core::ptr::copy(message.as_ptr(), data, self.row) };
    }
}

/// An array of details to be filled.
pub(crate) struct Details(Rows);

impl Details {
    /// Those of an array of the caller, with a row for each message.
    pub(crate) fn of(array: &Bound<'_, PyAny>, count: usize) -> PyResult<Self> {
        let fields = array.py().import("numpy")?.getattr("dtype")?;
        let wanted = fields.call1((DETAILS.to_vec(),))?;
        let given = array.getattr_opt("dtype")?;
        if !given.is_some_and(|given| given.eq(&wanted).unwrap_or(false)) {
            return Err(PyTypeError::new_err(
                "details: give an array of numpy with dtype=olivine.DETAILS",
            ));
        }
        let rows = Rows::of(array, true)?;
        if rows.row != size_of::<Detail>() || rows.count < count {
            return Err(PyValueError::new_err(format!(
                "details has {} rows of {} bytes for {count} messages: give one row for each row \
                 of the array, with one axis",
                rows.count, rows.row
            )));
        }
        Ok(Self(rows))
    }

    /// Those of an array that [`Empty`] made.
    pub(crate) fn made(array: &Bound<'_, PyAny>, count: usize) -> PyResult<Self> {
        Rows::made(array, count, size_of::<Detail>()).map(Self)
    }

    pub(crate) fn put(&self, index: usize, detail: Detail) {
        let mut bytes = [0; size_of::<Detail>()];
        bytes[..4].copy_from_slice(&detail.tag.to_ne_bytes());
        bytes[4..8].copy_from_slice(&detail.lane.to_ne_bytes());
        bytes[8..].copy_from_slice(&detail.position.to_ne_bytes());
        self.0.put(index, &bytes);
    }
}

/// A tag for each row, or one for all.
pub(crate) enum Tags {
    One(u32),
    Each(Rows),
}

impl Tags {
    /// `tag` of a call that publishes `count` rows.
    pub(crate) fn of(tag: &Bound<'_, PyAny>, count: usize) -> PyResult<Self> {
        let wrong = || {
            PyTypeError::new_err(
                "tag: give a whole number from 0 to 4294967295, or an array of 32-bit unsigned \
                 numbers in the byte order of this machine, with one for each row",
            )
        };
        // An array of numpy without an axis is a number: it has no length.
        if tag.is_instance_of::<PyInt>() || tag.len().is_err() {
            return arguments::tag(tag).map(Self::One);
        }
        let rows = Rows::of(tag, false).map_err(|_| wrong())?;
        let view = rows.held.get();
        // In the order of this machine: `>I` holds other numbers.
        let ([b'@' | b'=' | b'<', format @ ..] | format) = rows.held.format();
        if view.ndim != 1 || rows.row != 4 || !matches!(format, [b'I' | b'L']) {
            return Err(wrong());
        }
        if rows.count != count {
            return Err(PyValueError::new_err(format!(
                "tag has {} numbers for {count} rows: give one for each row",
                rows.count
            )));
        }
        Ok(Self::Each(rows))
    }

    #[inline]
    pub(crate) fn get(&self, py: Python<'_>, index: usize) -> u32 {
        match self {
            Self::One(tag) => *tag,
            Self::Each(rows) => {
                let bytes = rows.get(py, index).try_into();
                u32::from_ne_bytes(bytes.unwrap_or_default())
            }
        }
    }
}

/// A type of numpy for rows, and an empty array for them.
pub(crate) struct Empty<'py> {
    numpy: Bound<'py, PyModule>,
    /// Of a row.
    pub(crate) dtype: Bound<'py, PyAny>,
    /// Bytes of each row.
    pub(crate) row: usize,
    /// How many rows at most.
    pub(crate) limit: usize,
}

impl<'py> Empty<'py> {
    /// For up to `limit` rows of `dtype`.
    pub(crate) fn of(dtype: &Bound<'py, PyAny>, limit: Option<usize>) -> PyResult<Self> {
        let py = dtype.py();
        if dtype.is_none() {
            return Err(PyTypeError::new_err(
                "dtype=None: give the type of a row, such as \"f8\" or numpy.dtype(...)",
            ));
        }
        let numpy = PyModule::import(py, "numpy").map_err(|error| {
            let refused = PyImportError::new_err("arrays need numpy: pip install numpy");
            refused.set_cause(py, Some(error));
            refused
        })?;
        let dtype = numpy.getattr("dtype")?.call1((dtype,))?;
        refuse_dtype(&dtype)?;
        let row = dtype.getattr("itemsize")?.extract::<usize>()?;
        if row == 0 {
            return Err(PyValueError::new_err(
                "dtype: rows of 0 bytes: give a type with a size, such as \"S16\"",
            ));
        }
        let limit = limit.unwrap_or_else(|| (BYTES_DEFAULT / row).max(1));
        if limit == 0 {
            return Err(PyValueError::new_err(
                "limit=0: give a whole number from 1, or None",
            ));
        }
        Ok(Self {
            numpy,
            dtype,
            row,
            limit,
        })
    }

    /// Bytes for so many rows of this length. The system gives memory for what is written only.
    pub(crate) fn bytes(&self, row: usize) -> PyResult<Bound<'py, PyAny>> {
        let bytes = self.limit.checked_mul(row).ok_or_else(|| {
            PyValueError::new_err(format!(
                "limit={}: so many rows of {row} bytes do not fit memory: give fewer",
                self.limit
            ))
        })?;
        self.numpy.getattr("empty")?.call1((bytes, "u1"))
    }

    /// The first `count` rows of `bytes`, without the rest.
    pub(crate) fn finish(
        &self,
        bytes: Bound<'py, PyAny>,
        count: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (base, shape) = (self.dtype.getattr("base")?, self.dtype.getattr("shape")?);
        let rows = trim(bytes, count * self.row)?.call_method1("view", (base,))?;
        let shape = shape.extract::<Vec<usize>>()?;
        if shape.is_empty() {
            return Ok(rows);
        }
        let shape: Vec<usize> = [count].into_iter().chain(shape).collect();
        rows.call_method1("reshape", (shape,))
    }

    /// The first `count` rows of details.
    pub(crate) fn finish_details(
        &self,
        bytes: Bound<'py, PyAny>,
        count: usize,
    ) -> PyResult<Bound<'py, PyAny>> {
        let dtype = self.numpy.getattr("dtype")?.call1((DETAILS.to_vec(),))?;
        trim(bytes, count * size_of::<Detail>())?.call_method1("view", (dtype,))
    }
}

/// An array of bytes, cut to this length.
fn trim(bytes: Bound<'_, PyAny>, length: usize) -> PyResult<Bound<'_, PyAny>> {
    let py = bytes.py();
    if bytes.len()? == length {
        return Ok(bytes);
    }
    let keys = PyDict::new(py);
    keys.set_item("refcheck", false)?;
    // Gives the memory back. No other object knows the array.
    if bytes.call_method("resize", (length,), Some(&keys)).is_ok() {
        return Ok(bytes);
    }
    let part = pyo3::types::PySlice::new(py, 0, isize::try_from(length)?, 1);
    bytes.get_item(part)
}

/// The object shows no rows.
fn refused(py: Python<'_>, error: &PyErr, writable: bool) -> PyErr {
    if error.is_instance_of::<Error>(py) {
        return error.clone_ref(py);
    }
    let why = error.value(py);
    let remedy = if writable {
        "give an array that can be written and is contiguous in C order"
    } else {
        "give an array that is contiguous in C order, by numpy.ascontiguousarray(array)"
    };
    let refused = if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(format!("this is not an array: {why}: {remedy}"))
    } else {
        PyBufferError::new_err(format!("the array cannot be used: {why}: {remedy}"))
    };
    refused.set_cause(py, Some(error.clone_ref(py)));
    refused
}
