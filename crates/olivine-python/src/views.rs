//! Bytes of the ring as Python sees them: the buffer protocol, and how many views there are. And
//! bytes of Python objects.

use core::ffi::{CStr, c_int, c_void};
use core::mem::MaybeUninit;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyType};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the views of one claim, or of the messages of one subscriber. Changes while the
/// interpreter is held only.
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

    /// There is one more.
    pub(crate) fn add(&self) {
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

/// Fills `view` with `span`, as a view of `owner`, which lives as long as the view. The caller
/// counts it.
///
/// # Safety
///
/// `view` is what Python passed to `__getbuffer__`; the bytes live for as long as the view.
pub(crate) unsafe fn export(
    owner: &Bound<'_, PyAny>,
    span: Span,
    view: *mut ffi::Py_buffer,
    flags: c_int,
) -> PyResult<()> {
    if view.is_null() {
        return Err(PyBufferError::new_err("there is no view to fill"));
    }
    let length = isize::try_from(span.length).map_err(|_| PyBufferError::new_err("too long"))?;
    // SAFETY: `view` may be filled by contract; it takes a reference to the owner.
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
    Ok(())
}

/// A view of an object, by the buffer protocol.
pub(crate) struct Held(ffi::Py_buffer);

// SAFETY: an address and a reference; code that reads the bytes says why it may, and releasing it
// attaches to the interpreter.
unsafe impl Send for Held {}
// SAFETY: as above.
unsafe impl Sync for Held {}

impl Held {
    /// A view of `object`, as `flags` ask for.
    pub(crate) fn of(object: &Bound<'_, PyAny>, flags: c_int) -> PyResult<Self> {
        let mut view = MaybeUninit::zeroed();
        // SAFETY: an object and a place for a view, both ours for the call.
        let answer = unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), view.as_mut_ptr(), flags) };
        if answer != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        // SAFETY: filled, as the answer says.
        Ok(Self(unsafe { view.assume_init() }))
    }

    /// A view of the bytes of `object` in a row. Refuses Python objects and addresses: they mean
    /// nothing in another process.
    fn of_bytes(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        match Self::of(object, ffi::PyBUF_ND | ffi::PyBUF_FORMAT) {
            Ok(held) => {
                held.refuse_addresses(object)?;
                Ok(held)
            }
            // numpy shows no dates with their format, but their bytes.
            Err(_) => {
                refuse_objects(object)?;
                Self::of(object, ffi::PyBUF_SIMPLE).map_err(|error| {
                    // numpy says it by ValueError, others by BufferError.
                    match Self::of(object, ffi::PyBUF_STRIDED_RO) {
                        Ok(_) => not_in_a_row(&error.value(object.py()).to_string()),
                        Err(_) => error,
                    }
                })
            }
        }
    }

    /// Refuses a view of `object` whose elements are addresses: objects or pointers.
    ///
    /// The class says it of an object of ctypes, also behind a memoryview: formats of ctypes show
    /// unions and packed structures as bytes, and names in them may have any character.
    pub(crate) fn refuse_addresses(&self, object: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = object.py();
        let shown = match object.cast::<PyMemoryView>() {
            Ok(view) => &view.getattr(intern!(py, "obj"))?,
            Err(_) => object,
        };
        let class = shown.get_type();
        // Classes of ctypes have other metaclasses than `type`: no other object pays for a look.
        if class.get_type().is(py.get_type::<PyType>())
            || shown.getattr_opt(intern!(py, "_b_base_"))?.is_none()
        {
            return match holds_addresses(self.format()) {
                true => Err(objects("")),
                false => Ok(()),
            };
        }
        refuse_address(&class)
    }

    /// The format of its elements; empty if the view has none.
    pub(crate) fn format(&self) -> &[u8] {
        if self.0.format.is_null() {
            return &[];
        }
        // SAFETY: a text that ends with 0, for as long as the view.
        unsafe { CStr::from_ptr(self.0.format) }.to_bytes()
    }

    /// The bytes of a view of bytes in a row, while the interpreter is held (see [`Bytes::get`]).
    fn bytes<'a>(&'a self, _: Python<'a>) -> &'a [u8] {
        let length = usize::try_from(self.0.len).unwrap_or(0);
        if length == 0 || self.0.buf.is_null() {
            return &[];
        }
        // SAFETY: such a view is `len` bytes in a row, alive until it is released, which needs
        // `self`.
        unsafe { core::slice::from_raw_parts(self.0.buf.cast::<u8>(), length) }
    }

    /// Whether this view of `object` shows its bytes, and not those of an object behind it.
    pub(crate) fn is_of(&self, object: &Bound<'_, PyAny>) -> bool {
        self.0.obj == object.as_ptr() && !object.is_instance_of::<PyMemoryView>()
    }

    /// The structure of the view.
    pub(crate) fn get(&self) -> &ffi::Py_buffer {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // Attached already, where calls of ours make and drop them.
        Python::attach(|_| {
            // SAFETY: a view that `PyObject_GetBuffer` filled, released once.
            unsafe { ffi::PyBuffer_Release(&raw mut self.0) };
        });
    }
}

/// Bytes of an argument, as [`Bytes`], without a reference of ours.
pub(crate) enum Given<'a, 'py> {
    Constant(&'a Bound<'py, PyBytes>),
    View(Held),
}

