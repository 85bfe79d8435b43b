//! What a subscriber is in the middle of: the message received last, and what is due.

use super::Subscriber;
use crate::errors::{
    InUse, closed, in_handler, in_use, made, of_received, ours, viewed, wrong_length,
};
use crate::exclusive::Taken;
use crate::message::{Found, lane};
use crate::rows::{Detail, Details, Rows};
use crate::views::Views;
use crate::waits::{Cancel, Deadline, wait};
use olivine::{Message as RustMessage, ReceiveError, Subscriber as RustSubscriber};
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) struct State {
    /// As that of the [`Subscriber`].
    pub(super) opener: u32,
    /// `None` once closed.
    pub(super) subscriber: Option<RustSubscriber>,
    /// It has a name: what one call takes is consumed by the next one.
    pub(super) is_durable: bool,
    /// Counts the messages handed out: a message of another number is gone.
    pub(crate) serial: u64,
    /// As those of the [`Subscriber`].
    pub(super) views: Views,
    pub(super) cancel: Arc<Cancel>,
    /// It comes again: its handler raised, or runs.
    pub(super) again: Option<Found>,
    /// As that of the [`Subscriber`].
    pub(super) handled: Arc<AtomicU64>,
    /// What went wrong behind messages that were handed out: the next call that receives raises it.
    pub(super) late: Option<PyErr>,
    /// It has ended, but for the last message, whose bytes are still looked at.
    pub(super) ending: Option<Ending>,
}

/// What becomes of the message received last, for a durable subscriber.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// It was dealt with.
    Close,
    /// It comes again to the next subscriber of that name.
    Drop,
}

impl Ending {
    pub(super) fn end(self, subscriber: RustSubscriber) {
        match self {
            Self::Close => subscriber.close(),
            Self::Drop => drop(subscriber),
        }
    }
}

impl State {
    /// The subscriber, to look at.
    pub(crate) fn look(&self) -> PyResult<&RustSubscriber> {
        let subscriber = self.subscriber.as_ref().filter(|_| self.ending.is_none());
        subscriber.ok_or_else(|| closed("subscriber"))
    }

    /// Refuses what is due without a look into the ring, once closed or in a forked child.
    pub(super) fn due(&self) -> PyResult<()> {
        ours(self.opener, "subscriber")?;
        if self.is_handled() {
            return Err(in_handler());
        }
        self.look().map(|_| ())
    }

    /// Whether the handler of the message received last runs, and has not released it.
    fn is_handled(&self) -> bool {
        // Relaxed: the interpreter's lock orders.
        self.again.is_some() && self.handled.load(Ordering::Relaxed) == self.serial
    }

    /// Why the subscriber does not go on. Calls that receive look for a fork here, where they fail:
    /// the core refuses them too.
    #[cold]
    fn refusal(&self) -> PyErr {
        let refused = ours(self.opener, "subscriber").and_then(|()| self.look().map(|_| ()));
        refused
            .err()
            .unwrap_or_else(|| viewed("the message received last", self.views.count()))
    }

    /// Whether it has not left the channel, also while it waits for a view to go.
    pub(crate) fn is_attached(&self) -> bool {
        self.subscriber.is_some()
    }

    /// The subscriber, to receive the next message of this number, where nothing else is due.
    #[inline]
    pub(super) fn ready(&mut self) -> Option<(&mut RustSubscriber, u64)> {
        if self.again.is_some()
            || self.late.is_some()
            || self.ending.is_some()
            || self.views.count() > 0
        {
            return None;
        }
        let subscriber = self.subscriber.as_mut()?;
        self.serial += 1;
        Some((subscriber, self.serial))
    }

    /// The subscriber, to release the last message: refused while its bytes are looked at. The
    /// message is gone after the call.
    pub(super) fn go_on(&mut self) -> PyResult<&mut RustSubscriber> {
        self.unviewed()?;
        // Only now: if it is refused, a message whose handler raised still comes again.
        self.again = None;
        self.serial += 1;
        self.unviewed()
    }

    /// The subscriber: refused while bytes of the last message are looked at.
    pub(super) fn unviewed(&mut self) -> PyResult<&mut RustSubscriber> {
        if self.ending.is_some() || self.views.count() > 0 || self.subscriber.is_none() {
            return Err(self.refusal());
        }
        self.subscriber.as_mut().ok_or_else(|| closed("subscriber"))
    }

    /// Consumes the last message, and gives the room of everything read back.
    pub(crate) fn release(&mut self, py: Python<'_>) -> PyResult<()> {
        let subscriber = self.go_on()?;
        // Consumes what was handed out, and hands out nothing.
        subscriber
            .poll(|_| (), 0)
            .map_err(|error| of_received(py, &error))?;
        subscriber.release();
        Ok(())
    }

