//! Results of measurements: one type for all scenarios and methods, and their file.
//!
//! A [`ResultFile`] has the machine, command and commit of its figures. Its rows are [`Row`]s: a
//! scenario, a method, parameters, a placement, and the figures, or why there are none. A failed
//! measurement is a row: nothing is left out silently. Units are part of each name.
//! [`STATISTICS`] lists what a row may have. `docs/bench-schema.json`, made from these types,
//! describes the file for other programs.

mod collect;
pub mod compare;
mod distribution;
pub mod export;
pub mod file;
mod goal;
mod measuring_error;
mod placement;
pub mod ratio;
pub mod statistic;

pub use collect::{Collector, Figures, Slice};
pub use distribution::Distribution;
pub use file::{FileError, ResultFile, Results};
pub(crate) use goal::Beside;
pub use goal::Goal;
pub use measuring_error::MeasuringError;
pub use placement::{ClockAhead, Placement};
pub use ratio::Ratio;
pub use statistic::{STATISTICS, Statistic};

use crate::kernel::{Cause, Counts};
use crate::latency::Percentiles;
use crate::spread::Spread;
use crate::worst::WorstReport;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How names of this library's methods and servers begin.
pub(crate) const OURS: &str = "olivine";
/// What names of its bridges have: the scheme of a URI.
const SCHEME: &str = "://";

/// How messages are offered in a scenario. Figures of different kinds are never in one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Load {
    /// The next message leaves after the reply to the last one: round trips.
    Closed,
    /// Messages are due at fixed times: one-way latencies from the planned time.
    Open,
    /// As many as possible: rates, no latencies.
    Saturated,
}

/// Parameters that vary between rows. `None` if a scenario or method has no such parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Parameters {
    /// Payload of a message in bytes.
    pub size_bytes: u64,
    /// Messages made visible at once; 1 is one by one.
    pub batch_count: u64,
    /// Requested messages per second, in an open loop.
    pub rate_per_s: Option<f64>,
    /// Bytes between both ends: a ring's capacity, a socket's or pipe's buffer.
    pub ring_bytes: Option<u64>,
    /// How an idle side waits: `spin`, `yield`, `park`, `adaptive`, `block`.
    pub wait: Option<String>,
    /// Processes that publish.
    pub publishers_count: u32,
    /// Processes that subscribe; each gets every message.
    pub subscribers_count: u32,
    /// Connections of a load generator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connections_count: Option<u64>,
    /// Requests in flight on each connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub depth_count: Option<u64>,
    /// Round trips of each run, where their number was given in place of a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub messages_count: Option<u64>,
    /// More running participants than CPUs: the scheduler affects every figure.
    pub oversubscribed: bool,
    /// All other settings, as the method writes them: a URI's query, socket options.
    pub settings: String,
}

impl Parameters {
    /// One publisher, one subscriber, one by one, messages of `size_bytes`.
    #[must_use]
    pub fn pair(size_bytes: u64) -> Self {
        Self {
            size_bytes,
            batch_count: 1,
            rate_per_s: None,
            ring_bytes: None,
            wait: None,
            publishers_count: 1,
            subscribers_count: 1,
            connections_count: None,
            depth_count: None,
            messages_count: None,
            oversubscribed: false,
            settings: String::new(),
        }
    }

    /// Whether an idle side may sleep.
    #[must_use]
    pub fn sleeps(&self) -> bool {
        !matches!(self.wait.as_deref(), Some("spin" | "yield"))
    }
}

/// One line of a result: a situation and its figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Row {
    /// Name of the scenario, as [`crate::scenario::list`] has it.
    pub scenario: String,
    /// How messages were offered.
    pub load: Load,
    /// What carried the messages: `olivine-shm`, `pipe`, `unix-stream`.
    pub method: String,
    /// Features of this library's channels that the method lacks; empty if they do not explain its
    /// speed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub lacks: String,
    /// What varies.
    #[serde(flatten)]
    pub parameters: Parameters,
    /// Figures, or why there are none.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Figures that others published for the same situation, on their machines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
}

impl Row {
    /// A row without figures, for `reason`: a time-out, a missing library, a size beyond a limit.
    #[must_use]
    pub fn failed(
        scenario: &str,
        load: Load,
        method: &str,
        parameters: Parameters,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            scenario: scenario.to_owned(),
            load,
            method: method.to_owned(),
            lacks: String::new(),
            parameters,
            outcome: Outcome::Failed {
                reason: reason.into(),
            },
            published: Vec::new(),
        }
    }

    /// What was measured; `None` if the row failed.
    #[must_use]
    pub fn measured(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Measured(measured) => Some(measured),
            Outcome::Failed { .. } => None,
        }
    }

    /// Whether its method is of this library.
    #[must_use]
    pub fn is_ours(&self) -> bool {
        self.method.starts_with(OURS) || self.method.contains(SCHEME)
    }

    /// Its method with the settings, without its wait strategy.
    #[must_use]
    pub fn name(&self) -> String {
        let settings = self.parameters.settings.split('&');
        let more = settings.filter(|pair| !pair.is_empty() && !pair.starts_with("wait="));
        let parts: Vec<&str> = std::iter::once(self.method.as_str()).chain(more).collect();
        parts.join(" ")
    }

    /// Whether its runs were interleaved with those of another row.
    #[must_use]
    pub fn took_turns_with(&self, other: &Self) -> bool {
        let session = |row: &Self| row.measured().and_then(|measured| measured.session.clone());
        session(self).is_some() && session(self) == session(other)
    }

    /// Whether another row measured the same situation in the same placement, so that the two can
    /// be compared.
    #[must_use]
    pub fn is_same_situation(&self, other: &Self) -> bool {
        let placement = |row: &Self| row.measured().map(|measured| measured.placement);
        self.scenario == other.scenario
            && self.load == other.load
            && self.parameters == other.parameters
            && placement(self) == placement(other)
    }
}

