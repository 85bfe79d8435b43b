//! The sending end.

use crate::ending::{Ending, failure};
use crate::errors::{closed, in_use, of_open, of_sent, ours, viewed, with};
use crate::settings::{config, link};
use crate::views::{Bytes, Span, Views, export};
use crate::waits::{aside, forget, seconds, wait};
use core::ffi::c_int;
use olivine::{BatchNotSent, Label, NotSent, Outgoing, OwnedClaim, Publisher as RustPublisher};
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMemoryView, PyTuple};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// Sends messages into a channel.
#[pyclass(frozen, weakref, module = "olivine")]
pub(crate) struct Publisher {
    state: Mutex<State>,
    /// The process that opened it.
    opener: u32,
    /// Why the stream has failed, where ending it was refused and it is still open.
    failed: Mutex<Option<String>>,
}

/// A publisher, and what it is in the middle of.
enum State {
    Open(Box<RustPublisher>),
    Claimed {
        claim: OwnedClaim,
        serial: u64,
        views: Views,
    },
    Closed,
}

impl State {
    /// The publisher, for whatever an open claim forbids.
    fn idle(&mut self) -> PyResult<&mut RustPublisher> {
        match self {
            Self::Open(publisher) => Ok(publisher),
            Self::Claimed { .. } => Err(PyValueError::new_err(
                "the publisher has an open claim: commit or abort it first",
            )),
            Self::Closed => Err(closed("publisher")),
        }
    }

    /// The publisher, to look at.
    fn look(&self) -> PyResult<&RustPublisher> {
        match self {
            Self::Open(publisher) => Ok(publisher),
            Self::Claimed { claim, .. } => Ok(claim.publisher()),
            Self::Closed => Err(closed("publisher")),
        }
    }

    /// Takes the claim of this number out, if it is open; refuses while its bytes are looked at.
    fn take_claim(&mut self, wanted: u64) -> PyResult<Option<OwnedClaim>> {
        match self {
            Self::Claimed { serial, views, .. } if *serial == wanted => {
                if views.count() > 0 {
                    return Err(viewed("the claim", views.count()));
                }
            }
            _ => return Ok(None),
        }
        match std::mem::replace(self, Self::Closed) {
            Self::Claimed { claim, .. } => Ok(Some(claim)),
            other => {
                *self = other;
                Ok(None)
            }
        }
    }
}

/// The state, unless another thread is in the middle of a call.
fn lock(state: &Mutex<State>) -> PyResult<MutexGuard<'_, State>> {
    match state.try_lock() {
        Ok(state) => Ok(state),
        // A panic was an exception already; the publisher is whole.
        Err(TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(TryLockError::WouldBlock) => Err(in_use("publisher")),
    }
}

/// The label of what is sent.
fn label(tag: u32, topic: Option<&str>) -> Label<'_> {
    let label = Label::new().tag(tag);
    topic.map_or(label, |topic| label.topic(topic))
}

/// Whether waiting may help.
fn is_everyday(error: NotSent) -> bool {
    matches!(error, NotSent::BackPressured | NotSent::NotConnected)
}

/// Waits for room, a slice of the time at a time.
fn room(
    py: Python<'_>,
    publisher: &mut RustPublisher,
    room: Outgoing<'_, usize>,
    timeout: Option<Duration>,
) -> PyResult<()> {
    let mut last = NotSent::BackPressured;
    let found = wait(py, timeout, |slice| {
        match publisher.wait_for_room(room, Some(slice)) {
            Err(error) if is_everyday(error) => {
                last = error;
                None
            }
            done => Some(done),
        }
    })?;
    found
        .unwrap_or(Err(last))
        .map_err(|error| of_sent(py, error, Some(publisher)))
}

/// Sends within a time.
fn send(
    py: Python<'_>,
    publisher: &mut RustPublisher,
    label: Label<'_>,
    message: &Bytes,
    timeout: Option<Duration>,
) -> PyResult<u64> {
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    loop {
        match publisher.try_publish(Outgoing::new(message.get(py)).label(label)) {
            Ok(position) => return Ok(position.0),
            Err(error) if is_everyday(error) => {
                // Also where there is room each time, and others take it.
                py.check_signals()?;
                let left =
                    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                room(
                    py,
                    publisher,
                    Outgoing::sized(message.len()).label(label),
                    left,
                )?;
            }
            Err(error) => return Err(of_sent(py, error, Some(publisher))),
        }
    }
}

