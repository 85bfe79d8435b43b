//! The receiving end.

use crate::errors::{closed, in_use, of_open, of_received, of_system, ours, viewed};
use crate::settings::{config, link};
use crate::views::{Span, Views, export};
use crate::waits::{aside, seconds, wait};
use core::ffi::c_int;
use olivine::{Durable, Message as RustMessage, Subscriber as RustSubscriber};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::os::fd::AsRawFd as _;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How many messages a poll takes by default.
const LIMIT_DEFAULT: usize = 256;

/// Receives messages of a channel.
#[pyclass(frozen, weakref, module = "olivine")]
pub(crate) struct Subscriber {
    state: Mutex<State>,
    /// The process that opened it.
    opener: u32,
}

struct State {
    /// `None` once closed.
    subscriber: Option<RustSubscriber>,
    /// Counts the messages handed out: a message of another number is gone.
    serial: u64,
    /// Views of the message handed out last.
    views: Views,
    /// It comes again: its handler raised.
    again: Option<Found>,
    /// What went wrong behind messages that were handed out: the next call that receives raises it.
    late: Option<PyErr>,
    /// It has ended, but for the last message, whose bytes are still looked at.
    ending: Option<Ending>,
}

/// What becomes of the message received last, for a durable subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// It was dealt with.
    Close,
    /// It comes again to the next subscriber of that name.
    Drop,
}

impl Ending {
    fn end(self, subscriber: RustSubscriber) {
        match self {
            Self::Close => subscriber.close(),
            Self::Drop => drop(subscriber),
        }
    }
}

/// A message as stored in the ring.
#[derive(Clone, Debug)]
struct Found {
    span: Span,
    tag: u32,
    lane: usize,
    position: u64,
    topic: String,
}

impl Found {
    fn of(message: &RustMessage<'_>) -> Self {
        Self {
            span: Span {
                data: message.as_ptr().cast_mut(),
                length: message.len(),
                writable: false,
            },
            tag: message.tag(),
            lane: message.lane(),
            position: message.position().0,
            topic: message.topic().to_owned(),
        }
    }
}

impl State {
    /// The subscriber, to look at.
    fn look(&self) -> PyResult<&RustSubscriber> {
        let subscriber = self.subscriber.as_ref().filter(|_| self.ending.is_none());
        subscriber.ok_or_else(|| closed("subscriber"))
    }

    /// The subscriber, to release the last message: refused while its bytes are looked at. The
    /// message is gone after the call.
    fn go_on(&mut self) -> PyResult<&mut RustSubscriber> {
        self.unviewed()?;
        // Only now: if it is refused, a message whose handler raised still comes again.
        self.again = None;
        self.serial += 1;
        self.views = Views::default();
        self.unviewed()
    }

    /// The subscriber: refused while bytes of the last message are looked at.
    fn unviewed(&mut self) -> PyResult<&mut RustSubscriber> {
        self.look()?;
        if self.views.count() > 0 {
            return Err(viewed("the message received last", self.views.count()));
        }
        self.subscriber.as_mut().ok_or_else(|| closed("subscriber"))
    }

    /// Consumes the last message, and gives the room of everything read back.
    fn release(&mut self, py: Python<'_>) -> PyResult<()> {
        let subscriber = self.go_on()?;
        // Consumes what was handed out, and hands out nothing.
        subscriber
            .poll(|_| (), 0)
            .map_err(|error| of_received(py, &error))?;
        subscriber.release();
        Ok(())
    }

    /// The next message, if there is one; the one before is gone.
    fn next(&mut self, py: Python<'_>) -> PyResult<Option<Found>> {
        if let Some(again) = self.again.take() {
            // It is still the last one.
            self.look()?;
            return Ok(Some(again));
        }
        if self.late.is_some() {
            self.look()?;
        }
        if let Some(late) = self.late.take() {
            return Err(late);
        }
        let received = self.go_on()?.try_receive();
        let received = received.map_err(|error| of_received(py, &error))?;
        Ok(received.as_ref().map(Found::of))
    }

    /// The next message of a call that has handed out `count` already. An error behind those is
    /// reported by the next call.
    fn next_of(&mut self, count: usize, py: Python<'_>) -> PyResult<Option<Found>> {
        match self.next(py) {
            Err(error) if count > 0 && !error.is_instance_of::<PyBufferError>(py) => {
                self.late = Some(error);
                Ok(None)
            }
            found => found,
        }
    }

