//! What `olivine top` and `olivine serve` show: one value, for every form.
//!
//! Its fields are the JSON output of both, documented in `docs/top.md`.

use serde::{Serialize, Serializer};
use std::sync::Arc;

/// Everything that is shown at one time.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct View {
    /// Between the two looks that rates are computed from; `None` after the first look.
    pub(crate) window_ns: Option<u64>,
    /// What is wrong, the worst first.
    pub(crate) findings: Vec<Finding>,
    pub(crate) channels: Vec<ChannelView>,
}

/// How bad it is. The worst is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Severity {
    /// A publisher is held back now.
    Held,
    /// A publisher was held back for a part of the window.
    Slowed,
    /// A publisher will be held back.
    Risk,
}

/// A subscriber that holds publishers back, or will.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) severity: Severity,
    pub(crate) channel: String,
    /// The line that says it, such as
    /// `ticks: held 2.1 s by 'audit' (pid 6388, STOPPED), ring 100 %`.
    pub(crate) text: String,
    /// A command that mends it or shows more.
    pub(crate) remedy: String,
    pub(crate) slot: usize,
    pub(crate) process_id: u64,
    pub(crate) name: Option<String>,
    pub(crate) state: State,
    /// How long the present hold lasts; `None` if no publisher is held back now.
    pub(crate) held_ns: Option<u64>,
    /// Whether it may have begun before the first look.
    pub(crate) held_ns_is_minimum: bool,
    pub(crate) held_share: Option<f64>,
    pub(crate) ring_fill: f64,
    /// Publishers held back now.
    pub(crate) publisher_process_ids: Vec<u64>,
}

/// What a participant does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    /// Its process is stopped by a signal or a debugger.
    Stopped,
    /// It died, or it is a durable subscriber that is absent.
    Gone,
    /// A subscriber that lost its place.
    Evicted,
    /// A publisher that waits for room.
    Held,
    /// There are messages, and it released none in the window.
    NotReading,
    /// It published or released messages in the window.
    Moving,
    /// It sleeps until there is something to do.
    Parked,
    /// It has nothing to do, and its process uses a CPU.
    Spinning,
    /// It has nothing to do.
    Idle,
    /// Only one look was taken, or its process is not visible.
    Unknown,
}

impl State {
    /// A word of at most 8 letters.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Stopped => "STOPPED",
            Self::Gone => "gone",
            Self::Evicted => "evicted",
            Self::Held => "held",
            Self::NotReading => "stuck",
            Self::Moving => "moving",
            Self::Parked => "parked",
            Self::Spinning => "spinning",
            Self::Idle => "idle",
            Self::Unknown => "-",
        }
    }
}

/// A channel.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ChannelView {
    pub(crate) name: String,
    /// Why it cannot be read.
    pub(crate) error: Option<String>,
    /// Bytes of each ring; 0 while no publisher has fixed it.
    pub(crate) capacity_bytes: u64,
    /// Bytes of frames published in a second, headers and padding included.
    pub(crate) bytes_per_s: Option<f64>,
    /// Estimated from the headers of some frames.
    pub(crate) messages_per_s_estimate: Option<f64>,
    /// Part of the fullest ring that waits for a subscriber, from 0 to 1.
    pub(crate) ring_fill: f64,
    /// Part of the window in which a publisher had no room, from 0 to 1.
    pub(crate) held_share: Option<f64>,
    /// Bytes that the slowest subscriber has not released.
    pub(crate) behind_bytes: u64,
    pub(crate) publishers_count: usize,
    pub(crate) subscribers_count: usize,
    pub(crate) gone_count: usize,
    pub(crate) participants: Vec<Participant>,
}

/// Whether a participant writes or reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    Publisher,
    Subscriber,
}

/// A publisher or a subscriber.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Participant {
    pub(crate) role: Role,
    /// Index of its lane or slot.
    pub(crate) index: usize,
    pub(crate) process_id: u64,
    /// Durable name.
    pub(crate) name: Option<String>,
    /// Program and first argument; `None` if the process is not visible.
    #[serde(serialize_with = "command")]
    pub(crate) command: Option<Arc<str>>,
    pub(crate) state: State,
    /// CPU of the first thread of its process.
    pub(crate) cpu: Option<u32>,
    /// Of one CPU, by all threads of its process.
    pub(crate) cpu_share: Option<f64>,
    pub(crate) bytes_per_s: Option<f64>,
    /// Bytes that a subscriber has not released.
    pub(crate) behind_bytes: u64,
    pub(crate) behind_messages_estimate: Option<f64>,
    /// Age of the oldest message that it has not released.
    pub(crate) behind_ns: Option<u64>,
    /// Whether the message is older than `behind_ns`, which is as far as the looks reach back.
    pub(crate) behind_ns_is_minimum: bool,
    pub(crate) lost_bytes: u64,
    /// Overruns of a subscriber.
    pub(crate) overruns_count: u64,
    /// Times that a subscriber slept in the kernel.
    pub(crate) parks_count: u64,
    /// Failures of a lane.
    pub(crate) failures_count: u64,
    pub(crate) since_first_failure_ns: Option<u64>,
    pub(crate) since_last_failure_ns: Option<u64>,
    /// Reason of the last failure of a lane.
    pub(crate) last_failure: Option<String>,
    /// Whether publishers wait for it.
    pub(crate) delivery: Option<&'static str>,
    /// A subscriber: part of the window in which it held a publisher back. A publisher: part in
    /// which it had no room.
    pub(crate) held_share: Option<f64>,
    /// The same in nanoseconds, since the first look.
    pub(crate) held_ns: u64,
    /// How long a durable subscriber has been absent.
    pub(crate) absent_ns: u64,
}

fn command<S: Serializer>(text: &Option<Arc<str>>, to: S) -> Result<S::Ok, S::Error> {
    text.as_deref().serialize(to)
}
