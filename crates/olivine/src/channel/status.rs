//! One publisher's lane as others see it.

use crate::liveness::Locks;
use crate::message::Position;
use crate::ring::layout::lock_byte;
use core::fmt;

/// Whether a lane's publisher is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LaneState {
    /// A publisher is there.
    Open,
    /// Its publisher closed it.
    Closed,
    /// Its publisher died; the next one continues where it left off.
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
    /// Whether its publisher is there.
    pub state: LaneState,
    /// Where this subscriber is, in bytes.
    pub position: Position,
    /// Where the publisher is, in bytes.
    pub cursor: Position,
    /// Process id of the newest publisher, in its own PID namespace; for display.
    pub publisher_pid: u64,
}

/// What a durable subscriber found of its name when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Durable {
    /// The channel did not know the name: the subscriber starts where `from=` says.
    Created,
    /// It goes on where the name was. Nothing was missed.
    Resumed,
    /// The place of the name was taken, because it held a publisher back for longer than `slow=evict:` allows or was
    /// absent for longer than `expire=`. It goes on with the oldest message that is still there, and the first call that
    /// receives returns [`ReceiveError::Evicted`](crate::ReceiveError::Evicted) once, unless the subscriber that lost
    /// the place was told before it left.
    LostPlace {
        /// Bytes of frames (headers and padding included) that it missed.
        bytes: u64,
    },
}
