//! Messages: positions, labels, outgoing and received messages, typed messages.

mod fields;
mod known;
mod plain;

pub use fields::{Field, FieldKind, Fields};
pub use known::KnownType;
pub use plain::{FieldType, field_of, text_of};

use crate::error::MessageTypeError;
use crate::region::View;
use crate::ring::layout::TYPE_NAME_BYTES;
use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use std::borrow::Cow;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A position in a lane: bytes since the lane began, headers and padding included. Never wraps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(pub u64);

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The label of a message: a tag (a number) and a topic.
///
/// ```
/// use olivine::{Label, Outgoing};
/// let label = Label::new().tag(7).topic("orders.eu");
/// assert_eq!(Outgoing::new(b"x").label(label), Outgoing::new(b"x").tag(7).topic("orders.eu"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Label<'a> {
    pub(crate) tag: u32,
    pub(crate) topic: Option<&'a str>,
}

impl<'a> Label<'a> {
    /// Tag 0, and the topic of the publisher's settings, if there is one.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            tag: 0,
            topic: None,
        }
    }

    /// With this tag.
    #[must_use]
    pub const fn tag(mut self, tag: u32) -> Self {
        self.tag = tag;
        self
    }

    /// With this topic instead of the publisher's; an empty topic is none.
    #[must_use]
    pub const fn topic(mut self, topic: &'a str) -> Self {
        self.topic = Some(topic);
        self
    }
}

/// A message to send, with its tag and its topic. Every sending method takes one.
///
/// Bytes, values ([`Plain`]) and, for a claim, a length convert into it.
///
/// ```
/// # use olivine::{Outgoing, Publisher, Subscriber};
/// # let mut subscriber = Subscriber::open("inproc://outgoing")?;
/// let mut publisher = Publisher::open("inproc://outgoing?topic=orders")?;
/// publisher.publish(b"plain")?;
/// publisher.publish(Outgoing::new(b"labelled").tag(7).topic("orders.eu"))?;
/// let mut claim = publisher.claim(Outgoing::sized(6).tag(8))?;
/// claim.copy_from_slice(b"filled");
/// claim.commit();
/// publisher.publish_batch([Outgoing::new(b"one").tag(9), Outgoing::new(b"two").tag(10)])?;
/// # let first = [(0, "orders"), (7, "orders.eu"), (8, "orders")];
/// # for expected in first.into_iter().chain([(9, "orders"), (10, "orders")]) {
/// #     let message = subscriber.receive()?;
/// #     assert_eq!((message.tag(), message.topic()), expected);
/// # }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing<'a, B = &'a [u8]> {
    pub(crate) body: B,
    pub(crate) label: Label<'a>,
}

impl<'a, B> Outgoing<'a, B> {
    const fn of(body: B) -> Self {
        Self {
            body,
            label: Label::new(),
        }
    }

    /// With this tag; 0 if none is given.
    #[must_use]
    #[inline(always)]
    pub fn tag(mut self, tag: u32) -> Self {
        self.label.tag = tag;
        self
    }

    /// With this topic instead of the publisher's (`topic=`); an empty topic is none.
    #[must_use]
    #[inline(always)]
    pub fn topic(mut self, topic: &'a str) -> Self {
        self.label.topic = Some(topic);
        self
    }

    /// With this tag and topic.
    #[must_use]
    #[inline(always)]
    pub fn label(mut self, label: Label<'a>) -> Self {
        self.label = label;
        self
    }
}

impl<'a> Outgoing<'a> {
    /// A message of these bytes.
    #[must_use]
    #[inline(always)]
    pub fn new(bytes: &'a (impl AsRef<[u8]> + ?Sized)) -> Self {
        Self::of(bytes.as_ref())
    }
}

impl<'a, T: Plain> Outgoing<'a, &'a T> {
    /// A message that carries this value.
    #[must_use]
    #[inline(always)]
    pub fn typed(value: &'a T) -> Self {
        Self::of(value)
    }

    /// As bytes.
    #[inline(always)]
    pub(crate) fn as_bytes(self) -> Outgoing<'a> {
        Outgoing {
            body: self.body.as_bytes(),
            label: self.label,
        }
    }
}

