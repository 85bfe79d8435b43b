//! `test`: what the README's test command runs. `ci`: the same and more.

use crate::cargo::{TestOutput, at_most, cargo};
use crate::child;
use crate::evidence::{Evidence, Run};
use crate::packages::Missing;
use crate::report::{Report, Step};
use crate::sanitize::Sanitizer;
use crate::{
    axiomatic, bindings, clients, death, deny, examples, found, fuzz, model, nats, programs,
    readme, spin, tidy,
};
use anyhow::Result;
use std::thread;
use std::time::{Duration, Instant};

const TESTS_LIMIT: Duration = Duration::from_secs(3000);
const LINT_LIMIT: Duration = Duration::from_secs(1800);
/// What the core's tests are built with besides, to be run once more: blocks are packed, and there are named points to die at.
const MORE_FEATURES: &str = "olivine/zstd,olivine/points";

/// Every check that needs only Rust, a C compiler and Python.
pub(crate) fn test(report: &mut Report, mutants: bool, said: &mut Vec<String>) {
    // The cheap ones first: they fail within a second.
    report.run("tidy", tidy::run);
    side_by_side(
        (report, said),
        ordinary,
        ("models", |report, said| models(report, mutants, said)),
    );
}

/// What a change must pass before it is merged.
pub(crate) fn ci(report: &mut Report) {
    report.run("lock", lock);
    report.run("fmt", || {
        cargo_check("fmt", &["fmt", "--all", "--check"], &[])
    });
    report.run("tidy", tidy::run);
    side_by_side(
        (report, &mut Vec::new()),
        |report, said| {
            lints(report);
            ordinary(report, said);
        },
        ("deny and models", |report, said| {
            report.run("deny", deny::run);
            models(report, true, said);
        }),
    );
}

/// Runs `main`, and `other` beside it, which builds elsewhere: neither waits for the other's locks, and one has work for the
/// processors while the other's tests sleep. Reports on `main` first.
fn side_by_side(
    (report, said): (&mut Report, &mut Vec<String>),
    main: impl FnOnce(&mut Report, &mut Vec<String>),
    (name, other): (&str, impl FnOnce(&mut Report, &mut Vec<String>) + Send),
) {
    let beside = report.beside();
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            let (mut report, mut said) = (beside, Vec::new());
            other(&mut report, &mut said);
            (report, said)
        });
        main(report, said);
        match beside.join() {
            Ok((other, lines)) => {
                report.append(other);
                said.extend(lines);
            }
            Err(_) => report.add(Step::single(name, false, "a thread of ours panicked")),
        }
    });
}

fn lints(report: &mut Report) {
    report.run("clippy", || {
        let lints = ["--workspace", "--all-targets", "--", "-D", "warnings"];
        cargo_check("clippy", &[&["clippy"], &lints[..]].concat(), &[])
    });
    report.run("docs", || {
        // Libraries only: the tool has the library's name, and both would go to one folder.
        let arguments = ["doc", "--workspace", "--no-deps", "--lib"];
        cargo_check("docs", &arguments, &[("RUSTDOCFLAGS", "-D warnings")])
    });
}

/// All tests but the models.
fn ordinary(report: &mut Report, said: &mut Vec<String>) {
    // The tests start it.
    report.run("nats-server", nats::install);
    report.run("python", bindings::python);
    report.run("tests", || programs::run_all("tests"));
    report.run("zstd", packed_journals);
    report.run("points", || death::points(MORE_FEATURES, said));
    report.run("examples", examples::run);
    report.run("clients", || clients::run(Missing::LeaveOut, false));
    report.run("cmake", found::built);
    report.run("readme", readme::run);
}

/// The fuzz targets, and their report in `docs/evidence` if it is wanted.
pub(crate) fn fuzz(report: &mut Report, plan: &fuzz::Plan<'_>, evidence: bool) {
    let begun = evidence.then(Evidence::begin);
    let started = Instant::now();
    let mut said = Vec::new();
    fuzz::run(report, plan, &mut said);
    let Some(begun) = begun else { return };
    let only = plan.only.map(|name| format!(" --target {name}"));
    let (only, seconds) = (only.unwrap_or_default(), plan.length.as_secs());
    let jobs = plan.jobs;
    let summary = report.text();
    report.run("evidence", || {
        let path = begun?.write(&Run {
            name: plan.only.unwrap_or("fuzz"),
            state: "whole",
            command: &format!("cargo xtask fuzz{only} --seconds {seconds} --jobs {jobs}"),
            summary: &summary,
            said: &said,
            elapsed: started.elapsed(),
        })?;
        Ok(Step::single("evidence", true, path.display().to_string()))
    });
}

