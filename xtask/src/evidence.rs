//! What a long run found, as a file that can be kept: `docs/evidence/DATE-COMMIT.md`, or `DATE-COMMIT-NAME.md`.

use crate::cargo::root;
use crate::child;
use anyhow::{Context as _, Result};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// What is being run, and where.
#[derive(Debug)]
pub(crate) struct Evidence {
    day: String,
    commit: String,
    /// Whether the commit is all of it.
    changes: &'static str,
    kernel: String,
    processors: String,
}

/// A run as it is written down.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    /// What the file's name ends with, and the title; empty for everything.
    pub(crate) name: &'a str,
    /// How much of it there is: `whole`.
    pub(crate) state: &'a str,
    /// What repeats it, with every argument that was chosen or drawn.
    pub(crate) command: &'a str,
    /// A line for each step.
    pub(crate) summary: &'a str,
    /// What was printed.
    pub(crate) said: &'a [String],
    pub(crate) elapsed: Duration,
}

impl Evidence {
    /// Notes commit, day and machine before the run: somebody may go on working meanwhile.
    ///
    /// # Errors
    ///
    /// No repository, or no `git`, `date`, `uname` or `nproc`.
    pub(crate) fn begin() -> Result<Self> {
        let output = |program: &str, arguments: &[&str]| {
            let mut command = Command::new(program);
            command.args(arguments).current_dir(root());
            child::output(&mut command).map(|text| text.trim().to_owned())
        };
        Ok(Self {
            day: output("date", &["-u", "+%Y-%m-%d"])?,
            commit: output("git", &["rev-parse", "--short", "HEAD"])?,
            changes: match output("git", &["status", "--porcelain"])?.as_str() {
                "" => "",
                _ => ", with changes that are in no commit",
            },
            kernel: output("uname", &["-srm"])?,
            processors: output("nproc", &[])?,
        })
    }

    /// Writes `run` down, in place of what was written of it before; where.
    ///
    /// # Errors
    ///
    /// What the system refused.
    pub(crate) fn write(&self, run: &Run<'_>) -> Result<PathBuf> {
        let folder = root().join("docs/evidence");
        std::fs::create_dir_all(&folder).context("cannot make docs/evidence")?;
        let Self { day, commit, .. } = self;
        let end = match run.name {
            "" => String::new(),
            name => format!("-{name}"),
        };
        let path = folder.join(format!("{day}-{commit}{end}.md"));
        std::fs::write(&path, self.text(run))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn text(&self, run: &Run<'_>) -> String {
        let Self {
            day,
            commit,
            changes,
            kernel,
            processors,
        } = self;
        let title = match run.name {
            "" => String::new(),
            name => format!(": {name}"),
        };
        format!(
            "# Evidence of {day}{title}\n\n- commit: {commit}{changes}\n- command: `{}`\n- kernel: {kernel}\n\
             - CPUs: {processors}\n- duration: {:.0} s, {}\n\n```text\n{}\n```\n\n\
             ## What the tests said\n\n```text\n{}\n```\n",
            run.command,
            run.elapsed.as_secs_f64(),
            run.state,
            run.summary.trim(),
            run.said.join("\n"),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_commit_command_and_machine() {
        let evidence = Evidence {
            day: "2026-01-02".to_owned(),
            commit: "abc".to_owned(),
            changes: "",
            kernel: "Linux 6 x".to_owned(),
            processors: "2".to_owned(),
        };
        let text = evidence.text(&Run {
            name: "fuzz",
            state: "whole",
            command: "cargo xtask fuzz",
            summary: "ok  fuzz",
            said: &["one".to_owned(), "two".to_owned()],
            elapsed: Duration::from_secs(61),
        });
        for part in [
            "# Evidence of 2026-01-02: fuzz",
            "- commit: abc\n",
            "`cargo xtask fuzz`",
            "Linux 6 x",
            "61 s, whole",
            "ok  fuzz",
            "one\ntwo",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
