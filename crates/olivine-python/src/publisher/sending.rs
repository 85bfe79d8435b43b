//! Sending, claiming and waiting for room, within a time.

use super::{Publisher, State, lock};
use crate::batch::{Array, Messages, Part, send_batch};
use crate::claim::Claim;
use crate::errors::{BackPressured, NotConnected, closed, of_batch, of_sent, ours, with};
use crate::rows::{Rows, Tags};
use crate::views::{Given, Span, Views};
use crate::waits::{Cancel, Deadline, wait};
use olivine::{Label, NotSent, Outgoing, OwnedClaim, Publisher as RustPublisher};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use std::time::Duration;

/// The label of what is sent.
#[inline]
pub(crate) fn label(tag: u32, topic: Option<&str>) -> Label<'_> {
    let label = Label::new().tag(tag);
    topic.map_or(label, |topic| label.topic(topic))
}

/// Whether waiting may help.
pub(crate) fn is_everyday(error: NotSent) -> bool {
    matches!(error, NotSent::BackPressured | NotSent::NotConnected)
}

/// Whether an exception says that there was no room in time.
pub(crate) fn means_no_room(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<BackPressured>(py) || error.is_instance_of::<NotConnected>(py)
}

/// Waits for room, a slice of the time at a time.
pub(super) fn room(
    py: Python<'_>,
    cancel: &Cancel,
    publisher: &mut RustPublisher,
    room: Outgoing<'_, usize>,
    timeout: Option<Duration>,
) -> PyResult<()> {
    let found = find_room(py, cancel, publisher, room, timeout)?;
    found.map_err(|error| of_sent(py, error, publisher))
}

/// As [`room`], with the reason of the library where there is none.
pub(crate) fn find_room(
    py: Python<'_>,
    cancel: &Cancel,
    publisher: &mut RustPublisher,
    room: Outgoing<'_, usize>,
    timeout: Option<Duration>,
) -> PyResult<Result<(), NotSent>> {
    let mut last = NotSent::BackPressured;
    let found = wait(py, Some(cancel), timeout, |slice| {
        match publisher.wait_for_room(room, Some(slice)) {
            Err(error) if is_everyday(error) => {
                last = error;
                None
            }
            done => Some(done),
        }
    })?;
    Ok(found.unwrap_or(Err(last)))
}

/// Sends within a time.
#[inline]
fn send(
    py: Python<'_>,
    cancel: &Cancel,
    publisher: &mut RustPublisher,
    label: Label<'_>,
    message: &Given<'_, '_>,
    timeout: Option<Duration>,
) -> PyResult<u64> {
    match publisher.try_publish(Outgoing::new(message.get(py)).label(label)) {
        Ok(position) => Ok(position.0),
        Err(error) => send_later(py, cancel, publisher, label, message, timeout, error),
    }
}

/// As [`send`], once it was not sent at once.
#[cold]
fn send_later(
    py: Python<'_>,
    cancel: &Cancel,
    publisher: &mut RustPublisher,
    label: Label<'_>,
    message: &Given<'_, '_>,
    timeout: Option<Duration>,
    mut error: NotSent,
) -> PyResult<u64> {
    let deadline = Deadline::after(timeout);
    while is_everyday(error) {
        // Also where there is room each time, and others take it.
        py.check_signals()?;
        let wanted = Outgoing::sized(message.get(py).len()).label(label);
        room(py, cancel, publisher, wanted, deadline.left())?;
        match publisher.try_publish(Outgoing::new(message.get(py)).label(label)) {
            Ok(position) => return Ok(position.0),
            Err(again) => error = again,
        }
    }
    Err(of_sent(py, error, publisher))
}

impl Publisher {
    /// Refuses a message that is not one value of the channel's type.
    #[inline]
    pub(super) fn check(&self, length: usize) -> PyResult<()> {
        match self.value_length {
            Some(value) if value != length => Err(PyValueError::new_err(format!(
                "the message has {length} bytes, and values of the channel's type have {value}"
            ))),
            _ => Ok(()),
        }
    }

