//! Even pacing: message `n` is due at `start + n × period`, never in bursts.
//!
//! A late message leaves as soon as possible and keeps its due time as its stamp, so a stall counts
//! for every delayed message (no coordinated omission). Periods have a resolution of 2^-32 ticks,
//! so that the rate is exact over days.

use crate::clock::TickClock;
use std::ops::RangeInclusive;
use std::time::Duration;

/// Rates that can be measured, in messages a second. At the least, a slice is one message in a
/// second; at the most, its samples take 32 MiB on each side.
pub const RATES_PER_S: RangeInclusive<f64> = 1.0..=1e8;

/// Below this distance a gentle wait stops sleeping and polls the clock: the kernel wakes late by
/// about this time.
const SLEEP_MARGIN_NS: u64 = 120_000;
/// Longest single sleep, so that a request to stop is noticed soon.
const SLEEP_MAX_NS: u64 = 50_000_000;

/// Below this distance the clock is polled without pause: a `pause` of 20 to 40 ns would delay
/// messages by half of that.
const CLOSE_NS: u64 = 1_000;

/// How to wait until a message is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Rest {
    /// Poll the clock without a pause: exact, costs the CPU.
    Spin,
    /// Yield the CPU between two polls: for senders that share a CPU with the receiver.
    Yield,
    /// Sleep for the greater part of a long gap.
    Gentle,
}

/// Due times of evenly spaced messages.
#[derive(Clone, Copy, Debug)]
pub struct Pacer {
    start: u64,
    period_fixed: u128,
    clock: TickClock,
}

impl Pacer {
    /// Spaces `per_second` messages evenly over each second, the first one due now.
    ///
    /// # Panics
    ///
    /// If `per_second` is not a positive number.
    #[must_use]
    pub fn start(clock: TickClock, per_second: f64) -> Self {
        Self::start_at(clock, per_second, TickClock::ticks())
    }

    /// As [`Pacer::start`], with the first message due at `start` ticks.
    ///
    /// # Panics
    ///
    /// If `per_second` is not a positive number.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a positive period in range"
    )]
    pub fn start_at(clock: TickClock, per_second: f64, start: u64) -> Self {
        assert!(
            per_second > 0.0 && per_second.is_finite(),
            "a rate is a positive number"
        );
        let ticks = 1e9 * clock.ticks_per_ns() / per_second;
        Self {
            start,
            period_fixed: (ticks * 2f64.powi(32)) as u128,
            clock,
        }
    }

    /// When message `n` is due, in ticks.
    #[inline]
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        reason = "ticks of a process's life fit 64 bits"
    )]
    pub fn due(&self, n: u64) -> u64 {
        self.start
            .wrapping_add(((u128::from(n) * self.period_fixed) >> 32) as u64)
    }

    /// Waits until `due`; returns early, with false, if `stop` returns true.
    ///
    /// `stop` is called before each sleep and about every millisecond of spinning, but not in the
    /// last microsecond.
    #[expect(
        clippy::disallowed_methods,
        reason = "time itself is what is waited for"
    )]
    pub fn wait(&self, due: u64, rest: Rest, mut stop: impl FnMut() -> bool) -> bool {
        let close = self.clock.ticks_for(CLOSE_NS).cast_signed();
        let mut looks = 0_u32;
        loop {
            let left = due.wrapping_sub(TickClock::ticks()).cast_signed();
            if left <= close {
                while due.wrapping_sub(TickClock::ticks()).cast_signed() > 0 {}
                return true;
            }
            let left_ns = self.clock.nanos(left.cast_unsigned());
            if rest == Rest::Gentle && left_ns > 2 * SLEEP_MARGIN_NS {
                if stop() {
                    return false;
                }
                std::thread::sleep(Duration::from_nanos(
                    (left_ns - SLEEP_MARGIN_NS).min(SLEEP_MAX_NS),
                ));
            } else {
                if rest == Rest::Yield {
                    std::thread::yield_now();
                }
                std::hint::spin_loop();
                looks = looks.wrapping_add(1);
                if looks.is_multiple_of(1 << 14) && stop() {
                    return false;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn due_times_are_even_and_do_not_drift() {
        let clock = TickClock::calibrate();
        let pacer = Pacer::start_at(clock, 1e6, 1000);
        let period = clock.ticks_per_ns() * 1000.0;
        for n in [0, 1, 2, 3, 1_000_000, 86_400_000_000_u64] {
            let expected = 1000.0 + n as f64 * period;
            let error = (pacer.due(n) as f64 - expected).abs();
            assert!(
                error <= 1.0 + expected * 1e-9,
                "message {n}: off by {error} ticks"
            );
        }
        let gaps: Vec<u64> = (0..1000).map(|n| pacer.due(n + 1) - pacer.due(n)).collect();
        let spread = gaps.iter().max().unwrap() - gaps.iter().min().unwrap();
        assert!(spread <= 1, "gaps differ by {spread} ticks");
    }

    #[test]
    fn wait_ends_at_its_time_or_on_request() {
        let clock = TickClock::calibrate();
        let pacer = Pacer::start(clock, 1e3);
        for rest in [Rest::Spin, Rest::Yield, Rest::Gentle] {
            let due = TickClock::ticks() + clock.ticks_for(2_000_000);
            assert!(pacer.wait(due, rest, || false));
            assert!(TickClock::ticks() >= due);
            let far = TickClock::ticks() + clock.ticks_for(3_600_000_000_000);
            assert!(!pacer.wait(far, rest, || true), "{rest:?} did not stop");
        }
        assert!(
            pacer.wait(0, Rest::Spin, || true),
            "what is overdue is due, stop or not"
        );
    }
}
