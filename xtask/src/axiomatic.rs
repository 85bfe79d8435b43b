//! The edges under weak memory: `crates/olivine/model/axiomatic`, built by the compiler alone and run.

use crate::cargo::{TestOutput, at_most, root, target};
use crate::child;
use crate::report::Step;
use anyhow::{Result, ensure};
use std::process::Command;
use std::time::Duration;

const CRATE: &str = "crates/olivine";
const BUILD_LIMIT: Duration = Duration::from_secs(120);
const LIMIT: Duration = Duration::from_secs(600);

/// Enumerates every execution of every program; the tables go to `said` as well.
///
/// # Errors
///
/// A program that does not build, or cannot be started.
pub(crate) fn run(said: &mut Vec<String>) -> Result<Step> {
    let program = target().join("axiomatic");
    std::fs::create_dir_all(target())?;
    // By the compiler alone: the program needs nothing of the workspace, and no lock of cargo.
    let mut build = Command::new("rustc");
    build.args(["--edition", "2024", "-O", "-o"]).arg(&program);
    build.arg(root().join(CRATE).join("model/axiomatic/main.rs"));
    build.env("CARGO_MANIFEST_DIR", root().join(CRATE));
    let (outcome, text) = child::capture(build.current_dir(root()), at_most(BUILD_LIMIT))?;
    ensure!(outcome.success(), "{}: {text}", outcome.words());
    let mut output = TestOutput::default();
    let outcome = child::stream(&mut Command::new(&program), at_most(LIMIT), |line| {
        if line.starts_with('|') {
            said.push(line.to_owned());
        }
        output.line(line)
    })?;
    let mut step = output.step("axiomatic", outcome.success(), &outcome.words());
    step.elapsed = outcome.elapsed;
    Ok(step)
}
