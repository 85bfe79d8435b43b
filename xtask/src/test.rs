//! `test`: what the README's test command runs. `ci` and `deep`: the same and more.

use crate::cargo::{TestOutput, at_most, cargo};
use crate::child;
use crate::packages::Missing;
use crate::report::{Report, Step};
use crate::sanitize::{self, Sanitizer};
use crate::{
    again, browser, clients, death, deny, evidence, examples, fuzz, miri, model, nats, readme,
    spin, tidy,
};
use anyhow::Result;
use std::time::{Duration, Instant};

const TESTS_LIMIT: Duration = Duration::from_secs(1500);
const LINT_LIMIT: Duration = Duration::from_secs(900);
/// How many kills `deep` asks for.
const DEEP_KILLS: u64 = 200_000;
/// How many words each of its attacks overwrites: a thousand million in all.
const DEEP_WRITES: u64 = 150_000_000;
/// How long each of its fuzz targets runs.
const DEEP_FUZZ_S: u64 = 600;
/// How long its soak takes.
const DEEP_SOAK: Duration = Duration::from_secs(600);
/// How long each attack on a sealed channel lasts in `deep`.
const DEEP_SEALED: Duration = Duration::from_secs(60);
/// How many connections come and go in `deep`, on each back end.
const DEEP_CONNECTIONS: u32 = 100_000;
/// How often `deep` measures every built-in method in a row.
const DEEP_BENCHES: u32 = 20;
/// How many messages cross the bad wire of `deep`, and how long it is cut meanwhile.
const DEEP_WIRE: (u64, Duration) = (10_000_000, Duration::from_secs(60));

/// Every check that needs only Rust, a C compiler and Python.
pub(crate) fn test(report: &mut Report, mutants: bool, said: &mut Vec<String>) {
    // The cheap ones first: they fail within a second.
    report.run("tidy", tidy::run);
    // The tests start it.
    report.run("nats-server", nats::install);
    report.run("tests", workspace_tests);
    report.run("zstd", packed_journals);
    report.run("points", || death::points(&mut Vec::new()));
    models(report, mutants, said);
    report.run("examples", examples::run);
    report.run("clients", || clients::run(Missing::LeaveOut, false));
    report.run("readme", readme::run);
}

/// What a change must pass before it is merged.
pub(crate) fn ci(report: &mut Report) {
    report.run("lock", lock);
    report.run("fmt", || {
        cargo_check("fmt", &["fmt", "--all", "--check"], &[])
    });
    report.run("clippy", || {
        let arguments = [
            "clippy",
            "--workspace",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ];
        cargo_check("clippy", &arguments, &[])
    });
    report.run("docs", || {
        // Libraries only: the tool has the library's name, and both would go to one folder.
        let arguments = ["doc", "--workspace", "--no-deps", "--lib"];
        cargo_check("docs", &arguments, &[("RUSTDOCFLAGS", "-D warnings")])
    });
    report.run("deny", deny::run);
    test(report, true, &mut Vec::new());
}

/// Everything that takes longer.
pub(crate) fn deep(report: &mut Report, kills: u64, seed: Option<u64>, seeds: u32) {
    let started = Instant::now();
    let mut said = Vec::new();
    test(report, true, &mut said);
    report.run("miri", || miri::run(seeds, None));
    report.run("points", || death::points(&mut said));
    report.run("step", || death::every_step(&mut said));
    let seed = seed.unwrap_or_else(death::any_seed);
    report.run("crowd", || death::crowd(&mut said));
    sanitizers(report, &[]);
    report.run("hostile", || {
        sanitize::hostile(DEEP_WRITES, seed, &mut said)
    });
    fuzz::run(report, None, DEEP_FUZZ_S, &mut said);
    report.run("wire", || death::wire(DEEP_WIRE.0, DEEP_WIRE.1, &mut said));
    report.run("sealed", || death::sealed(DEEP_SEALED, &mut said));
    report.run("death", || death::run(kills, Some(seed), &mut said));
    report.run("soak", || death::soak(DEEP_SOAK, Some(seed), &mut said));
    report.run("again", || again::run(DEEP_BENCHES));
    report.run("browser", browser::run);
    report.run("clients", || clients::run(Missing::Install, true));
    report.run("churn", churn);
    let summary = report.text();
    report.run("evidence", || {
        let path = evidence::write(&summary, &said, started.elapsed())?;
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

/// The default of `deep --kills`.
pub(crate) fn deep_kills() -> u64 {
    DEEP_KILLS
}

/// The models, and their mutants where asked for.
pub(crate) fn models(report: &mut Report, mutants: bool, said: &mut Vec<String>) {
    println!("\n== model");
    match model::run(mutants, said) {
        Ok(steps) => steps.into_iter().for_each(|step| report.add(step)),
        Err(error) => {
            println!("error: {error:#}");
            report.add(Step::single("model", false, error.to_string()));
        }
    }
    report.run("spin", || spin::run(mutants, said));
}

fn workspace_tests() -> Result<Step> {
    cargo_test("tests", &["--workspace"])
}

/// The journal's tests once more, in a build that packs blocks.
fn packed_journals() -> Result<Step> {
    let tests = [
        "--test",
        "journal",
        "--test",
        "journal_damage",
        "--test",
        "file",
    ];
    let build = ["-p", "olivine", "--features", "zstd"];
    cargo_test("zstd", &[&build[..], &tests].concat())
}

fn cargo_test(name: &str, arguments: &[&str]) -> Result<Step> {
    let mut output = TestOutput::default();
    let mut command = cargo();
    command.args(["test", "--no-fail-fast"]).args(arguments);
    let outcome = child::stream(&mut command, at_most(TESTS_LIMIT), |line| output.line(line))?;
    Ok(output.step(name, outcome.success(), &outcome.words()))
}

/// Connections that come and go, so many that any leak shows.
fn churn() -> Result<Step> {
    let mut output = TestOutput::default();
    let mut command = cargo();
    command
        .args([
            "test",
            "--release",
            "--package",
            "olivine-net",
            "--test",
            "process",
        ])
        .args(["churn", "--", "--nocapture"])
        .env("OLIVINE_NET_CHURN", DEEP_CONNECTIONS.to_string());
    let outcome = child::stream(&mut command, at_most(TESTS_LIMIT), |line| output.line(line))?;
    Ok(output.step("churn", outcome.success(), &outcome.words()))
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
