//! The sending end.

mod quick;
mod sending;
mod state;

pub(crate) use quick::install;
pub(crate) use sending::{find_room, is_everyday, label};
pub(crate) use state::{State, lock};

use crate::arguments;
use crate::claim::Claim;
use crate::ending::{Ending, failure};
use crate::errors::{NotSent, closed, made, not_async, of_described, of_sent, ours};
use crate::exclusive::Exclusive;
use crate::settings::{Opening, link};
use crate::stated::Stated;
use crate::views::Given;
use crate::waits::{Cancel, aside};
use olivine::{Outgoing, Publisher as RustPublisher};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use sending::{means_no_room, room};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Sends messages into a channel; each publisher has its lane.
///
/// While a call sends bytes, no other thread may write them. numpy, for example, writes without
/// holding the interpreter.
///
/// A message is any object whose bytes are in a row: bytes, a bytearray, an array. TypeError
/// refuses Python objects and addresses in it, BufferError bytes that are not in a row.
///
/// Keywords are keys of URIs: `print(olivine.settings())` lists them. `type=("quote v1", dtype)`
/// states the type of the channel's values, by a dtype of numpy or a structure of ctypes.
///
/// In a forked child every call raises Forked, and closing lets go of the child's copy: see Forked.
#[pyclass(frozen, weakref, module = "olivine")]
pub(crate) struct Publisher {
    pub(crate) state: Exclusive<State>,
    /// The process that opened it.
    pub(crate) opener: u32,
    cancel: Cancel,
    /// Bytes of each message, if the channel has a type.
    value_length: Option<usize>,
    stated: Option<Stated>,
    /// Why the stream has failed, where ending it was refused and it is still open.
    failed: Mutex<Option<String>>,
}

