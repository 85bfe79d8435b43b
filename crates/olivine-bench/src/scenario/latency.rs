//! One-way latency at a fixed rate, measured from the due time of each message.
//!
//! Measures: from the intended send time to the check in each subscriber, an open loop: a late send
//! counts as latency. Does not measure: saturation; choose rates well below the throughput.

use super::registry::Scenario;
use super::throughput;
use super::turns::{Subject, measure};
use super::{Found, Session, Setup, Variant, Watch};
use crate::clock::TickClock;
use crate::error::{BenchError, Result, io};
use crate::floor::distribution;
use crate::latency::Latency;
use crate::pace::{RATES_PER_S, Rest};
use crate::protocol::{Paced, Role, Work};
use crate::result::ratio::Target;
use crate::result::{Beside, ClockAhead, Figures, Goal, Load};
use crate::run::{CLIENT, Participants, SERVER};
use crate::worst::Tail;
use serde::Deserialize as _;
use std::time::Duration;

/// Messages a slice should have, and bounds for its time in nanoseconds.
const SLICE_MESSAGES: f64 = 20_000.0;
const SLICE_NS: (f64, f64) = (40e6, 300e6);
/// Balls that bound the difference of the two clocks.
const CLOCK_ROUNDS: u64 = 10_000;
/// Messages sent at the rate before anything counts, as a share of a slice.
const WARM_UP_SHARE: u64 = 4;

/// One way at a rate.
pub const SCENARIO: Scenario = Scenario {
    name: "latency",
    about: "one-way latency at a fixed rate, from the intended send time (open loop)",
    heading: "One way at a fixed rate, from the intended send time",
    load: Load::Open,
    keys: &[
        "method",
        "rival",
        "rate",
        "subscribers",
        "wait",
        "capacity",
        "topic",
    ],
    defaults: &[("size", "32"), ("rate", "1K,100K,1M"), ("subscribers", "1")],
    in_harness: false,
    goals: &[Goal {
        of: |row| row.method == throughput::OWN && row.parameters.size_bytes == 32,
        figure: "ratio_p50",
        beside: Beside::LINE,
        target: Target::AtMost(0.7),
    }],
    run: measure::<Line<false>>,
};

/// Length of the stall in each slice of [`run_stalled`], in nanoseconds.
pub(crate) const STALL_NS: u64 = 20_000_000;

/// The scenario with a stall of [`STALL_NS`] in the middle of each slice, which the self-check
/// must find.
///
/// # Errors
///
/// [`BenchError`]; no figure is reported if any message was wrong.
pub(crate) fn run_stalled(setup: &Setup, variants: &[Variant], watch: Watch<'_>) -> Result<Found> {
    measure::<Line<true>>(setup, variants, watch)
}

/// `per_s` if it can be measured.
///
/// # Errors
///
/// [`BenchError::Rate`] if it is not within [`RATES_PER_S`].
pub fn check_rate(per_s: f64) -> Result<f64> {
    if RATES_PER_S.contains(&per_s) {
        Ok(per_s)
    } else {
        Err(BenchError::Rate { per_s })
    }
}

/// Due messages per second.
fn rate(variant: &Variant) -> Result<f64> {
    check_rate(variant.parameters.rate_per_s.ok_or(BenchError::NoRate)?)
}

/// Time of one slice in nanoseconds: of one message at least.
fn slice_ns(variant: &Variant) -> f64 {
    let rate = variant.parameters.rate_per_s.unwrap_or(SLICE_MESSAGES);
    let longest = SLICE_NS.1.max(1e9 / rate);
    (SLICE_MESSAGES / rate * 1e9).clamp(SLICE_NS.0, longest)
}

/// Both ends, open. If `STALLED`, the sender stands still in the middle of each slice.
pub(super) struct Line<const STALLED: bool> {
    rate_per_s: f64,
    rest: Rest,
    /// Messages of a slice.
    count: u64,
    sequence: u64,
    samples: Vec<u64>,
    subscribers: usize,
    /// Of how many of the worst messages a cause is asked for.
    worst: usize,
    /// How far the subscriber's clock is ahead of the publisher's.
    clock_ahead: Option<ClockAhead>,
}

impl<const STALLED: bool> Subject for Line<STALLED> {
    const SCENARIO: &'static Scenario = &SCENARIO;

    fn slice_ns(variant: &Variant) -> f64 {
        slice_ns(variant) * 1.1
    }

