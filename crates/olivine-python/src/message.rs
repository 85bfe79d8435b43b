//! A received message: a view of the ring, or a copy of it.

use crate::errors::ours;
use crate::subscriber::{State, Subscriber, lock};
use crate::tensor;
use crate::views::{Span, export};
use core::cell::UnsafeCell;
use core::ffi::c_int;
use olivine::Message as RustMessage;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

/// Up to how many bytes a copy holds in its object. Longer copies have an object for their bytes.
const SMALL_MAX: usize = 64;

/// A message as stored in the ring.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) span: Span,
    tag: u32,
    lane: u32,
    position: u64,
    topic: Box<str>,
}

impl Found {
    pub(crate) fn of(message: &RustMessage<'_>) -> Self {
        Self {
            span: Span {
                data: message.as_ptr().cast_mut(),
                length: message.len(),
                writable: false,
            },
            tag: message.tag(),
            lane: lane(message),
            position: message.position().0,
            topic: message.topic().into(),
        }
    }

    /// What came with the bytes.
    pub(crate) fn details(&self) -> (u32, u32, u64) {
        (self.tag, self.lane, self.position)
    }
}

/// The lane of a message: there are at most 256.
pub(crate) fn lane(message: &RustMessage<'_>) -> u32 {
    u32::try_from(message.lane()).unwrap_or(u32::MAX)
}

/// A received message: bytes, by the buffer protocol and DLPack, and what came with them.
///
/// A view of a message of the ring that was taken before a fork shows the ring in the child, too:
/// its bytes change there once the parent goes on. Take copies, by `bytes(message)`, before a fork.
#[pyclass(frozen, weakref, module = "olivine")]
pub(crate) struct Message {
    subscriber: Py<Subscriber>,
    /// Changes while only an iterator has the message: see [`Message::refill`].
    content: UnsafeCell<Content>,
}

// SAFETY: the content changes only where no other thread can have the message.
unsafe impl Sync for Message {}

/// What is in a message.
struct Content {
    serial: u64,
    position: u64,
    tag: u32,
    lane: u32,
    topic: Box<str>,
    body: Body,
}

enum Body {
    /// In the ring.
    View(Span),
    /// A copy in place.
    Small {
        length: u8,
        bytes: [u8; SMALL_MAX],
    },
    Large(Py<PyBytes>),
}

impl Message {
    pub(crate) fn view(subscriber: &Bound<'_, Subscriber>, state: &State, found: Found) -> Self {
        let body = Body::View(found.span);
        Self::of(subscriber, state.serial, found, body)
    }

    fn of(subscriber: &Bound<'_, Subscriber>, serial: u64, found: Found, body: Body) -> Self {
        Self {
            subscriber: subscriber.clone().unbind(),
            content: UnsafeCell::new(Content {
                serial,
                position: found.position,
                tag: found.tag,
                lane: found.lane,
                topic: found.topic,
                body,
            }),
        }
    }

