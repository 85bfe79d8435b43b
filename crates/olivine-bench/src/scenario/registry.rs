//! The scenarios that measure variants in turns: a line each.
//!
//! Command line, job files, reports and rivals read what a scenario says of itself. A new one is a
//! file with a [`Scenario`], its `mod` and a line in [`SCENARIOS`]: the tool has a command for it,
//! with the options that it reads.

use super::{Found, Setup, Variant, Watch, cost, latency, mesh, pingpong, throughput};
use crate::error::Result;
use crate::result::{Goal, Load, MeasuringError, OURS, Ratio, Row};
use serde::de::{Deserialize, Deserializer, Error as _};

/// Measures every variant in turn, run by run.
pub type Run = fn(&Setup, &[Variant], Watch<'_>) -> Result<Found>;

/// A measured situation.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs, reason = "a scenario states each of them")]
pub struct Scenario {
    /// Its name on the command line, in job files and in rows.
    pub name: &'static str,
    /// What it measures, for `bench list` and help.
    pub about: &'static str,
    /// What the numbers of its tables are.
    pub heading: &'static str,
    /// How messages are offered.
    pub load: Load,
    /// The lists of a job that change what is measured, beside `size`.
    pub keys: &'static [&'static str],
    /// Values that its command has for options that are not given.
    pub defaults: &'static [(&'static str, &'static str)],
    /// Whether this library is measured through the harness, as the method `olivine-WAIT`.
    /// Otherwise by its fastest calls, as [`throughput::OWN`].
    pub in_harness: bool,
    /// What its rows should reach.
    pub goals: &'static [Goal],
    /// Measures it.
    pub run: Run,
}

/// Every scenario, in the order of the help.
pub const SCENARIOS: &[&Scenario] = &[
    &pingpong::SCENARIO,
    &throughput::SCENARIO,
    &cost::SCENARIO,
    &latency::SCENARIO,
    &mesh::FANOUT,
    &mesh::MESH,
];

/// The scenario called `name`.
#[must_use]
pub fn find(name: &str) -> Option<&'static Scenario> {
    let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
    found.copied()
}

/// What `rows` reach of the goals of their scenarios.
#[must_use]
pub fn reached(rows: &[Row]) -> Vec<Ratio> {
    let of = |scenario: &&Scenario| {
        let own = rows.iter().filter(|row| row.scenario == scenario.name);
        let own: Vec<&Row> = own.collect();
        let goals = scenario.goals.iter();
        goals.flat_map(|goal| goal.ratios(&own)).collect::<Vec<_>>()
    };
    SCENARIOS.iter().flat_map(of).collect()
}

impl Scenario {
    /// Whether `key` is one of its lists.
    #[must_use]
    pub fn reads(&self, key: &str) -> bool {
        self.keys.contains(&key)
    }

    /// Whether it measures methods that send without replies, in batches, from one publisher to one
    /// subscriber. Such scenarios have the same options.
    #[must_use]
    pub fn streams(&self) -> bool {
        self.reads("method") && self.load == Load::Saturated
    }
}

impl PartialEq for Scenario {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl<'de> Deserialize<'de> for &'static Scenario {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        find(&name).ok_or_else(|| {
            let known: Vec<&str> = SCENARIOS.iter().map(|scenario| scenario.name).collect();
            let known = known.join(", ");
            D::Error::custom(format!("there is no scenario '{name}'; there are {known}"))
        })
    }
}

/// Runs `scenario` with one of its variants in it twice, interleaved with all others: the first of
/// this library, else the first. The two differ only in time, in their memory, and by chance, so
/// their difference is the measuring error: any two figures may differ by it without meaning.
///
/// Returns the rows of `variants`; of the second measurement, only failures.
///
/// # Errors
///
/// As the scenario.
pub fn run_twice(
    scenario: Run,
    setup: &Setup,
    variants: &[Variant],
    watch: Watch<'_>,
) -> Result<(Vec<Row>, Option<MeasuringError>)> {
    let ours = |variant: &Variant| variant.method.starts_with(OURS);
    let doubled = variants.iter().position(ours).unwrap_or(0);
    let mut all = variants.to_vec();
    all.extend(variants.get(doubled).cloned());
    let mut found = scenario(setup, &all, watch)?;
    let again = found.split_off(variants.len().min(found.len())).concat();
    let error = found
        .get(doubled)
        .and_then(|first| MeasuringError::of(first, &again));
    let mut rows = found.concat();
    rows.extend(again.into_iter().filter(|row| row.measured().is_none()));
    Ok((rows, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scenario_is_found_by_its_unique_name() {
        for scenario in SCENARIOS {
            assert_eq!(find(scenario.name).unwrap().about, scenario.about);
        }
        assert!(find("pigeon").is_none());
    }
}
