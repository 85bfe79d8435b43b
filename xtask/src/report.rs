//! Reports of checks: one line per step, and one closing line.
//!
//! A step without checks has failed: a check that cannot fail is a bug.

use crate::evidence::Evidence;
use std::fmt::{self, Write as _};
use std::mem;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of the steps for the report.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Keeps a line for the report in `docs/evidence`.
pub(crate) fn keep(line: impl Into<String>) {
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    said.push(line.into());
}

/// Prints a line and keeps it.
pub(crate) fn say(line: &str) {
    println!("{line}");
    keep(line);
}

/// All kept lines.
pub(crate) fn said() -> Vec<String> {
    SAID.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// A step needs something that is missing here: it is skipped.
#[derive(Debug)]
pub(crate) struct Missing(pub(crate) String);

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Missing {}

/// The error that skips a step.
pub(crate) fn missing(why: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Missing(why.into()))
}

/// The outcome of one step, counted in things checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    /// The counted unit: `tests`, `rules`, `mutants`.
    pub(crate) unit: &'static str,
    pub(crate) note: String,
    pub(crate) elapsed: Duration,
}

impl Step {
    pub(crate) fn new(unit: &'static str) -> Self {
        Self {
            unit,
            ..Self::default()
        }
    }

    /// A step with a single check.
    pub(crate) fn single(holds: bool, note: impl Into<String>) -> Self {
        let mut step = Self::new("check");
        step.count(holds);
        step.note = note.into();
        step
    }

    /// A step that ended early: skipped if something is [`Missing`], otherwise failed.
    pub(crate) fn broken(error: &anyhow::Error) -> Self {
        let is_missing = error.is::<Missing>();
        println!(
            "{}: {error:#}",
            if is_missing { "skipped" } else { "error" }
        );
        let mut step = Self::single(true, format!("{error:#}"));
        step.passed = 0;
        step.skipped = usize::from(is_missing);
        step.failed = 1 - step.skipped;
        step
    }

    pub(crate) fn called(self, name: &str) -> Self {
        let name = name.to_owned();
        Self { name, ..self }
    }

    pub(crate) fn count(&mut self, holds: bool) {
        if holds {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }

    /// Turns zero checks into a failure.
    fn settle(mut self) -> Self {
        if self.passed + self.failed + self.skipped == 0 {
            self.failed = 1;
            let note = format!("checked nothing; {}", self.note);
            self.note = note.trim_end_matches("; ").to_owned();
        }
        self
    }

    fn line(&self) -> String {
        let verdict = match (self.failed, self.passed) {
            (0, 0) => "skip",
            (0, _) => "ok",
            _ => "FAIL",
        };
        let mut line = format!(
            "{verdict:<4}  {:<16} {:>5} {:<9} {:>6.1} s",
            self.name,
            self.passed,
            self.unit,
            self.elapsed.as_secs_f64()
        );
        for (count, word) in [(self.failed, "failed"), (self.skipped, "skipped")] {
            if count > 0 {
                let _ = write!(line, "  {count} {word}");
            }
        }
        if !self.note.is_empty() {
            let _ = write!(line, "  ({})", self.note);
        }
        line
    }
}

/// All steps of one command.
#[derive(Debug, Default)]
pub(crate) struct Report {
    steps: Vec<Step>,
    /// Names of the steps to run; empty for all.
    only: Vec<String>,
    /// Names of the steps that could have been chosen.
    offered: Vec<String>,
    /// Where the report is written after each step.
    evidence: Option<Evidence>,
}

impl Report {
    /// Runs only these steps from here on; all if the list is empty.
    pub(crate) fn choose(&mut self, only: Vec<String>) {
        self.only = only;
    }

