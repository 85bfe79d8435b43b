//! Several messages that become visible together.

use super::publisher::Publisher;
use crate::error::{Described, NotSent};
use crate::message::{Outgoing, Position};
use crate::ring::publish::FrameShape;
use std::time::{Duration, Instant};

/// Messages that become visible together. A dropped batch is given up and never becomes visible.
///
/// ```
/// # use olivine::{Publisher, Subscriber};
/// # let mut subscriber = Subscriber::open("inproc://batches")?;
/// # let mut publisher = Publisher::open("inproc://batches")?;
/// let mut batch = publisher.batch();
/// batch.push(b"bid 101")?;
/// batch.push(b"ask 102")?;
/// batch.commit();
/// assert_eq!(subscriber.poll(|message| println!("{message:?}"), 10)?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a batch that is not committed sends nothing"]
pub struct Batch<'a, T: ?Sized = [u8]> {
    pub(super) publisher: &'a mut Publisher<T>,
    pub(super) end: u64,
    pub(super) first: (u32, usize),
    pub(super) count: usize,
    /// The shape of a message pushed before, without a topic: the next one is often as long.
    pub(super) last: FrameShape,
}

impl Batch<'_> {
    /// Adds a copy of `message`: bytes, or an [`Outgoing`] with a tag and a topic. Never waits.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; the batch stays as it was. On `BackPressured` commit the batch, and start
    /// another.
    #[inline(always)]
    pub fn push<'m>(&mut self, message: impl Into<Outgoing<'m>>) -> Result<(), NotSent> {
        self.add(message.into())
    }
}

impl<T: ?Sized> Batch<'_, T> {
    #[inline(always)]
    pub(super) fn add(&mut self, message: Outgoing<'_>) -> Result<(), NotSent> {
        let at = self.end;
        let Outgoing { body, label } = message;
        if label.topic.is_none() && self.last.is_of(body.len()) {
            let header = (self.count > 0).then_some(label.tag);
            let producer = &mut self.publisher.producer;
            let written = producer.write_alike(at, self.last, header, body);
            if let Some(end) = written {
                self.count(end, label.tag, body.len());
                return Ok(());
            }
        }
        self.add_other(message)
    }

    /// As [`Batch::add`], for a message that is not as long as the one before, has a topic, or has
    /// no room by the cached limit.
    #[inline(always)]
    fn add_other(&mut self, message: Outgoing<'_>) -> Result<(), NotSent> {
        let at = self.end;
        let Outgoing { body, label } = message;
        let (end, length) = match self.publisher.fits(at, body.len(), label.topic) {
            Ok(end) => {
                self.publisher.producer.write(at, body);
                self.last = FrameShape::new(body.len(), end - at);
                (end, body.len())
            }
            // In a function of the publisher: the batch's own words stay in registers.
            Err(_) => self.publisher.write_with_topic(at, message)?,
        };
        if self.count > 0 {
            self.publisher.producer.prepare(at, label.tag, length);
        }
        self.count(end, label.tag, length);
        Ok(())
    }

    /// Counts a frame that was written up to `end`.
    #[inline(always)]
    fn count(&mut self, end: u64, tag: u32, length: usize) {
        if self.count == 0 {
            self.first = (tag, length);
        }
        self.end = end;
        self.count += 1;
    }

    /// Messages in the batch.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing was pushed yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Makes all messages visible at once; returns the position after them. An empty batch changes
    /// nothing.
    ///
    /// A batch in a forked child changes nothing either: its messages belong to the parent. The
    /// publisher's next call there returns [`NotSent::Forked`].
    #[inline(always)]
    pub fn commit(self) -> Position {
        let producer = &mut self.publisher.producer;
        if self.count == 0 {
            return Position(producer.position());
        }
        Position(producer.commit(self.end, self.first.0, self.first.1))
    }
}

/// Why not all messages were sent. The first `published` messages were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", Described::text_of_batch(*published, reason))]
pub struct BatchNotSent {
    /// Number of sent messages, and so the index of the first that was not. A repetition starts
    /// there.
    pub published: usize,
    /// Why the next message was not sent.
    pub reason: NotSent,
}

impl<T: ?Sized> Publisher<T> {
    /// Sends in batches as large as there is room for, within `timeout`; `None` waits without a
    /// bound.
    pub(super) fn send_batch<'m>(
        &mut self,
        mut messages: impl Iterator<Item = Outgoing<'m>>,
        timeout: Option<Duration>,
    ) -> Result<usize, BatchNotSent> {
        // A time-out that the clock cannot hold is none.
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let mut published = 0;
        let mut next = messages.next();
        while next.is_some() {
            let mut batch = self.batch();
            let mut stopped = None;
            while let Some(message) = next {
                if let Err(reason) = batch.add(message) {
                    stopped = Some((message, reason));
                    break;
                }
                next = messages.next();
            }
            published += batch.len();
            batch.commit();
            let Some((message, reason)) = stopped else {
                break;
            };
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let waited = match reason {
                NotSent::BackPressured | NotSent::NotConnected
                    if timeout != Some(Duration::ZERO) =>
                {
                    self.await_room(message.body.len(), message.label.topic, left)
                }
                reason => Err(reason),
            };
            waited.map_err(|reason| BatchNotSent { published, reason })?;
        }
        Ok(published)
    }
}
