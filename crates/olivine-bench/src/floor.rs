//! What the machine does without a channel: the floor under every figure.
//!
//! Measures: a bare cache line going to and fro between the two processes that measure everything else, a copy
//! of as many bytes as a message has, an empty system call, waking a futex. Does not measure: anything of a ring.

use crate::error::Result;
use crate::latency::Latency;
use crate::peer::{BACK, Order, Peer, STAMP, THERE};
use olivine::clock::TickClock;
use olivine::probe;
use std::fmt;
use std::hint::black_box;
use std::sync::atomic::AtomicU32;

/// Below this round trip in nanoseconds the CPUs are hyper-threads of one core.
const SAME_CORE_BELOW_NS: f64 = 95.0;
/// Above this round trip in nanoseconds the CPUs share no last-level cache.
const FAR_ABOVE_NS: f64 = 250.0;
/// System calls timed for the cost of one.
const CALLS: u32 = 20_000;
/// Bytes copied for one copying rate.
const COPIED_BYTES: usize = 64 << 20;

/// How far apart the two CPUs are, told by the round trip of a bare cache line.
///
/// A virtual machine's CPUs move about on the real ones, also within a run, so results are grouped by this.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
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
    /// The placement that a round trip of `ns` nanoseconds speaks for.
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

/// One slice of round trips of a bare cache line: every sample in ticks, in `samples`.
pub(crate) fn round_trips(peer: &mut Peer, rounds: u64, samples: &mut Vec<u64>) -> Result<()> {
    samples.clear();
    let first = peer.balls(rounds);
    peer.begin(&Order::Floor { first, rounds })?;
    let (words, mut patience) = peer.spin();
    let mut last = TickClock::ticks();
    for ball in first..first + rounds {
        words.store(THERE, ball);
        while words.load(BACK) != ball {
            patience.spend()?;
        }
        patience.renew();
        let now = TickClock::ticks();
        samples.push(now.wrapping_sub(last));
        last = now;
    }
    peer.end()?;
    Ok(())
}

/// How far the second process's clock is ahead of ours, between two bounds: what a one-way figure is too large by.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[allow(clippy::exhaustive_structs, reason = "an interval has two ends")]
pub struct ClockAhead {
    /// It is ahead by this much or more; negative where it may be behind.
    pub least_ns: f64,
    /// It is ahead by this much or less.
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

    /// From readings (our clock, theirs, ours again) in ticks, each taken after the one before: every one bounds the
    /// difference from both sides, and the narrowest bounds hold. `None` if there are no readings.
    #[allow(
        clippy::cast_precision_loss,
        reason = "differences of two clocks are small"
    )]
    fn of(clock: &TickClock, readings: impl Iterator<Item = (u64, u64, u64)>) -> Option<Self> {
        let bounds = readings.map(|(before, theirs, after)| {
            let ahead = |ours: u64| theirs.wrapping_sub(ours).cast_signed();
            (ahead(after), ahead(before))
        });
        let (least, most) = bounds.reduce(|a, b| (a.0.max(b.0), a.1.min(b.1)))?;
        let ns = |ticks: i64| (ticks as f64 / clock.ticks_per_ns() * 10.0).round() / 10.0;
        // They cross only if a clock was set meanwhile; what lies between is as good as any other bound then.
        Some(Self {
            least_ns: ns(least.min(most)),
            most_ns: ns(least.max(most)),
        })
    }
}

/// Compares the second process's clock with ours, by a bare cache line with its time beside it.
pub(crate) fn clock_ahead(
    peer: &mut Peer,
    clock: &TickClock,
    rounds: u64,
) -> Result<Option<ClockAhead>> {
    let first = peer.balls(rounds);
    let mut readings = Vec::with_capacity(usize::try_from(rounds).unwrap_or(0));
    peer.begin(&Order::Stamp { first, rounds })?;
    let (words, mut patience) = peer.spin();
    for ball in first..first + rounds {
        let before = TickClock::ticks();
        words.store(THERE, ball);
        while words.load(BACK) != ball {
            patience.spend()?;
        }
        let after = TickClock::ticks();
        patience.renew();
        readings.push((before, words.load(STAMP), after));
    }
    peer.end()?;
    Ok(ClockAhead::of(clock, readings.into_iter()))
}