#[pymethods]
impl Publisher {
    #[new]
    #[pyo3(signature = (uri, *, r#type = None, **keys))]
    fn new(
        py: Python<'_>,
        uri: &str,
        r#type: Option<&Bound<'_, PyAny>>,
        keys: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let opening = Opening::read(uri, r#type, keys)?;
        let stated = opening.stated();
        let publisher = opening.open(py, RustPublisher::open_with, RustPublisher::open_for)?;
        Ok(Self {
            state: Exclusive::new(State::Open(Box::new(publisher))),
            failed: Mutex::new(None),
            opener: std::process::id(),
            cancel: Cancel::default(),
            value_length: stated.as_ref().map(Stated::size),
            stated,
        })
    }

    /// Sends a copy. Returns the position behind it, or None without room. Never waits.
    #[pyo3(signature = (message, tag = 0, topic = None))]
    fn try_publish(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::tag)] tag: u32,
        topic: Option<&str>,
    ) -> PyResult<Option<u64>> {
        let message = Given::of(message)?;
        self.check(message.get(py).len())?;
        let mut state = lock(py, self)?;
        let publisher = self.idle(&mut state)?;
        match publisher.try_publish(Outgoing::new(message.get(py)).label(label(tag, topic))) {
            Ok(position) => Ok(Some(position.0)),
            Err(error) if is_everyday(error) => Ok(None),
            Err(error) => Err(of_sent(py, error, publisher)),
        }
    }

    /// Sends a copy, waiting for room. Returns the position behind it, in bytes.
    ///
    /// Raises TooLong, or NotSent where the topic is refused; LinkFailed where the far side is
    /// gone; Cancelled after `cancel`.
    #[pyo3(signature = (message, tag = 0, topic = None))]
    fn publish(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::tag)] tag: u32,
        topic: Option<&str>,
    ) -> PyResult<u64> {
        self.send(py, message, label(tag, topic), None)
    }

    /// As `publish`, but raises BackPressured or NotConnected when the time is over.
    #[pyo3(signature = (message, timeout, tag = 0, topic = None))]
    fn publish_timeout(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::bound)] timeout: Option<Duration>,
        #[pyo3(from_py_with = arguments::tag)] tag: u32,
        topic: Option<&str>,
    ) -> PyResult<u64> {
        self.send(py, message, label(tag, topic), timeout)
    }

    /// Sends copies in one batch as far as there is room; how many were sent. Never waits.
    ///
    /// Each message is bytes, `(message, tag)` or `(message, tag, topic)`.
    ///
    /// What it raises has `published`, how many were sent before: a repetition begins behind those.
    fn try_publish_batch(&self, py: Python<'_>, messages: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.batch(py, messages, Some(Duration::ZERO))
    }

    /// As `try_publish_batch`, in batches as large as there is room for; waits for room.
    ///
    /// Raises what `publish` does, with `published`: how many were sent before.
    fn publish_batch(&self, py: Python<'_>, messages: &Bound<'_, PyAny>) -> PyResult<usize> {
        self.batch(py, messages, None)
    }

    /// As `publish_batch`; how many were sent when the time for all of them was over.
    fn publish_batch_timeout(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::bound)] timeout: Option<Duration>,
    ) -> PyResult<usize> {
        self.batch(py, messages, timeout)
    }

    /// Sends rows of an array, each as a message, while there is room; how many. Never waits.
    ///
    /// The first axis of the array counts the rows. It is contiguous in C order and of any type
    /// without Python objects. `tag` is a number for all rows, or an array of 32-bit unsigned
    /// numbers with one for each.
    ///
    /// With `type=`, TypeError refuses rows with other fields, and ValueError those of another
    /// length. Rows of bytes ("u1", "S24", "V24") of its length are sent as they are, and so are
    /// structures that are of neither numpy nor ctypes.
    ///
    /// What it raises has `published`, how many were sent before: a repetition begins behind those.
    #[pyo3(signature = (array, tag = None, topic = None))]
    fn try_publish_array(
        &self,
        array: &Bound<'_, PyAny>,
        tag: Option<&Bound<'_, PyAny>>,
        topic: Option<&str>,
    ) -> PyResult<usize> {
        self.array(array, tag, topic, Some(Duration::ZERO))
    }

    /// As `try_publish_array`, in batches as large as there is room for; waits for room.
    ///
    /// Raises what `publish` does, with `published`: how many were sent before.
    #[pyo3(signature = (array, tag = None, topic = None))]
    fn publish_array(
        &self,
        array: &Bound<'_, PyAny>,
        tag: Option<&Bound<'_, PyAny>>,
        topic: Option<&str>,
    ) -> PyResult<usize> {
        self.array(array, tag, topic, None)
    }

    /// As `publish_array`; how many were sent when the time for all of them was over.
    #[pyo3(signature = (array, timeout, tag = None, topic = None))]
    fn publish_array_timeout(
        &self,
        array: &Bound<'_, PyAny>,
        #[pyo3(from_py_with = arguments::bound)] timeout: Option<Duration>,
        tag: Option<&Bound<'_, PyAny>>,
        topic: Option<&str>,
    ) -> PyResult<usize> {
        self.array(array, tag, topic, timeout)
    }

    /// Waits until a message of `length` bytes has room; whether it has. Sends nothing.
    ///
    /// `timeout` is in seconds. Raises LinkFailed where the far side is gone, Cancelled after
    /// `cancel`.
    #[pyo3(signature = (length, topic = None, timeout = None))]
    fn wait_for_room(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::length)] length: usize,
        topic: Option<&str>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<Duration>,
    ) -> PyResult<bool> {
        let mut state = lock(py, self)?;
        let wanted = Outgoing::sized(length).label(label(0, topic));
        match room(py, &self.cancel, self.idle(&mut state)?, wanted, timeout) {
            Err(error) if means_no_room(py, &error) => Ok(false),
            done => done.map(|()| true).map_err(|error| self.refusal(error)),
        }
    }

    /// Ends the wait of another thread in a call of this publisher: it raises Cancelled within
    /// 50 ms. If no call waits, the next call that would wait raises it instead, once.
    ///
    /// Any thread may call it. It waits for nothing and sends nothing. It does not end `close`.
    fn cancel(&self) -> PyResult<()> {
        ours(self.opener, "publisher")?;
        self.cancel.request();
        Ok(())
    }

    /// Reserves a message, to be filled in place, if there is room, or None. Never waits.
    ///
    /// This publisher sends nothing else meanwhile.
    #[pyo3(signature = (length, tag = 0, topic = None))]
    fn try_claim(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = arguments::length)] length: usize,
        #[pyo3(from_py_with = arguments::tag)] tag: u32,
        topic: Option<&str>,
    ) -> PyResult<Option<Claim>> {
        match Self::reserve(slf, length, label(tag, topic), Some(Duration::ZERO)) {
            Err(error) if means_no_room(slf.py(), &error) => Ok(None),
            done => done.map(Some),
        }
    }

    /// As `try_claim`, waiting for room. Raises what `publish` raises.
    #[pyo3(signature = (length, tag = 0, topic = None))]
    fn claim(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = arguments::length)] length: usize,
        #[pyo3(from_py_with = arguments::tag)] tag: u32,
        topic: Option<&str>,
    ) -> PyResult<Claim> {
        Self::reserve(slf, length, label(tag, topic), None)
    }

    /// As `claim`, but raises BackPressured or NotConnected when the time is over.
    #[pyo3(signature = (length, timeout, tag = 0, topic = None))]
    fn claim_timeout(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = arguments::length)] length: usize,
        #[pyo3(from_py_with = arguments::bound)] timeout: Option<Duration>,
        #[pyo3(from_py_with = arguments::tag)] tag: u32,
        topic: Option<&str>,
    ) -> PyResult<Claim> {
        Self::reserve(slf, length, label(tag, topic), timeout)
    }

    /// Waits until so many reliable subscribers are attached; whether they are.
    ///
    /// `timeout` is in seconds. Raises LinkFailed where the far side is gone, Cancelled after
    /// `cancel`.
    #[pyo3(signature = (count, timeout = None))]
    fn wait_for_subscribers(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::count)] count: usize,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<Duration>,
    ) -> PyResult<bool> {
        self.wait_until(py, timeout, |publisher, slice| {
            publisher.wait_for_subscribers(count, Some(slice))
        })
    }

    /// Waits until every live reliable subscriber has read everything; whether they have.
    ///
    /// `timeout` is in seconds. Raises LinkFailed where the far side is gone, Cancelled after
    /// `cancel`.
    #[pyo3(signature = (timeout = None))]
    fn wait_drained(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<Duration>,
    ) -> PyResult<bool> {
        self.wait_until(py, timeout, |publisher, slice| {
            publisher.wait_drained(Some(slice))
        })
    }

    /// The position up to which this publisher has published, in bytes.
    ///
    /// A publisher elsewhere with `name=` goes on behind the program that had the name before:
    /// until it sends, this is the position behind that program's last message. 0 if
    /// that one has closed with everything delivered, and its ring is gone (`tcp://`).
    #[getter]
    fn cursor(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |publisher| publisher.cursor().0)
    }

    /// The longest message that the ring can hold, in bytes.
    #[getter]
    fn message_max(&self, py: Python<'_>) -> PyResult<usize> {
        self.look(py, |publisher| publisher.message_max())
    }

    /// Bytes of each publisher's ring; 0 until a publisher has fixed it.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |publisher| publisher.capacity())
    }

    /// Whether the channel's files were removed while it was open.
    ///
    /// A program that opens the name now gets a new channel.
    fn check_unlinked(&self, py: Python<'_>) -> PyResult<bool> {
        self.look(py, |publisher| publisher.check_unlinked())
    }

    /// Counts the reliable subscribers attached now, by system calls; reclaims the dead.
    fn count_subscribers(&self, py: Python<'_>) -> PyResult<usize> {
        self.look(py, |publisher| publisher.count_subscribers())
    }

    /// The topic of messages that are given none (`topic=`), or None.
    #[getter]
    fn topic(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.look(py, |publisher| publisher.topic().map(str::to_owned))
    }

    /// The URI of the channel with all settings that differ from their defaults.
    #[getter]
    fn uri(&self, py: Python<'_>) -> PyResult<String> {
        self.look(py, |publisher| publisher.uri())
    }

    /// State of the link of a channel elsewhere, by name; None for other channels.
    ///
    /// "stage" is its state, and "note" what it waits for or its newest problem. "address" is where
    /// it waits for far sides, "peers" how many are connected now. "connections" were made so far,
    /// "failures" broke or could not be made, "refusals" of far sides were refused, and "abandoned"
    /// far subscribers were given up. "undelivered" messages were not delivered when it ended.
    /// "messages" arrived; a sending link counts bytes only. "bytes" of frames were carried, and
    /// "acknowledged_bytes" of them acknowledged. "journal_position" is behind the last message
    /// that a replay has put into the ring.
    #[getter]
    fn link_status<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let status = self.look(py, RustPublisher::link_status)?;
        status.map(|status| link(py, &status)).transpose()
    }

    /// Counters of this publisher: "back_pressure_count", "back_pressure_ns" (nanoseconds
    /// waited for room), "wakes" (sleepers woken), "evicted" and "reclaimed" (subscribers).
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let stats = self.look(py, RustPublisher::stats)?;
        let dict = PyDict::new(py);
        dict.set_item("back_pressure_count", stats.back_pressure_count)?;
        dict.set_item("back_pressure_ns", stats.back_pressure_ns)?;
        dict.set_item("wakes", stats.wakes)?;
        dict.set_item("evicted", stats.evicted)?;
        dict.set_item("reclaimed", stats.reclaimed)?;
        Ok(dict)
    }

    /// Ends the stream, after up to `linger`; raises BackPressured if a subscriber had not read
    /// everything by then, or a far side had not acknowledged it: the text says how much.
    ///
    /// On a channel elsewhere (tcp://, nats://, file://) it waits until the far side has
    /// everything. If `linger` is 0, the default, it waits without bound for a far side that is
    /// connected, and for a full disk: set it for such channels, `linger="5s"`. An absent far side
    /// of tcp:// or nats:// is given up after `expire`, or 30 s if that is never.
    ///
    /// A publisher that is collected ends its stream in the same way, with a ResourceWarning, which
    /// `-X dev` shows. `sys.unraisablehook` gets what `close` would have raised, and prints it. If
    /// the program ends by an exception that nothing handles, it ends as failed.
    ///
    /// Over tcp:// the far side also confirms the end of the stream. If the connection breaks
    /// before it does, closing waits for it to come back: twice `timeout` plus 1 s, so 11 s by
    /// default, at least 2 s and at most `expire`. A far side that does not answer adds
    /// one `timeout`: 16 s in all. Then the end counts as received. `linger` bounds all of that.
    /// A listening publisher without `name` waits for named subscribers that are away and do
    /// not have the end: for their `expire` or its own, whichever is shorter. Its own counts as
    /// 30 s if it is never. Then it raises.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, None).map(|_| ())
    }

    /// As `close`, but ends the stream as failed: after the last message subscribers get
    /// ReceiveError with `reason` instead of EndOfStream. A journal keeps the reason.
    ///
    /// On a channel elsewhere (tcp://, nats://, file://) it returns once every far side has
    /// confirmed the reason, if there is one. The reason is awaited as the end of the stream is,
    /// but does not count as received without a confirmation: BackPressured, whose text calls the
    /// reason the end of the stream. Raises Closed where the publisher is closed: its stream has
    /// ended.
    fn close_failed(&self, py: Python<'_>, reason: String) -> PyResult<()> {
        match self.end(py, Some(reason))? {
            true => Ok(()),
            false => Err(closed("publisher")),
        }
    }

    /// The publisher. Raises Closed where it is closed.
    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        ours(slf.get().opener, "publisher")?;
        // Another thread uses it: it is open.
        if let Some(state) = slf.get().state.take(slf.py()) {
            state.look()?;
        }
        Ok(slf)
    }

    /// Raises TypeError: `olivine.aio.Publisher` is for `async with`.
    fn __aenter__(&self) -> PyResult<()> {
        Err(not_async("Publisher"))
    }

    /// Raises TypeError, as `__aenter__` does.
    fn __aexit__(
        &self,
        _exception: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        Err(not_async("Publisher"))
    }

    /// Closes. Closes as failed after an exception, except GeneratorExit and a SystemExit
    /// without an error.
    fn __exit__(
        &self,
        py: Python<'_>,
        exception: &Bound<'_, PyAny>,
        value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let failed = failure(exception, value);
        let is_failed = failed.is_some();
        match self.end(py, failed).map_err(|error| made(py, error)) {
            // A claim is still looked at, by what the exception holds as a rule: the stream ends,
            // with this reason, when the publisher is collected.
            Err(error) if !exception.is_none() && error.is_instance_of::<PyBufferError>(py) => {
                Ok(())
            }
            // The program's exception leaves the block on each transport; this one is a note.
            Err(error) if is_failed && error.is_instance_of::<NotSent>(py) => {
                // Python 3.10 has no notes.
                let _ = value.call_method1("add_note", (error.value(py).str()?,));
                Ok(())
            }
            done => done.map(|_| ()),
        }
    }

    fn __repr__(&self, py: Python<'_>) -> String {
        if ours(self.opener, "publisher").is_err() {
            return "<olivine.Publisher, of the parent process>".to_owned();
        }
        let state = lock(py, self);
        match state.as_ref().map(|state| state.look()) {
            Ok(Ok(publisher)) => format!("<olivine.Publisher {}>", publisher.uri()),
            Ok(Err(_)) => "<olivine.Publisher, closed>".to_owned(),
            Err(_) => "<olivine.Publisher, in use>".to_owned(),
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        let Some(publisher) = self.state.get_mut().end() else {
            return;
        };
        let failed = self.failed.get_mut();
        let failed = failed.unwrap_or_else(PoisonError::into_inner).take();
        let ending = Ending::new(publisher, failed);
        // In a forked child nothing lingers.
        if ours(self.opener, "publisher").is_ok() {
            ending.collect();
        }
    }
}

