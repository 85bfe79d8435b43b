//! Typed handles: messages of one plain-data type.

use super::batch::{Batch, BatchNotSent};
use super::claim::Claim;
use super::publisher::Publisher;
use super::subscriber::Subscriber;
use crate::error::{Damage, NotSent, ReceiveError};
use crate::message::{Label, Message, Outgoing, Plain, Position};
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use std::time::Duration;

impl<T: Plain> Publisher<T> {
    /// Sends a copy of `value` if there is room. Never waits. Returns the position after it.
    ///
    /// `value` is a `&T`, or [`Outgoing::typed`] with a tag and a topic.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; nothing was sent.
    #[inline(always)]
    pub fn try_publish<'m>(
        &mut self,
        value: impl Into<Outgoing<'m, &'m T>>,
    ) -> Result<Position, NotSent> {
        self.send(value.into().as_bytes())
    }

    /// Sends a copy of `value`, waiting for room by the wait strategy.
    ///
    /// # Errors
    ///
    /// [`NotSent`], never `BackPressured` or `NotConnected`.
    #[inline(always)]
    pub fn publish<'m>(
        &mut self,
        value: impl Into<Outgoing<'m, &'m T>>,
    ) -> Result<Position, NotSent> {
        self.send_within(value.into().as_bytes(), None)
    }

    /// As [`Publisher::publish`], but gives up after `timeout`.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; `BackPressured` or `NotConnected` say that the time is over.
    #[inline(always)]
    pub fn publish_timeout<'m>(
        &mut self,
        value: impl Into<Outgoing<'m, &'m T>>,
        timeout: Duration,
    ) -> Result<Position, NotSent> {
        self.send_within(value.into().as_bytes(), Some(timeout))
    }

    /// Reserves a value, to be filled in place, if there is room. Never waits.
    ///
    /// The first content of the value is unspecified. A claim is invisible until it is committed. A
    /// dropped claim is given up.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; nothing is reserved.
    #[inline(always)]
    pub fn try_claim(&mut self, label: Label<'_>) -> Result<TypedClaim<'_, T>, NotSent> {
        self.reserve(Outgoing::sized(size_of::<T>()).label(label))
            .map(TypedClaim::new)
    }

    /// As [`Publisher::try_claim`], waiting for room by the wait strategy.
    ///
    /// # Errors
    ///
    /// [`NotSent`], never `BackPressured` or `NotConnected`.
    #[inline(always)]
    pub fn claim(&mut self, label: Label<'_>) -> Result<TypedClaim<'_, T>, NotSent> {
        self.reserve_within(Outgoing::sized(size_of::<T>()).label(label), None)
            .map(TypedClaim::new)
    }

    /// As [`Publisher::claim`], but gives up after `timeout`.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; `BackPressured` or `NotConnected` say that the time is over.
    #[inline(always)]
    pub fn claim_timeout(
        &mut self,
        label: Label<'_>,
        timeout: Duration,
    ) -> Result<TypedClaim<'_, T>, NotSent> {
        self.reserve_within(Outgoing::sized(size_of::<T>()).label(label), Some(timeout))
            .map(TypedClaim::new)
    }

    /// Sends copies of `values` in one batch, as many as there is room for. Never waits. Returns
    /// their number: all.
    ///
    /// # Errors
    ///
    /// [`BatchNotSent`]: how many were sent, and why not all.
    pub fn try_publish_batch<'m, M: Into<Outgoing<'m, &'m T>>>(
        &mut self,
        values: impl IntoIterator<Item = M>,
    ) -> Result<usize, BatchNotSent> {
        self.send_batch(bytes_of(values), Some(Duration::ZERO))
    }

    /// Sends copies of `values` in batches as large as there is room for, waiting for room by the
    /// wait strategy. Returns their number: all.
    ///
    /// # Errors
    ///
    /// [`BatchNotSent`]; its reason is never `BackPressured` or `NotConnected`.
    pub fn publish_batch<'m, M: Into<Outgoing<'m, &'m T>>>(
        &mut self,
        values: impl IntoIterator<Item = M>,
    ) -> Result<usize, BatchNotSent> {
        self.send_batch(bytes_of(values), None)
    }

    /// As [`Publisher::publish_batch`], but gives up after `timeout`, counted for all values
    /// together.
    ///
    /// # Errors
    ///
    /// [`BatchNotSent`]; `BackPressured` or `NotConnected` say that the time is over.
    pub fn publish_batch_timeout<'m, M: Into<Outgoing<'m, &'m T>>>(
        &mut self,
        values: impl IntoIterator<Item = M>,
        timeout: Duration,
    ) -> Result<usize, BatchNotSent> {
        self.send_batch(bytes_of(values), Some(timeout))
    }
}

fn bytes_of<'m, T: Plain, M: Into<Outgoing<'m, &'m T>>>(
    values: impl IntoIterator<Item = M>,
) -> impl Iterator<Item = Outgoing<'m>> {
    values.into_iter().map(|value| value.into().as_bytes())
}

impl<T: Plain> Batch<'_, T> {
    /// Adds a copy of `value`: a `&T`, or [`Outgoing::typed`] with a tag and a topic. Never waits.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; the batch stays as it was. On `BackPressured` commit the batch, and start
    /// another.
    #[inline(always)]
    pub fn push<'m>(&mut self, value: impl Into<Outgoing<'m, &'m T>>) -> Result<(), NotSent> {
        self.add(value.into().as_bytes())
    }
}

