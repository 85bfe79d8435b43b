//! The placement of the two CPUs, and the difference of their clocks.

use crate::clock::TickClock;
use std::fmt;

/// Below this round trip in nanoseconds the CPUs are hyper-threads of one core.
const SAME_CORE_BELOW_NS: f64 = 95.0;
/// Above this round trip in nanoseconds the CPUs share no last-level cache.
const FAR_ABOVE_NS: f64 = 250.0;

/// The distance of the two CPUs, from the round trip of a cache line.
///
/// A virtual machine's CPUs move between physical ones, also within a run, so results are grouped
/// by placement.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Placement {
    /// Hyper-threads of one core: below 95 ns.
    SameCore,
    /// Two cores with a common last-level cache: 95 to 250 ns.
    SharedL3,
    /// No common cache: above 250 ns.
    Far,
    /// One kind before the slice and another after it: no figure to compare with.
    Changed,
}

impl Placement {
    /// The placement for a round trip of `ns` nanoseconds.
    #[must_use]
    pub fn of(ns: f64) -> Self {
        match ns {
            ns if ns < SAME_CORE_BELOW_NS => Self::SameCore,
            ns if ns <= FAR_ABOVE_NS => Self::SharedL3,
            _ => Self::Far,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SameCore => "same core",
            Self::SharedL3 => "shared L3",
            Self::Far => "far apart",
            Self::Changed => "changed",
        })
    }
}

/// Bounds of how far the second process's clock is ahead of ours: the possible error of a one-way
/// figure.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[allow(clippy::exhaustive_structs, reason = "an interval has two ends")]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct ClockAhead {
    /// It is ahead by at least this; negative if it may be behind.
    pub least_ns: f64,
    /// It is ahead by at most this.
    pub most_ns: f64,
}

impl ClockAhead {
    /// Bounds that hold for both.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            least_ns: self.least_ns.min(other.least_ns),
            most_ns: self.most_ns.max(other.most_ns),
        }
    }

    /// From readings (our clock, theirs, ours again) in ticks, each after the previous one: each
    /// bounds the difference from both sides, and the narrowest bounds count. `None` without
    /// readings.
    #[allow(
        clippy::cast_precision_loss,
        reason = "differences of two clocks are small"
    )]
    pub(crate) fn of(
        clock: &TickClock,
        readings: impl Iterator<Item = (u64, u64, u64)>,
    ) -> Option<Self> {
        let bounds = readings.map(|(before, theirs, after)| {
            let ahead = |ours: u64| theirs.wrapping_sub(ours).cast_signed();
            (ahead(after), ahead(before))
        });
        let (least, most) = bounds.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))?;
        let ns = |ticks: i64| (ticks as f64 / clock.ticks_per_ns() * 10.0).round() / 10.0;
        // They cross only if a clock was set in between; then any value between them is as good.
        Some(Self {
            least_ns: ns(least.min(most)),
            most_ns: ns(least.max(most)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placement_follows_the_round_trip() {
        let cases = [
            (70.0, Placement::SameCore),
            (95.0, Placement::SharedL3),
            (250.0, Placement::SharedL3),
            (251.0, Placement::Far),
        ];
        for (ns, expected) in cases {
            assert_eq!(Placement::of(ns), expected, "{ns} ns");
        }
    }

    #[test]
    fn clock_bounds_are_the_narrowest_of_all_readings() {
        let clock = TickClock::calibrate();
        let per_ns = clock.ticks_per_ns();
        let near = |ns: f64, ticks: f64| (ns - ticks / per_ns).abs() <= 0.051;
        // Their clock is 1000 ticks ahead; the first ball was slow there, the second on its way
        // back.
        let readings = [(100, 1190, 200), (500, 1510, 600)];
        let found = ClockAhead::of(&clock, readings.into_iter()).unwrap();
        assert!(
            near(found.least_ns, 990.0) && near(found.most_ns, 1010.0),
            "{found:?}"
        );
        // Behind by more than a round trip.
        let behind = ClockAhead::of(&clock, [(5000, 4040, 5080)].into_iter()).unwrap();
        assert!(
            near(behind.least_ns, -1040.0) && near(behind.most_ns, -960.0),
            "{behind:?}"
        );
        let both = found.or(behind);
        assert_eq!(
            (both.least_ns, both.most_ns),
            (behind.least_ns, found.most_ns)
        );
        assert_eq!(ClockAhead::of(&clock, std::iter::empty()), None);
    }
}
