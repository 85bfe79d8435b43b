//! Orders of the coordinator, and answers of the participants: one JSON object a line.
//!
//! Orders go to a participant's standard input, answers come from its standard output. A
//! participant has one or more workers, each a thread pinned to its CPU; a line names the worker.
//! Between two orders all of them sleep. Within a slice they share the words of [`crate::words`]:
//!
//! | word | written by | meaning                                   |
//! |------|------------|-------------------------------------------|
//! | 0    | client     | floor: the ball on its way there          |
//! | 1    | server     | floor: the ball on its way back           |
//! | 2    | server     | its clock as it saw the last stamped ball |
//! | 3…   | each end   | the last gate that it has reached         |
//!
//! Samples are ticks. They stay in the worker's memory during a slice, and then go to its file.

use crate::kernel::Counts;
use crate::pace::Rest;
use crate::privileges::Privileges;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

pub(crate) const THERE: usize = 0;
pub(crate) const BACK: usize = 1;
pub(crate) const STAMP: usize = 2;
pub(crate) const GATE: usize = 3;

/// The word of a participant's command, before its arguments.
pub const COMMAND: &str = "__participant";
/// Name of the file with the shared words.
pub(crate) const WORDS: &str = "words";

/// Name of the file with the samples of an end.
pub(crate) fn samples(end: usize) -> String {
    format!("samples-{end}")
}

/// What one worker is told or says.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line<T> {
    /// Its number in its process.
    pub(crate) worker: usize,
    /// The order or the answer.
    pub(crate) said: T,
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "a connection has two ends")]
pub enum Side {
    /// Creates kernel objects, sends first.
    Client,
    /// Joins, checks, sends back.
    Server,
}

impl Side {
    /// The value of this side out of (client, server).
    pub(crate) fn pick<T>(self, client: T, server: T) -> T {
        match self {
            Self::Client => client,
            Self::Server => server,
        }
    }

    /// The direction that this side reads, and the direction that it writes.
    pub fn from_to<T>(self, there: T, back: T) -> (T, T) {
        match self {
            Self::Client => (back, there),
            Self::Server => (there, back),
        }
    }
}

/// Which of the open methods; one of each may be open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// It is measured.
    Measured,
    /// It is the bare stream beside what is measured: the method `bare-ring`.
    Bare,
}

/// An order to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub(crate) enum Order {
    /// Use these privileges from now on.
    Privileges(Privileges),
    /// Open an end of a method.
    Open(Opening),
    /// Do the work of a slice, once all ends have reached `gate`.
    Run { role: Role, gate: u64, work: Work },
    /// Exchange `rounds` balls on the shared words, the first being `first`, once both ends have
    /// reached `gate`. The client's samples are the round trips; if `stamped`, they are its clock
    /// before, the server's clock, and its clock after.
    Balls {
        side: Side,
        gate: u64,
        first: u64,
        rounds: u64,
        stamped: bool,
    },
    /// Measure a limit of the hardware.
    Limit(Limit),
    /// Close what is open.
    Close,
}

/// How to open an end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Opening {
    pub(crate) role: Role,
    pub(crate) method: String,
    pub(crate) settings: String,
    pub(crate) size_bytes: usize,
    /// Where the two ends meet.
    pub(crate) folder: PathBuf,
    pub(crate) side: Side,
    /// Whether threads that the method starts may use every allowed CPU.
    pub(crate) unpinned: bool,
}

/// What an end does in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
#[allow(clippy::exhaustive_enums, reason = "a method's end does each of them")]
pub enum Work {
    /// Sends `rounds` messages from number `first` on, each after the reply to the last one is
    /// checked. The samples are the round trips.
    Ask {
        /// Number of the first message.
        first: u64,
        /// Messages.
        rounds: u64,
    },
    /// Checks `rounds` messages from number `first` on and sends each one back.
    Answer {
        /// Number of the first message.
        first: u64,
        /// Messages.
        rounds: u64,
    },
    /// Sends messages without replies, as fast as it can.
    Stream(Batches),
    /// Checks `count` streamed messages of each publisher, each from number `first` on. The time of
    /// each one's last message is an end.
    Take {
        /// Number of the first message.
        first: u64,
        /// Messages of each publisher.
        count: u64,
        /// Publishers, numbered from 0.
        publishers: usize,
    },
    /// Sends messages when they are due. The samples are how late each one left.
    Pace(Paced),
    /// Checks `count` paced messages from number `first` on. The samples are the times from when
    /// each was due to its check.
    Hear {
        /// Number of the first message.
        first: u64,
        /// Messages.
        count: u64,
    },
}

/// Messages that are streamed one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "the arguments of one slice")]
pub struct Batches {
    /// Number of the first message.
    pub first: u64,
    /// Messages in all.
    pub count: u64,
    /// Messages sent at once.
    pub batch: usize,
    /// Number of the publisher, which each message has in place of its time.
    pub own: u64,
}

/// Messages that are sent one way when each is due, evenly spaced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "the arguments of one slice")]
pub struct Paced {
    /// Number of the first one.
    pub first: u64,
    /// Messages in all.
    pub count: u64,
    /// Messages a second.
    pub rate_per_s: f64,
    /// Ticks of the clock in a nanosecond.
    pub ticks_per_ns: f64,
    /// How the sender passes the time between two.
    pub rest: Rest,
    /// The sender stands still before this message for so many nanoseconds: the self-check finds
    /// it.
    pub stall: Option<(u64, u64)>,
}

/// A limit of the hardware that one CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "limit", rename_all = "snake_case")]
pub(crate) enum Limit {
    /// Copying `size_bytes` at a time through `ring_bytes`.
    Copy {
        size_bytes: usize,
        ring_bytes: usize,
    },
    /// An empty system call.
    Call,
    /// Waking a futex without a sleeper.
    Wake,
    /// A reading of the clock.
    Clock,
}

/// What an end did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "made by every method")]
pub struct Done {
    /// The clock when the work began.
    pub start_ticks: u64,
    /// The clock when it was done.
    pub end_ticks: u64,
    /// The clock at the last message of each publisher.
    pub ends_ticks: Vec<u64>,
    /// Samples in the file of this end, or repetitions of a limit.
    pub count: u64,
    /// What the kernel counted for the thread in the meantime.
    pub kernel: Counts,
}

/// An answer of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Started, pinned and attached to the words.
    Started,
    /// An order was carried out.
    Done(Done),
    /// An order failed.
    Failed {
        message: String,
        /// Whether it may only follow from a failure of another end.
        follows: bool,
    },
}