/// The tests of each of `which`, of all if that is empty.
pub(crate) fn sanitizers(report: &mut Report, which: &[Sanitizer]) {
    let which = if which.is_empty() {
        &Sanitizer::ALL
    } else {
        which
    };
    for sanitizer in which {
        report.run(sanitizer.name(), || sanitizer.run());
    }
}

/// The models, and their mutants where asked for.
pub(crate) fn models(report: &mut Report, mutants: bool, said: &mut Vec<String>) {
    if report.is_chosen("model") {
        loom(report, mutants, said);
    }
    report.run("spin", || spin::run(mutants, said));
    report.run("axiomatic", || axiomatic::run(said));
}

fn loom(report: &mut Report, mutants: bool, said: &mut Vec<String>) {
    println!("\n== model");
    match model::run(mutants, said) {
        Ok(steps) => steps.into_iter().for_each(|step| report.add(step)),
        Err(error) => {
            println!("error: {error:#}");
            report.add(Step::single("model", false, error.to_string()));
        }
    }
}

/// The journal's tests once more, in a build that packs blocks.
fn packed_journals() -> Result<Step> {
    let journals = ["journal", "journal_damage", "file"];
    let mut command = cargo();
    // The whole workspace, or what it depends on would be built again.
    command.args(["test", "--workspace", "--features", MORE_FEATURES]);
    command.args(journals.iter().flat_map(|test| ["--test", *test]));
    command.arg("--no-fail-fast");
    let mut output = TestOutput::default();
    let outcome = child::stream(&mut command, at_most(TESTS_LIMIT), |line| output.line(line))?;
    Ok(output.step("zstd", outcome.success(), &outcome.words()))
}

/// The lock file fits the manifests: nobody builds with other versions than these.
fn lock() -> Result<Step> {
    let mut step = Step::new("lock", "packages");
    step.passed = packages(false)?;
    Ok(step)
}

/// Number of packages in the workspace, or of those with a library. Fails where the lock file would
/// have to change.
fn packages(with_library: bool) -> Result<usize> {
    let arguments = ["metadata", "--locked", "--format-version", "1", "--no-deps"];
    let metadata: serde_json::Value =
        serde_json::from_str(&child::output(cargo().args(arguments))?)?;
    let packages = metadata["packages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let has_library = |package: &&serde_json::Value| {
        let targets = package["targets"].as_array().map_or(&[][..], Vec::as_slice);
        let kinds = targets.iter().flat_map(|target| target["kind"].as_array());
        kinds
            .flatten()
            .filter_map(|kind| kind.as_str())
            .any(|kind| kind.contains("lib"))
    };
    Ok(packages
        .iter()
        .filter(|package| !with_library || has_library(package))
        .count())
}

/// Runs a cargo command that judges the workspace; counts the packages it judged.
fn cargo_check(name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Result<Step> {
    let mut output = TestOutput::default();
    let mut command = cargo();
    command.args(arguments).envs(environment.iter().copied());
    let outcome = child::stream(&mut command, at_most(LINT_LIMIT), |line| output.line(line))?;
    let mut step = Step::new(name, "packages");
    if outcome.success() {
        step.passed = packages(arguments.contains(&"--lib"))?;
    } else {
        step.failed = 1;
        step.note = outcome.words();
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cargo_command_that_fails_fails_its_step() {
        let step = cargo_check("fmt", &["no-such-command"], &[]).unwrap();
        assert_eq!((step.passed, step.failed), (0, 1));
    }

    #[test]
    fn packages_are_counted() {
        let (all, libraries) = (packages(false).unwrap(), packages(true).unwrap());
        assert!(
            all >= 2 && libraries >= 1 && libraries < all,
            "{libraries} of {all}"
        );
    }
}