impl<'a, 'py> Given<'a, 'py> {
    /// Looks at the bytes of `object`.
    #[inline]
    pub(crate) fn of(object: &'a Bound<'py, PyAny>) -> PyResult<Self> {
        match object.cast_exact::<PyBytes>() {
            Ok(bytes) => Ok(Self::Constant(bytes)),
            Err(_) => Held::of_bytes(object).map(Self::View),
        }
    }

    /// The bytes, as [`Bytes::get`].
    #[inline]
    pub(crate) fn get<'b>(&'b self, py: Python<'b>) -> &'b [u8] {
        match self {
            Self::Constant(bytes) => bytes.as_bytes(),
            Self::View(held) => held.bytes(py),
        }
    }
}

/// Bytes of a Python object: of `bytes`, a `bytearray`, an array of numpy, or any other object with
/// contiguous bytes.
pub(crate) enum Bytes {
    /// `bytes` do not move or change, and need no view.
    Constant(Py<PyBytes>),
    View(Held),
}

impl Bytes {
    /// Looks at the bytes of `object`.
    #[inline]
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(bytes) = object.cast_exact::<PyBytes>() {
            return Ok(Self::Constant(bytes.clone().unbind()));
        }
        Held::of_bytes(object).map(Self::View)
    }

    /// Looks at the bytes of a message or a claim by a view of it.
    pub(crate) fn view(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        Held::of(object, ffi::PyBUF_SIMPLE).map(Self::View)
    }

    /// The bytes, while the interpreter is held: no Python code writes them meanwhile. Native code
    /// that works without the interpreter (numpy does) could, which the stub forbids its caller.
    #[inline]
    pub(crate) fn get<'a>(&'a self, py: Python<'a>) -> &'a [u8] {
        match self {
            Self::Constant(bytes) => bytes.as_bytes(py),
            Self::View(held) => held.bytes(py),
        }
    }

    /// Where they begin.
    pub(crate) fn data(&self) -> *mut u8 {
        match self {
            Self::Constant(bytes) => Python::attach(|py| bytes.as_bytes(py).as_ptr().cast_mut()),
            Self::View(held) => held.get().buf.cast::<u8>(),
        }
    }

    /// Whether they may not be written.
    pub(crate) fn is_read_only(&self) -> bool {
        match self {
            Self::Constant(_) => true,
            Self::View(held) => held.get().readonly != 0,
        }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Constant(bytes) => Python::attach(|py| bytes.as_bytes(py).len()),
            Self::View(held) => usize::try_from(held.get().len).unwrap_or(0),
        }
    }
}

/// The refusal of bytes that are not in a row.
pub(crate) fn not_in_a_row(why: &str) -> PyErr {
    PyBufferError::new_err(format!(
        "the array cannot be used: {why}: give an array that is contiguous in C order, by \
         numpy.ascontiguousarray(array)"
    ))
}

/// Refuses an object with a type of elements, as arrays of numpy have, that has Python objects.
pub(crate) fn refuse_objects(object: &Bound<'_, PyAny>) -> PyResult<()> {
    let dtype = object.getattr_opt(intern!(object.py(), "dtype"))?;
    dtype.map_or(Ok(()), |dtype| refuse_dtype(&dtype))
}

/// Refuses a dtype with Python objects.
pub(crate) fn refuse_dtype(dtype: &Bound<'_, PyAny>) -> PyResult<()> {
    let has = dtype.getattr_opt(intern!(dtype.py(), "hasobject"))?;
    match has.map_or(Ok(false), |has| has.is_truthy())? {
        true => refuse_address(dtype),
        false => Ok(()),
    }
}

/// Refuses a type of ctypes or a dtype with a field that is an address or a Python object.
fn refuse_address(kind: &Bound<'_, PyAny>) -> PyResult<()> {
    let py = kind.py();
    let fields = py.import(intern!(py, "olivine._fields"))?;
    let field = fields.call_method1(intern!(py, "address"), (kind,))?;
    let field = field.extract::<Option<String>>()?;
    field.map_or(Ok(()), |field| Err(objects(&field)))
}

/// Whether a format of the buffer protocol has elements that are addresses: objects or pointers.
fn holds_addresses(format: &[u8]) -> bool {
    let mut is_name = false;
    format.iter().enumerate().any(|(at, byte)| {
        if *byte == b':' {
            is_name = !is_name;
        }
        match byte {
            _ if is_name => false,
            // A complex number: Zf, Zd, Zg (PEP 3118). Alone it is an address of text (ctypes).
            b'Z' => !matches!(format.get(at + 1), Some(b'f' | b'd' | b'g')),
            byte => matches!(byte, b'O' | b'P' | b'&' | b'X' | b'z'),
        }
    })
}

/// The refusal of Python objects and addresses; `field` is the path of one, if it has a name.
pub(crate) fn objects(field: &str) -> PyErr {
    let named = match field {
        "" | "value" => String::new(),
        field => format!("field '{field}' is one; "),
    };
    PyTypeError::new_err(format!(
        "elements that are Python objects or addresses mean nothing in another process: {named}use \
         a dtype of numbers, or of text and bytes with a length (\"S16\", \"U8\")"
    ))
}
