//! Test programs: built together, run in parallel, with separate output.

use crate::cargo::{FEATURES, TestOutput, cargo, without_ours};
use crate::child::{self, Line, Outcome};
use crate::report::{self, Step};
use anyhow::{Result, ensure};
use std::collections::VecDeque;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// The longest tests start first, so that none runs alone at the end.
const LONG: &str = "suite step death nats programs journals tcp documents";

/// A test program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Package and target: `olivine step`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// The working folder that cargo would use.
    pub(crate) folder: PathBuf,
}

impl Program {
    /// The test program in a line of cargo's messages.
    fn in_message(message: &str) -> Option<Self> {
        let message: serde_json::Value = serde_json::from_str(message).ok()?;
        let text = |path: &str| message.pointer(path)?.as_str();
        let is_test = message.pointer("/profile/test")?.as_bool()?;
        let folder = Path::new(text("/manifest_path")?).parent()?;
        let (package, target) = (folder.file_name()?.to_str()?, text("/target/name")?);
        let program = Self {
            name: format!("{package} {target}"),
            path: text("/executable")?.into(),
            folder: folder.to_owned(),
        };
        is_test.then_some(program)
    }

    /// An existing program.
    #[cfg(test)]
    pub(crate) fn at(path: &Path, folder: &Path) -> Self {
        let name = path.display().to_string();
        let (path, folder) = (path.to_owned(), folder.to_owned());
        Self { name, path, folder }
    }

    pub(crate) fn target(&self) -> &str {
        self.name.rsplit(' ').next().unwrap_or_default()
    }

    /// Its command.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        without_ours(&mut command);
        command.current_dir(&self.folder);
        command
    }

    /// Runs all its tests; prints the relevant lines after its end.
    fn run(&self) -> Result<TestOutput> {
        let (mut output, mut shown) = (TestOutput::default(), Vec::new());
        let outcome = child::stream(&mut self.command(), 15, |line| {
            if output.line(line) == Line::Show {
                shown.push(line.to_owned());
            }
            Line::Hide
        })?;
        if !outcome.success() && output.failures.is_empty() {
            let test = output.unfinished.take().unwrap_or_default();
            let failure = format!("{} {test}: {}", self.name, outcome.words());
            output.failures.push(failure);
        }
        let seconds = outcome.elapsed.as_secs_f64();
        println!("-- {}: {seconds:.1} s\n{}", self.name, shown.join("\n"));
        Ok(output)
    }
}

/// Runs a build and returns its test programs.
///
/// # Errors
///
/// Build errors.
pub(crate) fn build(mut command: Command) -> Result<Vec<Program>> {
    command.arg("--message-format=json-render-diagnostics");
    let (mut programs, mut output) = (Vec::new(), TestOutput::default());
    let outcome = child::stream(&mut command, 25, |line| {
        if line.starts_with('{') {
            programs.extend(Program::in_message(line));
            return Line::Hide;
        }
        output.line(line)
    })?;
    let words = outcome.words();
    ensure!(outcome.success(), "the test programs do not build: {words}");
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Runs every test of the workspace: its programs, in parallel on all processors, and beside them
/// the doc tests, whose compiler takes the processors while programs wait.
///
/// # Errors
///
/// Build errors.
pub(crate) fn run_all() -> Result<Step> {
    let mut build_all = cargo();
    build_all.args(["test", "--workspace", "--features", FEATURES, "--no-run"]);
    let mut programs = build(build_all)?;
    let order = |program: &Program| LONG.split(' ').position(|long| long == program.target());
    programs.sort_by_key(|program| order(program).unwrap_or(usize::MAX));
    let jobs = jobs();
    println!("{} test programs, {jobs} at a time", programs.len());
    let (ran, documents) = thread::scope(|scope| {
        let documents = scope.spawn(doc_tests);
        let ran = each(programs, jobs, |program| (program.run(), program.name));
        (
            ran,
            documents
                .join()
                .unwrap_or_else(|panic| resume_unwind(panic)),
        )
    });
    let (mut all, outcome) = documents?;
    for (ran, program) in ran {
        match ran {
            Ok(output) => all.append(output),
            Err(error) => all.failures.push(format!("{program}: {error:#}")),
        }
    }
    all.failures.iter().for_each(report::keep);
    let success = outcome.success() && all.failures.is_empty();
    Ok(all.step(success, &outcome.words()))
}

/// Runs the doc tests.
fn doc_tests() -> Result<(TestOutput, Outcome)> {
    // They create channels.
    let folder = tempfile::tempdir()?;
    let (mut output, mut command) = (TestOutput::default(), cargo());
    command.args(["test", "--workspace", "--features", FEATURES]);
    command.args(["--doc", "--no-fail-fast"]);
    command.env("OLIVINE_DIR", folder.path());
    let outcome = child::stream(&mut command, 25, |line| output.line(line))?;
    Ok((output, outcome))
}

/// The number of processors.
pub(crate) fn jobs() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Does `work` on each of `items`, started in order, `jobs` in parallel; returns the results in any
/// order.
///
/// # Panics
///
/// If `work` panics, once the others have ended.
pub(crate) fn each<T: Send, R: Send>(
    items: Vec<T>,
    jobs: usize,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let queue = Mutex::new(VecDeque::from(items));
    // The lock is held only for this access.
    let next = || queue.lock().map_or(None, |mut queue| queue.pop_front());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..jobs.max(1))
            .map(|_| scope.spawn(|| std::iter::from_fn(next).map(&work).collect::<Vec<_>>()))
            .collect();
        let done = workers.into_iter().map(thread::ScopedJoinHandle::join);
        done.flat_map(|done| done.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_in_what_cargo_says() {
        let message = |test: bool| {
            format!(
                r#"{{"manifest_path":"/r/crates/olivine/Cargo.toml","executable":"/r/step-1",
                "target":{{"name":"step"}},
                "profile":{{"test":{test}}}}}"#
            )
        };
        let program = Program::in_message(&message(true)).unwrap();
        assert_eq!(
            (program.name.as_str(), program.target()),
            ("olivine step", "step")
        );
        assert_eq!(program.folder, Path::new("/r/crates/olivine"));
        assert_eq!(Program::in_message(&message(false)), None);
        assert_eq!(Program::in_message("no message"), None);
    }

    #[test]
    fn a_program_that_dies_is_a_failure_with_its_name() {
        let program = Program::at(Path::new("false"), Path::new("/"));
        let output = program.run().unwrap();
        assert!(output.failures[0].starts_with("false"), "{output:?}");
        assert_eq!(output.step(false, "").failed, 1);
    }

    #[test]
    fn everything_is_done_once_and_some_at_a_time() {
        let both = std::sync::Barrier::new(2);
        let mut done = each(vec![1, 2, 3, 4], 2, |n| {
            both.wait();
            n * 10
        });
        done.sort_unstable();
        assert_eq!(done, [10, 20, 30, 40]);
    }
}