impl Outgoing<'_, usize> {
    /// A message of `length` bytes that are filled in place: for a claim.
    #[must_use]
    #[inline(always)]
    pub fn sized(length: usize) -> Self {
        Self::of(length)
    }
}

impl<'a, B: AsRef<[u8]> + ?Sized> From<&'a B> for Outgoing<'a> {
    #[inline(always)]
    fn from(bytes: &'a B) -> Self {
        Self::new(bytes)
    }
}

/// With its tag and its topic; a message without a topic is sent without one.
impl<'a> From<&'a OwnedMessage> for Outgoing<'a> {
    fn from(message: &'a OwnedMessage) -> Self {
        Self::new(&message.bytes)
            .tag(message.tag)
            .topic(&message.topic)
    }
}

impl<'a, T: Plain> From<&'a T> for Outgoing<'a, &'a T> {
    #[inline(always)]
    fn from(value: &'a T) -> Self {
        Self::typed(value)
    }
}

impl From<usize> for Outgoing<'_, usize> {
    #[inline(always)]
    fn from(length: usize) -> Self {
        Self::sized(length)
    }
}

/// A received message: a view of ring memory. Nothing is copied.
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
    /// The tag that the publisher gave; 0 if none.
    #[must_use]
    #[inline]
    pub fn tag(&self) -> u32 {
        self.tag
    }

    /// Start of its frame in its lane, in bytes.
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

    /// The topic; empty for a message without one.
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

/// A message copied out of the ring. It is used as its bytes, as [`Message`] is.
///
/// ```
/// use olivine::{Publisher, Subscriber};
///
/// let mut subscriber = Subscriber::open("inproc://copies")?;
/// let mut publisher = Publisher::open("inproc://copies")?;
/// publisher.publish(b"hello")?;
/// let message = subscriber.receive()?.to_owned_message();
/// let shout = std::thread::spawn(move || message.to_ascii_uppercase());
/// assert_eq!(shout.join().expect("it does not panic"), b"HELLO");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OwnedMessage {
    /// The payload.
    pub bytes: Vec<u8>,
    /// The tag that the publisher gave; 0 if none.
    pub tag: u32,
    /// Start of its frame in its lane.
    pub position: Position,
    /// Index of the publisher's lane.
    pub lane: usize,
    /// The topic; empty for a message without one.
    pub topic: String,
}

/// Without `AsRef<[u8]>`: what has it is published as bytes only, and a copy is published with its
/// tag and its topic.
impl Deref for OwnedMessage {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A plain-data type that travels as its own bytes.
///
/// Derive the `zerocopy` traits and name the layout. The channel stores the name, size and
/// alignment, and refuses openers of another type. A subscriber of bytes, in any language, reads
/// every type; a publisher of bytes is refused. Change the name whenever a field changes. Alignment
/// is at most 8.
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
    /// Name and version of the layout, up to 64 bytes. It is the same in every program that uses
    /// the channel.
    const TYPE_NAME: &'static str;

    /// The fields, which a channel stores for openers and tools. None by default;
    /// [`plain!`](crate::plain) states them, and [`MessageType::of`] checks them.
    #[must_use]
    fn fields() -> Fields {
        Fields::default()
    }
}

/// The type of a channel's messages, stated by a program that has no Rust type for it: a binding of
/// another language, or a tool.
///
/// A channel compares name, size and alignment, so equal values in two languages are one type:
/// `docs/types.md` has the rule.
///
/// ```
/// use olivine::{Config, MessageType, OpenError, Publisher, Subscriber};
///
/// let config = Config::parse("inproc://stated-types")?;
/// let quote = MessageType::new("quote v1", 24, 8)?;
/// let mut subscriber = Subscriber::open_for(&config, &quote)?;
/// let mut publisher = Publisher::open_for(&config, &quote)?;
/// publisher.publish(&[0; 24])?;
/// assert_eq!(subscriber.receive()?.len(), quote.size());
///
/// let other = MessageType::new("quote v2", 32, 8)?;
/// let refused = Publisher::open_for(&config, &other);
/// assert!(matches!(refused, Err(OpenError::Type { .. })));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageType {
    name: Cow<'static, str>,
    size: usize,
    align: usize,
    fields: Fields,
}

