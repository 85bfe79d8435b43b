//! The death suite: real processes, killed at random and at named points, with bystanders.

use crate::cargo::{TestOutput, at_most, cargo};
use crate::child;
use crate::report::Step;
use anyhow::Result;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const LIMIT: Duration = Duration::from_secs(24 * 3600);

/// Kills `kills` participants; the same `seed` gives the same choices.
pub(crate) fn run(kills: u64, seed: Option<u64>) -> Result<Step> {
    let seed = seed.unwrap_or_else(any_seed);
    println!("{kills} kills, seed {seed}: repeat with --kills {kills} --seed {seed}");
    let mut command = cargo();
    command
        .args([
            "test",
            "--release",
            "--package",
            "olivine",
            "--test",
            "death",
        ])
        .args(["--", "--nocapture", "--test-threads=1"])
        .env("OLIVINE_KILLS", kills.to_string())
        .env("OLIVINE_SEED", seed.to_string());
    let mut output = TestOutput::default();
    let outcome = child::stream(&mut command, at_most(LIMIT), |line| output.line(line))?;
    let mut step = output.step("death", outcome.success(), &outcome.words());
    step.note = format!("{kills} kills, seed {seed}; {}", step.note);
    Ok(step)
}

/// A seed nobody chose. It is printed, so that a failure can be repeated.
#[allow(
    clippy::disallowed_methods,
    reason = "the wall clock is only a source of variety here"
)]
fn any_seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |now| u64::from(now.subsec_nanos()))
}
