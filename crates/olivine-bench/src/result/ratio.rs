//! Ratios of rows, run by run, and their targets.

use super::Row;
use crate::spread::Spread;
use serde::{Deserialize, Serialize};

/// The ratio of two rows, within runs: neighbours in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[non_exhaustive]
#[cfg_attr(test, schemars(deny_unknown_fields))]
pub struct Ratio {
    /// The scenario of both.
    pub scenario: String,
    /// The compared statistic, by its name.
    pub figure: String,
    /// The method of the numerator.
    pub ours: String,
    /// The denominator: a method, or a rate in words.
    pub beside: String,
    /// What both have in common, in a few words.
    pub situation: String,
    /// Figure to figure, run by run.
    pub ratio: Spread,
    /// Its target, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<Target>,
}

/// The target of a ratio.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
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

/// The value called `figure` in each run of the rows that `is_it` selects, in any placement.
pub fn runs(rows: &[Row], figure: &str, is_it: impl Fn(&Row) -> bool) -> Vec<(u32, f64)> {
    let rows = rows.iter().filter(|row| is_it(row));
    let runs = rows.filter_map(Row::measured).flat_map(|found| &found.runs);
    runs.filter_map(|run| Some((run.run, *run.values.get(figure)?)))
        .collect()
}

/// Ours to theirs, run by run; `None` if they have no run in common.
#[must_use]
pub fn of_runs(ours: &[(u32, f64)], theirs: &[(u32, f64)]) -> Option<Spread> {
    let ratios = ours.iter().filter_map(|(run, value)| {
        let (_, other) = theirs.iter().find(|(other, _)| other == run)?;
        Some(value / other)
    });
    Spread::of(&ratios.collect::<Vec<_>>())
}
