//! Licences, sources, duplicates and advisories of everything we depend on (`deny.toml`).

use crate::cargo::{at_most, root};
use crate::child;
use crate::report::Step;
use crate::tools::Tool;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const DENY: Tool = Tool {
    name: "cargo-deny",
    version: "0.20.2",
    arguments: &["--no-default-features"],
};
const CHECK_LIMIT: Duration = Duration::from_secs(600);

/// What can be decided from the lock file and the crates alone.
const LOCAL: [&str; 3] = ["bans", "licenses", "sources"];

/// Runs cargo-deny, one check at a time.
pub(crate) fn run() -> Result<Step> {
    let tool = match DENY.path() {
        Ok(tool) => tool,
        Err(error) => {
            let Tool { name, version, .. } = DENY;
            let why = format!("{name} {version} is not installed and cannot be: {error:#}");
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
}
