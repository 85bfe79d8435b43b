//! When a run is due.

use crate::uri::Pace;
use std::time::{Duration, Instant};

/// Spaces runs as they were recorded, slower or faster.
#[derive(Debug)]
pub(super) struct Pacer {
    pace: Pace,
    /// When the first run was taken, and its recording time.
    first: Option<(Instant, u64)>,
}

impl Pacer {
    pub(super) fn new(pace: Pace) -> Self {
        Self { pace, first: None }
    }

    /// A run that was recorded at `time_ns` was taken. The first one may have waited for
    /// subscribers: the time runs from here on.
    pub(super) fn delivered(&mut self, time_ns: u64, now: Instant) {
        self.first.get_or_insert((now, time_ns));
    }

    /// How long to wait before a run that was recorded at `time_ns`.
    pub(super) fn left(&self, time_ns: u64, now: Instant) -> Duration {
        let (Pace::Thousandths(factor), Some((started, first))) = (self.pace, self.first) else {
            return Duration::ZERO;
        };
        let span = u128::from(time_ns.saturating_sub(first)) * 1000 / u128::from(factor.max(1));
        let span = Duration::from_nanos(u64::try_from(span).unwrap_or(u64::MAX));
        span.saturating_sub(now.saturating_duration_since(started))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_due_after_their_pauses_divided_by_the_factor() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        for (pace, expected_ms) in [
            (Pace::Full, 0),
            (Pace::ORIGINAL, 900),
            (Pace::Thousandths(2000), 400),
            (Pace::Thousandths(500), 1900),
        ] {
            let mut pacer = Pacer::new(pace);
            // The first run waited for a subscriber.
            assert_eq!(
                pacer.left(5_000, start - Duration::from_millis(500)),
                Duration::ZERO
            );
            pacer.delivered(5_000, at(0));
            pacer.delivered(5_000, at(100));
            let left = pacer.left(1_000_005_000, at(100));
            assert_eq!(left, Duration::from_millis(expected_ms), "{pace}");
            assert_eq!(
                pacer.left(1_000_005_000, at(9_000)),
                Duration::ZERO,
                "{pace}: late"
            );
            assert_eq!(
                pacer.left(0, at(9_000)),
                Duration::ZERO,
                "{pace}: time fell"
            );
        }
    }
}
