//! Test programs: built at once, run some at a time, what each prints kept together.

use crate::cargo::{TestOutput, at_most, cargo, without_ours};
use crate::child::{self, Line};
use crate::pool;
use crate::report::Step;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const BUILD_LIMIT: Duration = Duration::from_secs(1500);
const RUN_LIMIT: Duration = Duration::from_secs(900);
/// Those that take longest are begun first: nobody waits for one alone at the end.
const LONG: [&str; 4] = ["step", "conformance", "nats", "death"];

/// A program that cargo has built for tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Package and target: `olivine step`.
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
}

impl Program {
    /// The one named in a line of cargo's messages.
    pub(crate) fn in_message(message: &str) -> Option<Self> {
        let message: serde_json::Value = serde_json::from_str(message).ok()?;
        if !message.pointer("/profile/test")?.as_bool()? {
            return None;
        }
        let target = message.pointer("/target/name")?.as_str()?;
        let manifest = Path::new(message.get("manifest_path")?.as_str()?);
        let folder = manifest.parent()?;
        let package = folder.file_name()?.to_str()?;
        Some(Self {
            name: format!("{package} {target}"),
            path: message.get("executable")?.as_str()?.into(),
            folder: folder.to_owned(),
        })
    }

    /// A program that somebody else has built.
    #[cfg(test)]
    pub(crate) fn at(path: &Path, folder: &Path) -> Self {
        let name = path.display().to_string();
        let (path, folder) = (path.to_owned(), folder.to_owned());
        Self { name, path, folder }
    }

    /// How it is started.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        without_ours(&mut command);
        command.current_dir(&self.folder);
        command
    }

    /// Runs all its tests; what a person wants to see is printed when it has ended.
    fn run(&self) -> Result<TestOutput> {
        let (mut output, mut shown) = (TestOutput::default(), Vec::new());
        let limit = at_most(RUN_LIMIT);
        let outcome = child::stream(&mut self.command(), limit, |line| {
            if output.line(line) == Line::Show {
                shown.push(line.to_owned());
            }
            Line::Hide
        })?;
        if !outcome.success() && output.failures.is_empty() {
            let test = output.unfinished.take().unwrap_or_default();
            output
                .failures
                .push(format!("{} {test}: {}", self.name, outcome.words()));
        }
        shown.insert(
            0,
            format!("-- {}: {:.1} s", self.name, outcome.elapsed.as_secs_f64()),
        );
        println!("{}", shown.join("\n"));
        Ok(output)
    }

    fn order(&self) -> usize {
        let target = self.name.rsplit(' ').next();
        let place = LONG.iter().position(|long| Some(*long) == target);
        place.unwrap_or(LONG.len())
    }
}

/// Builds the test programs that `arguments` of `cargo test` choose, in the order in which cargo would run them.
///
/// # Errors
///
/// What does not build.
pub(crate) fn build(mut command: Command, arguments: &[&str]) -> Result<Vec<Program>> {
    command
        .arg("test")
        .args(arguments)
        .args(["--no-run", "--message-format=json-render-diagnostics"]);
    let (mut programs, mut output) = (Vec::new(), TestOutput::default());
    let outcome = child::stream(&mut command, at_most(BUILD_LIMIT), |line| {
        if line.starts_with('{') {
            programs.extend(Program::in_message(line));
            return Line::Hide;
        }
        output.line(line)
    })?;
    let words = outcome.words();
    ensure!(outcome.success(), "the tests do not build: {words}");
    programs.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(programs)
}

/// Runs every test of the workspace: its programs, as many at a time as there are processors, then what its documentation says.
///
/// # Errors
///
/// What does not build.
pub(crate) fn run_all(name: &str) -> Result<Step> {
    let mut programs = build(cargo(), &["--workspace"])?;
    programs.sort_by_key(Program::order);
    let jobs = pool::jobs();
    println!("{} test programs, {jobs} at a time", programs.len());
    let mut all = TestOutput::default();
    for (ran, program) in pool::each(programs, jobs, |program| (program.run(), program.name)) {
        match ran {
            Ok(output) => all.append(output),
            Err(error) => all.failures.push(format!("{program}: {error:#}")),
        }
    }
    let mut documents = cargo();
    documents.args(["test", "--workspace", "--doc", "--no-fail-fast"]);
    let outcome = child::stream(&mut documents, at_most(BUILD_LIMIT), |line| all.line(line))?;
    let success = outcome.success() && all.failures.is_empty();
    Ok(all.step(name, success, &outcome.words()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(test: bool) -> String {
        format!(
            r#"{{"reason":"compiler-artifact","manifest_path":"/r/crates/olivine/Cargo.toml",
                "target":{{"name":"step"}},"profile":{{"test":{test}}},"executable":"/r/target/step-1"}}"#
        )
    }

    #[test]
    fn a_program_is_found_in_what_cargo_says() {
        let program = Program::in_message(&message(true)).unwrap();
        assert_eq!(program.name, "olivine step");
        assert_eq!(program.folder, Path::new("/r/crates/olivine"));
        assert_eq!(Program::in_message(&message(false)), None);
        assert_eq!(Program::in_message("no message"), None);
    }

    #[test]
    fn what_takes_longest_comes_first() {
        let [step, other] = ["olivine step", "olivine topics"]
            .map(|name| Program::at(Path::new(name), Path::new("/")));
        assert!(step.order() < other.order());
    }

    #[test]
    fn a_program_that_dies_is_a_failure_with_its_name() {
        let program = Program::at(Path::new("false"), Path::new("/"));
        let output = program.run().unwrap();
        assert!(output.failures[0].starts_with("false"), "{output:?}");
        assert_eq!(output.step("tests", false, "").failed, 1);
    }
}
