//! What a long run found, as a file that can be kept: `docs/evidence/DATE-COMMIT.md`, or `DATE-COMMIT-NAME.md`.

use crate::cargo::root;
use crate::child;
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// A run as it is written down.
pub(crate) struct Run<'a> {
    /// What the file's name ends with, and the title; empty for everything.
    pub(crate) name: &'a str,
    /// What repeats it, with every argument that was chosen or drawn.
    pub(crate) command: &'a str,
    /// A line for each step.
    pub(crate) summary: &'a str,
    /// What was printed.
    pub(crate) said: &'a [String],
    pub(crate) elapsed: Duration,
}

/// Writes it down; returns where.
pub(crate) fn write(run: &Run<'_>) -> Result<PathBuf> {
    let Run {
        name,
        command,
        summary,
        said,
        elapsed,
    } = run;
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
    let part = |mark: &str| match *name {
        "" => String::new(),
        name => format!("{mark}{name}"),
    };
    let text = format!(
        "# Evidence of {day}{}\n\n- commit: {commit}{state}\n- command: `{command}`\n- kernel: {}\n- CPUs: {}\n\
         - duration: {:.0} s\n\n```text\n{}\n```\n\n## What the tests said\n\n```text\n{}\n```\n",
        part(": "),
        output("uname", &["-srm"])?,
        output("nproc", &[])?,
        elapsed.as_secs_f64(),
        summary.trim(),
        said.join("\n"),
    );
    let folder = root().join("docs/evidence");
    std::fs::create_dir_all(&folder).context("cannot make docs/evidence")?;
    let path = folder.join(format!("{day}-{commit}{}.md", part("-")));
    std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
