//! Licences, sources, duplicates and advisories of everything we depend on (`deny.toml`).

use crate::cargo::{at_most, cargo, root, target};
use crate::child::{self, Line};
use crate::report::Step;
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const VERSION: &str = "0.20.2";
const INSTALL_LIMIT: Duration = Duration::from_secs(480);
const CHECK_LIMIT: Duration = Duration::from_secs(180);

/// What can be decided from the lock file and the crates alone.
const LOCAL: [&str; 3] = ["bans", "licenses", "sources"];

/// Runs cargo-deny, one check at a time.
pub(crate) fn run() -> Result<Step> {
    let tool = match tool() {
        Ok(tool) => tool,
        Err(error) => {
            let why = format!("cargo-deny {VERSION} is not installed and cannot be: {error:#}");
            println!("skipped: {why}");
            return Ok(Step::skipped("deny", why));
        }
    };
    let mut step = Step::new("deny", "checks");
    for check in LOCAL {
        step.count(holds(&tool, check)?.is_ok());
    }
    match holds(&tool, "advisories")? {
        Ok(()) => step.count(true),
        Err(text) if no_database(&text) => {
            step.skipped += 1;
            step.note = "advisories skipped: their database cannot be reached".to_owned();
            println!("skipped: {}", step.note);
        }
        Err(_) => step.count(false),
    }
    Ok(step)
}

fn no_database(text: &str) -> bool {
    text.contains("failed to fetch advisory database") || text.contains("failed to open advisory")
}

/// Runs one check; prints what it found unless only the network is missing.
fn holds(tool: &Path, check: &str) -> Result<Result<(), String>> {
    let mut command = Command::new(tool);
    command.current_dir(root()).args([
        "--color",
        "never",
        "--log-level",
        "error",
        "check",
        "--hide-inclusion-graph",
        check,
    ]);
    let (outcome, text) = child::capture(&mut command, at_most(CHECK_LIMIT))?;
    if outcome.success() {
        println!("ok    {check}");
        return Ok(Ok(()));
    }
    if !no_database(&text) {
        println!("FAIL  {check}: {}\n{text}", outcome.words());
    }
    Ok(Err(text))
}

/// The pinned cargo-deny: what is on the path, or our own copy below the target folder.
fn tool() -> Result<PathBuf> {
    let tools = target().join("tools");
    let own = tools.join("bin/cargo-deny");
    for candidate in [Path::new("cargo-deny"), &own] {
        if is_pinned(candidate) {
            return Ok(candidate.to_owned());
        }
    }
    println!("installing cargo-deny {VERSION} into {}", tools.display());
    let build = tools.join("build");
    let mut install = cargo();
    install
        .args([
            "install",
            "cargo-deny",
            "--locked",
            "--version",
            VERSION,
            "--no-default-features",
        ])
        // It runs for a second: an optimised build would take minutes longer.
        .args(["--profile", "dev", "--root"])
        .arg(&tools)
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    let mut last_error = String::new();
    let outcome = child::stream(&mut install, at_most(INSTALL_LIMIT), |line| {
        if line.trim_start().starts_with("error") {
            line.trim().clone_into(&mut last_error);
        }
        Line::Hide
    })?;
    // Half a gigabyte that nobody needs again.
    let _ = fs::remove_dir_all(&build);
    anyhow::ensure!(
        outcome.success() && is_pinned(&own),
        "{} {last_error}",
        outcome.words()
    );
    Ok(own)
}

fn is_pinned(tool: &Path) -> bool {
    let output = Command::new(tool).arg("--version").output();
    output.is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).trim() == format!("cargo-deny {VERSION}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_missing_database_is_excused() {
        assert!(no_database(
            "error[fetch]: failed to fetch advisory database https://…"
        ));
        assert!(!no_database("error[vulnerability]: a crate with a hole"));
    }

    #[test]
    fn a_missing_tool_is_not_pinned() {
        assert!(!is_pinned(Path::new("no-such-program")));
    }
}
