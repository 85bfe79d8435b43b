//! Calling cargo, and parsing the output of test programs.

use crate::child::{self, Line};
use crate::report::{self, Report, Step};
use anyhow::Result;
use regex::Regex;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

/// The repository: the folder above this crate, or the current one where the tool was moved.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let built_in = Path::new(env!("CARGO_MANIFEST_DIR"))
            .parent()
            .unwrap_or_else(|| Path::new("."));
        if built_in.join("Cargo.toml").is_file() {
            built_in
        } else {
            Path::new(".")
        }
        .to_owned()
    })
}

/// The target folder.
pub(crate) fn target() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The cargo that runs this program, started in the repository.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    // No colours, so that lines can be parsed.
    command.env("CARGO_TERM_COLOR", "never");
    without_ours(&mut command);
    command
}

/// Removes cargo's variables of this program from a child. With them its builds would differ from
/// the same command typed by hand, and everything would be built twice.
pub(crate) fn without_ours(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST") {
            command.env_remove(&name);
        }
    }
}

/// Builds the release tool in a step that notes the load of the machine; returns its path.
pub(crate) fn tool(report: &mut Report) -> Option<PathBuf> {
    let mut path = None;
    report.run("tool", || {
        let words = "build --quiet --release --package olivine-cli";
        child::output(cargo().args(words.split(' ')))?;
        let built = path.insert(target().join("release/olivine"));
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let load = load.split(' ').next().unwrap_or_default();
        let note = format!("load {load} before the start");
        Ok(Step::single(built.is_file(), note))
    });
    path
}

/// Runs a test command: shows relevant lines, and counts.
pub(crate) fn tests(command: &mut Command, minutes: u64) -> Result<Step> {
    let mut output = TestOutput::default();
    let outcome = child::stream(command, minutes, |line| {
        let verdict = output.line(line);
        if verdict == Line::Show {
            report::keep(line);
        }
        verdict
    })?;
    Ok(output.step(outcome.success(), &outcome.words()))
}

/// The names and values of `OLIVINE_A=1 OLIVINE_B=2`; a value may contain spaces.
fn variables(settings: &str) -> impl Iterator<Item = (String, &str)> {
    let settings = settings.split("OLIVINE_").skip(1);
    let settings = settings.filter_map(|setting| setting.trim().split_once('='));
    settings.map(|(name, value)| (format!("OLIVINE_{name}"), value))
}

/// Runs `cargo test` with these arguments and settings, which are printed.
pub(crate) fn suite(words: &str, settings: &str) -> Result<Step> {
    let mut command = cargo();
    command.arg("test").args(words.split(' '));
    command.envs(variables(settings));
    println!("{settings} cargo test {words}");
    let mut step = tests(&mut command, 24 * 60)?;
    if !settings.is_empty() {
        step.note = format!("{settings}; {}", step.note);
    }
    Ok(step)
}

/// Like [`suite`], for tests of one package; the tests run one after the other and show their
/// output.
pub(crate) fn alone(words: &str, settings: &str) -> Result<Step> {
    let words = format!("--package {words} -- --nocapture --test-threads=1");
    suite(&words, settings)
}

/// Features that the tests need and that are not built by default.
pub(crate) const FEATURES: &str = "olivine/nats,olivine/stream,olivine-net/rustls,\
                                   olivine-cli/screen,olivine-cli/arrow,olivine-cli/mcap,\
                                   olivine-cli/tls";

/// No step may run longer; set once, by `ci --limit`.
static DEADLINE: OnceLock<Instant> = OnceLock::new();

/// From now on every child ends within `limit`.
pub(crate) fn set_deadline(limit: Duration) {
    let _ = DEADLINE.set(Instant::now() + limit);
}

/// `wanted`, or the time until the deadline if that is less.
pub(crate) fn at_most(wanted: Duration) -> Duration {
    DEADLINE.get().map_or(wanted, |end| {
        wanted.min(end.saturating_duration_since(Instant::now()))
    })
}

/// How a test program ends.
static RESULT: LazyLock<Regex> = LazyLock::new(|| {
    let text = r"^test result: .* (\d+) passed; (\d+) failed; (\d+) ignored";
    Regex::new(text).expect("the tests below compile it")
});

/// Counts libtest's results, and selects the lines to show.
#[derive(Debug, Default)]
pub(crate) struct TestOutput {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) ignored: usize,
    /// Tests that passed without running, because something is missing: each prints a line.
    pub(crate) excused: usize,
    /// Test programs that reported.
    pub(crate) programs: usize,
    /// Names of failed tests, in order.
    pub(crate) failures: Vec<String>,
    /// The test that was announced and has not reported (only with one test thread).
    pub(crate) unfinished: Option<String>,
    /// Tests that libtest called slow, until they report.
    slow: Vec<String>,
}