/// The outcome of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "status", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Outcome {
    /// There are figures, from checked messages only.
    Measured(Box<Measured>),
    /// There are no figures.
    Failed {
        /// Why, in one line.
        reason: String,
    },
}

/// Figures of one row. Which ones exist depends on the load and the scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measured {
    /// Where the CPUs were.
    pub placement: Placement,
    /// Slices measured there.
    pub slices_count: u64,
    /// Those of them in which other work took a CPU from a method that spins at full speed. A run
    /// that has other slices has its values from these.
    #[serde(default)]
    pub disturbed_count: u64,
    /// The session of the measurement, a unique word: rows of one session were interleaved, so
    /// their runs of one number were neighbours in time. `None` in files without sessions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// Values over the runs, by the names of [`STATISTICS`]: each run first reduced to the median
    /// of its slices.
    pub values: BTreeMap<String, Spread>,
    /// Closed load: from one send to the checked answer. Open load: from the intended send time to
    /// the other side's check.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<Distribution>,
    /// Open load: from the intended send time to the commit, part of `distribution`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub send_delay: Option<Distribution>,
    /// Bare cache line to and fro, in the slices beside these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Percentiles>,
    /// The runs one by one, for comparisons.
    pub runs: Vec<Run>,
    /// Each slice: its run, its end in seconds from the start of the measurement, and its p50 in
    /// nanoseconds or its messages a second. Empty in old files, and where it was left out to make
    /// a file small.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub series: Vec<(u32, f64, f64)>,
    /// The largest sample, when it was, and what the kernel counted around it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst: Option<Worst>,
    /// The worst messages with their causes, and what is above p99, if they were asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worst_messages: Option<WorstReport>,
    /// What the kernel counted for all participants in all slices of the row.
    pub kernel: Counts,
    /// Open load: how far the receiver's clock is ahead of the sender's, which is part of
    /// `distribution`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_ahead: Option<ClockAhead>,
    /// Open load: samples that were negative by the two clocks, and count as 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub negative_count: Option<u64>,
    /// A mesh, pair by pair; empty for others.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pairs: Vec<Pair>,
}

impl Measured {
    /// The value called `name` over the runs; `None` if it has none, or is not of runs.
    #[must_use]
    pub fn spread(&self, name: &str) -> Option<Spread> {
        self.values.get(name).copied()
    }

    /// A statistic of the row: the median of the runs, or the value of all samples.
    #[must_use]
    pub fn value(&self, statistic: &Statistic) -> Option<f64> {
        statistic.of_row(self)
    }

    /// p50 over the runs, each first reduced to the median of its slices; `None` if the
    /// distribution has none.
    ///
    /// Tables show this p50. The p50 of the distribution is over all samples, most of which come
    /// from the fastest slices.
    #[must_use]
    pub fn p50_ns(&self) -> Option<Spread> {
        self.spread("p50_ns")
    }
}

/// The figures of one run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Run {
    /// Which run; runs of one session with the same number were neighbours in time.
    pub run: u32,
    /// The median of its slices, by the names of [`STATISTICS`].
    pub values: BTreeMap<String, f64>,
}

/// The largest sample of a row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Worst {
    /// How long it took.
    pub ns: f64,
    /// End of its slice, in seconds from the start of the measurement.
    pub at_s: f64,
    /// Number of its run.
    pub run: u32,
    /// The most likely cause.
    pub cause: Cause,
    /// What the kernel counted in its slice, both processes together.
    pub kernel: Counts,
}

/// One publisher and one subscriber of a mesh.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Pair {
    /// Which publisher, from 0.
    pub publisher: u32,
    /// Which subscriber, from 0.
    pub subscriber: u32,
    /// Messages a second that went from one to the other.
    pub messages_per_s: f64,
}

/// A figure that others published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Published {
    /// Its name here: `p50_ns`, `messages_per_s`, `deliveries_per_s`.
    pub figure: String,
    /// Its value, in the unit of that name.
    pub value: f64,
    /// The source.
    pub source: String,
    /// The machine.
    pub machine: String,
}

/// Rows of the hardware limits without a channel.
pub mod floor {
    /// Its scenario.
    pub const SCENARIO: &str = "floor";
    /// Bare cache line between the two processes.
    pub const LINE: &str = "bare cache line, to and fro";
    /// Copying 8 KiB at a time through 1 MiB.
    pub const COPY: &str = "copy of 8 KiB within 1 MiB";
    /// An empty system call.
    pub const CALL: &str = "empty system call";
    /// Waking a futex without a sleeper.
    pub const WAKE: &str = "futex wake without a sleeper";
    /// Two processes that sleep on a futex and wake each other alternately.
    pub const SLEEPERS: &str = "round trip of two that sleep on a futex";
    /// One clock reading.
    pub const CLOCK: &str = "clock reading";
}