    /// The next message within a time.
    fn next_within(
        &mut self,
        py: Python<'_>,
        timeout: Option<Duration>,
    ) -> PyResult<Option<Found>> {
        if let Some(found) = self.next(py)? {
            return Ok(Some(found));
        }
        let subscriber = self.go_on()?;
        let ready = wait(py, timeout, |slice| match subscriber.wait(slice) {
            Ok(false) => None,
            done => Some(done),
        })?;
        match ready {
            None => Ok(None),
            Some(Err(error)) => Err(of_received(py, &error)),
            // A new lane, or a message of a topic that is not asked for, is something to poll and
            // no message.
            Some(Ok(_)) => self.next(py),
        }
    }

    /// Leaves the channel, or will with the last view of the last message. What is said first
    /// holds.
    fn end(&mut self, ending: Ending) -> Option<(Ending, RustSubscriber)> {
        // A message whose handler raised is not consumed, however the subscriber ends.
        let refused = self.again.take().is_some();
        let ending = if refused { Ending::Drop } else { ending };
        let ending = *self.ending.get_or_insert(ending);
        if self.views.count() > 0 {
            return None;
        }
        Some((ending, self.subscriber.take()?))
    }
}

/// The state, unless another thread is in the middle of a call.
fn lock(state: &Mutex<State>) -> PyResult<MutexGuard<'_, State>> {
    match state.try_lock() {
        Ok(state) => Ok(state),
        // A panic was an exception already; the subscriber is whole.
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(in_use("subscriber")),
    }
}

#[pymethods]
impl Subscriber {
    #[new]
    #[pyo3(signature = (uri, **keys))]
    fn new(py: Python<'_>, uri: &str, keys: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let config = config(uri, keys)?;
        let opened = aside(py, "opening", move || RustSubscriber::open_with(&config))?;
        let subscriber = opened.map_err(|error| of_open(py, &error))?;
        Ok(Self {
            state: Mutex::new(State {
                subscriber: Some(subscriber),
                serial: 0,
                views: Views::default(),
                again: None,
                late: None,
                ending: None,
            }),
            opener: std::process::id(),
        })
    }

    fn try_receive(slf: &Bound<'_, Self>) -> PyResult<Option<Message>> {
        Self::receive_within(slf, Some(Duration::ZERO))
    }

    fn receive(slf: &Bound<'_, Self>) -> PyResult<Option<Message>> {
        Self::receive_within(slf, None)
    }

    fn receive_timeout(slf: &Bound<'_, Self>, timeout: f64) -> PyResult<Option<Message>> {
        Self::receive_within(slf, seconds(Some(timeout))?)
    }

