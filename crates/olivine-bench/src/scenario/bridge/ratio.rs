//! Ratios of candidates, and their targets.

use super::Part;
use crate::result::Row;
use crate::spread::Spread;

/// The ratio of two candidates, within runs.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Ratio {
    /// The numerator.
    pub ours: String,
    /// The denominator.
    pub beside: Beside,
    /// Payload of a message in bytes.
    pub size_bytes: u64,
    /// The part they were measured in.
    pub part: Part,
    /// p50 to p50, or rate to rate, run by run; `None` if either has no figure.
    pub ratio: Option<Spread>,
    /// Its target.
    pub target: Target,
}

/// The reference of a ratio.
#[derive(Clone, Debug, PartialEq)]
#[allow(clippy::exhaustive_enums, reason = "a candidate or a number")]
pub enum Beside {
    /// The figure of another candidate in the same run.
    Candidate(String),
    /// So many messages a second.
    Rate(f64),
}

/// The target of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Target {
    /// No more than this.
    AtMost(f64),
    /// This or more.
    AtLeast(f64),
}

impl Target {
    /// Whether `value` meets the target.
    #[must_use]
    pub fn is_met(self, value: f64) -> bool {
        match self {
            Self::AtMost(most) => value <= most,
            Self::AtLeast(least) => value >= least,
        }
    }
}

impl Ratio {
    /// Ours to theirs, run by run, in any placement: neighbours in time, one turn apart.
    pub(super) fn of(&self, rows: &[Row]) -> Option<Spread> {
        let figures = |name: &str| -> Vec<(u32, f64)> {
            let rows = rows.iter().filter(|row| {
                row.scenario == self.part.scenario()
                    && row.parameters.size_bytes == self.size_bytes
                    && row.method == name
            });
            let runs = rows.filter_map(Row::measured).flat_map(|found| &found.runs);
            runs.filter_map(|run| Some((run.run, run.p50_ns.or(run.messages_per_s)?)))
                .collect()
        };
        let ours = figures(&self.ours);
        let theirs = match &self.beside {
            Beside::Candidate(name) => figures(name),
            Beside::Rate(per_s) => ours.iter().map(|(run, _)| (*run, *per_s)).collect(),
        };
        let ratios: Vec<f64> = ours
            .iter()
            .filter_map(|(run, value)| {
                let (_, other) = theirs.iter().find(|(other, _)| other == run)?;
                Some(value / other)
            })
            .collect();
        Spread::of(&ratios)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Field;
    use super::*;
    use crate::clock::TickClock;
    use crate::latency::Latency;
    use crate::result::{Collector, Figures, Load, Parameters, Slice};

    fn row(method: &str, rates: &[f64]) -> Vec<Row> {
        let clock = TickClock::calibrate();
        let mut collector = Collector::new(clock);
        for (run, messages_per_s) in (0..).zip(rates) {
            let figures = Figures::Rate {
                messages_per_s: *messages_per_s,
                copy_bytes_per_s: None,
            };
            let slice = Slice {
                run,
                // Each run in another placement: the ratio is still of neighbours in time.
                placement: crate::result::Placement::of(f64::from(run) * 90.0),
                floor: &Latency::new(),
                at_s: 0.0,
                kernel: crate::kernel::Counts::default(),
                figures,
            };
            collector.add(32, &slice);
        }
        collector.rows(
            Part::Stream.scenario(),
            Load::Saturated,
            method,
            &Parameters::pair(32),
        )
    }

    #[test]
    fn a_ratio_compares_turns_of_the_same_run() {
        let mut rows = row("ours", &[10.0, 20.0, 60.0]);
        rows.extend(row("theirs", &[5.0, 10.0, 20.0]));
        let mut field = Field::default();
        field.compare(Part::Stream, 32, "ours", "theirs", Target::AtLeast(2.5));
        let found = field.ratios[0].of(&rows).unwrap();
        assert_eq!((found.min, found.median, found.max), (2.0, 2.0, 3.0));
        assert!(!field.ratios[0].target.is_met(found.median));
        assert!(Target::AtMost(2.0).is_met(found.median));
        field.compare(Part::Stream, 64, "ours", "theirs", Target::AtLeast(2.5));
        assert_eq!(field.ratios[1].of(&rows), None);
        let beside = Beside::Rate(40.0);
        field.expect(Part::Stream, 32, "ours", beside, Target::AtLeast(1.0));
        assert_eq!(field.ratios[2].of(&rows).unwrap().median, 0.5);
    }
}