impl Publisher {
    /// The publisher, to send: refused while a claim is open.
    #[inline]
    fn idle<'a>(&self, state: &'a mut State) -> PyResult<&'a mut RustPublisher> {
        state.idle().map_err(|error| self.refusal(error))
    }

    /// What `of` says of the publisher. Refused in a forked child.
    fn look<R>(&self, py: Python<'_>, of: impl FnOnce(&RustPublisher) -> R) -> PyResult<R> {
        ours(self.opener, "publisher")?;
        Ok(of(lock(py, self)?.look()?))
    }

    /// What a call raises where `error` stands against it: in a forked child, that the publisher
    /// belongs to the parent. Calls that send look for a fork here, where they fail: the core
    /// refuses them too.
    #[cold]
    pub(crate) fn refusal(&self, error: PyErr) -> PyErr {
        ours(self.opener, "publisher").err().unwrap_or(error)
    }

    /// Lets go of a forked child's copy, which leaves the channel alone. The copy stays while a
    /// thread of the parent uses it, and while its claim is looked at.
    fn leave_to_parent(&self, py: Python<'_>) {
        if let Some(mut state) = self.state.take(py)
            && state.unviewed().is_ok()
        {
            drop(state.end());
        }
    }

    /// Closes it; as failed where there is a reason, now or from an earlier call that was refused.
    /// Whether it was open.
    fn end(&self, py: Python<'_>, failure: Option<String>) -> PyResult<bool> {
        if ours(self.opener, "publisher").is_err() {
            self.leave_to_parent(py);
            return Ok(true);
        }
        let publisher = match self.take(py) {
            Ok(Some(publisher)) => publisher,
            Ok(None) => return Ok(false),
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
        let ended = aside(py, "closing", move || ending.end())?;
        ended.map_err(|error| of_described(py, &error))?;
        Ok(true)
    }

    fn failure(&self) -> MutexGuard<'_, Option<String>> {
        self.failed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the publisher out to close it; `None` if that was done before. Refused while another
    /// thread is in a call, or a claim is looked at.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Box<RustPublisher>>> {
        let mut state = lock(py, self)?;
        state.unviewed()?;
        Ok(state.end())
    }
}
