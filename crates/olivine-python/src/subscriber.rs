//! The receiving end.

mod state;

pub(crate) use state::{State, lock};

use crate::arguments;
use crate::errors::{
    EndOfStream, Forked, closed, made, not_async, of_received, of_system, ours, viewed,
};
use crate::exclusive::Exclusive;
use crate::iterator::Messages;
use crate::message::Message;
use crate::rows::{Detail, Details, Empty, Rows};
use crate::settings::{Opening, link};
use crate::stated::Stated;
use crate::views::Views;
use crate::waits::{Cancel, Deadline};
use olivine::{Durable, Message as RustMessage, ReceiveError, Subscriber as RustSubscriber};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use state::{Ending, poll_while};
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Receives messages of a channel from all its publishers, in order for each publisher.
///
/// A durable subscriber (`name=`) consumes a message with the next call that receives or waits,
/// with `release`, or with `close`. If it is dropped, dies, or leaves its `with` block by an
/// exception, the next subscriber of that name gets its last message again, first; after `poll`
/// without a handler, `receive_array` and `poll_into` all messages of the last call.
///
/// Keywords are keys of URIs: `print(olivine.settings())` lists them. `type=("quote v1", dtype)`
/// states the type of the channel's values, by a dtype of numpy or a structure of ctypes.
///
/// `for` waits for each message. `async for` does not block the loop, and its messages are copies.
/// Both end when the last publisher closes, and a later loop goes on with what comes then.
///
/// In a forked child every call raises Forked, and closing lets go of the child's copy: see Forked.
#[pyclass(frozen, weakref, module = "olivine")]
pub(crate) struct Subscriber {
    pub(crate) state: Exclusive<State>,
    /// The process that opened it.
    pub(crate) opener: u32,
    stated: Option<Stated>,
    /// Views of the message received last: there are none of earlier ones.
    pub(crate) views: Views,
    cancel: Arc<Cancel>,
    /// The number of the message whose handler runs; 0 if none does. Changes while the interpreter
    /// is held only. Beside the state: a handler that returns clears it also while a call has that.
    handled: Arc<AtomicU64>,
}

