//! The models: loom walks the ring's interleavings, and every named weakening must be caught.
//!
//! In a `cfg(loom)` build the code asks `sync::mutant("NAME")`, which reads `OLIVINE_MUTANT`: one
//! build serves the models and all mutants.

use crate::cargo::{TestOutput, cargo, root, target, tests};
use crate::child::{self, Ended, Line};
use crate::programs::{self, Program};
use crate::report::{Report, Step, say};
use crate::source::Tree;
use crate::tidy;
use anyhow::{Context as _, Result, bail, ensure};
use std::process::Command;
use std::time::Duration;

/// Models of the core are its unit tests with `model` in their path.
const FILTER: &str = "model";
/// loom's preemption bound, unless a model sets its own.
const PREEMPTIONS: &str = "3";

/// Runs the models; with `mutants` also every weakening named in the core.
pub(crate) fn run(report: &mut Report, mutants: bool) {
    let mut built = None;
    let mut sound = false;
    report.run("model", || {
        let program = build()?;
        let step = tests(test_program(&program).arg(FILTER), 10)?;
        sound = step.failed == 0 && step.passed > 0;
        built = Some(program);
        Ok(step)
    });
    if mutants {
        // The models' step is selected; the mutants belong to it.
        let step = built
            .filter(|_| sound)
            .context("not run: the models fail without a mutant");
        let killed = step.and_then(|tests| kill_all(&tests, &tidy::mutants(&Tree::read(root())?)));
        report.add(
            killed
                .unwrap_or_else(|error| Step::broken(&error))
                .called("mutants"),
        );
    }
}

/// Runs the models with one mutant of the core, which must make one of them fail.
pub(crate) fn run_mutant(name: String) -> Result<Step> {
    let names = tidy::mutants(&Tree::read(root())?);
    ensure!(
        names.contains(&name),
        "the core has no mutant {name}; it has {}",
        names.join(", ")
    );
    kill_all(&build()?, &[name])
}

fn build() -> Result<Program> {
    let mut command = cargo();
    command
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", target().join("loom"))
        // Models check assertions, but need no optimisation across crates.
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .args([
            "test",
            "--release",
            "--package",
            "olivine",
            "--lib",
            "--no-run",
        ]);
    programs::build(command)?
        .pop()
        .context("cargo built no models")
}

fn test_program(tests: &Program) -> Command {
    let mut command = tests.command();
    command.env_remove("OLIVINE_MUTANT");
    if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        command.env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS);
    }
    command
}

/// Runs the models once for each of `mutants`.
fn kill_all(tests: &Program, mutants: &[String]) -> Result<Step> {
    let mut step = Step::new("killed");
    let lengths = mutants.iter().map(String::len);
    let width = lengths.max().unwrap_or(0).max("mutant".len());
    say(&format!("{:width$}  {:>7}  killed by", "mutant", "seconds"));
    let mut survivors = Vec::new();
    for mutant in mutants {
        let known = tidy::known_killer(mutant);
        let (fate, elapsed) = kill(tests, mutant, known.as_deref())?;
        let text = fate.as_ref().map_or_else(ToString::to_string, Clone::clone);
        say(&format!(
            "{mutant:width$}  {:>7.2}  {text}",
            elapsed.as_secs_f64()
        ));
        step.count(fate.is_ok());
        survivors.extend(fate.is_err().then_some(mutant.as_str()));
        step.elapsed += elapsed;
    }
    step.note = match survivors.as_slice() {
        [] => format!("{} mutants named in the core", mutants.len()),
        survivors => survivors.join(" "),
    };
    Ok(step)
}

/// The test that detects a mutant, or how the mutant survives: the test `known` to, then all.
fn kill(tests: &Program, mutant: &str, known: Option<&str>) -> Result<(Result<String>, Duration)> {
    let mut spent = Duration::ZERO;
    if let Some(known) = known {
        let mut command = test_program(tests);
        let (fate, elapsed) = detect(command.arg("--exact").arg(known), mutant)?;
        if fate.is_ok() {
            return Ok((fate, elapsed));
        }
        spent = elapsed;
    }
    let (fate, elapsed) = detect(test_program(tests).arg(FILTER), mutant)?;
    Ok((fate, spent + elapsed))
}

