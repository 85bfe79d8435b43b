//! The core's unit tests under Miri: undefined behaviour, provenance, data races.

use crate::cargo::{TestOutput, at_most, root, target};
use crate::child;
use crate::report::Step;
use anyhow::Result;
use std::process::Command;
use std::time::Duration;

/// Miri comes with nightly only; `OLIVINE_NIGHTLY` names another one.
const NIGHTLY: &str = "nightly";
const LIMIT: Duration = Duration::from_secs(3600);
const INSTALL_LIMIT: Duration = Duration::from_secs(300);

/// Runs the unit tests whose path contains `filter` once per seed.
pub(crate) fn run(seeds: u32, filter: Option<&str>) -> Result<Step> {
    let toolchain = std::env::var("OLIVINE_NIGHTLY").unwrap_or_else(|_| NIGHTLY.to_owned());
    if let Some(missing) = missing(&toolchain)? {
        println!("skipped: {missing}");
        return Ok(Step::skipped("miri", missing));
    }
    let mut total = Step::new("miri", "tests");
    for seed in 0..seeds {
        let flags = format!("-Zmiri-strict-provenance -Zmiri-disable-isolation -Zmiri-seed={seed}");
        println!("-- seed {seed}");
        let mut command = rustup(&toolchain);
        command
            .args(["cargo", "miri", "test", "--package", "olivine", "--lib"])
            .args(filter)
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

fn rustup(toolchain: &str) -> Command {
    let mut command = Command::new("rustup");
    // The pinned toolchain of the repository must not win over the one asked for.
    command
        .args(["run", toolchain])
        .current_dir(root())
        .env_remove("RUSTUP_TOOLCHAIN");
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS"] {
        command.env_remove(name);
    }
    command
}

/// What is missing to run Miri, after trying to install it; `None` when it runs.
fn missing(toolchain: &str) -> Result<Option<String>> {
    let runs = || {
        let version = child::capture(
            rustup(toolchain).args(["cargo", "miri", "--version"]),
            LIMIT,
        );
        version.is_ok_and(|(outcome, _)| outcome.success())
    };
    if runs() {
        return Ok(None);
    }
    println!("installing miri and rust-src for {toolchain}");
    let mut install = Command::new("rustup");
    install.args([
        "component",
        "add",
        "--toolchain",
        toolchain,
        "miri",
        "rust-src",
    ]);
    let Ok((outcome, text)) = child::capture(&mut install, at_most(INSTALL_LIMIT)) else {
        return Ok(Some("Miri needs rustup, which is not installed".to_owned()));
    };
    if outcome.success() && runs() {
        return Ok(None);
    }
    let why = text
        .lines()
        .find(|line| line.starts_with("error"))
        .unwrap_or("no reason given");
    Ok(Some(format!(
        "Miri is not installed for {toolchain} ({why}); \
         run `rustup toolchain install {toolchain} --component miri,rust-src`"
    )))
}
