//! A distribution in a result: percentiles for reading, buckets for drawing and merging.

use crate::clock::TickClock;
use crate::latency::{Latency, Percentiles};
use serde::{Deserialize, Serialize};

/// Points of a curve for each nine, and nines.
const STEPS: (u32, u32) = (20, 5);

/// Percentiles and the histogram behind them, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct Distribution {
    /// The table for people.
    #[serde(flatten)]
    pub percentiles: Percentiles,
    /// Buckets: upper edge in nanoseconds, samples in it. Rising; three significant figures.
    pub buckets_ns: Vec<(f64, u64)>,
}

impl Distribution {
    /// The content of `latency`, in nanoseconds; `None` if it is empty.
    #[must_use]
    #[allow(
        clippy::cast_precision_loss,
        reason = "ticks of a duration stay far below 2^52"
    )]
    pub fn of(latency: &Latency, clock: &TickClock) -> Option<Self> {
        let percentiles = latency.percentiles(clock)?;
        let mut buckets_ns: Vec<(f64, u64)> = Vec::new();
        for step in latency.histogram().iter_recorded() {
            let (ticks, count) = (step.value_iterated_to(), step.count_at_value());
            let ns = (ticks as f64 / clock.ticks_per_ns() * 10.0).round() / 10.0;
            // Edges that fall together when rounded are one bucket.
            match buckets_ns.last_mut() {
                Some(last) if last.0 == ns => last.1 += count,
                _ => buckets_ns.push((ns, count)),
            }
        }
        Some(Self {
            percentiles,
            buckets_ns,
        })
    }

    /// The value that a share `quantile` (0 to 1) of the samples does not exceed, in nanoseconds;
    /// `None` if fewer than ten samples are above, or there are none.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub fn at(&self, quantile: f64) -> Option<f64> {
        let count = self.percentiles.count as f64;
        if count * (1.0 - quantile) + 1e-6 < crate::latency::ABOVE_MIN {
            return None;
        }
        let wanted = count * quantile;
        let mut below = 0.0;
        for &(ns, samples) in &self.buckets_ns {
            below += samples as f64;
            if below >= wanted {
                return Some(ns.min(self.percentiles.max_ns));
            }
        }
        None
    }

    /// Points of its curve: quantiles with their values, rising. Of a distribution whose buckets
    /// were left out, those of the table.
    #[must_use]
    pub fn curve(&self) -> Vec<(f64, f64)> {
        if self.buckets_ns.is_empty() {
            let values = self.percentiles.rows().map(|(_, ns)| ns);
            let quantiles = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999];
            let points = quantiles.into_iter().zip(values);
            return points
                .map_while(|(quantile, ns)| Some((quantile, ns?)))
                .collect();
        }
        let points = quantiles().map_while(|quantile| Some((quantile, self.at(quantile)?)));
        points.collect()
    }

    /// Merges buckets without a point of the curve: percentiles and curve stay as they are.
    #[allow(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
    pub(super) fn pack(&mut self) {
        let count = self.percentiles.count as f64;
        let mut wanted = quantiles().map(|quantile| quantile * count).peekable();
        let (mut kept, mut below, mut merged) = (Vec::new(), 0.0, 0);
        let last = self.buckets_ns.len();
        for (index, &(ns, samples)) in (1..).zip(&self.buckets_ns) {
            below += samples as f64;
            merged += samples;
            let is_point = wanted.peek().is_some_and(|wanted| below >= *wanted);
            while wanted.peek().is_some_and(|wanted| below >= *wanted) {
                wanted.next();
            }
            if is_point || index == last {
                kept.push((ns, merged));
                merged = 0;
            }
        }
        self.buckets_ns = kept;
    }

    /// The same content as a recorder of nanoseconds, for other formats.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "durations are positive and far below 2^64 ns"
    )]
    pub fn recorder_ns(&self) -> Latency {
        let whole = |ns: f64| ns.round() as u64;
        let buckets = self.buckets_ns.iter();
        let values = buckets.map(|&(ns, count)| (whole(ns), count));
        let table = &self.percentiles;
        Latency::of(values, whole(table.min_ns), whole(table.max_ns))
    }
}

/// The quantiles of a curve's points, rising.
fn quantiles() -> impl Iterator<Item = f64> {
    let (each, nines) = STEPS;
    (0..=each * nines).map(move |step| 1.0 - 10_f64.powf(-f64::from(step) / f64::from(each)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_give_the_percentiles_of_the_table() {
        let clock = TickClock::calibrate();
        let mut latency = Latency::new();
        (0..200_000_u64).for_each(|n| latency.record(n * n % 1_999_993 + 40));
        let found = Distribution::of(&latency, &clock).unwrap();
        let table = &found.percentiles;
        for (quantile, shown) in [
            (0.5, table.p50_ns),
            (0.9, table.p90_ns),
            (0.99, table.p99_ns),
            (0.999, table.p99_9_ns),
            (0.9999, table.p99_99_ns),
        ] {
            let (drawn, shown) = (found.at(quantile).unwrap(), shown.unwrap());
            assert!(
                (drawn - shown).abs() <= shown * 0.002,
                "{quantile}: {drawn} and {shown}"
            );
        }
        assert_eq!(found.at(0.999_99), None, "two samples are above");
        let samples: u64 = found.buckets_ns.iter().map(|(_, count)| count).sum();
        assert_eq!(samples, table.count);
        assert_eq!(found.recorder_ns().count(), table.count);
        assert!(Distribution::of(&Latency::new(), &clock).is_none());
    }
    #[test]
    fn packed_distribution_keeps_its_curve() {
        let clock = TickClock::calibrate();
        let mut latency = Latency::new();
        (0..200_000_u64).for_each(|n| latency.record(n * n % 1_999_993 + 40));
        let whole = Distribution::of(&latency, &clock).unwrap();
        let mut packed = whole.clone();
        packed.pack();
        assert_eq!(packed.curve(), whole.curve());
        let samples: u64 = packed.buckets_ns.iter().map(|(_, count)| count).sum();
        assert_eq!(samples, whole.percentiles.count);
        assert!(packed.buckets_ns.len() <= 102 && whole.buckets_ns.len() > 1000);
        packed.buckets_ns.clear();
        let few = packed.curve();
        assert!(
            few.len() > 4 && few[1].1 == whole.percentiles.p50_ns.unwrap(),
            "{few:?}"
        );
    }
}