/// One of several messages to send together.
struct Part {
    bytes: Bytes,
    tag: u32,
    topic: Option<String>,
}

impl Part {
    /// Bytes, or a tuple of bytes, a tag, and a topic.
    fn of(item: &Bound<'_, PyAny>) -> PyResult<Self> {
        let Ok(tuple) = item.cast::<PyTuple>() else {
            return Ok(Self {
                bytes: Bytes::of(item)?,
                tag: 0,
                topic: None,
            });
        };
        if !(1..=3).contains(&tuple.len()) {
            return Err(PyValueError::new_err(format!(
                "a tuple of {} is not a message: give (message, tag) or (message, tag, topic)",
                tuple.len()
            )));
        }
        let second = tuple.get_item(1).ok();
        let third = tuple.get_item(2).ok();
        Ok(Self {
            bytes: Bytes::of(&tuple.get_item(0)?)?,
            tag: second.map_or(Ok(0), |tag| tag.extract())?,
            topic: third.map_or(Ok(None), |topic| topic.extract())?,
        })
    }

    fn label(&self) -> Label<'_> {
        label(self.tag, self.topic.as_deref())
    }
}

/// Sends in batches until the deadline, counting in `published`.
fn send_batch(
    py: Python<'_>,
    publisher: &mut RustPublisher,
    parts: &[Part],
    deadline: Option<Instant>,
    published: &mut usize,
) -> PyResult<()> {
    loop {
        // Also where a slow reader makes room each time.
        py.check_signals()?;
        let messages = parts[*published..]
            .iter()
            .map(|part| Outgoing::new(part.bytes.get(py)).label(part.label()));
        let Err(BatchNotSent {
            published: more,
            reason,
        }) = publisher.try_publish_batch(messages)
        else {
            *published = parts.len();
            return Ok(());
        };
        *published += more;
        if !is_everyday(reason) {
            return Err(of_sent(py, reason, Some(publisher)));
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            return Ok(());
        }
        let next = &parts[*published];
        match room(
            py,
            publisher,
            Outgoing::sized(next.bytes.len()).label(next.label()),
            left,
        ) {
            Err(error)
                if error.is_instance_of::<crate::errors::BackPressured>(py)
                    || error.is_instance_of::<crate::errors::NotConnected>(py) =>
            {
                return Ok(());
            }
            done => done?,
        }
    }
}

#[pymethods]
impl Publisher {
    #[new]
    #[pyo3(signature = (uri, **keys))]
    fn new(py: Python<'_>, uri: &str, keys: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let config = config(uri, keys)?;
        let opened = aside(py, "opening", move || RustPublisher::open_with(&config))?;
        let publisher = opened.map_err(|error| of_open(py, &error))?;
        Ok(Self {
            state: Mutex::new(State::Open(Box::new(publisher))),
            failed: Mutex::new(None),
            opener: std::process::id(),
        })
    }

    #[pyo3(signature = (message, tag = 0, topic = None))]
    fn try_publish(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        tag: u32,
        topic: Option<&str>,
    ) -> PyResult<Option<u64>> {
        let message = Bytes::of(message)?;
        let mut state = lock(&self.state)?;
        let publisher = state.idle()?;
        match publisher.try_publish(Outgoing::new(message.get(py)).label(label(tag, topic))) {
            Ok(position) => Ok(Some(position.0)),
            Err(error) if is_everyday(error) => Ok(None),
            Err(error) => Err(of_sent(py, error, Some(publisher))),
        }
    }

    #[pyo3(signature = (message, tag = 0, topic = None))]
    fn publish(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        tag: u32,
        topic: Option<&str>,
    ) -> PyResult<u64> {
        let message = Bytes::of(message)?;
        let mut state = lock(&self.state)?;
        send(py, state.idle()?, label(tag, topic), &message, None)
    }

    #[pyo3(signature = (message, timeout, tag = 0, topic = None))]
    fn publish_timeout(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        timeout: f64,
        tag: u32,
        topic: Option<&str>,
    ) -> PyResult<u64> {
        let message = Bytes::of(message)?;
        let timeout = seconds(Some(timeout))?;
        let mut state = lock(&self.state)?;
        send(py, state.idle()?, label(tag, topic), &message, timeout)
    }

