//! Distributions of durations: recorded in clock ticks, reported in nanoseconds as percentiles.
//!
//! The histogram keeps three significant figures over the whole range; minimum and maximum are
//! exact. A percentile with fewer than ten samples above it is left blank.

use crate::clock::TickClock;
use hdrhistogram::Histogram;

/// Largest distinguishable duration, in ticks: about 20 minutes at 3 GHz. Longer ones count as
/// this.
const TICKS_MAX: u64 = 1 << 42;
/// Samples that must be above a percentile for it to be shown.
pub const ABOVE_MIN: f64 = 10.0;
/// The percentiles of every table, with their names in JSON.
const SHOWN: [f64; 5] = [50.0, 90.0, 99.0, 99.9, 99.99];

/// Recorder of durations in ticks.
#[derive(Clone, Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
    min: u64,
    max: u64,
    negative: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self::new()
    }
}

impl Latency {
    /// An empty recorder. Allocates all its memory.
    ///
    /// # Panics
    ///
    /// Never: the bounds are constants that the histogram accepts.
    #[must_use]
    pub fn new() -> Self {
        let histogram = Histogram::new_with_max(TICKS_MAX, 3).expect("constant bounds are valid");
        Self {
            histogram,
            min: u64::MAX,
            max: 0,
            negative: 0,
        }
    }

    /// A recorder of values with their counts, between `min` and `max`.
    #[must_use]
    pub fn of(values: impl Iterator<Item = (u64, u64)>, min: u64, max: u64) -> Self {
        let mut latency = Self::new();
        values.for_each(|(value, count)| latency.record_many(value, count));
        (latency.min, latency.max) = (min, max);
        latency
    }

    /// Adds the duration from `from` to `to`, readings of two CPUs in ticks. A negative duration
    /// counts as 0, and is counted as negative.
    #[inline]
    pub fn record_between(&mut self, from: u64, to: u64) {
        let ticks = to.wrapping_sub(from).cast_signed();
        self.negative += u64::from(ticks < 0);
        self.record(ticks.max(0).cast_unsigned());
    }

    /// Durations between two CPUs that were negative by their clocks.
    #[must_use]
    pub fn negative_count(&self) -> u64 {
        self.negative
    }

    /// Adds one duration of `ticks`.
    #[inline]
    pub fn record(&mut self, ticks: u64) {
        self.record_many(ticks, 1);
    }

    /// Adds `count` durations of `ticks` each.
    pub fn record_many(&mut self, ticks: u64, count: u64) {
        self.histogram.saturating_record_n(ticks, count);
        self.min = self.min.min(ticks);
        self.max = self.max.max(ticks);
    }

    /// Adds everything `other` holds.
    ///
    /// # Panics
    ///
    /// Never: all recorders have the same bounds.
    pub fn merge(&mut self, other: &Self) {
        self.histogram
            .add(&other.histogram)
            .expect("all recorders have the same bounds");
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.negative += other.negative;
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.histogram.reset();
        self.min = u64::MAX;
        self.max = 0;
        self.negative = 0;
    }

    /// The largest duration in ticks, exact; 0 if there are none.
    #[must_use]
    pub fn max_ticks(&self) -> u64 {
        self.max
    }

    /// The histogram behind the percentiles.
    #[must_use]
    pub fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Durations recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.histogram.len()
    }

    /// The middle duration in ticks, finer than the clock's steps; 0 if there are none.
    ///
    /// Many counters advance in steps (10 ns is usual in virtual machines), so most samples share a
    /// few values. The middle is interpolated within its value's interval.
    ///
    /// # Source
    ///
    /// Median of grouped data by linear interpolation; any statistics text.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "counts and ticks stay far below 2^52"
    )]
    pub fn middle_ticks(&self) -> f64 {
        let half = self.count() as f64 / 2.0;
        let mut below = 0.0;
        let mut last: Option<f64> = None;
        let mut steps = self.histogram.iter_recorded().peekable();
        while let Some(step) = steps.next() {
            let (value, share) = (
                step.value_iterated_to() as f64,
                step.count_since_last_iteration() as f64,
            );
            if below + share >= half {
                let next = steps
                    .peek()
                    .map_or(value, |next| next.value_iterated_to() as f64);
                let from = f64::midpoint(last.unwrap_or(value), value);
                let to = f64::midpoint(value, next);
                return from + (to - from) * (half - below) / share;
            }
            below += share;
            last = Some(value);
        }
        0.0
    }

    fn at(&self, percentile: f64) -> u64 {
        self.histogram
            .value_at_quantile(percentile / 100.0)
            .clamp(self.min, self.max)
    }

    /// The percentile table in nanoseconds; `None` if nothing was recorded.
    ///
    /// # Panics
    ///
    /// If a percentile is below a lower one, which would be a defect here: no such table may be
    /// shown.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "counts and ticks stay far below 2^52"
    )]
    pub fn percentiles(&self, clock: &TickClock) -> Option<Percentiles> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let nanos = |ticks: u64| round_tenths(ticks as f64 / clock.ticks_per_ns());
        let shown = SHOWN.map(|percentile| {
            let above = count as f64 * (100.0 - percentile) / 100.0;
            // Some tolerance: 99.99 is not an exact binary fraction.
            (above + 1e-6 >= ABOVE_MIN).then(|| nanos(self.at(percentile)))
        });
        let [p50_ns, p90_ns, p99_ns, p99_9_ns, p99_99_ns] = shown;
        let table = Percentiles {
            count,
            min_ns: nanos(self.min),
            p50_ns,
            p90_ns,
            p99_ns,
            p99_9_ns,
            p99_99_ns,
            max_ns: nanos(self.max),
            mean_ns: Some(round_tenths(self.histogram.mean() / clock.ticks_per_ns())),
            deviation_ns: Some(round_tenths(self.histogram.stdev() / clock.ticks_per_ns())),
        };
        let mut last = table.min_ns;
        for (name, value) in table.rows() {
            let value = value.unwrap_or(last);
            assert!(
                value >= last,
                "percentile {name} is {value} ns, below a lower one of {last} ns"
            );
            last = value;
        }
        Some(table)
    }
}

