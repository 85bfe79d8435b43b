//! Damage of a lane: words that no publisher of this version writes.

/// What [`ReceiveError::Corrupt`](super::ReceiveError::Corrupt) detected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// A header with an impossible length.
    #[error("a frame of {bytes} bytes, header included, where {min} to {max} are possible")]
    Frame {
        /// Length found, in bytes.
        bytes: u64,
        /// Length of an empty message.
        min: u64,
        /// Length of the longest message of this ring.
        max: u64,
    },
    /// More bytes before the cursor than the ring holds.
    #[error("{bytes} bytes wait to be read, where the ring holds {capacity}")]
    Lead {
        /// Bytes from the reader's position to the publisher's cursor.
        bytes: u64,
        /// Bytes of the ring.
        capacity: u64,
    },
    /// A publisher that may write further ahead than the ring holds.
    #[error("its publisher may write {bytes} bytes ahead, where the ring holds {capacity}")]
    Limit {
        /// Bytes from the reader's position, which is the cursor, to the publisher's limit.
        bytes: u64,
        /// Bytes of the ring.
        capacity: u64,
    },
    /// A message whose header marks a topic, but which does not end with one.
    #[error(
        "a message of {bytes} bytes that is marked as one with a topic and does not end with it"
    )]
    Topic {
        /// Length of its payload in bytes.
        bytes: u64,
    },
    /// A message of another length than the values of the channel's type.
    #[error("a message of {bytes} bytes, where each value of the channel's type has {expected}")]
    Value {
        /// Its length in bytes.
        bytes: u64,
        /// Length of the type in bytes.
        expected: u64,
    },
}