    fn try_publish_batch(&self, py: Python<'_>, messages: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.batch(py, messages, Some(Duration::ZERO))
    }

    fn publish_batch(&self, py: Python<'_>, messages: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.batch(py, messages, None)
    }

    fn publish_batch_timeout(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        timeout: f64,
    ) -> PyResult<usize> {
        self.batch(py, messages, seconds(Some(timeout))?)
    }

    #[pyo3(signature = (length, tag = 0, topic = None))]
    fn try_claim(
        slf: &Bound<'_, Self>,
        length: usize,
        tag: u32,
        topic: Option<&str>,
    ) -> PyResult<Option<Claim>> {
        let room = Outgoing::sized(length).label(label(tag, topic));
        match Self::reserve(slf, room, Some(Duration::ZERO)) {
            Err(error)
                if error.is_instance_of::<crate::errors::BackPressured>(slf.py())
                    || error.is_instance_of::<crate::errors::NotConnected>(slf.py()) =>
            {
                Ok(None)
            }
            done => done.map(Some),
        }
    }

    #[pyo3(signature = (length, tag = 0, topic = None))]
    fn claim(
        slf: &Bound<'_, Self>,
        length: usize,
        tag: u32,
        topic: Option<&str>,
    ) -> PyResult<Claim> {
        Self::reserve(slf, Outgoing::sized(length).label(label(tag, topic)), None)
    }

    #[pyo3(signature = (length, timeout, tag = 0, topic = None))]
    fn claim_timeout(
        slf: &Bound<'_, Self>,
        length: usize,
        timeout: f64,
        tag: u32,
        topic: Option<&str>,
    ) -> PyResult<Claim> {
        let timeout = seconds(Some(timeout))?;
        Self::reserve(
            slf,
            Outgoing::sized(length).label(label(tag, topic)),
            timeout,
        )
    }

    #[pyo3(signature = (count, timeout = None))]
    fn wait_for_subscribers(
        &self,
        py: Python<'_>,
        count: usize,
        timeout: Option<f64>,
    ) -> PyResult<bool> {
        self.wait_until(py, timeout, |publisher, slice| {
            publisher.wait_for_subscribers(count, Some(slice))
        })
    }

    #[pyo3(signature = (timeout = None))]
    fn wait_drained(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        self.wait_until(py, timeout, |publisher, slice| {
            publisher.wait_drained(Some(slice))
        })
    }

    #[getter]
    fn cursor(&self) -> PyResult<u64> {
        Ok(lock(&self.state)?.look()?.cursor().0)
    }

    #[getter]
    fn message_max(&self) -> PyResult<usize> {
        Ok(lock(&self.state)?.look()?.message_max())
    }

    #[getter]
    fn capacity(&self) -> PyResult<u64> {
        Ok(lock(&self.state)?.look()?.capacity())
    }

    fn check_unlinked(&self) -> PyResult<bool> {
        Ok(lock(&self.state)?.look()?.check_unlinked())
    }

    fn count_subscribers(&self) -> PyResult<usize> {
        Ok(lock(&self.state)?.look()?.count_subscribers())
    }

    #[getter]
    fn topic(&self) -> PyResult<Option<String>> {
        Ok(lock(&self.state)?.look()?.topic().map(str::to_owned))
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

    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = lock(&self.state)?.look()?.stats();
        let dict = PyDict::new(py);
        dict.set_item("back_pressure_count", stats.back_pressure_count)?;
        dict.set_item("back_pressure_ns", stats.back_pressure_ns)?;
        dict.set_item("wakes", stats.wakes)?;
        dict.set_item("evicted", stats.evicted)?;
        dict.set_item("reclaimed", stats.reclaimed)?;
        Ok(dict)
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, None)
    }

    fn close_failed(&self, py: Python<'_>, reason: String) -> PyResult<()> {
        self.end(py, Some(reason))
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exception: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        match self.end(py, failure(exception, value)) {
            // A claim is still looked at, by what the exception holds as a rule: the stream ends,
            // with this reason, when the publisher is collected.
            Err(error) if !exception.is_none() && error.is_instance_of::<PyBufferError>(py) => {
                Ok(())
            }
            done => done,
        }
    }

    fn __repr__(&self) -> String {
        let state = lock(&self.state);
        match state.as_ref().map(|state| state.look()) {
            Ok(Ok(publisher)) => format!("<olivine.Publisher {}>", publisher.uri()),
            Ok(Err(_)) => "<olivine.Publisher, closed>".to_owned(),
            Err(_) => "<olivine.Publisher, in use>".to_owned(),
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let state = state.unwrap_or_else(PoisonError::into_inner);
        let publisher = match std::mem::replace(state, State::Closed) {
            State::Open(publisher) => publisher,
            State::Claimed { claim, .. } => claim.abort(),
            State::Closed => return,
        };
        let failed = self.failed.get_mut();
        let failed = failed.unwrap_or_else(PoisonError::into_inner).take();
        forget(Ending::new(publisher, failed));
    }
}