#[pymethods]
impl Subscriber {
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
        let subscriber = opening.open(py, RustSubscriber::open_with, RustSubscriber::open_for)?;
        let views = Views::default();
        let cancel = Arc::<Cancel>::default();
        let handled = Arc::<AtomicU64>::default();
        Ok(Self {
            stated,
            handled: Arc::clone(&handled),
            views: views.clone(),
            cancel: Arc::clone(&cancel),
            state: Exclusive::new(State {
                opener: std::process::id(),
                is_durable: subscriber.durable().is_some(),
                subscriber: Some(subscriber),
                serial: 0,
                views,
                cancel,
                again: None,
                handled,
                late: None,
                ending: None,
            }),
            opener: std::process::id(),
        })
    }

    /// The next message, or None where there is none. Never waits.
    fn try_receive(slf: &Bound<'_, Self>) -> PyResult<Option<Message>> {
        Self::receive_within(slf, Some(Duration::ZERO))
    }

    /// The next message, a view of the ring; waits for it.
    ///
    /// The message before ends with this call: raises BufferError while a memoryview or an array
    /// still shows its bytes.
    ///
    /// Raises EndOfStream once every publisher has closed and everything was read. That is not
    /// final: if a publisher opens later, further calls return its messages. A `for` loop ends.
    fn receive(slf: &Bound<'_, Self>) -> PyResult<Option<Message>> {
        Self::receive_within(slf, None)
    }

    /// As `receive`; None when the time is over.
    fn receive_timeout(
        slf: &Bound<'_, Self>,
        #[pyo3(from_py_with = arguments::bound)] timeout: Option<Duration>,
    ) -> PyResult<Option<Message>> {
        Self::receive_within(slf, timeout)
    }

    /// Copies of up to `limit` messages. Never waits. Raises EndOfStream as `receive` does.
    ///
    /// An empty list says that there is nothing to read now. Only every few empty calls check for
    /// the end of the stream, so a few empty lists may come before it is raised; `wait` checks at
    /// once.
    ///
    /// An error behind messages (Overrun, Evicted, Corrupt) does not lose them: they are returned,
    /// and the next call that receives raises the error.
    ///
    /// A durable subscriber (`name=`) consumes all of them with its next call that receives or
    /// waits, with `release`, or with `close`. If its program is killed before, they come again.
    /// Until then they hold publishers back, up to a whole ring: before the same thread publishes
    /// into a channel that may be full, call `release`.
    ///
    /// With a handler it hands out up to `limit` messages, views of the ring, and returns how
    /// many: also where it cannot go on behind some of them, because of an error or a refusal.
    /// A handler that raises gets the same message again. Those before it are consumed, and its
    /// exception has no count: count in the handler. It must not receive: a call of this subscriber
    /// that would raises InUse.
    #[pyo3(signature = (limit = 256, handler = None))]
    fn poll<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = arguments::limit)] limit: usize,
        handler: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let Some(handler) = handler else {
            return Self::copies(slf, limit)?.into_pyobject(py);
        };
        if !handler.is_callable() {
            return Err(PyTypeError::new_err(format!(
                "handler={}: give a function that takes a message",
                handler.repr()?
            )));
        }
        let mut count = 0_usize;
        while count < limit {
            let (message, serial) = {
                let mut state = match lock(py, slf.get()) {
                    Ok(state) => state,
                    // Another thread has it: the messages that were handed out are counted.
                    Err(_) if count > 0 => break,
                    Err(refused) => return Err(refused),
                };
                let found = match state.next_of(count, py) {
                    Ok(Some(found)) => found,
                    Ok(None) => break,
                    // The next call refuses as well, if the reason is still there.
                    Err(_) if count > 0 => break,
                    Err(refused) => return Err(refused),
                };
                // Until its handler has returned it comes again.
                state.again = Some(found.clone());
                let message = Message::view(slf, &state, found).into_pyobject(py)?;
                // Relaxed here and below: the interpreter's lock orders.
                state.handled.store(state.serial, Ordering::Relaxed);
                (message, state.serial)
            };
            let done = handler.call1((&message,));
            // Not that of another thread, which got the next message once ours was released.
            let handled = &slf.get().handled;
            let _ = handled.compare_exchange(serial, 0, Ordering::Relaxed, Ordering::Relaxed);
            done?;
            count += 1;
            let Ok(mut state) = lock(py, slf.get()) else {
                break;
            };
            // The handler may have released it, and what comes again is another one.
            if state.serial == serial {
                state.again = None;
            }
            drop(state);
        }
        Ok(count.into_pyobject(py)?.into_any())
    }

    /// Waits until a poll would find something; whether it would.
    #[pyo3(signature = (timeout = None))]
    fn wait(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<Duration>,
    ) -> PyResult<bool> {
        ours(self.opener, "subscriber")?;
        let mut state = lock(py, self)?;
        state.look()?;
        if state.again.is_some() || state.late.is_some() {
            return state.due().map(|()| true);
        }
        state.wait(py, timeout)
    }

    /// Messages as rows of a new array of numpy, in order; waits for the first one.
    ///
    /// `dtype` is the type of a row, as `numpy.dtype` takes it: numbers, text and bytes with a
    /// length, structures, or an array such as `("f4", 8)`. Each message has as many bytes as a
    /// row. A message of another length ends the array before it. The next call raises WrongLength,
    /// and `receive` returns the message.
    ///
    /// The array has at most `limit` rows; without a limit as many as fit 4 MiB, at least one.
    /// After `timeout` seconds without a message it is empty; 0 does not wait. Memory is used for
    /// rows that are filled.
    ///
    /// With `details=True` it returns two arrays: the rows, and what came with them, of the type
    /// `olivine.DETAILS`: tag, lane and position.
    ///
    /// With `type=`, TypeError refuses a dtype with other fields, and ValueError a row of another
    /// length. A row of bytes ("u1", "S24", "V24") of its length takes values of every type.
    ///
    /// Errors and durable subscribers are as with `poll`: rows before an error are returned, and a
    /// durable subscriber consumes the rows with its next call.
    #[pyo3(signature = (dtype, limit = None, timeout = None, *, details = false))]
    fn receive_array<'py>(
        slf: &Bound<'py, Self>,
        dtype: &Bound<'py, PyAny>,
        #[pyo3(from_py_with = arguments::limit_or_none)] limit: Option<usize>,
        #[pyo3(from_py_with = arguments::timeout)] timeout: Option<Duration>,
        details: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let empty = Empty::of(dtype, limit)?;
        if let Some(stated) = &slf.get().stated {
            stated.check_dtype(&empty.dtype, empty.row)?;
        }
        let bytes = empty.bytes(empty.row)?;
        let beside = details
            .then(|| empty.bytes(size_of::<Detail>()))
            .transpose()?;
        let count = {
            let rows = Rows::made(&bytes, empty.limit, empty.row)?;
            let details = beside
                .as_ref()
                .map(|array| Details::made(array, empty.limit));
            let details = details.transpose()?;
            lock(py, slf.get())?.take_within(py, &rows, details.as_ref(), timeout)?
        };
        let rows = empty.finish(bytes, count)?;
        let Some(beside) = beside else {
            return Ok(rows);
        };
        let beside = empty.finish_details(beside, count)?;
        Ok((rows, beside).into_pyobject(py)?.into_any())
    }

    /// Copies messages into rows of `array`, from the first on; how many. Never waits.
    ///
    /// The first axis of the array counts the rows. It can be written, and is contiguous in C order
    /// and of any type without Python objects. Rows behind the returned number are unchanged.
    /// `details` is an array of the type `olivine.DETAILS` with one row for each row.
    ///
    /// Lengths, types, errors and durable subscribers are as with `receive_array`.
    #[pyo3(signature = (array, details = None))]
    fn poll_into(
        &self,
        py: Python<'_>,
        array: &Bound<'_, PyAny>,
        details: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<usize> {
        let rows = Rows::of(array, true)?;
        if let Some(stated) = &self.stated {
            stated.check_rows(array, &rows)?;
        }
        let details = details.map(|details| Details::of(details, rows.count));
        let details = details.transpose()?;
        lock(py, self)?.take(py, &rows, details.as_ref())
    }

    /// Ends the wait of another thread in a call of this subscriber: it raises Cancelled within
    /// 50 ms. If no call waits, the next call that would wait raises it instead, once.
    ///
    /// Any thread may call it. No message is lost: the subscriber can be used as before.
    fn cancel(&self) -> PyResult<()> {
        ours(self.opener, "subscriber")?;
        self.cancel.request();
        Ok(())
    }

    /// Gives the room of everything read back now, and consumes the message received last.
    ///
    /// A message whose handler raised, or runs, was not read: release it by `message.release()`.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        ours(self.opener, "subscriber")?;
        let mut state = lock(py, self)?;
        if state.again.is_some() {
            // The message whose handler raised is not read yet.
            state.unviewed()?.release();
            return Ok(());
        }
        state.release(py)
    }

    /// Bytes of frames read so far, over all lanes.
    #[getter]
    fn position(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |subscriber| subscriber.position().0)
    }

    /// Bytes of frames that are published and not read yet, over all lanes.
    #[getter]
    fn lag(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |subscriber| subscriber.lag())
    }

    /// What a name (name=) found when it was opened: "created", "resumed" or "lost place".
    ///
    /// "lost place": it was evicted or expired while it was away; lost_bytes says how much it
    /// missed. None without a name.
    #[getter]
    fn durable(&self, py: Python<'_>) -> PyResult<Option<&'static str>> {
        let found = self.look(py, RustSubscriber::durable)?;
        Ok(found.map(|found| match found {
            Durable::Created => "created",
            Durable::LostPlace { .. } => "lost place",
            _ => "resumed",
        }))
    }

    /// Whether the channel's files were removed while it was open.
    ///
    /// A program that opens the name now gets a new channel.
    fn check_unlinked(&self, py: Python<'_>) -> PyResult<bool> {
        self.look(py, |subscriber| subscriber.check_unlinked())
    }

    /// Bytes of frames that this subscriber missed: by overruns, or while its durable name had
    /// lost its place. 0 for a reliable subscriber that was not evicted.
    #[getter]
    fn lost_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |subscriber| subscriber.lost_bytes())
    }

    /// Bytes of each publisher's ring; 0 until a participant has named it or a publisher has
    /// fixed it.
    #[getter]
    fn capacity(&self, py: Python<'_>) -> PyResult<u64> {
        self.look(py, |subscriber| subscriber.capacity())
    }

    /// The URI of the channel with all settings that differ from their defaults.
    #[getter]
    fn uri(&self, py: Python<'_>) -> PyResult<String> {
        self.look(py, |subscriber| subscriber.uri())
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
        let status = self.look(py, RustSubscriber::link_status)?;
        status.map(|status| link(py, &status)).transpose()
    }

    /// Readable when there is something to poll; belongs to the subscriber.
    fn event_fd(&self, py: Python<'_>) -> PyResult<i32> {
        ours(self.opener, "subscriber")?;
        let mut state = lock(py, self)?;
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

    /// As `event_fd`, for `select` and `selectors`.
    fn fileno(&self, py: Python<'_>) -> PyResult<i32> {
        self.event_fd(py)
    }

    /// Leaves the channel: now, or with the last view of the message received last.
    ///
    /// A durable subscriber keeps its place, behind that message.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, Ending::Close)
    }

    /// As `close`, but a durable subscriber keeps its place before the message received last,
    /// which comes again.
    ///
    /// A subscriber that is collected, or whose `with` block an exception leaves, ends in this way.
    fn drop(&self, py: Python<'_>) -> PyResult<()> {
        self.end(py, Ending::Drop)
    }

    /// Leaves the channel and forgets a durable name.
    ///
    /// Raises Closed, and keeps the name, if it has left.
    fn unsubscribe(&self, py: Python<'_>) -> PyResult<()> {
        ours(self.opener, "subscriber")?;
        let subscriber = {
            let mut state = lock(py, self)?;
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

    fn __iter__(slf: Bound<'_, Self>) -> PyResult<Messages> {
        ours(slf.get().opener, "subscriber")?;
        Messages::of(slf)
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Option<Bound<'py, Message>>> {
        Self::next_copy(slf, |serial, message| {
            Message::copy_of(slf, serial, message)
        })
    }

    fn __aiter__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        ours(slf.get().opener, "subscriber")?;
        let messages = slf.py().import("olivine.aio")?.getattr("Messages")?;
        messages.call1((slf,))
    }

    /// The subscriber. Raises Closed where it is closed.
    fn __enter__(slf: Bound<'_, Self>) -> PyResult<Bound<'_, Self>> {
        ours(slf.get().opener, "subscriber")?;
        // Another thread uses it: it is open.
        if let Some(state) = slf.get().state.take(slf.py()) {
            state.look()?;
        }
        Ok(slf)
    }

    /// Raises TypeError: `olivine.aio.Subscriber` is for `async with`.
    fn __aenter__(&self) -> PyResult<()> {
        Err(not_async("Subscriber"))
    }

    /// Raises TypeError, as `__aenter__` does.
    fn __aexit__(
        &self,
        _exception: &Bound<'_, PyAny>,
        _value: &Bound<'_, PyAny>,
        _traceback: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        Err(not_async("Subscriber"))
    }

    /// Closes; drops where there is an exception.
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

    fn __repr__(&self, py: Python<'_>) -> String {
        if ours(self.opener, "subscriber").is_err() {
            return "<olivine.Subscriber, of the parent process>".to_owned();
        }
        let state = lock(py, self);
        match state.as_ref().map(|state| state.look()) {
            Ok(Ok(subscriber)) => format!("<olivine.Subscriber {}>", subscriber.uri()),
            Ok(Err(_)) => "<olivine.Subscriber, closed>".to_owned(),
            Err(_) => "<olivine.Subscriber, in use>".to_owned(),
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        if let Some((ending, subscriber)) = self.state.get_mut().end(Ending::Drop) {
            Python::attach(|py| py.detach(|| ending.end(subscriber)));
        }
    }
}

impl Subscriber {
    /// Ends a subscriber that was closed while a view of its last message existed. It is not in
    /// use: that would be refused.
    pub(crate) fn last_view_is_gone(&self, py: Python<'_>) {
        let ended = lock(py, self).ok().and_then(|mut state| {
            let ending = state.ending?;
            state.end(ending)
        });
        if let Some((ending, subscriber)) = ended {
            Python::attach(|py| py.detach(|| ending.end(subscriber)));
        }
    }

    /// The next message within a time.
    fn receive_within(
        slf: &Bound<'_, Self>,
        timeout: Option<Duration>,
    ) -> PyResult<Option<Message>> {
        let py = slf.py();
        let mut state = lock(py, slf.get())?;
        let deadline = Deadline::after(timeout);
        loop {
            // Also where something arrives all the time that is not asked for.
            py.check_signals()?;
            let left = deadline.left();
            if let Some(found) = state.next_within(py, left)? {
                return Ok(Some(Message::view(slf, &state, found)));
            }
            if left.is_some_and(|left| left.is_zero()) {
                return Ok(None);
            }
        }
    }

    /// The next message as `copy` makes it, waiting for it; `None` at the end of the stream.
    #[inline]
    pub(crate) fn next_copy<'py>(
        slf: &Bound<'py, Self>,
        copy: impl FnOnce(u64, &RustMessage<'_>) -> PyResult<Bound<'py, Message>>,
    ) -> PyResult<Option<Bound<'py, Message>>> {
        let py = slf.py();
        let mut state = lock(py, slf.get())?;
        if let Some((subscriber, serial)) = state.ready() {
            match subscriber.try_receive() {
                Ok(Some(message)) => return copy(serial, &message).map(Some),
                Ok(None) => {}
                Err(ReceiveError::Closed) => return Ok(None),
                Err(error) => return Err(of_received(py, &error)),
            }
        }
        Self::next_copy_later(slf, &mut state)
    }

    /// As [`Self::next_copy`], where it waits or something else is due.
    #[cold]
    fn next_copy_later<'py>(
        slf: &Bound<'py, Self>,
        state: &mut State,
    ) -> PyResult<Option<Bound<'py, Message>>> {
        let py = slf.py();
        loop {
            py.check_signals()?;
            return match state.next_within(py, None).map_err(|error| made(py, error)) {
                Ok(Some(found)) => Message::copy(slf, state, found).map(Some),
                Ok(None) => continue,
                Err(error) if error.is_instance_of::<EndOfStream>(py) => Ok(None),
                Err(error) => Err(error),
            };
        }
    }

    /// What `of` says of the subscriber. Refused in a forked child.
    fn look<R>(&self, py: Python<'_>, of: impl FnOnce(&RustSubscriber) -> R) -> PyResult<R> {
        ours(self.opener, "subscriber")?;
        Ok(of(lock(py, self)?.look()?))
    }

    fn end(&self, py: Python<'_>, ending: Ending) -> PyResult<()> {
        let ended = match lock(py, self).map_err(|error| made(py, error)) {
            Ok(mut state) => state.end(ending),
            // A forked child, and a thread of the parent was in a call: the copy stays.
            Err(error) if error.is_instance_of::<Forked>(py) => None,
            Err(error) => return Err(error),
        };
        if let Some((ending, subscriber)) = ended {
            py.detach(|| ending.end(subscriber));
        }
        Ok(())
    }

    /// Copies of up to `limit` messages.
    fn copies<'py>(slf: &Bound<'py, Self>, limit: usize) -> PyResult<Vec<Bound<'py, Message>>> {
        let py = slf.py();
        let mut state = lock(py, slf.get())?;
        // What comes first here is the last message, too, or an error.
        let is_special = state.again.is_some() || state.late.is_some();
        let limit = match state.is_durable && limit > 1 {
            true if is_special => 1,
            true => return Self::copies_held(slf, &mut state, limit),
            false => limit,
        };
        let mut copies = Vec::new();
        let repeated = state.again.clone();
        while copies.len() < limit {
            match state.next_of(copies.len(), py) {
                Ok(Some(found)) => copies.push(Message::copy(slf, &state, found)?),
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

    /// As [`Self::copies`], of a durable subscriber: its next call consumes them. Releasing the
    /// last one does so, too.
    fn copies_held<'py>(
        slf: &Bound<'py, Self>,
        state: &mut State,
        limit: usize,
    ) -> PyResult<Vec<Bound<'py, Message>>> {
        let py = slf.py();
        // `go_on` counts, too.
        let first = state.serial + 1;
        let subscriber = state.go_on()?;
        let (mut copies, mut failed) = (Vec::new(), None);
        let polled = poll_while(subscriber, limit, |message| {
            let serial = first + copies.len() as u64;
            match Message::copy_of(slf, serial, message) {
                Ok(copy) => copies.push(copy),
                Err(error) => failed = Some(error),
            }
            failed.is_none()
        });
        state.serial = first + (copies.len() as u64).saturating_sub(1);
        // A message that was not copied is unread: the copies before it come first.
        let polled = polled.map_err(|error| of_received(py, &error));
        match failed.map_or(polled, Err) {
            Err(error) if copies.is_empty() => return Err(error),
            Err(error) => state.late = Some(error),
            Ok(()) => {}
        }
        Ok(copies)
    }
}
