//! The measuring error of the suite: one variant of a scenario is measured twice, its runs in turns
//! with all others.
//!
//! Nothing differs between the two but the time, the memory they happened to get, and chance. How
//! far they lie apart is how far any two figures of that measurement may lie apart without meaning
//! anything.

use crate::error::Result;
use crate::result::{MeasuringError, Row};
use crate::scenario::{Found, Setup, Variant, Watch};

/// A scenario that takes its variants in turns.
pub type Scenario = fn(&Setup, &[Variant], Watch<'_>) -> Result<Found>;

/// How the names of this library's methods start.
const OURS: &str = "olivine";

/// Runs `scenario` with one of its variants in it twice: the first of this library, else the first.
///
/// The rows are those of `variants`; of the second time, only what failed.
///
/// # Errors
///
/// As the scenario.
pub fn run(
    scenario: Scenario,
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
