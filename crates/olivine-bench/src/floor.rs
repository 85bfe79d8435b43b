//! From ticks to nanoseconds: the samples of the floor and of the hardware limits.

use crate::clock::TickClock;
use crate::latency::Latency;
use crate::protocol::Done;

/// Nanoseconds of one repetition.
#[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub(crate) fn each_ns(clock: &TickClock, done: &Done) -> f64 {
    elapsed_ns(clock, done) / (done.count as f64).max(1.0)
}

/// Repetitions a second.
pub(crate) fn per_s(clock: &TickClock, done: &Done) -> f64 {
    1e9 / each_ns(clock, done).max(f64::MIN_POSITIVE)
}

fn elapsed_ns(clock: &TickClock, done: &Done) -> f64 {
    nanos(clock, done.end_ticks.saturating_sub(done.start_ticks))
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
    fn median_is_in_nanoseconds() {
        let clock = TickClock::calibrate();
        let samples = [9_u64, 1, 5].map(|us| clock.ticks_for(us * 1000));
        let middle = middle_ns(&clock, &distribution(&samples));
        assert!((middle - 5000.0).abs() < 500.0, "{middle}");
        assert_eq!(middle_ns(&clock, &distribution(&[])), 0.0);
    }
}