/// A percentile table in nanoseconds. `None` where fewer than ten samples are above.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Percentiles {
    /// Samples.
    pub count: u64,
    /// Smallest sample, exact.
    pub min_ns: f64,
    /// Half of the samples are at most this.
    pub p50_ns: Option<f64>,
    /// 90 % of the samples are at most this.
    pub p90_ns: Option<f64>,
    /// 99 % of the samples are at most this.
    pub p99_ns: Option<f64>,
    /// 99.9 % of the samples are at most this.
    pub p99_9_ns: Option<f64>,
    /// 99.99 % of the samples are at most this.
    pub p99_99_ns: Option<f64>,
    /// Largest sample, exact.
    pub max_ns: f64,
    /// Mean of all samples; `None` in old files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean_ns: Option<f64>,
    /// Standard deviation of all samples; `None` in old files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deviation_ns: Option<f64>,
}

impl Percentiles {
    /// The rows of the table for people, smallest first.
    #[must_use]
    pub fn rows(&self) -> [(&'static str, Option<f64>); 7] {
        [
            ("min", Some(self.min_ns)),
            ("50", self.p50_ns),
            ("90", self.p90_ns),
            ("99", self.p99_ns),
            ("99.9", self.p99_9_ns),
            ("99.99", self.p99_99_ns),
            ("max", Some(self.max_ns)),
        ]
    }
}

fn round_tenths(value: f64) -> f64 {
    (value * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorder(values: impl IntoIterator<Item = u64>) -> Latency {
        let mut latency = Latency::new();
        values.into_iter().for_each(|value| latency.record(value));
        latency
    }

    #[test]
    fn percentiles_with_fewer_than_ten_samples_above_are_blank() {
        let clock = TickClock::calibrate();
        let table = recorder(1..=1000).percentiles(&clock).unwrap();
        assert!(table.p50_ns.is_some() && table.p90_ns.is_some() && table.p99_ns.is_some());
        assert_eq!((table.p99_9_ns, table.p99_99_ns), (None, None));
        assert!(
            recorder(1..=100_000)
                .percentiles(&clock)
                .unwrap()
                .p99_99_ns
                .is_some()
        );
        assert!(
            recorder(1..=99_000)
                .percentiles(&clock)
                .unwrap()
                .p99_99_ns
                .is_none()
        );
        assert!(Latency::new().percentiles(&clock).is_none());
    }

    #[test]
    fn minimum_and_maximum_are_exact_and_rows_never_fall() {
        let clock = TickClock::calibrate();
        // Awkward values: far apart, equal, zero and beyond the histogram's range.
        let latency = recorder(
            [0, 0, 7, 1_234_567, 1_234_567, u64::MAX, 3]
                .into_iter()
                .cycle()
                .take(70_000),
        );
        assert_eq!(
            (latency.min, latency.max, latency.count()),
            (0, u64::MAX, 70_000)
        );
        let table = latency.percentiles(&clock).unwrap();
        let values: Vec<f64> = table
            .rows()
            .iter()
            .filter_map(|(_, value)| *value)
            .collect();
        assert!(values.is_sorted(), "{values:?}");
    }

    #[test]
    fn merged_recorders_have_all_samples() {
        let latency = recorder((0..50_000).map(|n| n * n % 7_919_333));
        let mut twice = latency.clone();
        twice.merge(&latency);
        assert_eq!(twice.count(), 100_000);
        assert_eq!(twice.middle_ticks(), latency.middle_ticks());
        twice.clear();
        assert_eq!((twice.count(), twice.middle_ticks()), (0, 0.0));
    }

    #[test]
    fn median_is_finer_than_the_clock_steps() {
        // Steps of 26 ticks; a quarter below, so the middle is half way through the second value's
        // share.
        let samples = [(100, 25), (126, 50), (152, 25)];
        let latency = recorder(
            samples
                .iter()
                .flat_map(|&(value, count)| std::iter::repeat_n(value, count)),
        );
        assert_eq!(latency.middle_ticks(), 126.0);
        let low = recorder(std::iter::repeat_n(100, 45).chain(std::iter::repeat_n(126, 55)));
        let middle = low.middle_ticks();
        assert!((113.0..115.0).contains(&middle), "{middle}");
        assert_eq!(recorder([7]).middle_ticks(), 7.0);
    }
}
