//! `test`: what the README's test command runs. `ci`: the same and more.

use crate::cargo::{FEATURES, TestOutput, alone, cargo, root, suite, target, tests};
use crate::child;
use crate::report::{Report, Step};
use crate::{install, model, programs, tidy, tools};
use anyhow::Result;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

/// Additional features of a second run of the core's tests: compressed blocks, and named points of
/// death and of lost wake-ups. For the whole workspace, because otherwise the dependencies would be
/// built again.
const MORE_FEATURES: &str =
    "--workspace --features olivine/nats,olivine/tls,olivine/zstd,olivine/points";

/// Journals with compressed blocks.
const COMPRESSED: &str = "--test journals --no-fail-fast";

/// Deaths and panics at named points.
const POINTS: &str = "--test death --test kills_elsewhere --test panics named_point -- --nocapture \
                      --test-threads=1";

/// Naps that no time ends, so a lost wake-up is a hang. Whole programs: these tests have no common
/// word in their names.
const ENDLESS_NAPS: &str = "--test idle --test waiting --no-fail-fast -- --test-threads=1";

/// Programs and packages for the tests of the C interface.
const COMPILERS: [(&str, &str); 4] = [
    ("cc", "gcc"),
    ("c++", "g++"),
    ("cmake", "cmake"),
    ("pkg-config", "pkg-config"),
];

/// Every check that needs only Rust, a C compiler and Python.
pub(crate) fn test(report: &mut Report, mutants: bool) {
    // Cheap ones first: they fail within a second.
    report.run("tidy", tidy::run);
    side_by_side(report, ordinary, |report| {
        models(report, mutants);
        more_features(report);
    });
}

/// The checks of a change before it is merged.
pub(crate) fn ci(report: &mut Report) {
    report.run("lock", || {
        // The lock file fits the manifests.
        let mut step = Step::new("packages");
        step.passed = packages(root())?;
        Ok(step)
    });
    report.run("fmt", || judge("fmt --all --check", ""));
    report.run("tidy", tidy::run);
    let main = |report: &mut Report| {
        let clippy =
            format!("clippy --workspace --features {FEATURES} --all-targets -- -D warnings");
        report.run("clippy", || judge(&clippy, ""));
        // Libraries only: the tool has the library's name, and both would go to one folder.
        report.run("docs", || {
            let docs = format!("doc --workspace --features {FEATURES} --no-deps --lib");
            judge(&docs, "-D warnings")
        });
        ordinary(report);
    };
    side_by_side(report, main, |report| {
        report.run("deny", deny);
        // The protocol model changes with one file, and other features take another build: `test`
        // and `ci --deep` run both.
        models_of_code(report, true);
    });
}

/// Runs `main`, and in parallel `other`, which builds in another folder: neither waits for the
/// other's locks, and one uses the processors while the other's tests wait. Reports `main` first.
fn side_by_side(
    report: &mut Report,
    main: impl FnOnce(&mut Report),
    other: impl FnOnce(&mut Report) + Send,
) {
    let mut beside = report.beside();
    thread::scope(|scope| {
        let beside = scope.spawn(|| {
            other(&mut beside);
            beside
        });
        main(report);
        match beside.join() {
            Ok(other) => report.append(other),
            Err(_) => report.add(Step::single(false, "it panicked").called("models")),
        }
    });
}

/// All tests with the usual features, except the models.
fn ordinary(report: &mut Report) {
    // The tests start it.
    report.run("nats-server", || {
        Ok(Step::single(true, tools::nats_server()?))
    });
    report.run("compilers", || Ok(tools::each(&COMPILERS)));
    report.run("python", || Ok(Step::single(true, tools::python()?)));
    report.run("tests", programs::run_all);
}

/// The tests that need [`MORE_FEATURES`]. Their build waits for that of the others, so they come
/// last beside them.
fn more_features(report: &mut Report) {
    report.run("zstd", || {
        suite(&format!("{MORE_FEATURES} {COMPRESSED}"), "")
    });
    report.run("points", || suite(&format!("{MORE_FEATURES} {POINTS}"), ""));
    report.run("naps", || {
        suite(&format!("{MORE_FEATURES} {ENDLESS_NAPS}"), "")
    });
}

/// Builds the C library with these features, installs it below `prefix`, and tests what is there.
pub(crate) fn install(report: &mut Report, prefix: &Path, features: &str) {
    report.run("capi", || {
        // A build of the crate's rlib as well would not be optimised as a whole.
        let words = "rustc --profile dist --package olivine-capi --lib --crate-type \
                     cdylib,staticlib";
        let mut build = cargo();
        build.args(words.split(' ')).args(["--features", features]);
        child::said(&mut build, 15)?;
        let mut step = Step::new("files");
        let source = root().join("crates/olivine-capi");
        step.passed = install::place(&source, &target().join("dist"), prefix)?;
        step.note = prefix.display().to_string();
        Ok(step)
    });
    report.run("cmake", || {
        tools::each(&COMPILERS);
        let prefix = fs::canonicalize(prefix)?;
        let set = format!("OLIVINE_PREFIX={}", prefix.display());
        alone("olivine-capi --test programs install::", &set)
    });
}

/// The models, and on request the mutants of the core and those of the protocol model.
pub(crate) fn models(report: &mut Report, mutants: bool) {
    models_of_code(report, mutants);
    report.run("spin", || {
        tools::program(&["spin"], "spin")?;
        model_tests(if mutants {
            "spin"
        } else {
            "spin model_holds_in_every_channel"
        })
    });
}

