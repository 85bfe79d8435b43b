//! What was checked: one line per step, one closing line for people and programs.
//!
//! A step that checked nothing has failed: a check that cannot fail is a bug.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

/// The outcome of one step, counted in things checked.
#[derive(Clone, Debug, Default)]
pub(crate) struct Step {
    pub(crate) name: String,
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
    /// What one counted thing is: `tests`, `rules`, `mutants`.
    pub(crate) unit: &'static str,
    pub(crate) note: String,
    pub(crate) elapsed: Duration,
}

impl Step {
    pub(crate) fn new(name: &str, unit: &'static str) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            ..Self::default()
        }
    }

    /// A step that is one thing: it holds or it does not.
    pub(crate) fn single(name: &str, holds: bool, note: impl Into<String>) -> Self {
        let mut step = Self::new(name, "check");
        step.count(holds);
        step.note = note.into();
        step
    }

    /// A step that could not run because something optional is missing.
    pub(crate) fn skipped(name: &str, why: impl Into<String>) -> Self {
        Self {
            skipped: 1,
            note: why.into(),
            ..Self::new(name, "check")
        }
    }

    pub(crate) fn count(&mut self, holds: bool) {
        if holds {
            self.passed += 1;
        } else {
            self.failed += 1;
        }
    }

    /// Turns "nothing was checked" into a failure.
    fn settle(mut self) -> Self {
        if self.passed + self.failed + self.skipped == 0 {
            self.failed = 1;
            self.note = format!("checked nothing; {}", self.note)
                .trim_end_matches("; ")
                .to_owned();
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
    /// Steps to run, by name; all where empty.
    only: Vec<String>,
}

impl Report {
    /// Runs only these steps from here on; all where there is none.
    pub(crate) fn choose(&mut self, only: Vec<String>) {
        self.only = only;
    }

    /// Whether a step is to be run.
    pub(crate) fn is_chosen(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// A report without steps, for the same choice of them.
    pub(crate) fn beside(&self) -> Self {
        Self {
            steps: Vec::new(),
            only: self.only.clone(),
        }
    }

    /// Announces and runs a step that is chosen; an error inside it is a failure of that step, not of the report.
    pub(crate) fn run(&mut self, name: &str, body: impl FnOnce() -> anyhow::Result<Step>) {
        if !self.is_chosen(name) {
            return;
        }
        println!("\n== {name}");
        let start = Instant::now();
        let step = body().unwrap_or_else(|error| {
            println!("error: {error:#}");
            Step::single(name, false, format!("{error:#}"))
        });
        self.add(Step {
            elapsed: start.elapsed(),
            ..step
        });
    }

    /// Takes in a step that ran elsewhere.
    pub(crate) fn add(&mut self, step: Step) {
        let step = step.settle();
        println!("{}", step.line());
        self.steps.push(step);
    }

    /// Takes in another one's steps, which have been announced already.
    pub(crate) fn append(&mut self, other: Self) {
        self.steps.extend(other.steps);
    }

    pub(crate) fn has_failed(&self) -> bool {
        let failed: usize = self.steps.iter().map(|step| step.failed).sum();
        let passed: usize = self.steps.iter().map(|step| step.passed).sum();
        failed > 0 || passed == 0
    }

    fn closing_line(&self) -> String {
        let sum = |part: fn(&Step) -> usize| self.steps.iter().map(part).sum::<usize>();
        let (passed, skipped) = (sum(|step| step.passed), sum(|step| step.skipped));
        // Nothing at all was checked: say so as a failure.
        let failed = if passed == 0 {
            sum(|step| step.failed).max(1)
        } else {
            sum(|s| s.failed)
        };
        let mut line = format!("{passed} passed, {failed} failed");
        if skipped > 0 {
            let _ = write!(line, ", {skipped} skipped");
        }
        line
    }

    /// One line for each step, and the closing line.
    pub(crate) fn text(&self) -> String {
        let mut lines: Vec<String> = self.steps.iter().map(Step::line).collect();
        lines.push(self.closing_line());
        lines.join("\n")
    }

    /// Prints the summary; the last line is `N passed, N failed[, N skipped]`.
    pub(crate) fn finish(self) -> bool {
        println!("\n== summary");
        for step in &self.steps {
            println!("{}", step.line());
        }
        println!("{}", self.closing_line());
        !self.has_failed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(steps: &[Step]) -> Report {
        Report {
            steps: steps.iter().cloned().map(Step::settle).collect(),
            ..Report::default()
        }
    }

    #[test]
    fn a_step_that_is_not_chosen_does_not_run_and_choosing_none_fails() {
        let mut report = Report::default();
        report.choose(vec!["b".to_owned()]);
        report.run("a", || unreachable!());
        assert!(report.has_failed());
        report.run("b", || Ok(Step::single("b", true, "")));
        assert!(!report.has_failed());
        assert!(!report.beside().is_chosen("a"));
    }

    #[test]
    fn a_step_that_checked_nothing_fails() {
        let report = report(&[Step::single("a", true, ""), Step::new("empty", "tests")]);
        assert!(report.has_failed());
        assert_eq!(report.closing_line(), "1 passed, 1 failed");
    }

    #[test]
    fn a_report_without_steps_fails() {
        assert!(report(&[]).has_failed());
        assert_eq!(report(&[]).closing_line(), "0 passed, 1 failed");
    }

    #[test]
    fn skipping_everything_fails() {
        let report = report(&[Step::skipped("a", "no tool")]);
        assert!(report.has_failed());
        assert_eq!(report.closing_line(), "0 passed, 1 failed, 1 skipped");
    }

    #[test]
    fn skipped_things_are_counted_beside_passed_ones() {
        let report = report(&[Step::single("a", true, ""), Step::skipped("b", "no tool")]);
        assert!(!report.has_failed());
        assert_eq!(report.closing_line(), "1 passed, 0 failed, 1 skipped");
    }

    #[test]
    fn an_error_inside_a_step_is_its_failure() {
        let mut report = Report::default();
        report.run("broken", || anyhow::bail!("no such thing"));
        report.run("fine", || Ok(Step::single("fine", true, "")));
        assert_eq!(report.closing_line(), "1 passed, 1 failed");
    }
}
