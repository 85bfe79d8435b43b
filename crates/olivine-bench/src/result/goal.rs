//! What rows should reach, as ratios within runs. Each scenario states its goals.

use super::ratio::{Ratio, Target, of_runs};
use super::{Measured, Placement, Row};
use crate::spread::Spread;
use crate::text;

/// A goal of a scenario.
#[derive(Debug)]
pub struct Goal {
    /// Rows that should reach it.
    pub(crate) of: fn(&Row) -> bool,
    /// The compared statistic, by its name.
    pub(crate) figure: &'static str,
    /// What it is compared with.
    pub(crate) beside: Beside,
    /// What the ratio should be.
    pub(crate) target: Target,
}

/// What a figure is compared with.
#[derive(Debug)]
pub(crate) enum Beside {
    /// The figure is a ratio itself, to this.
    Itself(&'static str),
    /// A method with messages of the same size, in the same batches.
    Method(&'static str),
    /// The method with the most, if it is not of this library. Of the rows that should reach the
    /// goal, only the one with the most is compared.
    Best,
    /// The same without this setting.
    Without(&'static str),
    /// A number a second, where the CPUs are so.
    PerS(f64, Placement),
}

impl Beside {
    /// The figure is a ratio to the floor of the slices beside it.
    pub(crate) const LINE: Self = Self::Itself("bare line, to and fro");
}

/// A row with its figures.
#[derive(Clone, Copy)]
struct Found<'a> {
    row: &'a Row,
    measured: &'a Measured,
}

impl Found<'_> {
    /// The figure in each run.
    fn runs(self, figure: &str) -> Vec<(u32, f64)> {
        let runs = self.measured.runs.iter();
        runs.filter_map(|run| Some((run.run, *run.values.get(figure)?)))
            .collect()
    }

    fn median(self, figure: &str) -> f64 {
        self.measured
            .spread(figure)
            .map_or(0.0, |spread| spread.median)
    }

    /// Whether both are of messages of one size in equal batches, and the CPUs were alike.
    fn is_beside(self, other: Self) -> bool {
        let shape = |found: Self| {
            let of = &found.row.parameters;
            (
                of.size_bytes,
                of.batch_count,
                of.publishers_count,
                of.subscribers_count,
                found.measured.placement,
            )
        };
        shape(self) == shape(other) && self.row.took_turns_with(other.row)
    }

    /// Whether it is the same as `other` but for this setting.
    fn is_without(self, other: Self, setting: &str) -> bool {
        let less = |found: Self| {
            let pairs = found.row.parameters.settings.split('&');
            pairs
                .filter(|pair| *pair != setting)
                .collect::<Vec<_>>()
                .join("&")
        };
        self.is_beside(other)
            && self.row.method == other.row.method
            && self.row.parameters.settings == less(other)
            && self.row.parameters.settings != other.row.parameters.settings
    }
}

impl Goal {
    /// What `rows` of its scenario reach.
    pub(crate) fn ratios(&self, rows: &[&Row]) -> Vec<Ratio> {
        let found = rows.iter().filter_map(|row| {
            let measured = row.measured()?;
            let is_still = measured.placement != Placement::Changed;
            is_still.then_some(Found { row, measured })
        });
        let found: Vec<Found<'_>> = found.collect();
        let held = found.iter().filter(|one| (self.of)(one.row));
        held.filter_map(|one| self.ratio(*one, &found)).collect()
    }

    fn ratio(&self, ours: Found<'_>, rows: &[Found<'_>]) -> Option<Ratio> {
        let figure = self.figure;
        let more = |one: &&Found<'_>, other: &&Found<'_>| {
            one.median(figure).total_cmp(&other.median(figure))
        };
        let own = ours.runs(figure);
        let beside_it = || rows.iter().filter(|one| one.is_beside(ours));
        let of = |other: Found<'_>| {
            let ratio = of_runs(&own, &other.runs(figure))?;
            Some((other.row.name(), ratio))
        };
        let (beside, ratio) = match self.beside {
            Beside::Itself(beside) => {
                let values: Vec<f64> = own.iter().map(|(_, value)| *value).collect();
                (beside.to_owned(), Spread::of(&values)?)
            }
            Beside::Method(name) => of(*beside_it().find(|one| one.row.method == name)?)?,
            Beside::Without(setting) => {
                let mut rows = rows.iter();
                of(*rows.find(|one| one.is_without(ours, setting))?)?
            }
            Beside::Best => {
                let best = beside_it().filter(|one| (self.of)(one.row)).max_by(more)?;
                if !std::ptr::eq(best.row, ours.row) {
                    return None;
                }
                of(*beside_it().filter(|one| !one.row.is_ours()).max_by(more)?)?
            }
            Beside::PerS(per_s, placement) => {
                if ours.measured.placement != placement {
                    return None;
                }
                let values: Vec<f64> = own.iter().map(|(_, value)| value / per_s).collect();
                (text::rate(per_s), Spread::of(&values)?)
            }
        };
        Some(Ratio {
            scenario: ours.row.scenario.clone(),
            figure: figure.to_owned(),
            ours: ours.row.name(),
            beside,
            situation: situation(ours),
            ratio,
            target: Some(self.target),
        })
    }
}

/// The messages of a row, and where the CPUs were.
fn situation(found: Found<'_>) -> String {
    let of = &found.row.parameters;
    let size = text::bytes(of.size_bytes);
    let batch = match of.batch_count {
        1 => String::new(),
        batch => format!(", batches of {batch}"),
    };
    let rate = of
        .rate_per_s
        .map_or_else(String::new, |rate| format!(" at {}", text::rate(rate)));
    format!("{size}{batch}{rate}, CPUs {}", found.measured.placement)
}