    /// A copy of a message that was found before: the one received last, of this number.
    pub(crate) fn copy<'py>(
        subscriber: &Bound<'py, Subscriber>,
        state: &State,
        found: Found,
    ) -> PyResult<Bound<'py, Self>> {
        let py = subscriber.py();
        // SAFETY: the message received last, which lives until the subscriber goes on; its state is
        // locked.
        let bytes = unsafe { core::slice::from_raw_parts(found.span.data, found.span.length) };
        let body = Body::copy(py, bytes);
        Self::of(subscriber, state.serial, found, body).untracked(py)
    }

    /// A copy of a message that was received now, and got this number.
    #[inline]
    pub(crate) fn copy_of<'py>(
        subscriber: &Bound<'py, Subscriber>,
        serial: u64,
        message: &RustMessage<'_>,
    ) -> PyResult<Bound<'py, Self>> {
        let py = subscriber.py();
        let body = Body::copy(py, message);
        Self::of(subscriber, serial, Found::of(message), body).untracked(py)
    }

    /// Makes an earlier small copy the copy of a message that was received now, if the caller has
    /// the only reference to it. Whether it is one now.
    #[inline]
    pub(crate) fn refill(
        earlier: &Bound<'_, Self>,
        weakrefs: usize,
        serial: u64,
        message: &RustMessage<'_>,
    ) -> bool {
        // Without the interpreter's lock a number of references says nothing.
        if cfg!(Py_GIL_DISABLED) || !message.topic().is_empty() {
            return false;
        }
        let count = message.len();
        let Ok(new) = u8::try_from(count) else {
            return false;
        };
        let object = earlier.as_ptr();
        // SAFETY: a live object.
        let references = unsafe { ffi::Py_REFCNT(object) };
        // SAFETY: at that place the object has the list of its weak references.
        let weak = unsafe { object.byte_add(weakrefs) };
        // SAFETY: as above.
        let weak = unsafe { weak.cast::<*mut ffi::PyObject>().read() };
        if references != 1 || !weak.is_null() {
            return false;
        }
        // SAFETY: the caller has the only reference, and no other code of Python runs
        // meanwhile.
        let content = unsafe { &mut *earlier.get().content.get() };
        let Body::Small { length, bytes } = &mut content.body else {
            return false;
        };
        let Some(place) = bytes.get_mut(..count) else {
            return false;
        };
        place.copy_from_slice(message);
        *length = new;
        content.serial = serial;
        content.position = message.position().0;
        content.tag = message.tag();
        content.lane = lane(message);
        true
    }

    #[inline]
    fn content(&self) -> &Content {
        // SAFETY: it changes only while its iterator has the only reference.
        unsafe { &*self.content.get() }
    }

    /// Whether its bytes are in the object, and it has no topic.
    pub(crate) fn is_small(&self) -> bool {
        let content = self.content();
        matches!(content.body, Body::Small { .. }) && content.topic.is_empty()
    }

    /// As an object that the collector does not look at: a copy refers to its subscriber and to
    /// bytes, and neither refers to it.
    fn untracked(self, py: Python<'_>) -> PyResult<Bound<'_, Self>> {
        let object = Bound::new(py, self)?;
        // SAFETY: an object of a class with a collector's header, as all classes of pyo3 are.
        unsafe { ffi::PyObject_GC_UnTrack(object.as_ptr().cast()) };
        Ok(object)
    }

    fn is_copy(&self) -> bool {
        !matches!(self.content().body, Body::View(_))
    }

    fn length(&self, py: Python<'_>) -> usize {
        match &self.content().body {
            Body::View(span) => span.length,
            Body::Small { length, .. } => usize::from(*length),
            Body::Large(bytes) => bytes.bind(py).as_bytes().len(),
        }
    }

    /// Whether it is the message received last, which the subscriber has not released.
    fn is_last(&self, py: Python<'_>) -> PyResult<bool> {
        if !self.is_copy() {
            return self.is_there(py);
        }
        // A copy can be used in any thread. A call in another thread has consumed the message; a
        // closed or dropped subscriber has already decided about it.
        let state = lock(py, self.subscriber.get());
        Ok(state.is_ok_and(|state| state.serial == self.content().serial && state.look().is_ok()))
    }

    /// Whether the bytes of a view can be looked at.
    fn is_there(&self, py: Python<'_>) -> PyResult<bool> {
        if ours(self.subscriber.get().opener, "message").is_err() {
            return Ok(false);
        }
        let state = lock(py, self.subscriber.get())?;
        Ok(state.serial == self.content().serial && state.is_attached())
    }

    /// Where the bytes are. Refuses bytes of the ring that are gone, or that belong to the parent
    /// process.
    fn span(&self, py: Python<'_>) -> PyResult<Span> {
        let bytes = match &self.content().body {
            Body::View(span) => {
                ours(self.subscriber.get().opener, "message")?;
                return if self.is_there(py)? {
                    Ok(*span)
                } else {
                    Err(gone())
                };
            }
            Body::Small { length, bytes } => &bytes[..usize::from(*length)],
            // `bytes` stay where they are.
            Body::Large(bytes) => bytes.bind(py).as_bytes(),
        };
        Ok(Span {
            data: bytes.as_ptr().cast_mut(),
            length: bytes.len(),
            writable: false,
        })
    }
}

impl Body {
    #[inline]
    fn copy(py: Python<'_>, message: &[u8]) -> Self {
        match u8::try_from(message.len()) {
            Ok(length) if message.len() <= SMALL_MAX => {
                let mut bytes = [0; SMALL_MAX];
                bytes[..message.len()].copy_from_slice(message);
                Self::Small { length, bytes }
            }
            _ => Self::Large(PyBytes::new(py, message).unbind()),
        }
    }
}

