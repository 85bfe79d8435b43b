//! Claims: messages that are filled in place before they become visible.

use super::publisher::Publisher;
use crate::error::NotSent;
use crate::message::{Outgoing, Position};
use crate::ring::layout::header_word;
use crate::ring::publish::Producer;
use core::num::NonZeroU64;
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
        let header = header_word(self.tag, self.carried);
        Position(self.producer.commit_claim(self.end, header))
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
        let end = producer.commit_claim(self.end, header_word(self.tag, self.carried));
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

/// A publisher and the claim that it has open, if any, in one value: for bindings of other
/// languages, which cannot borrow the publisher meanwhile. An [`OwnedClaim`] takes the publisher
/// along and gives it back; here it stays where it is.
///
/// Dropping it gives an open claim up and closes the publisher.
///
/// ```
/// # use olivine::{ClaimingPublisher, Outgoing, Publisher, Subscriber};
/// # let mut subscriber = Subscriber::open("inproc://claiming")?;
/// let mut claiming = ClaimingPublisher::new(Publisher::open("inproc://claiming")?);
/// let room = claiming.try_claim(Outgoing::sized(5).tag(7))?;
/// room.copy_from_slice(b"hello");
/// assert!(claiming.publisher_mut().is_none(), "it can send nothing else meanwhile");
/// let position = claiming.commit().expect("there is a claim")?;
/// assert_eq!(position, claiming.publisher().cursor());
/// assert_eq!(subscriber.receive()?.tag(), 7);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct ClaimingPublisher {
    publisher: Publisher,
    /// The header of the claimed frame, which begins at the publisher's position: nothing else is
    /// sent while there is a claim.
    header: Option<NonZeroU64>,
    /// Its end.
    end: u64,
}

impl ClaimingPublisher {
    /// `publisher`, with no claim open.
    #[must_use]
    pub fn new(publisher: Publisher) -> Self {
        Self {
            publisher,
            header: None,
            end: 0,
        }
    }

    /// As [`Publisher::try_claim`]: reserves a message, if there is room; returns its bytes. Never
    /// waits. A claim that is open is given up first.
    ///
    /// # Errors
    ///
    /// [`NotSent`]; nothing is reserved.
    #[inline(always)]
    pub fn try_claim<'m>(
        &mut self,
        room: impl Into<Outgoing<'m, usize>>,
    ) -> Result<&mut [u8], NotSent> {
        self.header = None;
        let claim = self.publisher.reserve(room.into())?;
        // Never zero: it has the frame's length.
        self.header = NonZeroU64::new(header_word(claim.tag, claim.carried));
        self.end = claim.end;
        Ok(claim.producer.new_payload_mut(claim.length))
    }

    /// Whether a claim is open.
    #[must_use]
    #[inline(always)]
    pub fn is_claimed(&self) -> bool {
        self.header.is_some()
    }

    /// Makes the claimed message visible; returns the position after it. `None` without a claim. In
    /// a forked child it returns [`NotSent::Forked`], because the message belongs to the parent.
    #[inline(always)]
    pub fn commit(&mut self) -> Option<Result<Position, NotSent>> {
        let header = self.header.take()?;
        let producer = &mut self.publisher.producer;
        if let Some(end) = producer.commit_found(header.get()) {
            return Some(Ok(Position(end)));
        }
        if producer.is_shut() {
            return Some(Err(NotSent::Forked));
        }
        let end = producer.commit_slowly(self.end, header.get());
        Some(Ok(Position(end)))
    }

    /// Gives the claim up, if there is one.
    #[inline(always)]
    pub fn abort(&mut self) {
        self.header = None;
    }

    /// The publisher, for reading its state.
    #[must_use]
    #[inline(always)]
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// The publisher; `None` while a claim is open, because it can send nothing else then.
    #[must_use]
    #[inline(always)]
    pub fn publisher_mut(&mut self) -> Option<&mut Publisher> {
        match self.header {
            None => Some(&mut self.publisher),
            Some(_) => None,
        }
    }

    /// The publisher; an open claim is given up.
    #[must_use = "dropped, the publisher is closed"]
    pub fn into_publisher(self) -> Publisher {
        self.publisher
    }
}
