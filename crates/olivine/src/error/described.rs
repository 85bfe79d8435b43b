//! Why a message was not sent, with what its publisher knows of it.

use super::{LinkError, NotSent, chain};
use core::fmt;

/// [`NotSent`] with what the publisher knows of it: its text has how many subscribers are attached,
/// the topic or the length that was refused, why the link has failed, why no far side is connected,
/// or what closing waited for.
#[derive(Clone, Debug)]
pub struct Described {
    /// Why the message was not sent.
    pub error: NotSent,
    /// Which message of a batch, counted from 0.
    pub index: Option<usize>,
    known: Known,
}

/// What a publisher knows of an error.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// No more than the error says.
    Nothing,
    /// Reliable subscribers, and how many `subscribers=` asks for.
    Attached { attached: u32, wanted: u32 },
    /// What was given as a topic.
    Topic(Box<str>),
    /// Bytes of a message that is too long.
    Length(usize),
    /// Why no far side is connected.
    Unreached(Box<str>),
    /// The note of the link at the end.
    Left { note: Box<str> },
    /// The failure of the link.
    Link(Box<LinkError>),
}

impl Described {
    pub(crate) fn new(error: NotSent, known: Known) -> Self {
        Self {
            error,
            index: None,
            known,
        }
    }

    /// The same, of the message with this index in a batch.
    #[must_use]
    pub fn of_batch(self, index: usize) -> Self {
        Self {
            index: Some(index),
            ..self
        }
    }

    /// The text for the message with this index in a batch, and why it was not sent.
    #[must_use]
    pub fn text_of_batch(index: usize, why: &dyn fmt::Display) -> String {
        format!("message {index} of the batch, counted from 0, was not sent: {why}")
    }

    /// The id of the error, as [`NotSent::id`].
    #[must_use]
    pub fn id(&self) -> &'static str {
        self.error.id()
    }
}

impl fmt::Display for Described {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = &self.error;
        if let Some(index) = self.index {
            let alone = Self {
                index: None,
                ..self.clone()
            };
            return f.write_str(&Self::text_of_batch(index, &alone));
        }
        match &self.known {
            Known::Nothing => error.fmt(f),
            Known::Attached { attached, wanted } => {
                write!(f, "{error}; {attached} of 'subscribers={wanted}' are there")
            }
            Known::Topic(topic) => write!(f, "{error}; given was '{}'", topic.escape_default()),
            Known::Length(length) => match error {
                NotSent::TooLong { max } => write!(
                    f,
                    "the message is too long: it has {length} bytes, and this ring takes up to \
                     {max}; open the channel with a larger 'capacity='"
                ),
                error => error.fmt(f),
            },
            Known::Unreached(why) => write!(f, "{error}: {why}"),
            Known::Left { note } if note.is_empty() => error.fmt(f),
            Known::Left { note } => write!(f, "{error}; the link: {note}"),
            Known::Link(why) => write!(f, "{error}: {}", chain(&**why)),
        }
    }
}

impl std::error::Error for Described {}
