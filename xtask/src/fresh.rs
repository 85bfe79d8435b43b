//! The first five minutes of a stranger: clone, run the demonstration, run the tests.

use crate::cargo::{at_most, cargo, root};
use crate::child::{self, Line};
use crate::readme::{DEMO, TEST};
use crate::report::{Report, Step};
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(3600);

/// Clones what is committed into an empty folder and runs the README's two commands there.
pub(crate) fn run(report: &mut Report) {
    let folder = match tempfile::tempdir() {
        Ok(folder) => folder,
        Err(error) => return report.add(Step::single("clone", false, error.to_string())),
    };
    let clone = folder.path().join("olivine");
    report.run("clone", || {
        let changes = child::output(git(root()).args(["status", "--porcelain"]))?;
        if !changes.trim().is_empty() {
            println!("warning: changes that are not committed are not part of the clone");
        }
        child::output(
            git(folder.path())
                .args(["clone", "--quiet"])
                .arg(root())
                .arg(&clone),
        )?;
        Ok(Step::single(
            "clone",
            true,
            child::output(git(&clone).args(["rev-parse", "HEAD"]))?.trim(),
        ))
    });
    for command in [DEMO, TEST] {
        report.run(command, || in_clone(&clone, command));
    }
}

fn git(folder: &Path) -> Command {
    let mut command = Command::new("git");
    command.current_dir(folder);
    command
}

fn in_clone(clone: &Path, line: &str) -> Result<Step> {
    let mut command = cargo();
    command
        .args(line.split_whitespace().skip(1))
        .current_dir(clone)
        .env("CARGO_TARGET_DIR", clone.join("target"));
    let mut lines = 0;
    let outcome = child::stream(&mut command, at_most(LIMIT), |_| {
        lines += 1;
        Line::Show
    })?;
    let holds = outcome.success() && lines > 0;
    Ok(Step::single(
        line,
        holds,
        format!("{}, {lines} lines", outcome.words()),
    ))
}