    /// Whether a step is selected.
    pub(crate) fn is_chosen(&mut self, name: &str) -> bool {
        self.offered.push(name.to_owned());
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// A report without steps, with the same selection.
    pub(crate) fn beside(&self) -> Self {
        Self {
            only: self.only.clone(),
            ..Self::default()
        }
    }

    /// Runs all steps of `body` if `name` is selected.
    pub(crate) fn group(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        if self.is_chosen(name) {
            let (only, offered) = (mem::take(&mut self.only), self.offered.clone());
            body(self);
            (self.only, self.offered) = (only, offered);
        }
    }

    /// Runs `body` with a report in `docs/evidence`. It is written after each step, so a run that
    /// is cut short leaves one, too.
    pub(crate) fn with_evidence(&mut self, name: &str, more: &str, body: impl FnOnce(&mut Self)) {
        let words: Vec<String> = std::env::args().skip(1).collect();
        let command = format!("cargo xtask {}{more}", words.join(" "));
        match Evidence::begin(name, &command) {
            Ok(evidence) => self.evidence = Some(evidence),
            Err(error) => return self.add(Step::broken(&error).called("evidence")),
        }
        body(self);
        if let Some(evidence) = self.evidence.take() {
            let written = evidence.write("whole", &self.text());
            self.run("evidence", || {
                Ok(Step::single(true, written?.display().to_string()))
            });
        }
    }

    /// Announces and runs a selected step; an error inside it is a failure of that step, not of the
    /// report.
    pub(crate) fn run(&mut self, name: &str, body: impl FnOnce() -> anyhow::Result<Step>) {
        if !self.is_chosen(name) {
            return;
        }
        println!("\n== {name}");
        let start = Instant::now();
        let mut step = body().unwrap_or_else(|error| Step::broken(&error));
        step.elapsed = start.elapsed();
        self.add(step.called(name));
    }

    /// Adds a step that ran elsewhere.
    pub(crate) fn add(&mut self, step: Step) {
        let step = step.settle();
        println!("{}", step.line());
        let state = format!("so far, up to {}", step.name);
        self.steps.push(step);
        // At the end this is a failure; before, the remaining steps still run.
        let evidence = self.evidence.as_ref();
        if let Some(Err(error)) = evidence.map(|evidence| evidence.write(&state, &self.text())) {
            println!("error: {error:#}");
        }
    }

    /// Adds the steps of another report, which are announced already.
    pub(crate) fn append(&mut self, other: Self) {
        self.steps.extend(other.steps);
        self.offered.extend(other.offered);
    }

    /// The chosen steps that there are not, with those that there are.
    fn unknown(&self) -> Option<String> {
        let is_unknown = |only: &&String| !self.offered.contains(only);
        let unknown: Vec<_> = self.only.iter().filter(is_unknown).cloned().collect();
        let there = self.offered.join(" ");
        let wrong = unknown.join(", ");
        (!unknown.is_empty()).then(|| format!("no step {wrong} runs alone; choose from: {there}"))
    }

    /// Names of the steps that could have been chosen.
    #[cfg(test)]
    pub(crate) fn offered(&self) -> impl Iterator<Item = &str> {
        self.offered.iter().map(String::as_str)
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.sum(|step| step.failed) > 0 || self.sum(|step| step.passed) == 0
    }

    fn sum(&self, part: fn(&Step) -> usize) -> usize {
        self.steps.iter().map(part).sum()
    }

    fn closing_line(&self) -> String {
        let (passed, failed) = (self.sum(|step| step.passed), self.sum(|step| step.failed));
        // No check at all is a failure.
        let failed = failed.max(usize::from(passed == 0));
        match self.sum(|step| step.skipped) {
            0 => format!("{passed} passed, {failed} failed"),
            skipped => format!("{passed} passed, {failed} failed, {skipped} skipped"),
        }
    }

    /// One line for each step, and the closing line.
    pub(crate) fn text(&self) -> String {
        let mut lines: Vec<String> = self.steps.iter().map(Step::line).collect();
        lines.push(self.closing_line());
        lines.join("\n")
    }

    /// Prints the summary; the last line is `N passed, N failed[, N skipped]`.
    pub(crate) fn finish(mut self) -> bool {
        if let Some(unknown) = self.unknown() {
            self.add(Step::single(false, unknown).called("only"));
        }
        println!("\n== summary\n{}", self.text());
        !self.has_failed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The closing line of a report with these steps, and whether it has failed.
    fn closing(steps: Vec<anyhow::Result<Step>>) -> (String, bool) {
        let mut report = Report::default();
        for step in steps {
            report.run("step", || step);
        }
        (report.closing_line(), report.has_failed())
    }

    fn holds() -> anyhow::Result<Step> {
        Ok(Step::single(true, ""))
    }

    #[test]
    fn what_checked_nothing_or_broke_has_failed_and_what_is_missing_is_skipped() {
        let (empty, broken) = (
            Ok(Step::new("tests")),
            Err(anyhow::anyhow!("no such thing")),
        );
        let skipped = || Err(missing("no tool"));
        for (steps, line, failed) in [
            (vec![holds(), holds()], "2 passed, 0 failed", false),
            (vec![holds(), empty], "1 passed, 1 failed", true),
            (vec![broken, holds()], "1 passed, 1 failed", true),
            (vec![], "0 passed, 1 failed", true),
            (vec![skipped()], "0 passed, 1 failed, 1 skipped", true),
            (
                vec![holds(), skipped()],
                "1 passed, 0 failed, 1 skipped",
                false,
            ),
        ] {
            assert_eq!(closing(steps), (line.to_owned(), failed));
        }
    }

    #[test]
    fn a_step_that_is_not_chosen_does_not_run_and_choosing_none_fails() {
        let mut report = Report::default();
        report.choose(vec!["b".to_owned()]);
        report.run("a", || unreachable!());
        report.group("c", |_| unreachable!());
        assert!(report.has_failed());
        assert_eq!(
            report.unknown().as_deref(),
            Some("no step b runs alone; choose from: a c")
        );
        report.group("b", |report| report.run("d", holds));
        assert!(!report.has_failed());
        assert_eq!(report.unknown(), None);
        assert!(!report.beside().is_chosen("a"));
    }
}