#[pymethods]
impl Message {
    /// The number that the publisher gave; 0 if none.
    #[getter]
    fn tag(&self) -> u32 {
        self.content().tag
    }

    /// The index of the publisher's lane.
    #[getter]
    fn lane(&self) -> u32 {
        self.content().lane
    }

    /// Where its frame begins in its lane, in bytes. Of a message of `file://` it is not what
    /// `from=position:` takes.
    #[getter]
    fn position(&self) -> u64 {
        self.content().position
    }

    /// The topic; empty for a message without one.
    #[getter]
    fn topic(&self) -> &str {
        &self.content().topic
    }

    /// Whether the bytes can be read: copies always, views until the subscriber goes on.
    #[getter]
    fn alive(&self, py: Python<'_>) -> PyResult<bool> {
        if self.is_copy() {
            return Ok(true);
        }
        self.is_there(py)
    }

    /// Consumes the message and gives its room back now. BufferError while views of it exist.
    ///
    /// Leaving the message's `with` block does the same. After an exception in the block, the
    /// subscriber's next call consumes it. Once the subscriber has gone on, this does nothing. The
    /// bytes of a copy stay.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_last(py)? {
            return lock(py, self.subscriber.get())?.release(py);
        }
        ours(self.subscriber.get().opener, "message")
    }

    /// The message.
    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    /// Releases the message, unless there is an exception.
    fn __exit__(
        &self,
        py: Python<'_>,
        exception: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if exception.is_none() {
            return self.release(py);
        }
        // The message is not consumed yet: the subscriber's next call consumes it, and an end by
        // the exception does not.
        Ok(())
    }

    fn __len__(&self, py: Python<'_>) -> usize {
        self.length(py)
    }

    /// A copy of the bytes.
    fn __bytes__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        let py = slf.py();
        if let Body::Large(copy) = &slf.get().content().body {
            return Ok(copy.bind(py).clone());
        }
        let span = slf.get().span(py)?;
        // SAFETY: alive, and the interpreter is held: no other thread receives meanwhile.
        let bytes = unsafe { core::slice::from_raw_parts(span.data, span.length) };
        Ok(PyBytes::new(py, bytes))
    }

    /// The bytes for a library of tensors: a read-only vector of 8-bit unsigned numbers.
    ///
    /// `numpy.from_dlpack(message)` calls it. The tensor is a view, as a memoryview is: the
    /// subscriber does not go on while it exists. A library that asks for a DLPack version
    /// without read-only tensors is refused with BufferError, unless it asks for a copy.
    #[pyo3(signature = (*, stream = None, max_version = None, dl_device = None, copy = None))]
    fn __dlpack__<'py>(
        slf: &Bound<'py, Self>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        tensor::capsule(slf.as_any(), stream, max_version, dl_device, copy)
    }

    /// Memory of the CPU: `(1, 0)`.
    fn __dlpack_device__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        tensor::device(py)
    }

    // SAFETY: for Python alone, which gives views to fill and takes them back as the buffer
    // protocol says.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let message = slf.get();
        let span = message.span(slf.py())?;
        // SAFETY: Python's own view; a copy lives with the message, and a subscriber does not go on
        // while there are views.
        unsafe { export(slf.as_any(), span, view, flags) }?;
        if !message.is_copy() {
            message.subscriber.get().views.add();
        }
        Ok(())
    }

    // SAFETY: as above.
    unsafe fn __releasebuffer__(&self, py: Python<'_>, _view: *mut ffi::Py_buffer) {
        if self.is_copy() {
            return;
        }
        let subscriber = self.subscriber.get();
        subscriber.views.release();
        if subscriber.views.count() == 0 {
            // The last one of a subscriber that was closed meanwhile.
            subscriber.last_view_is_gone(py);
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        let Content {
            tag,
            lane,
            position,
            topic,
            ..
        } = self.content();
        format!(
            "<olivine.Message of {} bytes, tag {tag}, lane {lane}, position {position}, \
             topic {topic:?}>",
            self.length(py)
        )
    }
}

/// The message was given back.
fn gone() -> PyErr {
    PyValueError::new_err(
        "the message is gone: its subscriber went on; copy it by bytes(message) before, or poll or \
         iterate, which copy",
    )
}
