//! What travels: positions, received messages, typed messages.

use crate::region::View;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A place in a lane: bytes since the lane began, headers and padding included. Never wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A received message: a view of ring memory, nothing copied.
///
/// It holds its place in the ring until it is dropped and the subscriber is used again.
pub struct Message<'a> {
    pub(crate) bytes: View<'a>,
    pub(crate) tag: u32,
    pub(crate) position: u64,
    pub(crate) lane: usize,
    /// Letters, digits and a few marks: checked when it was received.
    pub(crate) topic: &'a [u8],
    pub(crate) borrow: PhantomData<&'a [u8]>,
}

impl Message<'_> {
    /// The number the publisher gave with the message; 0 if none.
    #[must_use]
    #[inline]
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// Where its frame starts in its lane, in bytes.
    #[must_use]
    #[inline]
    pub fn position(&self) -> Position {
        Position(self.position)
    }

    /// Index of the publisher's lane.
    #[must_use]
    #[inline]
    pub fn lane(&self) -> usize {
        self.lane
    }

    /// What the message is about; empty for a message without a topic.
    #[must_use]
    #[inline]
    pub fn topic(&self) -> &str {
        core::str::from_utf8(self.topic).unwrap_or_default()
    }

    /// A copy that outlives the ring.
    #[must_use]
    pub fn to_owned_message(&self) -> OwnedMessage {
        OwnedMessage {
            bytes: self.bytes.to_vec(),
            tag: self.tag,
            position: self.position(),
            lane: self.lane,
            topic: self.topic().to_owned(),
        }
    }
}

impl Deref for Message<'_> {
    type Target = [u8];

    #[inline(always)]
    fn deref(&self) -> &[u8] {
        self.bytes
    }
}

impl AsRef<[u8]> for Message<'_> {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message")
            .field("length", &self.len())
            .field("tag", &self.tag)
            .field("position", &self.position)
            .field("lane", &self.lane)
            .field("topic", &self.topic())
            .finish_non_exhaustive()
    }
}

/// A message copied out of the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedMessage {
    /// The payload.
    pub bytes: Vec<u8>,
    /// The number the publisher gave with it; 0 if none.
    pub tag: u32,
    /// Where its frame started in its lane.
    pub position: Position,
    /// Index of the publisher's lane.
    pub lane: usize,
    /// What it is about; empty for a message without a topic.
    pub topic: String,
}

/// A plain-data type that travels as its own bytes.
///
/// Derive the `zerocopy` traits and name the layout; the name, size and alignment are put into the channel, and
/// opening it with another type is refused. A subscriber of bytes, in any language, takes every type; a publisher of
/// bytes is refused. Change the name whenever a field changes. Alignment is at most 8.
///
/// ```
/// use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
///
/// #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
/// #[repr(C)]
/// struct Quote { bid: i64, ask: i64, sequence: u64 }
///
/// impl olivine::Plain for Quote {
///     const TYPE_NAME: &'static str = "quote v1";
/// }
/// ```
pub trait Plain: FromBytes + IntoBytes + Immutable + KnownLayout + 'static {
    /// Name and version of the layout, up to 64 bytes, the same in every program that uses the channel.
    const TYPE_NAME: &'static str;
}

/// Hash of a plain type's layout; never 0.
pub(crate) fn layout_hash<T: Plain>() -> u64 {
    let numbers = [size_of::<T>() as u64, align_of::<T>() as u64];
    let bytes = T::TYPE_NAME
        .bytes()
        .chain(numbers.iter().flat_map(|n| n.to_le_bytes()));
    crate::ring::layout::fnv(bytes).max(1)
}
