//! Tests only: the same cases of a property in each run.

use proptest::test_runner::{Config, RngSeed};

/// `cases` cases; `OLIVINE_SEED` selects others.
pub(crate) fn seeded_cases(cases: u32) -> Config {
    let seed = std::env::var("OLIVINE_SEED");
    let seed = seed.map_or(1, |text| text.parse().expect("a number"));
    Config {
        cases,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(seed),
        ..Config::default()
    }
}
