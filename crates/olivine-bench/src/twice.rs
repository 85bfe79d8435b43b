//! The measuring error: one variant of a scenario is measured twice, interleaved with all others.
//!
//! The two differ only in time, in their memory, and by chance. Their difference is the difference
//! that any two figures of that measurement may have without meaning.

use crate::error::Result;
use crate::result::{MeasuringError, Row};
use crate::scenario::registry::Run;
use crate::scenario::{Setup, Variant, Watch};

/// Prefix of the names of this library's methods.
const OURS: &str = "olivine";

/// Runs `scenario` with one of its variants in it twice: the first of this library, else the first.
///
/// Returns the rows of `variants`; of the second measurement, only failures.
///
/// # Errors
///
/// As the scenario.
pub fn run(
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