impl MessageType {
    /// A type of this name, whose values have `size` bytes and an alignment of `align` bytes.
    ///
    /// # Errors
    ///
    /// [`MessageTypeError`]: the name has 1 to 64 bytes, the alignment is 1, 2, 4 or 8, and the
    /// size is a multiple of it, from 1.
    pub fn new(name: &str, size: usize, align: usize) -> Result<Self, MessageTypeError> {
        if name.is_empty() || name.len() > TYPE_NAME_BYTES {
            return Err(MessageTypeError::Name { length: name.len() });
        }
        let name = name.to_owned();
        if ![1, 2, 4, 8].contains(&align) {
            return Err(MessageTypeError::Align { name, align });
        }
        if size == 0 || !size.is_multiple_of(align) {
            return Err(MessageTypeError::Size { name, size, align });
        }
        Ok(Self {
            name: name.into(),
            size,
            align,
            fields: Fields::default(),
        })
    }

    /// The same type with its fields, as text: [`Fields`] has the form. A channel stores them,
    /// and refuses an opener that states others. A text of more than 1,008 bytes is not stored and
    /// not compared.
    ///
    /// # Errors
    ///
    /// [`MessageTypeError::Field`]: a field is not understood, or ends behind the value.
    pub fn with_fields(self, text: &str) -> Result<Self, MessageTypeError> {
        let fields = text.parse::<Fields>()?.checked(self.size)?;
        Ok(Self { fields, ..self })
    }

    /// The type of messages that are values of `T`.
    ///
    /// # Panics
    ///
    /// If `T` states fields that its values do not have, or that no other program could read: two
    /// of one name, a name of more than 64 bytes, or a field that ends behind the value. The text
    /// names the field.
    #[must_use]
    pub fn of<T: Plain>() -> Self {
        const {
            assert!(
                align_of::<T>() <= 8,
                "messages start on 8-byte boundaries: a type may not need more"
            );
            assert!(T::TYPE_NAME.len() <= TYPE_NAME_BYTES && !T::TYPE_NAME.is_empty());
        }
        let fields = T::fields().checked(size_of::<T>());
        let fields = fields.unwrap_or_else(|error| panic!("type '{}': {error}", T::TYPE_NAME));
        Self {
            name: T::TYPE_NAME.into(),
            size: size_of::<T>(),
            align: align_of::<T>(),
            fields,
        }
    }

    /// Name and version of the layout.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of a value: the length of every message.
    #[must_use]
    pub fn size(&self) -> usize {
        self.size
    }

    /// Alignment of a value in bytes.
    #[must_use]
    pub fn align(&self) -> usize {
        self.align
    }

    /// Its fields; empty if none are stated.
    #[must_use]
    pub fn fields(&self) -> &Fields {
        &self.fields
    }

    /// What a channel stores and compares; never 0.
    pub(crate) fn hash(&self) -> u64 {
        known::hash_of(&self.name, self.size, self.align)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hash_of_a_type_is_the_value_in_the_document() {
        let hash = MessageType::new("quote v1", 24, 8).unwrap().hash();
        assert_eq!(hash, 0x3491_c642_5507_0348);
        crate::documents::assert_states("docs/types.md", &format!("0x{hash:016x}"));
        let other = |name, size, align| MessageType::new(name, size, align).unwrap().hash();
        assert_ne!(hash, other("quote v1", 24, 4));
        assert_ne!(hash, other("quote v1", 32, 8));
        assert_ne!(hash, other("quote v2", 24, 8));
    }

    #[test]
    fn types_that_no_channel_carries_are_refused() {
        let refused = |name: &str, size, align| {
            let error = MessageType::new(name, size, align).unwrap_err();
            error.to_string()
        };
        assert!(refused("", 8, 8).contains("0 bytes"));
        assert!(refused(&"n".repeat(65), 8, 8).contains("65 bytes"));
        for align in [0, 3, 16, usize::MAX] {
            assert!(refused("q", 48, align).contains("1, 2, 4 or 8"));
        }
        for size in [0, 9, usize::MAX] {
            assert!(refused("q", size, 2).contains("multiple"), "{size}");
        }
        assert!(MessageType::new(&"n".repeat(64), 6, 2).is_ok());
    }
}
