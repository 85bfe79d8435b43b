//! One publisher's lane, as other participants see it.

use crate::liveness::Locks;
use crate::message::Position;
use crate::ring::layout::lock_byte;
use core::fmt;

/// The state of a lane's publisher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LaneState {
    /// The publisher lives.
    Open,
    /// The publisher closed the lane.
    Closed,
    /// The publisher died. The next publisher continues at its position.
    Dead,
}

impl fmt::Display for LaneState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Dead => "dead",
        })
    }
}

impl LaneState {
    /// From a lane's state word and the lock of its publisher.
    pub(crate) fn of(state: u64, locks: &Locks, index: usize) -> Self {
        let byte = lock_byte::LANE + index as u64;
        if state & 1 == 0 {
            Self::Closed
        } else if locks.held_by_others(byte, byte + 1) {
            Self::Open
        } else {
            Self::Dead
        }
    }
}

/// One publisher's lane as a subscriber sees it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LaneStatus {
    /// Index of the lane.
    pub index: usize,
    /// The state of its publisher.
    pub state: LaneState,
    /// Position of this subscriber, in bytes.
    pub position: Position,
    /// Position of the publisher, in bytes.
    pub cursor: Position,
    /// Process id of the newest publisher, in its own PID namespace; for display.
    pub publisher_pid: u64,
}

/// The state of a durable name when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durable {
    /// The name was new: the subscriber starts at the position of `from=`.
    Created,
    /// The name continues at its position. It missed nothing.
    Resumed,
    /// The name lost its place. It was in the way of a publisher that had no room for longer than
    /// `slow=evict:` allows, or was absent for longer than `expire=`. It continues with the oldest
    /// message that is still in the ring. The first receiving call returns
    /// [`ReceiveError::Evicted`](crate::ReceiveError::Evicted) once, unless the subscriber that
    /// lost the place got that error before it left.
    LostPlace {
        /// Bytes of frames (headers and padding included) that it missed.
        bytes: u64,
    },
}
