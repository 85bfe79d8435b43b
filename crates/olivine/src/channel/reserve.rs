//! Messages that are not visible yet: one being filled in place, or several that will appear together.

use super::publisher::Publisher;
use crate::error::NotSent;
use crate::message::Position;
use crate::ring::publish::Producer;
use core::ops::{Deref, DerefMut};

/// A reserved message: fill it, then [`Claim::commit`]. Dropped, it is given up and nobody sees anything.
///
/// While it is held this publisher can send nothing else, and its process should not linger over it: a claim
/// holds no lock, but the lane is silent meanwhile.
#[derive(Debug)]
#[must_use = "a claim that is not committed sends nothing"]
pub struct Claim<'a> {
    pub(super) producer: &'a mut Producer,
    pub(super) end: u64,
    pub(super) length: usize,
    /// With the topic behind the message.
    pub(super) whole: usize,
    pub(super) tag: u32,
}

impl Claim<'_> {
    /// Sets the number that travels in the frame's header; 0 if never set.
    pub fn set_tag(&mut self, tag: u32) {
        self.tag = tag;
    }

    /// Makes the message visible; returns the position after it.
    ///
    /// In a forked child, whose parent's message it is, nothing is sent and the position stays where it was; what is
    /// written into the claim there is lost. The publisher's next call says [`NotSent::Forked`].
    #[inline(always)]
    pub fn commit(self) -> Position {
        Position(self.producer.commit(self.end, self.tag, self.whole))
    }

    /// Gives the message up, as dropping does.
    pub fn abort(self) {}
}

impl Deref for Claim<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.producer.payload(self.length)
    }
}

impl DerefMut for Claim<'_> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.producer.payload_mut(self.length)
    }
}

/// A [`Claim`] that holds its publisher: for whoever cannot borrow it meanwhile, as bindings of other languages.
///
/// Dropped, it is given up and the publisher is closed.
///
/// ```
/// # use olivine::{OwnedClaim, Publisher, Subscriber};
/// # let mut subscriber = Subscriber::open("inproc://owned-claims")?;
/// let publisher = Box::new(Publisher::open("inproc://owned-claims")?);
/// let mut claim = OwnedClaim::begin(publisher, 5).map_err(|(_, why)| why)?;
/// claim.copy_from_slice(b"hello");
/// let (mut publisher, position) = claim.commit(7);
/// assert_eq!(position?, publisher.cursor());
/// publisher.publish(b"world")?;
/// assert_eq!(subscriber.receive()?.tag(), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[must_use = "a claim that is not committed sends nothing"]
pub struct OwnedClaim {
    publisher: Box<Publisher>,
    end: u64,
    length: usize,
    whole: usize,
}

impl OwnedClaim {
    /// As [`Publisher::try_claim`]: reserves a message of `length` bytes if there is room. Never
    /// waits.
    ///
    /// # Errors
    ///
    /// The publisher, and why nothing is reserved.
    pub fn begin(
        mut publisher: Box<Publisher>,
        length: usize,
    ) -> Result<Self, (Box<Publisher>, NotSent)> {
        match publisher
            .try_claim(length)
            .map(|claim| (claim.end, claim.whole))
        {
            Ok((end, whole)) => Ok(Self {
                publisher,
                end,
                length,
                whole,
            }),
            Err(error) => Err((publisher, error)),
        }
    }

    /// Makes the message visible, with a number that travels in the frame's header; returns the publisher, and the
    /// position after the message: [`NotSent::Forked`] in a forked child, whose parent's message it is.
    pub fn commit(mut self, tag: u32) -> (Box<Publisher>, Result<Position, NotSent>) {
        let producer = &mut self.publisher.producer;
        let before = producer.position();
        // The one check for a fork is the producer's: it goes on behind what it sent, or stays where it was.
        let end = producer.commit(self.end, tag, self.whole);
        let sent = (end != before).then_some(Position(end));
        (self.publisher, sent.ok_or(NotSent::Forked))
    }

    /// Gives the message up; returns the publisher.
    #[must_use = "dropped, the publisher is closed"]
    pub fn abort(self) -> Box<Publisher> {
        self.publisher
    }

    /// The publisher, to look at.
    #[must_use]
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }
}

impl Deref for OwnedClaim {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.publisher.producer.payload(self.length)
    }
}

impl DerefMut for OwnedClaim {
    fn deref_mut(&mut self) -> &mut [u8] {
        self.publisher.producer.payload_mut(self.length)
    }
}

/// Messages that become visible together. Dropped, it is given up and nobody sees anything.
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
pub struct Batch<'a> {
    pub(super) publisher: &'a mut Publisher,
    pub(super) end: u64,
    pub(super) first: (u32, usize),
    pub(super) count: usize,
}

impl Batch<'_> {
    /// Adds a copy of `message`. Never waits.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; the batch stays as it was. On `BackPressured` commit what is there, and start another.
    #[inline(always)]
    pub fn push(&mut self, message: &[u8]) -> Result<(), NotSent> {
        self.push_tagged(0, message)
    }

    /// As [`Batch::push`], with a number that travels in the frame's header.
    ///
    /// # Errors
    ///
    /// As [`Batch::push`].
    #[inline(always)]
    pub fn push_tagged(&mut self, tag: u32, message: &[u8]) -> Result<(), NotSent> {
        let at = self.end;
        let (end, length) = match self.publisher.producer.fits(at, message.len()) {
            Ok(end) => {
                self.publisher.producer.write(at, message);
                (end, message.len())
            }
            // By the publisher alone: the batch's own words stay in registers.
            Err(_) => self.publisher.write_with_topic(at, message)?,
        };
        self.add(end, tag, length);
        Ok(())
    }

    /// Counts a frame that was written up to `end`.
    #[inline(always)]
    fn add(&mut self, end: u64, tag: u32, length: usize) {
        if self.count == 0 {
            self.first = (tag, length);
        } else {
            self.publisher.producer.prepare(self.end, tag, length);
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

    /// Makes all of it visible at once; returns the position after it. An empty batch changes nothing, and neither
    /// does one in a forked child, whose parent's messages they are: the publisher's next call says
    /// [`NotSent::Forked`] there.
    #[inline(always)]
    pub fn commit(self) -> Position {
        let producer = &mut self.publisher.producer;
        if self.count == 0 {
            return Position(producer.position());
        }
        Position(producer.commit(self.end, self.first.0, self.first.1))
    }
}
