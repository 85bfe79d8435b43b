//! DLPack: bytes of messages and claims for libraries of tensors.
//!
//! The structures are those of DLPack 1.0. The older form cannot say that bytes are read-only.

use crate::views::Bytes;
use core::ffi::{CStr, c_void};
use core::ptr;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// `kDLCPU`, and the only one of its kind.
const CPU: Device = Device { kind: 1, index: 0 };
/// `kDLUInt`, of 8 bits, one lane.
const BYTE: Kind = Kind {
    code: 1,
    bits: 8,
    lanes: 1,
};
const VERSION: Version = Version { major: 1, minor: 0 };
const READ_ONLY: u64 = 1;
const IS_COPIED: u64 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
struct Device {
    kind: i32,
    index: i32,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Kind {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct Version {
    major: u32,
    minor: u32,
}

/// `DLTensor`.
#[repr(C)]
struct Tensor {
    data: *mut c_void,
    device: Device,
    dimensions: i32,
    kind: Kind,
    shape: *mut i64,
    strides: *mut i64,
    offset: u64,
}

/// `DLManagedTensor`.
#[repr(C)]
struct Managed {
    tensor: Tensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// `DLManagedTensorVersioned`.
#[repr(C)]
struct Versioned {
    version: Version,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut Self)>,
    flags: u64,
    tensor: Tensor,
}

/// A form of the structure that a capsule has.
trait Form: Sized {
    const NAME: &'static CStr;

    fn of(tensor: Tensor, context: *mut c_void, flags: u64) -> Self;
    fn context(&self) -> *mut c_void;
    fn delete(this: *mut Self);
}

impl Form for Managed {
    const NAME: &'static CStr = c"dltensor";

    fn of(tensor: Tensor, context: *mut c_void, _flags: u64) -> Self {
        Self {
            tensor,
            context,
            deleter: Some(delete::<Self>),
        }
    }

    fn context(&self) -> *mut c_void {
        self.context
    }

    fn delete(this: *mut Self) {
        // SAFETY: made by `capsule`, and not deleted before.
        if let Some(deleter) = unsafe { (*this).deleter } {
            // SAFETY: as above.
            unsafe { deleter(this) };
        }
    }
}

impl Form for Versioned {
    const NAME: &'static CStr = c"dltensor_versioned";

    fn of(tensor: Tensor, context: *mut c_void, flags: u64) -> Self {
        Self {
            version: VERSION,
            context,
            deleter: Some(delete::<Self>),
            flags,
            tensor,
        }
    }

    fn context(&self) -> *mut c_void {
        self.context
    }

    fn delete(this: *mut Self) {
        // SAFETY: made by `capsule`, and not deleted before.
        if let Some(deleter) = unsafe { (*this).deleter } {
            // SAFETY: as above.
            unsafe { deleter(this) };
        }
    }
}

/// What a tensor keeps: its shape, and the view or the copy that its bytes are of.
struct Context {
    shape: [i64; 1],
    strides: [i64; 1],
    _held: Held,
}

enum Held {
    View { _bytes: Bytes },
    Copy { _bytes: Box<[u8]> },
}

/// Frees a tensor. Libraries call it in any thread.
///
/// # Safety
///
/// `form` is from `capsule`, and freed once.
unsafe extern "C" fn delete<F: Form>(form: *mut F) {
    // SAFETY: from `Box::into_raw` in `wrap`, by contract.
    let form = unsafe { Box::from_raw(form) };
    // Once the interpreter has ended, the view is left as it is: its object is gone.
    let _ = Python::try_attach(|_| {
        // SAFETY: from `Box::into_raw` in `capsule`.
        drop(unsafe { Box::from_raw(form.context().cast::<Context>()) });
    });
}

/// Frees the tensor of a capsule that no library has taken. A library that takes it renames it.
///
/// # Safety
///
/// `object` is a capsule from `wrap`.
unsafe extern "C" fn forget<F: Form>(object: *mut ffi::PyObject) {
    // SAFETY: a capsule, by contract.
    if unsafe { ffi::PyCapsule_IsValid(object, F::NAME.as_ptr()) } == 0 {
        return;
    }
    // SAFETY: valid, with this name.
    let form = unsafe { ffi::PyCapsule_GetPointer(object, F::NAME.as_ptr()) };
    F::delete(form.cast::<F>());
}

fn wrap<F: Form>(py: Python<'_>, form: F) -> PyResult<Bound<'_, PyAny>> {
    let form = Box::into_raw(Box::new(form));
    // SAFETY: a pointer that is not null, a static name, and a function of this type.
    let capsule =
        unsafe { ffi::PyCapsule_New(form.cast::<c_void>(), F::NAME.as_ptr(), Some(forget::<F>)) };
    if capsule.is_null() {
        let error = PyErr::fetch(py);
        F::delete(form);
        return Err(error);
    }
    // SAFETY: a new object, ours.
    Ok(unsafe { Bound::from_owned_ptr(py, capsule) })
}

/// `object.__dlpack__(…)`: its bytes as a vector of 8-bit unsigned numbers.
pub(crate) fn capsule<'py>(
    object: &Bound<'py, PyAny>,
    stream: Option<&Bound<'py, PyAny>>,
    max_version: Option<(u32, u32)>,
    device: Option<(i32, i32)>,
    copy: Option<bool>,
) -> PyResult<Bound<'py, PyAny>> {
    let py = object.py();
    if stream.is_some() {
        return Err(PyValueError::new_err(
            "stream: the bytes are in memory of the CPU, which has no streams; give None",
        ));
    }
    if let Some((kind, index)) = device
        && (kind, index) != (CPU.kind, CPU.index)
    {
        return Err(PyBufferError::new_err(format!(
            "the bytes are in memory of the CPU, device (1, 0), and not of device ({kind}, \
             {index}): copy the tensor to it"
        )));
    }
    let is_versioned = max_version.is_some_and(|(major, _)| major >= VERSION.major);
    let is_copied = copy == Some(true);
    let bytes = Bytes::view(object)?;
    if !is_copied && !is_versioned && bytes.is_read_only() {
        return Err(PyBufferError::new_err(
            "the bytes are read-only, which DLPack before 1.0 cannot say, and this library asks \
             for that: ask for copy=True, or copy bytes(message)",
        ));
    }
    let length = i64::try_from(bytes.len()).map_err(|_| PyBufferError::new_err("too long"))?;
    let flags = match (is_copied, bytes.is_read_only()) {
        (true, _) => IS_COPIED,
        (false, true) => READ_ONLY,
        (false, false) => 0,
    };
    let (data, held) = if is_copied {
        let mut copy: Box<[u8]> = bytes.get(py).into();
        let data = copy.as_mut_ptr();
        (data, Held::Copy { _bytes: copy })
    } else {
        (bytes.data(), Held::View { _bytes: bytes })
    };
    let context = Box::into_raw(Box::new(Context {
        shape: [length],
        strides: [1],
        _held: held,
    }));
    // SAFETY: just made.
    let shape = unsafe { &raw mut (*context).shape };
    // SAFETY: as above.
    let strides = unsafe { &raw mut (*context).strides };
    let tensor = Tensor {
        data: if length == 0 {
            ptr::null_mut()
        } else {
            data.cast::<c_void>()
        },
        device: CPU,
        dimensions: 1,
        kind: BYTE,
        shape: shape.cast::<i64>(),
        strides: strides.cast::<i64>(),
        offset: 0,
    };
    let context = context.cast::<c_void>();
    if is_versioned {
        wrap(py, Versioned::of(tensor, context, flags))
    } else {
        wrap(py, Managed::of(tensor, context, flags))
    }
}

/// `object.__dlpack_device__()`.
pub(crate) fn device(py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
    PyTuple::new(py, [CPU.kind, CPU.index])
}