/// The models that compile or name lines of the core.
fn models_of_code(report: &mut Report, mutants: bool) {
    if report.is_chosen("model") {
        model::run(report, mutants);
    }
    report.run("axiomatic", || model_tests("axiomatic"));
}

/// The test program of a model.
fn model_tests(test: &str) -> Result<Step> {
    // The features of the other tests: with others the dependencies would be built again.
    let words = format!("test --workspace --features {FEATURES} --test {test}");
    let mut command = cargo();
    command.args(words.split(' '));
    tests(command.args(["--", "--nocapture", "--test-threads=1"]), 60)
}

/// Number of packages in the workspace of `folder`. Fails if its lock file would have to change.
fn packages(folder: &Path) -> Result<usize> {
    // `cargo metadata --no-deps` would not read the lock file.
    let words = "tree --locked --workspace --depth 0 --edges normal --prefix none";
    let said = child::output(cargo().args(words.split(' ')).current_dir(folder))?;
    Ok(said.lines().filter(|line| !line.is_empty()).count())
}

/// Licences, sources, duplicates and advisories of all dependencies (`deny.toml`).
fn deny() -> Result<Step> {
    let tool = tools::installed("cargo-deny", "0.20.2", &["--no-default-features"])?;
    let mut step = Step::new("checks");
    for check in ["bans", "licenses", "sources", "advisories"] {
        let words = "--color never --log-level error check --hide-inclusion-graph";
        let mut command = Command::new(&tool);
        command
            .current_dir(root())
            .args(words.split(' '))
            .arg(check);
        let (outcome, text) = child::capture(&mut command, 10)?;
        if !outcome.success() && is_without_database(&text) {
            step.skipped += 1;
            step.note = "advisories skipped: their database cannot be reached".to_owned();
            continue;
        }
        step.count(outcome.success());
        if !outcome.success() {
            println!("{check}: {}\n{text}", outcome.words());
        }
    }
    Ok(step)
}

/// The other checks need only the lock file and the crates.
fn is_without_database(text: &str) -> bool {
    text.contains("failed to fetch advisory database") || text.contains("failed to open advisory")
}

/// Runs a cargo command on the workspace; counts the packages.
fn judge(words: &str, documentation: &str) -> Result<Step> {
    let (mut output, mut command) = (TestOutput::default(), cargo());
    command.args(words.split_whitespace());
    if !documentation.is_empty() {
        command.env("RUSTDOCFLAGS", documentation);
    }
    let outcome = child::stream(&mut command, 30, |line| output.line(line))?;
    let mut step = Step::new("packages");
    if outcome.success() {
        step.passed = packages(root())?;
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
    fn lock_file_that_does_not_fit_the_manifest_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let package = |name: &str| format!("package]\nname = \"{name}\"\nversion = \"1.0.0\"\n");
        write("src/lib.rs", "");
        write("Cargo.toml", &format!("[{}", package("a")));
        write(
            "Cargo.lock",
            &format!("version = 4\n\n[[{}", package("a").replace("e]", "e]]")),
        );
        assert_eq!(packages(folder.path()).unwrap(), 1);
        write("b/src/lib.rs", "");
        write("b/Cargo.toml", &format!("[{}", package("b")));
        let more = "[dependencies]\nb.path = \"b\"\n";
        write("Cargo.toml", &format!("[{}{more}", package("a")));
        let error = packages(folder.path()).unwrap_err().to_string();
        assert!(error.contains("--locked"), "{error}");
    }

    #[test]
    fn a_cargo_command_that_fails_fails_its_step() {
        let step = judge("no-such-command", "").unwrap();
        assert_eq!((step.passed, step.failed), (0, 1));
    }

    /// The ordinary run builds without the feature, so it does not have these tests.
    #[test]
    fn each_program_with_tests_of_points_is_run_with_them() {
        let folder = root().join("crates/olivine/tests");
        let has = |path: &Path| {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.contains("feature = \"points\"")
        };
        let mut found = 0;
        for entry in fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            let parts = fs::read_dir(&path).into_iter().flatten().flatten();
            if has(&path) || parts.map(|part| part.path()).any(|part| has(&part)) {
                let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                let option = format!("--test {name} ");
                assert!(
                    [POINTS, ENDLESS_NAPS]
                        .iter()
                        .any(|words| words.contains(&option)),
                    "{name}"
                );
                found += 1;
            }
        }
        assert!(found >= 4, "{found}");
    }

    /// Cargo would build the tool for them, without the features that its own tests run it with.
    #[test]
    fn no_program_with_more_features_is_a_test_of_the_tool() {
        let tool = root().join("crates/olivine-cli/tests");
        let words = [COMPRESSED, POINTS, ENDLESS_NAPS].join(" ");
        let programs = words.split("--test ").skip(1);
        let mut found = 0;
        for program in programs.filter_map(|rest| rest.split_whitespace().next()) {
            let clash = [tool.join(program), tool.join(format!("{program}.rs"))];
            assert!(!clash.iter().any(|path| path.exists()), "{program}");
            found += 1;
        }
        assert!(found >= 6, "{found}");
    }

    #[test]
    fn only_a_missing_database_is_excused() {
        assert!(is_without_database(
            "error[fetch]: failed to fetch advisory database https://…"
        ));
        assert!(!is_without_database(
            "error[vulnerability]: a crate with a hole"
        ));
    }
}