impl Publisher {
    /// Closes it; as failed where there is a reason, now or from an earlier call that was refused.
    fn end(&self, py: Python<'_>, failure: Option<String>) -> PyResult<()> {
        let publisher = match self.take() {
            Ok(Some(publisher)) => publisher,
            Ok(None) => return Ok(()),
            Err(refused) => {
                // The stream is still open. It ends with this reason when a later call closes it,
                // or when it is collected.
                if let Some(failure) = failure {
                    self.failure().get_or_insert(failure);
                }
                return Err(refused);
            }
        };
        let failure = failure.or_else(|| self.failure().take());
        let mut ending = Ending::new(publisher, failure);
        // It may linger.
        let closed = aside(py, "closing", move || ending.end())?;
        closed.map_err(|error| of_sent(py, error, None))
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the publisher out to close it; `None` if that was done before. Refused while another
    /// thread is in a call, or a claim is looked at.
    fn take(&self) -> PyResult<Option<Box<RustPublisher>>> {
        let mut state = lock(&self.state)?;
        if let State::Claimed { views, .. } = &*state
            && views.count() > 0
        {
            return Err(viewed("the claim", views.count()));
        }
        Ok(match std::mem::replace(&mut *state, State::Closed) {
            State::Open(publisher) => Some(publisher),
            State::Claimed { claim, .. } => Some(claim.abort()),
            State::Closed => None,
        })
    }

    fn batch(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        timeout: Option<Duration>,
    ) -> PyResult<usize> {
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let parts = messages
            .try_iter()?
            .map(|message| Part::of(&message?))
            .collect::<PyResult<Vec<_>>>()
            // Nothing is sent before all of them are there.
            .map_err(|error| with(py, error, "published", 0_u64))?;
        let mut state = lock(&self.state)?;
        let mut published = 0;
        match send_batch(py, state.idle()?, &parts, deadline, &mut published) {
            Ok(()) => Ok(published),
            // A repetition begins behind those.
            Err(error) => Err(with(py, error, "published", published as u64)),
        }
    }

    fn reserve(
        slf: &Bound<'_, Self>,
        wanted: Outgoing<'_, usize>,
        timeout: Option<Duration>,
    ) -> PyResult<Claim> {
        let py = slf.py();
        let mut state = lock(&slf.get().state)?;
        room(py, state.idle()?, wanted, timeout)?;
        let State::Open(publisher) = std::mem::replace(&mut *state, State::Closed) else {
            return Err(closed("publisher"));
        };
        match OwnedClaim::try_claim(publisher, wanted) {
            Ok(mut claim) => {
                let span = Span {
                    data: claim.as_mut_ptr(),
                    length: claim.len(),
                    writable: true,
                };
                let views = Views::default();
                // Relaxed: only to tell claims apart.
                let serial = CLAIMS.fetch_add(1, Ordering::Relaxed);
                *state = State::Claimed {
                    claim,
                    serial,
                    views: views.clone(),
                };
                Ok(Claim {
                    publisher: slf.clone().unbind(),
                    serial,
                    span,
                    views,
                    shown: Mutex::new(None),
                    failed: AtomicBool::new(false),
                })
            }
            Err((publisher, error)) => {
                let error = of_sent(py, error, Some(&publisher));
                *state = State::Open(publisher);
                Err(error)
            }
        }
    }

    fn wait_until(
        &self,
        py: Python<'_>,
        timeout: Option<f64>,
        mut reached: impl FnMut(&mut RustPublisher, Duration) -> Result<bool, NotSent> + Send,
    ) -> PyResult<bool> {
        let timeout = seconds(timeout)?;
        let mut state = lock(&self.state)?;
        let publisher = state.idle()?;
        let found = wait(py, timeout, |slice| match reached(publisher, slice) {
            Ok(false) => None,
            done => Some(done),
        })?;
        found
            .unwrap_or(Ok(false))
            .map_err(|error| of_sent(py, error, Some(publisher)))
    }
}

/// Numbers the claims of the process.
static CLAIMS: AtomicU64 = AtomicU64::new(0);

/// A reserved message, to be filled in place.
#[pyclass(frozen, weakref, module = "olivine")]
pub(crate) struct Claim {
    publisher: Py<Publisher>,
    serial: u64,
    span: Span,
    views: Views,
    /// The view that `__enter__` gave.
    shown: Mutex<Option<Py<PyMemoryView>>>,
    /// Its block was left by an exception while its bytes were looked at: it is given up with the
    /// last view.
    failed: AtomicBool,
}

impl Claim {
    /// Refused in a forked child.
    fn is_open(&self) -> PyResult<bool> {
        ours(self.publisher.get().opener, "claim")?;
        let state = lock(&self.publisher.get().state)?;
        Ok(matches!(&*state, State::Claimed { serial, .. } if *serial == self.serial))
    }