    /// The next message, if there is one; the one before is gone.
    pub(super) fn next(&mut self, py: Python<'_>) -> PyResult<Option<Found>> {
        if self.again.is_some() || self.late.is_some() {
            self.due()?;
        }
        if let Some(again) = self.again.take() {
            // It is still the last one.
            return Ok(Some(again));
        }
        if let Some(late) = self.late.take() {
            return Err(late);
        }
        let received = self.go_on()?.try_receive();
        let received = received.map_err(|error| of_received(py, &error))?;
        Ok(received.as_ref().map(Found::of))
    }

    /// The next message of a call that has handed out `count` already. An error behind those is
    /// reported by the next call; a refusal says nothing about the next call, and is reported now.
    pub(super) fn next_of(&mut self, count: usize, py: Python<'_>) -> PyResult<Option<Found>> {
        match self.next(py).map_err(|error| made(py, error)) {
            Err(error)
                if count > 0
                    && !error.is_instance_of::<PyBufferError>(py)
                    && !error.is_instance_of::<InUse>(py) =>
            {
                self.late = Some(error);
                Ok(None)
            }
            found => found,
        }
    }

    /// The next message within a time.
    pub(super) fn next_within(
        &mut self,
        py: Python<'_>,
        timeout: Option<Duration>,
    ) -> PyResult<Option<Found>> {
        if let Some(found) = self.next(py)? {
            return Ok(Some(found));
        }
        let ready = self.wait(py, timeout)?;
        // A new lane, or a message of a topic that is not asked for, is something to poll and no
        // message.
        if ready { self.next(py) } else { Ok(None) }
    }

    /// Waits until there is something to poll; whether there is.
    pub(super) fn wait(&mut self, py: Python<'_>, timeout: Option<Duration>) -> PyResult<bool> {
        let cancel = Arc::clone(&self.cancel);
        let subscriber = self.go_on()?;
        let ready = wait(py, Some(&cancel), timeout, |slice| {
            match subscriber.wait(slice) {
                Ok(false) => None,
                done => Some(done),
            }
        })?;
        ready
            .unwrap_or(Ok(false))
            .map_err(|error| of_received(py, &error))
    }

    /// Copies messages into rows, as many as there are; how many. The next message stays where it
    /// does not fit a row: it is reported if it is the first.
    pub(super) fn take(
        &mut self,
        py: Python<'_>,
        rows: &Rows,
        details: Option<&Details>,
    ) -> PyResult<usize> {
        if self.again.is_some() || self.late.is_some() {
            self.due()?;
        }
        self.unviewed()?;
        let mut count = 0;
        if let Some(again) = self.again.take_if(|_| rows.count > 0) {
            if again.span.length != rows.row {
                let length = again.span.length;
                self.again = Some(again);
                return Err(wrong_length(py, length, rows.row));
            }
            // SAFETY: the message received last, which lives until the subscriber goes on.
            let bytes = unsafe { core::slice::from_raw_parts(again.span.data, again.span.length) };
            rows.put(0, bytes);
            if let Some(details) = details {
                let (tag, lane, position) = again.details();
                details.put(
                    0,
                    Detail {
                        tag,
                        lane,
                        position,
                    },
                );
            }
            count = 1;
        }
        // Going on would consume the row of a durable subscriber.
        if count == rows.count || (count > 0 && self.is_durable) {
            return Ok(count);
        }
        if let Some(late) = self.late.take() {
            if count == 0 {
                return Err(late);
            }
            self.late = Some(late);
            return Ok(count);
        }
        let is_durable = self.is_durable;
        let subscriber = self.go_on()?;
        // Other threads run meanwhile where it may take long.
        let (first, is_long) = (count, (rows.count - count) * rows.row > TAKE_ATTACHED_MAX);
        let mut copy = || match is_durable {
            true => hold_rows(subscriber, rows, details),
            false => copy_rows(subscriber, rows, details, first),
        };
        let (taken, stopped) = if is_long { py.detach(copy) } else { copy() };
        match stopped {
            Stopped::Empty => {}
            Stopped::Misfit(found) => {
                let length = found.span.length;
                self.again = Some(found);
                if taken == 0 {
                    return Err(wrong_length(py, length, rows.row));
                }
            }
            Stopped::Unread { length } if taken == 0 => {
                return Err(wrong_length(py, length, rows.row));
            }
            Stopped::Unread { .. } => {}
            Stopped::Error(error) => {
                let error = of_received(py, &error);
                if taken == 0 {
                    return Err(error);
                }
                self.late = Some(error);
            }
        }
        Ok(taken)
    }