    fn open(session: &mut Session<'_>, variant: &Variant) -> Result<Self> {
        // A sender that spins would take the CPU that it shares with a subscriber.
        let shares = variant.parameters.oversubscribed;
        let rest = if shares { Rest::Yield } else { Rest::Spin };
        Self::resting(session, variant, rest, false)
    }

    fn slice(&mut self, set: &mut Participants<'_>, clock: &TickClock) -> Result<Figures> {
        let (times, delays, tail) = self.send(set, clock, self.count, self.worst)?;
        let mut figures = Figures::one_way(times, delays);
        figures.worst = tail;
        figures.clock_ahead = self.clock_ahead;
        Ok(figures)
    }
}

impl<const STALLED: bool> Line<STALLED> {
    /// Opens both ends; the sender passes the time between two messages like `rest`, and if it is
    /// `unpinned`, threads of the method may use every CPU.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small positive numbers"
    )]
    pub(super) fn resting(
        session: &mut Session<'_>,
        variant: &Variant,
        rest: Rest,
        unpinned: bool,
    ) -> Result<Self> {
        let rate_per_s = rate(variant)?;
        throughput::open(session, variant, false, unpinned)?;
        let clock = session.clock;
        let mut line = Self {
            rate_per_s,
            rest,
            count: ((slice_ns(variant) / 1e9 * rate_per_s) as u64).max(1),
            sequence: 0,
            samples: Vec::new(),
            subscribers: variant.parameters.subscribers_count as usize,
            worst: session.setup.worst,
            clock_ahead: session.set.clock_ahead(&clock, CLOCK_ROUNDS)?,
        };
        let warm_up = (line.count / WARM_UP_SHARE).max(1);
        line.send(&mut session.set, &clock, warm_up, 0)?;
        Ok(line)
    }

    /// Sends `count` messages at the rate; returns the latencies that all subscribers saw, how late
    /// each message left, and the `worst` messages with their causes.
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    fn send(
        &mut self,
        set: &mut Participants<'_>,
        clock: &TickClock,
        count: u64,
        worst: usize,
    ) -> Result<(Latency, Latency, Option<Tail>)> {
        let first = self.sequence;
        let paced = Paced {
            first,
            count,
            rate_per_s: self.rate_per_s,
            ticks_per_ns: clock.ticks_per_ns(),
            rest: self.rest,
            stall: STALLED.then_some((first + count / 2, STALL_NS)),
        };
        let hear = Work::Hear {
            first,
            count,
            worst,
        };
        let mut works = vec![Work::Pace(paced)];
        works.resize(SERVER + self.subscribers, hear);
        let expected = Duration::from_secs_f64(count as f64 / self.rate_per_s);
        let done = set.run(Role::Measured, &works, expected)?;
        self.sequence += count;
        set.samples(CLIENT, &done[CLIENT], &mut self.samples)?;
        let delays = distribution(&self.samples);
        let mut times = Latency::new();
        for (end, heard) in done.iter().enumerate().skip(SERVER) {
            set.samples(end, heard, &mut self.samples)?;
            // Differences already: what is below 0 wraps.
            let samples = self.samples.iter();
            samples.for_each(|&ticks| times.record_between(0, ticks));
        }
        let tail = done[SERVER].worst.as_ref().map(Tail::deserialize);
        let tail = tail.transpose();
        let tail = tail.map_err(|error| io("read the worst messages")(error.into()))?;
        Ok((times, delays, tail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Parameters;

    #[test]
    fn a_slice_has_a_message_at_every_rate_and_no_rate_is_beyond_measure() {
        for per_s in [1.0, 2.5, 1e3, 1e6, 1e8] {
            let variant = Variant {
                method: String::new(),
                parameters: Parameters {
                    rate_per_s: Some(per_s),
                    ..Parameters::pair(32)
                },
            };
            assert_eq!(rate(&variant).unwrap(), per_s);
            let messages = slice_ns(&variant) / 1e9 * per_s;
            assert!((1.0..=4.1e6).contains(&messages), "{per_s}/s: {messages}");
            assert!(slice_ns(&variant) <= 1e9, "{per_s}/s");
        }
        for per_s in [0.0, 0.001, -5.0, 1e10, 1e300, f64::INFINITY, f64::NAN] {
            let error = check_rate(per_s).unwrap_err().to_string();
            assert!(error.contains("within 1 to 100000000"), "{error}");
        }
    }
}
