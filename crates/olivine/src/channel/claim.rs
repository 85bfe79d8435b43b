//! Claims: messages that are filled in place before they become visible.

use super::publisher::Publisher;
use crate::error::NotSent;
use crate::message::{Outgoing, Position};
use crate::ring::publish::Producer;
use core::ops::{Deref, DerefMut};

/// A reserved message: fill it, then [`Claim::commit`]. A dropped claim is given up and never
/// becomes visible.
///
/// While a claim is held, its publisher can send nothing else, so hold it for a short time. A claim
/// holds no lock, but the lane is silent meanwhile.
#[derive(Debug)]
#[must_use = "a claim that is not committed sends nothing"]
pub struct Claim<'a> {
    pub(super) producer: &'a mut Producer,
    pub(super) end: u64,
    pub(super) length: usize,
    /// The length for the header: the message with its topic.
    pub(super) carried: usize,
    pub(super) tag: u32,
}

impl Claim<'_> {
    /// Makes the message visible; returns the position after it.
    ///
    /// In a forked child nothing is sent, because the message belongs to the parent. The position
    /// stays, and bytes written through the claim there are lost. The publisher's next call there
    /// returns [`NotSent::Forked`]. A slice that was taken before the fork points into the shared
    /// ring: do not write to it in the child.
    #[inline(always)]
    pub fn commit(self) -> Position {
        Position(self.producer.commit(self.end, self.tag, self.carried))
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

/// A [`Claim`] that holds its publisher: for bindings of other languages and other code that cannot
/// borrow the publisher meanwhile.
///
/// A dropped claim is given up, and its publisher is closed.
///
/// ```
/// # use olivine::{Outgoing, OwnedClaim, Publisher, Subscriber};
/// # let mut subscriber = Subscriber::open("inproc://owned-claims")?;
/// let publisher = Box::new(Publisher::open("inproc://owned-claims")?);
/// let room = Outgoing::sized(5).tag(7);
/// let mut claim = OwnedClaim::try_claim(publisher, room).map_err(|(_, why)| why)?;
/// claim.copy_from_slice(b"hello");
/// let (mut publisher, position) = claim.commit();
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
    carried: usize,
    tag: u32,
}

impl OwnedClaim {
    /// As [`Publisher::try_claim`]: reserves a message, if there is room. Never waits.
    ///
    /// # Errors
    ///
    /// The publisher, and why nothing is reserved.
    #[inline]
    pub fn try_claim<'m>(
        mut publisher: Box<Publisher>,
        room: impl Into<Outgoing<'m, usize>>,
    ) -> Result<Self, (Box<Publisher>, NotSent)> {
        let claimed = publisher
            .try_claim(room)
            .map(|claim| (claim.end, claim.length, claim.carried, claim.tag));
        match claimed {
            Ok((end, length, carried, tag)) => Ok(Self {
                publisher,
                end,
                length,
                carried,
                tag,
            }),
            Err(error) => Err((publisher, error)),
        }
    }

    /// Makes the message visible; returns the publisher, and the position after the message. In a
    /// forked child it returns [`NotSent::Forked`], because the message belongs to the parent.
    #[inline]
    pub fn commit(mut self) -> (Box<Publisher>, Result<Position, NotSent>) {
        let producer = &mut self.publisher.producer;
        let before = producer.position();
        // The producer makes the only check for a fork: its position moves, or stays in a forked
        // child.
        let end = producer.commit(self.end, self.tag, self.carried);
        let sent = (end != before).then_some(Position(end));
        (self.publisher, sent.ok_or(NotSent::Forked))
    }

    /// Gives the message up; returns the publisher.
    #[must_use = "dropped, the publisher is closed"]
    pub fn abort(self) -> Box<Publisher> {
        self.publisher
    }

    /// The publisher, for reading its state.
    #[must_use]
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }
}

impl Deref for OwnedClaim {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.publisher.producer.payload(self.length)
    }
}

impl DerefMut for OwnedClaim {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        self.publisher.producer.payload_mut(self.length)
    }
}
