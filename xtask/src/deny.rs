//! Licences, sources, duplicates and advisories of all dependencies (`deny.toml`).

use crate::cargo::root;
use crate::child;
use crate::report::Step;
use crate::tools;
use anyhow::Result;
use std::process::Command;

/// Runs cargo-deny, one check at a time.
pub(crate) fn run() -> Result<Step> {
    let tool = tools::installed("cargo-deny", "0.20.2", &["--no-default-features"])?;
    let mut step = Step::new("checks");
    for check in ["bans", "licenses", "sources", "advisories"] {
        let words = "--color never --log-level error check --hide-inclusion-graph";
        let mut command = Command::new(&tool);
        command
            .current_dir(root())
            .args(words.split(' '))
            .arg(check);
        let (outcome, text) = child::capture(&mut command, 10)?;
        // The first three need only the lock file and the crates.
        if check == "advisories" && no_database(&text) && !outcome.success() {
            step.skipped += 1;
            step.note = "advisories skipped: their database cannot be reached".to_owned();
            continue;
        }
        step.count(outcome.success());
        let verdict = if outcome.success() {
            "ok    "
        } else {
            "FAIL  "
        };
        println!("{verdict}{check}");
        if !outcome.success() {
            println!("{}\n{text}", outcome.words());
        }
    }
    Ok(step)
}

fn no_database(text: &str) -> bool {
    text.contains("failed to fetch advisory database") || text.contains("failed to open advisory")
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