    /// Lets go of the view that `__enter__` gave. Refused while others look at its bytes.
    fn hide(&self, py: Python<'_>) -> PyResult<()> {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        // Taken out either way: the view holds us, and must not be held by us for ever.
        if let Some(view) = shown.take() {
            view.call_method0(py, "release")?;
        }
        Ok(())
    }
}

#[pymethods]
impl Claim {
    fn commit(&self, py: Python<'_>) -> PyResult<u64> {
        self.hide(py)?;
        let mut state = lock(&self.publisher.get().state)?;
        let Some(claim) = state.take_claim(self.serial)? else {
            return Err(PyValueError::new_err(
                "the claim was committed or aborted before: claim again",
            ));
        };
        let (publisher, position) = claim.commit();
        let position = position
            .map(|position| position.0)
            .map_err(|error| of_sent(py, error, Some(&publisher)));
        *state = State::Open(publisher);
        position
    }

    fn abort(&self, py: Python<'_>) -> PyResult<()> {
        self.hide(py)?;
        let mut state = lock(&self.publisher.get().state)?;
        if let Some(claim) = state.take_claim(self.serial)? {
            *state = State::Open(claim.abort());
        }
        Ok(())
    }

    fn __enter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyMemoryView>> {
        let view = PyMemoryView::from(slf.as_any())?;
        let mut shown = slf
            .get()
            .shown
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *shown = Some(view.clone().unbind());
        Ok(view)
    }

    fn __exit__(
        &self,
        py: Python<'_>,
        exception: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        if !exception.is_none() {
            // Where its bytes are still looked at it is given up later, with the last view: the
            // exception matters more. Relaxed here and below: the interpreter's lock orders.
            self.failed.store(true, Ordering::Relaxed);
            let _ = self.abort(py);
        } else if self.is_open()? {
            self.commit(py)?;
        }
        Ok(())
    }

    fn __len__(&self) -> usize {
        self.span.length
    }

    // SAFETY: for Python alone, which gives views to fill and takes them back as the buffer
    // protocol says.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let claim = slf.get();
        if !claim.is_open()? {
            return Err(PyValueError::new_err("the claim was committed or aborted"));
        }
        // SAFETY: Python's own view; open claims are neither committed nor aborted while there are
        // views.
        unsafe { export(slf.as_any(), claim.span, &claim.views, view, flags) }
    }

    // SAFETY: as above.
    unsafe fn __releasebuffer__(&self, _view: *mut ffi::Py_buffer) {
        self.views.release();
        if self.failed.load(Ordering::Relaxed) {
            self.give_up();
        }
    }

    fn __repr__(&self) -> String {
        format!("<olivine.Claim of {} bytes>", self.span.length)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // No view of it exists any more: a view would keep it alive.
        self.give_up();
    }
}

impl Claim {
    /// Aborts it, unless its bytes are still looked at. Where the publisher is in use it has no
    /// claim of ours.
    fn give_up(&self) {
        if let Ok(mut state) = lock(&self.publisher.get().state)
            && let Ok(Some(claim)) = state.take_claim(self.serial)
        {
            *state = State::Open(claim.abort());
        }
    }
}