impl<T: Plain> Subscriber<T> {
    /// Passes up to `limit` values to `handler`; returns how many. Never sleeps.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`]; `Corrupt` if a message has the wrong length, which no typed publisher
    /// sends.
    #[inline(always)]
    pub fn poll(
        &mut self,
        mut handler: impl FnMut(Typed<'_, T>),
        limit: usize,
    ) -> Result<usize, ReceiveError> {
        let mut wrong = None;
        let count = self.poll_frames(
            |message| match Typed::new(message) {
                Ok(value) => handler(value),
                Err(error) => wrong = Some(error),
            },
            limit,
        )?;
        wrong.map_or(Ok(count), Err)
    }

    /// The next value, if there is one. Never sleeps.
    ///
    /// # Errors
    ///
    /// As [`Subscriber::poll`].
    pub fn try_receive(&mut self) -> Result<Option<Typed<'_, T>>, ReceiveError> {
        let found = self.next_frame()?;
        found
            .map(|(lane, frame)| Typed::new(self.message(lane, &frame)))
            .transpose()
    }

    /// The next value; waits for it by the wait strategy.
    ///
    /// # Errors
    ///
    /// As [`Subscriber::poll`]; `Closed` is the end of the stream.
    pub fn receive(&mut self) -> Result<Typed<'_, T>, ReceiveError> {
        loop {
            if let Some((lane, frame)) = self.next_frame()? {
                return Typed::new(self.message(lane, &frame));
            }
            self.wait(Duration::MAX)?;
        }
    }

    /// As [`Subscriber::receive`], but gives up with `None` after `timeout`.
    ///
    /// # Errors
    ///
    /// As [`Subscriber::poll`].
    pub fn receive_timeout(
        &mut self,
        timeout: Duration,
    ) -> Result<Option<Typed<'_, T>>, ReceiveError> {
        let found = self.next_within(timeout)?;
        found
            .map(|(lane, frame)| Typed::new(self.message(lane, &frame)))
            .transpose()
    }

    /// Iterates over copies of values, waiting for each, until the last publisher closes. Then the
    /// iterator is over, even if a later publisher comes. An error that [`ReceiveError::is_final`]
    /// is its last item.
    pub fn iter(&mut self) -> impl Iterator<Item = Result<T, ReceiveError>> + '_ {
        let mut is_over = false;
        std::iter::from_fn(move || {
            if is_over {
                return None;
            }
            match self.receive() {
                Ok(value) => Some(Ok(value.read())),
                Err(error) => {
                    is_over = error.is_final();
                    (!matches!(error, ReceiveError::Closed)).then_some(Err(error))
                }
            }
        })
    }
}

/// A received value: a view of ring memory as a `T`. Nothing is copied.
#[derive(Debug)]
pub struct Typed<'a, T> {
    message: Message<'a>,
    kind: PhantomData<&'a T>,
}

impl<'a, T: Plain> Typed<'a, T> {
    pub(super) fn new(message: Message<'a>) -> Result<Self, ReceiveError> {
        if T::ref_from_bytes(&message).is_err() {
            return Err(ReceiveError::Corrupt {
                lane: message.lane(),
                position: message.position().0,
                damage: Damage::Value {
                    bytes: message.len() as u64,
                    expected: size_of::<T>() as u64,
                },
            });
        }
        Ok(Self {
            message,
            kind: PhantomData,
        })
    }

    /// A copy of the value.
    #[must_use]
    pub fn read(&self) -> T {
        // `new` has checked its length.
        T::read_from_bytes(&self.message)
            .unwrap_or_else(|_| unreachable!("checked when it was received"))
    }

    /// The message that carries the value: its tag, position and lane.
    #[must_use]
    pub fn message(&self) -> &Message<'a> {
        &self.message
    }
}

impl<T: Plain> Deref for Typed<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // `new` has checked length and alignment, and a message never changes: this cannot fail.
        T::ref_from_bytes(&self.message)
            .unwrap_or_else(|_| unreachable!("checked when it was received"))
    }
}

/// A reserved value: fill it, then [`TypedClaim::commit`]. A dropped claim is given up and never
/// becomes visible.
///
/// ```
/// # use olivine::{Label, Plain, Publisher, Subscriber};
/// # use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
/// #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Quote { bid: i64, ask: i64 }
/// impl Plain for Quote {
///     const TYPE_NAME: &'static str = "quote v1";
/// }
/// # let mut subscriber = Subscriber::<Quote>::typed("inproc://typed-claims")?;
/// let mut publisher = Publisher::<Quote>::typed("inproc://typed-claims")?;
/// let mut quote = publisher.claim(Label::new().tag(7))?;
/// (quote.bid, quote.ask) = (101, 102);
/// quote.commit();
/// assert_eq!(subscriber.receive()?.ask, 102);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a claim that is not committed sends nothing"]
pub struct TypedClaim<'a, T> {
    claim: Claim<'a>,
    kind: PhantomData<&'a mut T>,
}

impl<'a, T: Plain> TypedClaim<'a, T> {
    #[inline(always)]
    fn new(claim: Claim<'a>) -> Self {
        Self {
            claim,
            kind: PhantomData,
        }
    }

    /// As [`Claim::commit`]: makes the value visible; returns the position after it.
    #[inline(always)]
    pub fn commit(self) -> Position {
        self.claim.commit()
    }

    /// Gives the value up, as dropping does.
    pub fn abort(self) {}
}

impl<T: Plain> Deref for TypedClaim<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        // As long as a `T`, on an 8-byte boundary: this cannot fail.
        T::ref_from_bytes(&self.claim)
            .unwrap_or_else(|_| unreachable!("the room of a value holds it"))
    }
}

impl<T: Plain> DerefMut for TypedClaim<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        T::mut_from_bytes(&mut self.claim)
            .unwrap_or_else(|_| unreachable!("the room of a value holds it"))
    }
}
