//! The difference of two equal measurements.

use super::compare::{Comparison, Figure};
use super::{Placement, Row};
use crate::text::{bytes, three_figures};
use serde::{Deserialize, Serialize};

/// The difference of two equal measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct MeasuringError {
    /// What was measured twice.
    pub method: String,
    /// Its settings.
    pub settings: String,
    /// Payload of a message in bytes.
    pub size_bytes: u64,
    /// Placement of the CPUs in the compared runs: that of most runs.
    pub placement: Placement,
    /// The two, as two methods are compared.
    #[serde(flatten)]
    pub comparison: Comparison,
}

impl MeasuringError {
    /// Compares two sets of rows of one variant; `None` if too few runs of both were in one place.
    #[must_use]
    pub fn of(first: &[Row], second: &[Row]) -> Option<Self> {
        let compared = first.iter().filter_map(|row| {
            let placement = row.measured()?.placement;
            let again = second.iter().find(|again| again.is_same_situation(row))?;
            let comparison = Comparison::of(row, again, true).ok()?;
            (placement != Placement::Changed).then(|| Self {
                method: row.method.clone(),
                settings: row.parameters.settings.clone(),
                size_bytes: row.parameters.size_bytes,
                placement,
                comparison,
            })
        });
        compared.max_by_key(|found| found.comparison.runs)
    }

    /// The difference as a share of the smaller figure.
    #[must_use]
    pub fn share(&self) -> f64 {
        let ratio = self.comparison.ratio;
        ratio.max(1.0 / ratio) - 1.0
    }

    /// What it says, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Comparison {
            figure,
            ratio_low,
            ratio_high,
            runs,
            ..
        } = self.comparison;
        let margin = (ratio_high / ratio_low).sqrt() - 1.0;
        let figure = match figure {
            Figure::P50Ns => "at p50",
            Figure::MessagesPerS => "in messages a second",
        };
        let name = format!("{} {}", self.method, self.settings);
        format!(
            "{}, {}, measured twice in turns differs by {} % {figure}, ± {} % ({runs} runs, CPUs \
            {})",
            name.trim_end(),
            bytes(self.size_bytes),
            three_figures(self.share() * 100.0),
            three_figures(margin * 100.0),
            self.placement,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TickClock;
    use crate::latency::Latency;
    use crate::result::{Collector, Figures, Load, Parameters, Slice};

    /// Rows with a run for each p50, all in one place.
    fn rows(placement: Placement, p50s_ns: &[u64]) -> Vec<Row> {
        let clock = TickClock::calibrate();
        let mut collector = Collector::new(clock);
        for (run, ns) in (0..).zip(p50s_ns) {
            let mut latency = Latency::new();
            (0..100).for_each(|_| latency.record(clock.ticks_for(*ns)));
            let (floor, figures) = (Latency::new(), Figures::round_trips(latency));
            let slice = Slice::of(run, placement, &floor, &figures);
            collector.add(&Parameters::pair(32), &slice);
        }
        collector.rows(
            "pingpong",
            Load::Closed,
            "olivine-spin",
            &Parameters::pair(32),
        )
    }

    #[test]
    fn measuring_error_is_the_difference_of_equal_variants() {
        let first = rows(Placement::SharedL3, &[100_000, 102_000, 98_000, 100_000]);
        let again = rows(Placement::SharedL3, &[103_000, 103_000, 103_000, 103_000]);
        let found = MeasuringError::of(&first, &again).unwrap();
        assert!((found.share() - 0.03).abs() < 0.002, "{found:?}");
        // A histogram keeps three figures of a number of ticks, so the last one depends on the
        // clock.
        let begins = "olivine-spin, 32 B, measured twice in turns differs by ";
        let sentence = found.sentence();
        let share = sentence.strip_prefix(begins).unwrap();
        assert!(
            share.starts_with("3.0") || share.starts_with("2.9"),
            "{sentence}"
        );
        let text = serde_json::to_string(&found).unwrap();
        let read: MeasuringError = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (read.method, read.placement),
            (found.method, found.placement)
        );
    }

    #[test]
    fn different_placements_have_no_measuring_error() {
        let first = rows(Placement::SharedL3, &[100_000; 5]);
        let again = rows(Placement::Far, &[100_000; 5]);
        assert!(MeasuringError::of(&first, &again).is_none());
        let moved = rows(Placement::Changed, &[100_000; 5]);
        assert!(MeasuringError::of(&moved, &moved).is_none());
        let few = rows(Placement::Far, &[100_000; 2]);
        assert!(MeasuringError::of(&few, &few).is_none());
    }
}
