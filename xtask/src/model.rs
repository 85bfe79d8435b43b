//! The model tier: loom walks the ring's interleavings, and every named weakening must be caught.
//!
//! In a `cfg(loom)` build the code asks `sync::mutant("NAME")`, which reads `OLIVINE_MUTANT`: one
//! build serves the models and all mutants.

use crate::cargo::{TestOutput, at_most, cargo, plural, root, target};
use crate::child::{self, Ended, Line};
use crate::programs::{self, Program};
use crate::report::Step;
use crate::source::Tree;
use crate::tidy;
use anyhow::{Context as _, Result};
use std::process::Command;
use std::time::Duration;

/// Models of the core are its unit tests with `model` in their path.
const FILTER: &str = "model";
const MODEL_LIMIT: Duration = Duration::from_secs(600);
/// A mutant that is caught is caught early; one that hangs is an error.
const MUTANT_LIMIT: Duration = Duration::from_secs(120);
/// How many times loom lets a thread be interrupted where a model does not say itself.
const PREEMPTIONS: &str = "3";

/// Runs the models; with `mutants` also every weakening named in the core.
pub(crate) fn run(mutants: bool, said: &mut Vec<String>) -> Result<Vec<Step>> {
    let tests = build()?;
    let baseline = models(&tests)?;
    let sound = baseline.failed == 0 && baseline.passed > 0;
    let mut steps = vec![baseline];
    if mutants && sound {
        steps.push(kill_all(
            &tests,
            &tidy::mutants(&Tree::read(root())?),
            said,
        )?);
    } else if mutants {
        // Everything would "kill" a mutant then.
        steps.push(Step::single(
            "mutants",
            false,
            "not run: the models fail without a mutant",
        ));
    }
    Ok(steps)
}

fn build() -> Result<Program> {
    let mut command = cargo();
    command
        .env("RUSTFLAGS", "--cfg loom")
        .env("CARGO_TARGET_DIR", target().join("loom"))
        // Assertions are part of what a model checks; optimising across crates is not.
        .env("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "true")
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    let core = ["--release", "--package", "olivine", "--lib"];
    let mut programs = programs::build(command, &core)?;
    programs.pop().context("cargo built no models")
}

fn test_program(tests: &Program) -> Command {
    let mut command = tests.command();
    command.arg(FILTER).env_remove("OLIVINE_MUTANT");
    if std::env::var_os("LOOM_MAX_PREEMPTIONS").is_none() {
        command.env("LOOM_MAX_PREEMPTIONS", PREEMPTIONS);
    }
    command
}

fn models(tests: &Program) -> Result<Step> {
    let mut output = TestOutput::default();
    let outcome = child::stream(&mut test_program(tests), at_most(MODEL_LIMIT), |line| {
        output.line(line)
    })?;
    let mut step = output.step("model", outcome.success(), &outcome.words());
    step.elapsed = outcome.elapsed;
    Ok(step)
}

/// What became of one mutant.
#[derive(Debug, PartialEq, Eq)]
enum Fate {
    KilledBy(String),
    Survived,
    Hung(Option<String>),
}

/// Runs the models once for each of `mutants`; the table of their fates goes to `said` as well.
fn kill_all(tests: &Program, mutants: &[String], said: &mut Vec<String>) -> Result<Step> {
    let mut step = Step::new("mutants", "killed");
    let width = mutants
        .iter()
        .map(String::len)
        .max()
        .unwrap_or(0)
        .max("mutant".len());
    let mut tell = |line: String| {
        println!("{line}");
        said.push(line);
    };
    tell(format!("{:width$}  {:>7}  killed by", "mutant", "seconds"));
    for mutant in mutants {
        let (fate, elapsed) = kill(tests, mutant)?;
        let text = match &fate {
            Fate::KilledBy(test) => test.clone(),
            Fate::Survived => "SURVIVED: no model needs what it takes away".to_owned(),
            Fate::Hung(None) => "HUNG, and no test reported a failure".to_owned(),
            Fate::Hung(Some(test)) => format!("HUNG in {test}, which reported no failure"),
        };
        tell(format!(
            "{mutant:width$}  {:>7.2}  {text}",
            elapsed.as_secs_f64()
        ));
        let killed = matches!(fate, Fate::KilledBy(_));
        step.count(killed);
        if !killed {
            step.note = format!("{} {mutant}", step.note).trim().to_owned();
        }
        step.elapsed += elapsed;
    }
    if step.note.is_empty() {
        step.note = format!("{} named in the core", plural(mutants.len(), "mutant"));
    }
    Ok(step)
}

fn kill(tests: &Program, mutant: &str) -> Result<(Fate, Duration)> {
    let mut command = test_program(tests);
    // One thread: the test that was running when the program died is then known by name.
    command
        .arg("--test-threads=1")
        .env("OLIVINE_MUTANT", mutant);
    let mut output = TestOutput::default();
    let outcome = child::stream(&mut command, at_most(MUTANT_LIMIT), |line| {
        output.line(line);
        // The first failure decides; the rest would only take time.
        if output.failures.is_empty() {
            Line::Hide
        } else {
            Line::Stop
        }
    })?;
    let fate = match (output.failures.into_iter().next(), outcome.ended) {
        (Some(test), _) => Fate::KilledBy(test),
        (None, Ended::TimedOut) => Fate::Hung(output.unfinished),
        (None, Ended::Exited(status)) if status.success() => Fate::Survived,
        // The program died: a panic inside a panic, an abort, a fault.
        (None, _) => {
            let place = output
                .unfinished
                .unwrap_or_else(|| "the test program".to_owned());
            Fate::KilledBy(format!("{place} ({})", outcome.words()))
        }
    };
    Ok((fate, outcome.elapsed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    /// A stand-in for the test program: what it does depends on the mutant.
    fn stand_in(folder: &Path) -> Program {
        let path = folder.join("tests");
        fs::write(
            &path,
            "#!/bin/sh\nprintf 'test ring::model::commit ... '\ncase $OLIVINE_MUTANT in\n\
             killed) echo FAILED; exec tail -f /dev/null ;;\n\
             crashed) kill -ABRT $$ ;;\n\
             *) echo ok; echo 'test result: ok. 1 passed; 0 failed; 0 ignored' ;;\nesac\n",
        )
        .unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        Program::at(&path, folder)
    }

    #[test]
    fn a_mutant_that_survives_fails_the_step() {
        let folder = tempfile::tempdir().unwrap();
        let tests = stand_in(folder.path());
        let names = [
            "killed".to_owned(),
            "survivor".to_owned(),
            "crashed".to_owned(),
        ];
        let step = kill_all(&tests, &names, &mut Vec::new()).unwrap();
        assert_eq!((step.passed, step.failed), (2, 1));
        assert_eq!(step.note, "survivor");
    }

    #[test]
    fn the_killing_test_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let tests = stand_in(folder.path());
        let fate = |mutant| kill(&tests, mutant).unwrap().0;
        assert_eq!(
            fate("killed"),
            Fate::KilledBy("ring::model::commit".to_owned())
        );
        assert_eq!(fate("survivor"), Fate::Survived);
        let Fate::KilledBy(by) = fate("crashed") else {
            panic!("a crash kills")
        };
        assert!(by.starts_with("ring::model::commit (signal: 6"), "{by}");
    }

    #[test]
    fn the_models_must_pass_without_a_mutant() {
        let folder = tempfile::tempdir().unwrap();
        let step = models(&stand_in(folder.path())).unwrap();
        assert_eq!((step.passed, step.failed), (1, 0));
    }
}
