//! The core's unit tests under Miri: undefined behaviour, provenance, data races.

use crate::cargo::{TestOutput, at_most, target};
use crate::child;
use crate::nightly::Nightly;
use crate::report::Step;
use anyhow::Result;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(3600);
/// Where `unsafe` is, as far as Miri can go: it knows no shared file and no other process.
const PATHS: [&str; 3] = ["ring::", "wait::", "clock::"];

/// Runs the unit tests whose path contains `filter`, without one those of the modules that Miri has something to see in,
/// once per seed.
pub(crate) fn run(seeds: u32, filter: Option<&str>) -> Result<Step> {
    let nightly = match Nightly::with(&["miri", "rust-src"], &["miri", "--version"])? {
        Ok(nightly) => nightly,
        Err(missing) => {
            println!("skipped: {missing}");
            return Ok(Step::skipped("miri", missing));
        }
    };
    let mut total = Step::new("miri", "tests");
    for seed in 0..seeds {
        // Its emulation of weak memory breaks down where headers come to lie on old payload; orderings are loom's.
        let flags = format!(
            "-Zmiri-strict-provenance -Zmiri-disable-isolation -Zmiri-disable-weak-memory-emulation -Zmiri-seed={seed}"
        );
        println!("-- seed {seed}");
        let mut command = nightly.cargo();
        command
            .args(["miri", "test", "--package", "olivine", "--lib"])
            .arg("--")
            .args(filter.map_or_else(|| PATHS.to_vec(), |filter| vec![filter]))
            .env("MIRIFLAGS", flags)
            .env("CARGO_TARGET_DIR", target().join("miri"));
        let mut output = TestOutput::default();
        let outcome = child::stream(&mut command, at_most(LIMIT), |line| output.line(line))?;
        let step = output.step("miri", outcome.success(), &outcome.words());
        total.passed += step.passed;
        total.failed += step.failed;
        // What cannot run under Miri is the same for every seed.
        total.skipped = total.skipped.max(step.skipped);
        total.note = if step.failed > 0 {
            format!("seed {seed}: {}", step.note)
        } else {
            format!("{seeds} seeds")
        };
        if step.failed > 0 {
            break;
        }
    }
    Ok(total)
}