    /// Sends a copy within a time.
    #[inline]
    pub(super) fn send(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        label: Label<'_>,
        timeout: Option<Duration>,
    ) -> PyResult<u64> {
        let message = Given::of(message)?;
        self.check(message.get(py).len())?;
        let mut state = lock(py, self)?;
        let publisher = self.idle(&mut state)?;
        send(py, &self.cancel, publisher, label, &message, timeout)
    }

    pub(super) fn batch(
        &self,
        py: Python<'_>,
        messages: &Bound<'_, PyAny>,
        timeout: Option<Duration>,
    ) -> PyResult<usize> {
        let parts = messages
            .try_iter()?
            .enumerate()
            .map(|(index, message)| {
                let message = message?;
                let part = Part::of(&message).and_then(|part| {
                    self.check(part.length())?;
                    Ok(part)
                });
                part.map_err(|error| of_batch(py, index, error))
            })
            .collect::<PyResult<Vec<_>>>()
            // Nothing is sent before all of them are there, and are values of the channel's type.
            .map_err(|error| with(py, error, "published", 0_u64))?;
        self.send_all(py, parts.as_slice(), timeout)
    }

    pub(super) fn array(
        &self,
        array: &Bound<'_, PyAny>,
        tag: Option<&Bound<'_, PyAny>>,
        topic: Option<&str>,
        timeout: Option<Duration>,
    ) -> PyResult<usize> {
        let py = array.py();
        let messages = Rows::of(array, false).and_then(|rows| {
            if let Some(stated) = &self.stated {
                stated.check_rows(array, &rows)?;
            }
            let tags = tag.map_or(Ok(Tags::One(0)), |tag| Tags::of(tag, rows.count))?;
            Ok(Array { rows, tags, topic })
        });
        let messages = messages.map_err(|error| with(py, error, "published", 0_u64))?;
        self.send_all(py, &messages, timeout)
    }

    fn send_all<M: Messages + ?Sized>(
        &self,
        py: Python<'_>,
        messages: &M,
        timeout: Option<Duration>,
    ) -> PyResult<usize> {
        let deadline = Deadline::after(timeout);
        let mut state = lock(py, self)?;
        let publisher = self.idle(&mut state)?;
        let mut published = 0;
        match send_batch(
            py,
            &self.cancel,
            publisher,
            messages,
            deadline,
            &mut published,
        ) {
            Ok(()) => Ok(published),
            // A repetition begins behind those.
            Err(error) => Err(with(py, self.refusal(error), "published", published as u64)),
        }
    }

    pub(super) fn reserve(
        slf: &Bound<'_, Self>,
        length: usize,
        label: Label<'_>,
        timeout: Option<Duration>,
    ) -> PyResult<Claim> {
        let py = slf.py();
        let publisher = slf.get();
        publisher.check(length)?;
        let wanted = Outgoing::sized(length).label(label);
        let mut state = lock(py, publisher)?;
        room(
            py,
            &publisher.cancel,
            publisher.idle(&mut state)?,
            wanted,
            timeout,
        )
        .map_err(|error| publisher.refusal(error))?;
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
                let serial = Claim::number();
                *state = State::Claimed {
                    claim,
                    serial,
                    views: views.clone(),
                };
                Ok(Claim::new(slf, serial, span, views))
            }
            Err((publisher, error)) => {
                let error = of_sent(py, error, &publisher);
                *state = State::Open(publisher);
                Err(error)
            }
        }
    }

    pub(super) fn wait_until(
        &self,
        py: Python<'_>,
        timeout: Option<Duration>,
        mut reached: impl FnMut(&mut RustPublisher, Duration) -> Result<bool, NotSent> + Send,
    ) -> PyResult<bool> {
        ours(self.opener, "publisher")?;
        let mut state = lock(py, self)?;
        let publisher = self.idle(&mut state)?;
        let found = wait(py, Some(&self.cancel), timeout, |slice| {
            match reached(publisher, slice) {
                Ok(false) => None,
                done => Some(done),
            }
        })?;
        found
            .unwrap_or(Ok(false))
            .map_err(|error| of_sent(py, error, publisher))
    }
}
