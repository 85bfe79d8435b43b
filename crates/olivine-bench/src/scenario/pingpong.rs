//! Round trip: a message there, checked, sent back by the same method, checked again.
//!
//! Measures: filling and sending, the other side's receiving, checking and sending back, the first
//! side's receiving and checking; one clock reading per round. Does not measure: queueing (one
//! message in flight: a closed loop) or a fixed rate; that is `latency`.

use super::registry::Scenario;
use super::turns::{Subject, measure};
use super::{Session, Variant};
use crate::clock::TickClock;
use crate::error::Result;
use crate::floor::{distribution, middle_ns, nanos};
use crate::method;
use crate::protocol::{Role, Work};
use crate::result::ratio::Target;
use crate::result::{Beside, Figures, Goal, Load};
use crate::run::{CLIENT, Pair, Participants};
use std::time::Duration;

/// Time of one slice of round trips, in nanoseconds.
const SLICE_NS: f64 = 10e6;
/// Warm-up rounds that determine how many fit [`SLICE_NS`].
const FIRST_ROUNDS: u64 = 100;
/// A slice with interruptions may last this many times [`SLICE_NS`].
const INTERRUPTED_TIMES: f64 = 10.0;
/// Rounds of the whole warm-up, where they fit a slice.
const WARM_UP_ROUNDS: u64 = 2_000;
/// Most rounds in a slice.
const ROUNDS_MAX: u64 = 1 << 20;

/// One message there and back.
pub const SCENARIO: Scenario = Scenario {
    name: "pingpong",
    about: "round-trip time of a message and its reply, any method (closed loop)",
    heading: "Round trip of a message and its answer",
    load: Load::Closed,
    keys: &["method", "rival", "wait", "capacity", "count"],
    defaults: &[("size", "32"), ("slots", "64")],
    in_harness: true,
    goals: &[
        Goal {
            of: |row| {
                let is_packed = row.parameters.settings.is_empty();
                row.method == method::OLIVINE.name && is_packed && row.parameters.size_bytes == 32
            },
            figure: "ratio_p50",
            beside: Beside::LINE,
            target: Target::AtMost(0.8),
        },
        Goal {
            of: |row| row.method == method::OLIVINE_TCP && row.parameters.size_bytes == 32,
            figure: "p50_ns",
            beside: Beside::Method(method::SOCKET),
            target: Target::AtMost(1.2),
        },
    ],
    run: measure::<PingPong>,
};

/// Both ends of a method.
pub(super) struct PingPong {
    /// Round trips of a slice.
    rounds: u64,
    /// Round trips that are left of the run, if their number was given.
    left: Option<u64>,
    sequence: u64,
    samples: Vec<u64>,
}

impl Subject for PingPong {
    const SCENARIO: &'static Scenario = &SCENARIO;

    fn slice_ns(_variant: &Variant) -> f64 {
        SLICE_NS * 1.6
    }

    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        let method = session.prepare(&variant.method)?;
        let settings = &variant.parameters.settings;
        session.set.open(Pair {
            role: Role::Measured,
            method: &method.name,
            settings,
            size: variant.size(),
            streamed: false,
            unpinned: false,
        })?;
        let mut pingpong = Self {
            rounds: super::ROUNDS_MIN,
            left: None,
            sequence: 0,
            samples: Vec::new(),
        };
        let mut each_ns = pingpong.warm_up(session)?;
        // On a busy machine the minimum of a slice is enough warm-up.
        for rounds in [FIRST_ROUNDS, WARM_UP_ROUNDS] {
            let fit = super::rounds_in(SLICE_NS, each_ns, rounds);
            if fit > pingpong.rounds {
                pingpong.rounds = fit;
                each_ns = pingpong.warm_up(session)?;
            }
        }
        pingpong.rounds = super::rounds_in(SLICE_NS, each_ns, ROUNDS_MAX);
        pingpong.left = variant.parameters.messages_count;
        Ok(pingpong)
    }

    fn slice(&mut self, set: &mut Participants<'_>, _clock: &TickClock) -> Result<Figures> {
        self.rounds = self.rounds.min(self.left.unwrap_or(u64::MAX));
        self.play(set)?;
        self.left = self.left.map(|left| left - self.rounds);
        Ok(Figures::round_trips(distribution(&self.samples)))
    }

    fn is_done(&self) -> bool {
        self.left == Some(0)
    }
}

impl PingPong {
    /// Runs once, and returns the time per round of the total: a busy machine delays few of them,
    /// but those by far.
    #[allow(clippy::cast_precision_loss, reason = "a few rounds")]
    fn warm_up(&mut self, session: &mut Session<'_>) -> Result<f64> {
        self.play(&mut session.set)?;
        let middle = middle_ns(&session.clock, &distribution(&self.samples));
        let all: u64 = self.samples.iter().sum();
        let mean = nanos(&session.clock, all) / self.samples.len().max(1) as f64;
        // A single interruption is not the method's fault.
        Ok(middle.max(mean / INTERRUPTED_TIMES))
    }

    /// Runs a slice of round trips; every sample in ticks goes to `self.samples`.
    fn play(&mut self, set: &mut Participants<'_>) -> Result<()> {
        let (first, rounds) = (self.sequence, self.rounds);
        let works = [Work::Ask { first, rounds }, Work::Answer { first, rounds }];
        let done = set.run(Role::Measured, &works, Duration::ZERO)?;
        self.sequence += rounds;
        set.samples(CLIENT, &done[CLIENT], &mut self.samples)
    }
}