    /// As [`State::take`], waiting for the first message. A time-out of 0 does not wait.
    pub(super) fn take_within(
        &mut self,
        py: Python<'_>,
        rows: &Rows,
        details: Option<&Details>,
        timeout: Option<Duration>,
    ) -> PyResult<usize> {
        let deadline = Deadline::after(timeout);
        loop {
            // Never behind a message that was taken: the exception would lose it.
            py.check_signals()?;
            let count = self.take(py, rows, details)?;
            let left = deadline.left();
            if count > 0 || left.is_some_and(|left| left.is_zero()) {
                return Ok(count);
            }
            self.wait(py, left)?;
        }
    }

    /// Leaves the channel, or will with the last view of the last message. What is said first
    /// holds.
    pub(super) fn end(&mut self, ending: Ending) -> Option<(Ending, RustSubscriber)> {
        // A message whose handler raised is not consumed, however the subscriber ends.
        let is_handled = self.is_handled();
        let refused = self.again.take().is_some() && !is_handled;
        let ending = if refused { Ending::Drop } else { ending };
        let ending = *self.ending.get_or_insert(ending);
        if self.views.count() > 0 {
            return None;
        }
        Some((ending, self.subscriber.take()?))
    }
}

/// Bytes that a call copies at most without letting other threads run.
const TAKE_ATTACHED_MAX: usize = 64 << 10;

/// Why no more rows were filled.
enum Stopped {
    Empty,
    /// The next message has another length. It is the one received last.
    Misfit(Found),
    /// The next message has another length. It is not received yet.
    Unread {
        length: usize,
    },
    Error(ReceiveError),
}

/// Copies messages into the rows from `first` on; how many rows are filled then.
fn copy_rows(
    subscriber: &mut RustSubscriber,
    rows: &Rows,
    details: Option<&Details>,
    first: usize,
) -> (usize, Stopped) {
    for index in first..rows.count {
        let message = match subscriber.try_receive() {
            Ok(Some(message)) => message,
            Ok(None) => return (index, Stopped::Empty),
            Err(error) => return (index, Stopped::Error(error)),
        };
        if message.len() != rows.row {
            return (index, Stopped::Misfit(Found::of(&message)));
        }
        put(rows, details, index, &message);
    }
    (rows.count, Stopped::Empty)
}

/// Copies a message into a row.
#[inline(always)]
fn put(rows: &Rows, details: Option<&Details>, index: usize, message: &RustMessage<'_>) {
    rows.put(index, message);
    if let Some(details) = details {
        let detail = Detail {
            tag: message.tag(),
            lane: lane(message),
            position: message.position().0,
        };
        details.put(index, detail);
    }
}

/// Copies messages of a durable subscriber into the rows; how many. Its next call consumes them.
fn hold_rows(
    subscriber: &mut RustSubscriber,
    rows: &Rows,
    details: Option<&Details>,
) -> (usize, Stopped) {
    let (mut count, mut unread) = (0, None);
    let polled = poll_while(subscriber, rows.count, |message| {
        if message.len() != rows.row {
            unread = Some(message.len());
            return false;
        }
        put(rows, details, count, message);
        count += 1;
        true
    });
    let stopped = match (polled, unread) {
        (Err(error), _) => Stopped::Error(error),
        (Ok(()), Some(length)) => Stopped::Unread { length },
        (Ok(()), None) => Stopped::Empty,
    };
    (count, stopped)
}

/// What a handler that stops unwinds the poll with: its message stays unread.
struct Stop;

/// Hands up to `limit` messages to `take`, until it is false: that message stays unread. The next
/// call of a durable subscriber consumes the others.
pub(super) fn poll_while(
    subscriber: &mut RustSubscriber,
    limit: usize,
    mut take: impl FnMut(&RustMessage<'_>) -> bool,
) -> Result<(), ReceiveError> {
    let hand_out = |message: RustMessage<'_>| {
        if !take(&message) {
            resume_unwind(Box::new(Stop));
        }
    };
    let poll = AssertUnwindSafe(|| subscriber.poll_and_hold(hand_out, limit));
    match catch_unwind(poll) {
        Ok(polled) => polled.map(|_| ()),
        Err(stopped) if stopped.is::<Stop>() => Ok(()),
        Err(panic) => resume_unwind(panic),
    }
}

/// The state, unless another thread is in the middle of a call. After a panic, which was an
/// exception already, it is whole.
#[inline]
pub(crate) fn lock<'a>(py: Python<'a>, subscriber: &'a Subscriber) -> PyResult<Taken<'a, State>> {
    let taken = subscriber.state.take(py);
    taken.ok_or_else(|| match ours(subscriber.opener, "subscriber") {
        Ok(()) => in_use("subscriber"),
        Err(forked) => forked,
    })
}