    #[pyo3(signature = (limit = LIMIT_DEFAULT, handler = None))]
    fn poll<'py>(
        slf: &Bound<'py, Self>,
        limit: usize,
        handler: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some(handler) = handler else {
            return Self::copies(slf, limit)?.into_pyobject(py);
        };
        let mut count = 0_usize;
        while count < limit {
            let message = {
                let mut state = lock(&slf.get().state)?;
                let Some(found) = state.next_of(count, py)? else {
                    break;
                };
                Message::view(slf, &state, found).into_pyobject(py)?
            };
            if let Err(raised) = handler.call1((&message,)) {
                // It comes again, unless the handler received another message.
                let mut state = lock(&slf.get().state)?;
                let message = message.get();
                if state.serial == message.serial && state.ending.is_none() {
                    state.again = message.found();
                }
                return Err(raised);
            }
            count += 1;
        }
        Ok(count.into_pyobject(py)?.into_any())
    }

    #[pyo3(signature = (timeout = None))]
    fn wait(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let timeout = seconds(timeout)?;
        let mut state = lock(&self.state)?;
        state.look()?;
        if state.again.is_some() || state.late.is_some() {
            return Ok(true);
        }
        let subscriber = state.go_on()?;
        let ready = wait(py, timeout, |slice| match subscriber.wait(slice) {
            Ok(false) => None,
            done => Some(done),
        })?;
        ready
            .unwrap_or(Ok(false))
            .map_err(|error| of_received(py, &error))
    }

    fn release(&self, py: Python<'_>) -> PyResult<()> {
        let mut state = lock(&self.state)?;
        if state.again.is_some() {
            // The message whose handler raised is not read yet.
            state.unviewed()?.release();
            return Ok(());
        }
        state.release(py)
    }

    #[getter]
    fn position(&self) -> PyResult<u64> {
        Ok(lock(&self.state)?.look()?.position().0)
    }

    #[getter]
    fn lag(&self) -> PyResult<u64> {
        Ok(lock(&self.state)?.look()?.lag())
    }

    #[getter]
    fn durable(&self) -> PyResult<Option<&'static str>> {
        let found = lock(&self.state)?.look()?.durable();
        Ok(found.map(|found| match found {
            Durable::Created => "created",
            Durable::LostPlace { .. } => "lost place",
            _ => "resumed",
        }))
    }

    fn check_unlinked(&self) -> PyResult<bool> {
        Ok(lock(&self.state)?.look()?.check_unlinked())
    }

    #[getter]
    fn lost_bytes(&self) -> PyResult<u64> {
        Ok(lock(&self.state)?.look()?.lost_bytes())
    }

    #[getter]
    fn capacity(&self) -> PyResult<u64> {
        Ok(lock(&self.state)?.look()?.capacity())
    }

    #[getter]
    fn uri(&self) -> PyResult<String> {
        Ok(lock(&self.state)?.look()?.uri())
    }

    #[getter]
    fn link_status<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let status = lock(&self.state)?.look()?.link_status();
        status.map(|status| link(py, &status)).transpose()
    }

    fn event_fd(&self) -> PyResult<i32> {
        ours(self.opener, "subscriber")?;
        let mut state = lock(&self.state)?;
        state.look()?;
        let subscriber = state
            .subscriber
            .as_mut()
            .ok_or_else(|| closed("subscriber"))?;
        let descriptor = subscriber.event_fd();
        let descriptor =
            descriptor.map_err(|error| of_system("make a descriptor for event loops", &error))?;
        Ok(descriptor.as_raw_fd())
    }

    fn fileno(&self) -> PyResult<i32> {
        self.event_fd()
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, Ending::Close)
    }

    fn drop(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, Ending::Drop)
    }

    fn unsubscribe(&self, py: Python<'_>) -> PyResult<()> {
        let subscriber = {
            let mut state = lock(&self.state)?;
            if state.views.count() > 0 {
                return Err(viewed("the message received last", state.views.count()));
            }
            // A closed subscriber cannot forget a name: publishers would go on waiting for it.
            state.look()?;
            state.end(Ending::Close)
        };
        if let Some((_, subscriber)) = subscriber {
            py.detach(|| subscriber.unsubscribe());
        }
        Ok(())
    }

    fn __iter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __next__(slf: &Bound<'_, Self>) -> PyResult<Option<Message>> {
        let py = slf.py();
        loop {
            py.check_signals()?;
            let mut state = lock(&slf.get().state)?;
            return match state.next_within(py, None) {
                Ok(Some(found)) => Ok(Some(Message::copy(slf, &state, &found))),
                Ok(None) => continue,
                Err(error) if error.is_instance_of::<crate::errors::EndOfStream>(py) => Ok(None),
                Err(error) => Err(error),
            };
        }
    }

    fn __aiter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let messages = slf.py().import("olivine._aio")?.getattr("Messages")?;
        messages.call1((slf,))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exception: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let failed = !exception.is_none();
        self.end(py, if failed { Ending::Drop } else { Ending::Close })
    }

    fn __repr__(&self) -> String {
        let state = lock(&self.state);
        match state.as_ref().map(|state| state.look()) {
            Ok(Ok(subscriber)) => format!("<olivine.Subscriber {}>", subscriber.uri()),
            Ok(Err(_)) => "<olivine.Subscriber, closed>".to_owned(),
            Err(_) => "<olivine.Subscriber, in use>".to_owned(),
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        if let Some((ending, subscriber)) = state.end(Ending::Drop) {
            Python::attach(|py| py.detach(|| ending.end(subscriber)));
        }
    }
}

impl Subscriber {
    /// The next message within a time.
    fn receive_within(
        slf: &Bound<'_, Self>,
        timeout: Option<Duration>,
    ) -> PyResult<Option<Message>> {
        let py = slf.py();
        let mut state = lock(&slf.get().state)?;
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            // Also where something arrives all the time that is not asked for.
            py.check_signals()?;
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if let Some(found) = state.next_within(py, left)? {
                return Ok(Some(Message::view(slf, &state, found)));
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
        }
    }

    fn end(&self, py: Python<'_>, ending: Ending) -> PyResult<()> {
        let ended = lock(&self.state)?.end(ending);
        if let Some((ending, subscriber)) = ended {
            py.detach(|| ending.end(subscriber));
        }
        Ok(())
    }

    /// Copies of up to `limit` messages.
    fn copies(slf: &Bound<'_, Self>, limit: usize) -> PyResult<Vec<Message>> {
        let py = slf.py();
        let mut state = lock(&slf.get().state)?;
        let mut copies = Vec::new();
        let repeated = state.again.clone();
        while copies.len() < limit {
            match state.next_of(copies.len(), py) {
                Ok(Some(found)) => copies.push(Message::copy(slf, &state, &found)),
                Ok(None) => break,
                Err(error) => {
                    // Views of it refuse the next message: it is the only copy, which is dropped.
                    if !copies.is_empty() {
                        state.again = repeated;
                    }
                    return Err(error);
                }
            }
        }
        Ok(copies)
    }
}

