//! The report of a long run: `docs/evidence/DATE-COMMIT.md`, or `DATE-COMMIT-NAME.md`.

use crate::cargo::root;
use crate::{child, report};
use anyhow::{Context as _, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// The run and its environment; noted before the run, because the tree may change.
#[derive(Debug)]
pub(crate) struct Evidence {
    /// In the file's name and title; empty for a run of everything.
    name: String,
    day: String,
    commit: String,
    /// Lines on commit, command and machine.
    head: String,
    started: Instant,
}

impl Evidence {
    /// Notes day, commit, machine, and the command that repeats the run.
    ///
    /// # Errors
    ///
    /// No repository, or no `git`, `date`, `uname` or `nproc`.
    pub(crate) fn begin(name: &str, command: &str) -> Result<Self> {
        let ask = |line: &str| {
            let mut words = line.split(' ');
            let mut command = Command::new(words.next().unwrap_or_default());
            let said = child::output(command.args(words).current_dir(root()))?;
            anyhow::Ok(said.trim().to_owned())
        };
        let commit = ask("git rev-parse --short HEAD")?;
        let changes = match ask("git status --porcelain")?.as_str() {
            "" => "",
            _ => ", with changes that are in no commit",
        };
        let (kernel, processors) = (ask("uname -srm")?, ask("nproc")?);
        Ok(Self {
            name: name.to_owned(),
            head: format!(
                "- commit: {commit}{changes}\n- command: `{command}`\n- kernel: {kernel}\n\
                 - CPUs: {processors}"
            ),
            day: ask("date -u +%Y-%m-%d")?,
            commit,
            started: Instant::now(),
        })
    }

    /// Writes the report, and replaces an earlier one; returns the path. `state` tells how much of
    /// the run is done.
    ///
    /// # Errors
    ///
    /// What the system refused.
    pub(crate) fn write(&self, state: &str, summary: &str) -> Result<PathBuf> {
        let folder = root().join("docs/evidence");
        fs::create_dir_all(&folder).context("cannot make docs/evidence")?;
        let name = format!("{}-{}-{}", self.day, self.commit, self.name);
        let path = folder.join(format!("{}.md", name.trim_end_matches('-')));
        fs::write(&path, self.text(state, summary, &report::said()))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn text(&self, state: &str, summary: &str, said: &[String]) -> String {
        let title = format!("# Evidence of {}: {}", self.day, self.name);
        let (title, head) = (title.trim_end_matches(": "), &self.head);
        let (seconds, summary) = (self.started.elapsed().as_secs(), summary.trim());
        let said = said.join("\n");
        format!(
            "{title}\n\n{head}\n- duration: {seconds} s, {state}\n\n```text\n{summary}\n```\n\n\
             ## What the tests said\n\n```text\n{said}\n```\n"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn report_names_commit_command_and_machine() {
        let evidence = Evidence::begin("fuzz", "cargo xtask fuzz").unwrap();
        let text = evidence.text("whole", "ok  fuzz", &["one".to_owned(), "two".to_owned()]);
        let commit = format!("- commit: {}", evidence.commit);
        let title = format!("# Evidence of {}: fuzz\n", evidence.day);
        let command = "- command: `cargo xtask fuzz`\n- kernel: Linux ";
        for part in [
            &title,
            &commit,
            command,
            " s, whole",
            "ok  fuzz",
            "one\ntwo",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
    }
}