/// Nanoseconds of an empty system call.
#[must_use]
pub fn system_call_ns(clock: &TickClock) -> f64 {
    let start = TickClock::ticks();
    for _ in 0..CALLS {
        probe::empty_syscall();
    }
    nanos(clock, TickClock::ticks().wrapping_sub(start)) / f64::from(CALLS)
}

/// Nanoseconds of waking a futex that nobody sleeps on: what a sender pays that does not know whether somebody does.
#[must_use]
pub fn futex_wake_ns(clock: &TickClock) -> f64 {
    let word = AtomicU32::new(0);
    let start = TickClock::ticks();
    for _ in 0..CALLS {
        // Not private: between processes it cannot be.
        let woken = rustix::thread::futex::wake(&word, rustix::thread::futex::Flags::empty(), 1);
        black_box(woken.is_ok());
    }
    nanos(clock, TickClock::ticks().wrapping_sub(start)) / f64::from(CALLS)
}

/// Bytes a second of copying `size` bytes at a time from one place to the next free one in `ring_bytes`.
///
/// The destination walks through as much memory as a ring has, the source stays: what a publisher that
/// copies messages in would do if that were all.
///
/// # Panics
///
/// If `size` is 0 or greater than `ring_bytes`.
#[must_use]
#[allow(clippy::cast_precision_loss, reason = "shown with three figures")]
pub fn copy_bytes_per_s(clock: &TickClock, size: usize, ring_bytes: usize) -> f64 {
    assert!(
        size > 0 && size <= ring_bytes,
        "cannot copy {size} bytes within {ring_bytes}"
    );
    let source = vec![0x5A_u8; size];
    let mut destination = vec![1_u8; ring_bytes];
    let mut copied = 0;
    let start = TickClock::ticks();
    while copied < COPIED_BYTES {
        for place in destination.chunks_exact_mut(size) {
            place.copy_from_slice(black_box(&source));
            black_box(&place[0]);
        }
        copied += ring_bytes / size * size;
    }
    let elapsed = nanos(clock, TickClock::ticks().wrapping_sub(start));
    copied as f64 / elapsed * 1e9
}

/// Samples in ticks as a distribution.
#[must_use]
pub(crate) fn distribution(samples: &[u64]) -> Latency {
    let mut latency = Latency::new();
    samples.iter().for_each(|&ticks| latency.record(ticks));
    latency
}

/// The middle of a distribution in nanoseconds.
#[must_use]
pub(crate) fn middle_ns(clock: &TickClock, latency: &Latency) -> f64 {
    latency.middle_ticks() / clock.ticks_per_ns()
}

/// Ticks as nanoseconds with a fraction.
#[allow(
    clippy::cast_precision_loss,
    reason = "differences stay far below 2^52"
)]
pub(crate) fn nanos(clock: &TickClock, ticks: u64) -> f64 {
    ticks as f64 / clock.ticks_per_ns()
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
    fn the_middle_of_samples_is_in_nanoseconds() {
        let clock = TickClock::calibrate();
        let samples = [9_u64, 1, 5].map(|us| clock.ticks_for(us * 1000));
        let middle = middle_ns(&clock, &distribution(&samples));
        assert!((middle - 5000.0).abs() < 500.0, "{middle}");
        assert_eq!(middle_ns(&clock, &distribution(&[])), 0.0);
    }

    #[test]
    fn bounds_of_a_clock_are_the_narrowest_that_every_reading_allows() {
        let clock = TickClock::calibrate();
        let per_ns = clock.ticks_per_ns();
        let near = |ns: f64, ticks: f64| (ns - ticks / per_ns).abs() <= 0.051;
        // Their clock is 1000 ticks ahead; the first ball was slow there, the second on its way back.
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
