//! What a long run found, as a file that can be kept: `docs/evidence/DATE-COMMIT.md`.

use crate::cargo::root;
use crate::child;
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// Writes the report of a run that took `elapsed` and printed `said`; `summary` has a line for each step.
pub(crate) fn write(summary: &str, said: &[String], elapsed: Duration) -> Result<PathBuf> {
    let output = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(root());
        child::output(&mut command).map(|text| text.trim().to_owned())
    };
    let commit = output("git", &["rev-parse", "--short", "HEAD"])?;
    let day = output("date", &["-u", "+%Y-%m-%d"])?;
    let state = if output("git", &["status", "--porcelain"])?.is_empty() {
        ""
    } else {
        ", with changes that are in no commit"
    };
    let text = format!(
        "# Evidence of {day}\n\n- commit: {commit}{state}\n- command: `cargo xtask deep`\n- kernel: {}\n- CPUs: {}\n\
         - duration: {:.0} s\n\n```text\n{}\n```\n\n## What the tests said\n\n```text\n{}\n```\n",
        output("uname", &["-srm"])?,
        output("nproc", &[])?,
        elapsed.as_secs_f64(),
        summary.trim(),
        said.join("\n"),
    );
    let folder = root().join("docs/evidence");
    std::fs::create_dir_all(&folder).context("cannot make docs/evidence")?;
    let path = folder.join(format!("{day}-{commit}.md"));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