/// A received message: a view of the ring, or a copy.
#[pyclass(frozen, weakref, module = "olivine")]
pub(crate) struct Message {
    subscriber: Py<Subscriber>,
    serial: u64,
    found: Found,
    views: Views,
    /// The bytes of a copy.
    copy: Option<Py<PyBytes>>,
}

impl Message {
    fn view(subscriber: &Bound<'_, Subscriber>, state: &State, found: Found) -> Self {
        Self {
            subscriber: subscriber.clone().unbind(),
            serial: state.serial,
            found,
            views: state.views.clone(),
            copy: None,
        }
    }

    fn copy(subscriber: &Bound<'_, Subscriber>, state: &State, found: &Found) -> Self {
        let py = subscriber.py();
        // SAFETY: the message received last, which lives until the subscriber goes on; its state is
        // locked.
        let bytes = unsafe { core::slice::from_raw_parts(found.span.data, found.span.length) };
        let mut copy = Self::view(subscriber, state, found.clone());
        copy.copy = Some(PyBytes::new(py, bytes).unbind());
        copy.views = Views::default();
        copy
    }

    /// Whether it is the message received last, which the subscriber has not released.
    fn is_last(&self) -> PyResult<bool> {
        if self.copy.is_none() {
            return self.alive();
        }
        // A copy can be used in any thread. A call in another thread has consumed the message; a
        // closed or dropped subscriber has already decided about it.
        let state = lock(&self.subscriber.get().state);
        Ok(state.is_ok_and(|state| state.serial == self.serial && state.look().is_ok()))
    }

    /// Refuses to look at bytes of the ring that are gone, or that belong to the parent process.
    fn there(&self) -> PyResult<()> {
        ours(self.subscriber.get().opener, "message")?;
        if !self.alive()? {
            return Err(gone());
        }
        Ok(())
    }

    /// What it was made of, if it is a view.
    fn found(&self) -> Option<Found> {
        self.copy.is_none().then(|| self.found.clone())
    }
}

#[pymethods]
impl Message {
    #[getter]
    fn tag(&self) -> u32 {
        self.found.tag
    }

    #[getter]
    fn lane(&self) -> usize {
        self.found.lane
    }

    #[getter]
    fn position(&self) -> u64 {
        self.found.position
    }

    #[getter]
    fn topic(&self) -> &str {
        &self.found.topic
    }

    /// Whether the bytes can still be looked at.
    #[getter]
    fn alive(&self) -> PyResult<bool> {
        if self.copy.is_some() {
            return Ok(true);
        }
        let state = lock(&self.subscriber.get().state)?;
        let ours = ours(self.subscriber.get().opener, "message").is_ok();
        Ok(ours && state.serial == self.serial && state.subscriber.is_some())
    }

    fn release(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_last()? {
            lock(&self.subscriber.get().state)?.release(py)?;
        }
        Ok(())
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

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

    fn __len__(&self) -> usize {
        self.found.span.length
    }

    fn __bytes__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyBytes>> {
        let py = slf.py();
        let message = slf.get();
        if let Some(copy) = &message.copy {
            return Ok(copy.bind(py).clone());
        }
        message.there()?;
        let span = message.found.span;
        // SAFETY: alive, and the interpreter is held: no other thread receives meanwhile.
        let bytes = unsafe { core::slice::from_raw_parts(span.data, span.length) };
        Ok(PyBytes::new(py, bytes))
    }

    // SAFETY: for Python alone, which gives views to fill and takes them back as the buffer
    // protocol says.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let message = slf.get();
        let mut span = message.found.span;
        if let Some(copy) = &message.copy {
            // `bytes` stay where they are.
            span.data = copy.bind(slf.py()).as_bytes().as_ptr().cast_mut();
        } else {
            message.there()?;
        }
        // SAFETY: Python's own view; a copy lives with the message, and a subscriber does not go on
        // while there are views.
        unsafe { export(slf.as_any(), span, &message.views, view, flags) }
    }

    // SAFETY: as above.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.views.release();
        if self.copy.is_some() || self.views.count() > 0 {
            return;
        }
        // The last one of a subscriber that was closed meanwhile. In use it cannot be: that would
        // be refused.
        let ended = lock(&self.subscriber.get().state)
            .ok()
            .filter(|state| state.serial == self.serial)
            .and_then(|mut state| {
                let ending = state.ending?;
                state.end(ending)
            });
        if let Some((ending, subscriber)) = ended {
            Python::attach(|py| py.detach(|| ending.end(subscriber)));
        }
    }

    fn __repr__(&self) -> String {
        let Found {
            span,
            tag,
            lane,
            position,
            topic,
        } = &self.found;
        format!(
            "<olivine.Message of {} bytes, tag {tag}, lane {lane}, position {position}, \
             topic {topic:?}>",
            span.length
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