/// Runs some tests with a mutant. A caught mutant ends early; a hang is an error.
fn detect(command: &mut Command, mutant: &str) -> Result<(Result<String>, Duration)> {
    // One thread: the test that was running when the program died is then known.
    command
        .arg("--test-threads=1")
        .env("OLIVINE_MUTANT", mutant);
    let mut output = TestOutput::default();
    let outcome = child::stream(command, 2, |line| {
        output.line(line);
        // The first failure decides; the rest only takes time.
        if output.failures.is_empty() {
            Line::Hide
        } else {
            Line::Stop
        }
    })?;
    let place = output
        .unfinished
        .unwrap_or_else(|| "the test program".to_owned());
    let fate = || match (output.failures.into_iter().next(), outcome.ended) {
        (Some(test), _) => Ok(test),
        (None, Ended::TimedOut) => bail!("HUNG in {place}, and no test reported a failure"),
        (None, Ended::Exited(status)) if status.success() => {
            bail!("SURVIVED: no model needs what it takes away")
        }
        // The program died: a panic inside a panic, an abort, a fault.
        (None, _) => Ok(format!("{place} ({})", outcome.words())),
    };
    Ok((fate(), outcome.elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    /// A replacement for the test program: its behaviour depends on the mutant.
    fn stand_in(folder: &Path) -> Program {
        let path = folder.join("tests");
        let script = "#!/bin/sh\nprintf 'test ring::model::commit ... '\ncase $OLIVINE_MUTANT in\n\
             killed) echo FAILED; exec tail -f /dev/null ;;\ncrashed) kill -ABRT $$ ;;\n\
             *) echo ok; echo 'test result: ok. 1 passed; 0 failed; 0 ignored' ;;\nesac\n";
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Program::at(&path, folder)
    }

    #[test]
    fn each_mutant_has_a_known_killer_that_exists() {
        let models = format!(
            "{}/../crates/olivine/src/ring/model",
            env!("CARGO_MANIFEST_DIR")
        );
        let mutants = tidy::mutants(&Tree::read(root()).unwrap());
        assert!(mutants.len() > 30, "{mutants:?}");
        for mutant in &mutants {
            let killer = tidy::known_killer(mutant)
                .unwrap_or_else(|| panic!("no row for {mutant} in [killed_by] of xtask/tidy.toml"));
            let (file, test) = killer["ring::model::".len()..].split_once("::").unwrap();
            let text = fs::read_to_string(format!("{models}/{file}.rs")).unwrap();
            assert!(
                text.contains(&format!("fn {test}(")),
                "{mutant}: no {killer}"
            );
        }
        assert_eq!(
            tidy::known_killers(),
            mutants.len(),
            "a row without a mutant"
        );
    }

    #[test]
    fn a_mutant_that_survives_fails_the_step() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["killed", "survivor", "crashed"].map(str::to_owned);
        let step = kill_all(&stand_in(folder.path()), &names).unwrap();
        assert_eq!(
            (step.passed, step.failed, step.note.as_str()),
            (2, 1, "survivor")
        );
    }

    #[test]
    fn the_killing_test_is_named_and_the_models_pass_without_a_mutant() {
        let folder = tempfile::tempdir().unwrap();
        let program = stand_in(folder.path());
        let fate = |mutant| kill(&program, mutant, Some("no such test")).unwrap().0;
        assert_eq!(fate("killed").unwrap(), "ring::model::commit");
        assert!(
            fate("survivor")
                .unwrap_err()
                .to_string()
                .starts_with("SURVIVED")
        );
        let by = fate("crashed").unwrap();
        assert!(by.starts_with("ring::model::commit (signal: 6"), "{by}");
        let step = tests(test_program(&program).arg(FILTER), 1).unwrap();
        assert_eq!((step.passed, step.failed), (1, 0));
    }
}
