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
//! | 3…   | each end   | the last start barrier that it reached    |
//!
//! Samples are ticks. They stay in the worker's memory during a slice, and then go to its file.

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "the coordinator and the participants state each of them"
)]

use crate::counts::ThreadCounts;
use crate::pace::Rest;
use crate::payload::{STEP, Stamp, mixed};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Word of the ball on its way there.
pub const THERE: usize = 0;
/// Word of the ball on its way back.
pub const BACK: usize = 1;
/// Word of the server's clock.
pub const STAMP: usize = 2;
/// Word of the first end's start barrier.
pub const BARRIER: usize = 3;

/// The word of a participant's command, before its arguments.
pub const COMMAND: &str = "__participant";
/// The word with which a program lists its methods.
pub const LIST: &str = "list";
/// Name of the file with the shared words.
pub const WORDS: &str = "words";

/// Name of the file with the samples of an end.
#[must_use]
pub fn samples(end: usize) -> String {
    format!("samples-{end}")
}

/// An order to a worker, or its answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line<T> {
    /// Its number in its process.
    pub worker: usize,
    /// The order or the answer.
    pub said: T,
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Creates kernel objects, sends first.
    Client,
    /// Joins, checks, sends back.
    Server,
}

impl Side {
    /// The value of this side out of (client, server).
    pub fn pick<T>(self, client: T, server: T) -> T {
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
pub enum Role {
    /// It is measured.
    Measured,
    /// It is the bare stream beside what is measured: the method `bare-ring`.
    Bare,
}

/// An order to a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
pub enum Order {
    /// Use these privileges from now on.
    Privileges {
        /// `SCHED_FIFO` for the worker's thread.
        real_time: bool,
        /// `mlockall` for its process.
        locked_memory: bool,
    },
    /// Open an end of a method.
    Open(Opening),
    /// Do the work of a slice, once all ends have reached the start barrier.
    Run {
        /// Of which method.
        role: Role,
        /// Number of the start barrier; a pair meets at the next one, too, before it answers.
        start: u64,
        /// What to do.
        work: Work,
    },
    /// Exchange `rounds` balls on the shared words, the first being `first`, once both ends have
    /// reached `start`. The client's samples are the round trips; if `stamped`, they are its clock
    /// before, the server's clock, and its clock after.
    Balls {
        /// Which end.
        side: Side,
        /// Number of the start barrier.
        start: u64,
        /// Number of the first ball.
        first: u64,
        /// How many.
        rounds: u64,
        /// Whether the server's clock is sampled.
        stamped: bool,
    },
    /// Measure a limit of the hardware.
    Limit(Limit),
    /// Close what is open.
    Close,
}

/// How to open an end.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Opening {
    /// What it is for.
    pub role: Role,
    /// Name of the method.
    pub method: String,
    /// Its settings.
    pub settings: String,
    /// Bytes of a message.
    pub size_bytes: usize,
    /// Whether messages are streamed; else each one is answered, or sent when it is due.
    pub streamed: bool,
    /// Where the two ends meet.
    pub folder: PathBuf,
    /// Which end.
    pub side: Side,
    /// Whether threads that the method starts may use every allowed CPU.
    pub unpinned: bool,
}

/// What an end does in a slice.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "work", rename_all = "snake_case")]
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
        /// Of how many of the worst messages to say why they were late; 0 for none.
        #[serde(default)]
        worst: usize,
    },
    /// Sends the messages of a proof, and checks the replies, if there are some.
    Prove(Proof),
    /// Checks the messages of a proof, and sends each one back, if there are replies.
    Verify(Proof),
}

/// Messages that a library cannot know before they arrive: both ends compute them from a key that
/// only the orders contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proof {
    /// Number of the first message.
    pub first: u64,
    /// Messages in all.
    pub count: u64,
    /// Messages sent at once; 1 with replies.
    pub batch: usize,
    /// What the messages follow from, beside their number.
    pub key: u64,
    /// Whether each message has a reply before the next one.
    pub replies: bool,
    /// How long the checking end sleeps before it begins, in milliseconds.
    pub late_ms: u64,
}

impl Proof {
    /// The stamp of a message.
    #[must_use]
    pub fn stamp(&self, sequence: u64) -> Stamp {
        Stamp {
            sequence,
            ticks: mixed(self.key ^ sequence.wrapping_mul(STEP)),
        }
    }
}

/// Messages that are streamed one way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
pub enum Limit {
    /// Copying `size_bytes` at a time through `ring_bytes`.
    Copy {
        /// Bytes of a copy.
        size_bytes: usize,
        /// Bytes that the copies walk through.
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
    pub kernel: ThreadCounts,
    /// Why the worst messages were late, if that was asked for. The method knows its form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<serde_json::Value>,
}

/// An answer of a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum Answer {
    /// Started, pinned and attached to the words.
    Started,
    /// An order was carried out.
    Done(Done),
    /// An order failed.
    Failed {
        /// Why, in one line.
        message: String,
        /// Whether it may only follow from a failure of another end.
        follows: bool,
    },
}
