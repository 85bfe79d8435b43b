//! Other people's libraries for the benchmark: builds what can be built here, and says why the rest cannot.
//!
//! Each rival is a package of the workspace in `rivals/`, built on its own, so that one that cannot be built
//! takes nobody with it.

use crate::cargo::{at_most, cargo, root};
use crate::child::{self, Line};
use crate::packages;
use crate::report::{Report, Step};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Longest build of one rival.
const LIMIT: Duration = Duration::from_secs(1800);

/// Packages of Debian that a rival needs beside its crates. They are installed where we may.
const NEEDS: &[(&str, &[&str])] = &[
    (
        "aeron",
        &["cmake", "g++", "libbsd-dev", "libclang-dev", "uuid-dev"],
    ),
    ("iceoryx2", &["libclang-dev"]),
    ("nng", &["cmake"]),
    ("zeromq", &["g++"]),
];
/// How the lock file is brought in step.
const RELOCK: &str = "cargo update --workspace --manifest-path rivals/Cargo.toml";

fn folder() -> PathBuf {
    root().join("rivals")
}

/// The rivals' names: the folders with a manifest.
fn names() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder()).context("cannot read rivals/")? {
        let path = entry?.path();
        // A workspace of its own holds servers for `olivine bench http`, built by its own script.
        if path.join("Cargo.toml").is_file() && !path.join("Cargo.lock").is_file() {
            names.extend(
                path.file_name()
                    .map(|name| name.to_string_lossy().into_owned()),
            );
        }
    }
    names.sort();
    Ok(names)
}

/// Builds every rival. One that cannot be built is counted as skipped, with the reason.
pub(crate) fn run(report: &mut Report) {
    match names() {
        Ok(names) => {
            for name in names {
                report.run(&name, || build(&name));
            }
        }
        Err(error) => report.add(Step::single("rivals", false, format!("{error:#}"))),
    }
}

/// The packages that a rival needs and that are not there, after an attempt to install them.
fn missing(name: &str) -> Vec<&'static str> {
    let needs = NEEDS.iter().find(|(rival, _)| *rival == name);
    let all = needs.map_or(&[][..], |(_, packages)| packages);
    let mut missing = all.to_vec();
    missing.retain(|package| !packages::has(package));
    if !missing.is_empty() && packages::install(&missing) {
        missing.clear();
    }
    missing
}

fn build(name: &str) -> Result<Step> {
    let missing = missing(name);
    let mut reason = None;
    let mut command = cargo();
    command
        .args(["build", "--release", "--locked", "--package"])
        .arg(format!("rival-{name}"))
        .current_dir(folder())
        .env("CARGO_TARGET_DIR", folder().join("target"));
    let outcome = child::stream(&mut command, at_most(LIMIT), |line| {
        if reason.is_none() && is_reason(line) {
            reason = Some(line.trim().to_owned());
        }
        Line::Hide
    })?;
    if outcome.success() {
        let program = folder()
            .join("target/release")
            .join(format!("rival-{name}"));
        return Ok(Step::single(
            name,
            program.is_file(),
            program.display().to_string(),
        ));
    }
    let mut reason = reason.unwrap_or_else(|| outcome.words());
    if !missing.is_empty() {
        reason.push_str(&format!(" (apt-get install {})", missing.join(" ")));
    }
    if reason.contains("--locked") {
        reason.push_str(&format!(" ({RELOCK})"));
    }
    Ok(Step::skipped(name, format!("cannot be built: {reason}")))
}

/// Whether a line of cargo's says what is wrong.
fn is_reason(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("error") && !line.starts_with("error: could not compile")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rival_is_a_member_and_every_need_is_one_of_a_rival() {
        let names = names().unwrap();
        assert!(names.len() >= 10, "{names:?}");
        let manifest = std::fs::read_to_string(folder().join("Cargo.toml")).unwrap();
        for name in &names {
            assert!(
                manifest.contains(&format!("\"{name}\"")),
                "{name} is no member"
            );
        }
        for (rival, ..) in NEEDS {
            assert!(names.iter().any(|name| name == rival), "{rival}");
        }
    }

    /// Names of the packages that `package` depends on in a lock file, without versions.
    fn depends(lock: &str, package: &str) -> Vec<String> {
        let head = format!("[[package]]\nname = \"{package}\"\n");
        let (_, rest) = lock
            .split_once(&head)
            .unwrap_or_else(|| panic!("{package}"));
        let own = rest.split("[[package]]").next().unwrap_or_default();
        let (_, list) = own.split_once("dependencies = [").unwrap_or_default();
        let names = list.lines().filter_map(|line| {
            let name = line.trim().trim_matches([',', '"']);
            name.split(' ')
                .next()
                .filter(|name| !name.is_empty() && *name != "]")
        });
        names.map(str::to_owned).collect()
    }

    /// Only what its own tests need may differ: to the rivals the harness is a library.
    #[test]
    fn the_lock_file_fits_what_the_harness_needs() {
        let ours = std::fs::read_to_string(root().join("Cargo.lock")).unwrap();
        let theirs = std::fs::read_to_string(folder().join("Cargo.lock")).unwrap();
        let manifest = std::fs::read_to_string(root().join("crates/olivine-bench/Cargo.toml"));
        let manifest = manifest.unwrap();
        let (_, needs) = manifest.split_once("\n[dependencies]\n").unwrap();
        let needs = needs.split("\n[").next().unwrap_or_default();
        let locked = depends(&theirs, "olivine-bench");
        let mut checked = 0;
        for line in needs.lines() {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            assert!(
                locked.iter().any(|one| one == name),
                "{name} is not locked: {RELOCK}"
            );
            checked += 1;
        }
        assert!(checked > 5, "{needs}");
        for package in ["olivine", "olivine-net"] {
            let known = depends(&ours, package);
            for name in depends(&theirs, package) {
                assert!(
                    known.contains(&name),
                    "{package} needs {name} no more: {RELOCK}"
                );
            }
        }
    }

    #[test]
    fn the_reason_is_the_first_error_that_says_something() {
        assert!(is_reason(
            "error: failed to run custom build command for `zmq-sys`"
        ));
        assert!(is_reason("error[E0308]: mismatched types"));
        assert!(!is_reason(
            "error: could not compile `x` (lib) due to 1 previous error"
        ));
        assert!(!is_reason("   Compiling error-code v1.0.0"));
    }
}
