//! Typed handles: messages of one plain-data type.

use super::publisher::Publisher;
use super::shape::TypeTag;
use super::subscriber::Subscriber;
use crate::error::{Damage, NotSent, ReceiveError};
use crate::message::{Message, Plain, Position, layout_hash};
use crate::ring::layout::{TYPE_NAME_BYTES, fnv};
use core::marker::PhantomData;
use core::ops::Deref;

pub(crate) fn tag_of<T: Plain>() -> TypeTag {
    const {
        assert!(
            align_of::<T>() <= 8,
            "messages start on 8-byte boundaries: a type may not need more"
        );
        assert!(T::TYPE_NAME.len() <= TYPE_NAME_BYTES && !T::TYPE_NAME.is_empty());
    }
    TypeTag {
        hash: layout_hash::<T>(),
        name: T::TYPE_NAME.into(),
        any: false,
    }
}

/// The type of a channel whose messages end with topics: another one, so that both sides know what lies behind a
/// message wherever types are compared.
pub(crate) fn with_topics(typed: &TypeTag) -> TypeTag {
    let bytes = b"with topics"
        .iter()
        .copied()
        .chain(typed.hash.to_le_bytes());
    let name = if typed.name.is_empty() {
        "bytes"
    } else {
        &typed.name
    };
    let longest = TYPE_NAME_BYTES - TOPICS_SUFFIX.len();
    let name: String = name
        .char_indices()
        .take_while(|(at, c)| at + c.len_utf8() <= longest)
        .map(|(_, c)| c)
        .chain(TOPICS_SUFFIX.chars())
        .collect();
    TypeTag {
        hash: fnv(bytes).max(1),
        name: name.into(),
        any: typed.any,
    }
}

/// Tells people that the channel is to be opened with topics.
pub(super) const TOPICS_SUFFIX: &str = " with 'topic='";

impl<T: Plain> Publisher<T> {
    /// Sends a copy of `value` if there is room. Never waits. Returns the position after it.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; nothing was sent.
    #[inline(always)]
    pub fn try_publish(&mut self, value: &T) -> Result<Position, NotSent> {
        self.send(0, value.as_bytes())
    }

    /// Sends a copy of `value`, waiting for room by the wait strategy.
    ///
    /// # Errors
    ///
    /// [`NotSent`], never `BackPressured` or `NotConnected`.
    #[inline(always)]
    pub fn publish(&mut self, value: &T) -> Result<Position, NotSent> {
        self.send_waiting(0, value.as_bytes())
    }
}

impl<T: Plain> Subscriber<T> {
    /// Hands up to `limit` values to `handler`; returns how many. Never sleeps.
    ///
    /// # Errors
    ///
    /// [`ReceiveError`]; `Corrupt` if a message has the wrong length, which no typed publisher sends.
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
            self.wait(std::time::Duration::MAX)?;
        }
    }
}

/// A received value: a view of ring memory as a `T`, nothing copied.
#[derive(Debug)]
pub struct Typed<'a, T> {
    message: Message<'a>,
    kind: PhantomData<&'a T>,
}

impl<'a, T: Plain> Typed<'a, T> {
    fn new(message: Message<'a>) -> Result<Self, ReceiveError> {
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
        // Length and alignment were checked in `new`, so this cannot fail; a message never changes.
        T::ref_from_bytes(&self.message)
            .unwrap_or_else(|_| unreachable!("checked when it was received"))
    }
}