impl TestOutput {
    /// Takes in one line of output.
    pub(crate) fn line(&mut self, line: &str) -> Line {
        let text = line.trim();
        if let Some(counts) = RESULT.captures(text) {
            let counts = counts.extract::<3>().1;
            let [passed, failed, ignored] = counts.map(|count| count.parse().unwrap_or(0));
            self.programs += 1;
            self.passed += passed;
            self.failed += failed;
            self.ignored += ignored;
            return if passed + failed > 0 {
                Line::Show
            } else {
                Line::Hide
            };
        }
        if let Some(test) = text.strip_prefix("test ") {
            return self.test_line(test);
        }
        if text.starts_with("skipped: ") {
            self.excused += 1;
            return Line::Show;
        }
        if self.unfinished.is_some() && matches!(text, "ok" | "FAILED") {
            let name = self.unfinished.take().unwrap_or_default();
            return self.verdict(&name, text);
        }
        let chatter = "Compiling Checking Downloaded Downloading Fresh Locking"
            .split(' ')
            .any(|word| text.split(' ').next() == Some(word));
        if chatter || text.is_empty() || text.starts_with("running 0 tests") {
            Line::Hide
        } else {
            Line::Show
        }
    }

    /// `NAME ... VERDICT`, or `NAME ... ` if the test's output comes before the verdict.
    fn test_line(&mut self, test: &str) -> Line {
        let Some((name, verdict)) = test.split_once(" ...") else {
            if let Some((name, _)) = test.split_once(" has been running for over ") {
                self.slow.push(name.to_owned());
            }
            return Line::Show;
        };
        self.slow.retain(|slow| slow != name);
        let name = name.trim_end_matches(" - should panic").to_owned();
        match verdict.trim() {
            "" => {
                self.unfinished = Some(name);
                Line::Hide
            }
            verdict if verdict.starts_with("ok") || verdict.starts_with("ignored") => Line::Hide,
            verdict if verdict.starts_with("FAILED") => self.verdict(&name, "FAILED"),
            _ => {
                self.unfinished = Some(name);
                Line::Show
            }
        }
    }

    /// Takes in what another run printed.
    pub(crate) fn append(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        self.excused += other.excused;
        self.programs += other.programs;
        self.failures.extend(other.failures);
        self.unfinished = other.unfinished.or_else(|| self.unfinished.take());
        self.slow.extend(other.slow);
    }

    fn verdict(&mut self, name: &str, verdict: &str) -> Line {
        if verdict == "ok" {
            return Line::Hide;
        }
        self.failures.push(name.to_owned());
        Line::Show
    }

    /// The counts as a step. A failed run without a failed test (a build error, a crash) counts as
    /// one failure.
    pub(crate) fn step(self, success: bool, how: &str) -> Step {
        let mut step = Step::new("tests");
        step.passed = self.passed.saturating_sub(self.excused);
        step.skipped = self.ignored + self.excused;
        step.failed = self.failed.max(self.failures.len());
        if !success && step.failed == 0 {
            step.failed = 1;
            step.note = how.to_owned();
            let unfinished: Vec<String> = self.slow.into_iter().chain(self.unfinished).collect();
            if !unfinished.is_empty() {
                step.note
                    .push_str(&format!(" in {}", unfinished.join(", ")));
            }
        } else if self.failures.is_empty() {
            step.note = format!("{} test programs", self.programs);
        } else {
            step.note = self.failures.join(", ");
        }
        if success && step.passed == 0 {
            step.failed = step.failed.max(1);
            step.note = "ran no test".to_owned();
        }
        step
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (TestOutput, Vec<String>) {
        let mut output = TestOutput::default();
        let shown = text
            .lines()
            .filter(|line| output.line(line) != Line::Hide)
            .map(str::to_owned)
            .collect();
        (output, shown)
    }

    #[test]
    fn a_value_of_a_setting_may_have_spaces() {
        let found: Vec<_> = variables("OLIVINE_A=a b OLIVINE_B_C=2").collect();
        let known = [("OLIVINE_A", "a b"), ("OLIVINE_B_C", "2")];
        assert_eq!(found, known.map(|(name, value)| (name.to_owned(), value)));
        assert_eq!(variables("").count(), 0);
    }

    #[test]
    fn counts_are_summed_over_test_programs() {
        let (output, shown) = read(
            "   Compiling olivine v0.1.0\nrunning 2 tests\ntest a::b ... ok\ntest c ... FAILED\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out\n\
             running 0 tests\n\
             test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out\n\
             skipped: no network namespace\n\
             test result: ok. 8 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out\n",
        );
        assert_eq!((output.programs, shown.len()), (3, 5), "{shown:?}");
        let step = output.step(false, "exit status: 101");
        assert_eq!((step.passed, step.failed, step.skipped), (8, 1, 3));
        assert_eq!(step.note, "c");
    }

    #[test]
    fn failed_build_and_empty_run_fail() {
        let (output, shown) = read("error[E0425]: cannot find value\n");
        let step = output.step(false, "exit status: 101");
        assert_eq!((shown.len(), step.passed, step.failed), (1, 0, 1));
        let none = "test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out\n";
        assert_eq!(read(none).0.step(true, "").failed, 1);
    }

    #[test]
    fn crash_and_late_verdict_name_their_test() {
        let (output, _) = read("test ring::commit ... \nthread panicked while panicking\n");
        assert_eq!(
            output.step(false, "signal: 6").note,
            "signal: 6 in ring::commit"
        );
        let slow = |name| format!("test {name} has been running for over 60 seconds\n");
        let text = format!("{}{}test b ... ok\n", slow("a"), slow("b"));
        let (output, _) = read(&text);
        assert_eq!(
            output.step(false, "no end within 900 s").note,
            "no end within 900 s in a"
        );
        let (output, _) = read("test a ... printed by the test\nFAILED\n");
        assert_eq!(output.failures, ["a"]);
    }
}
