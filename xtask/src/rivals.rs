//! Other people's libraries for the benchmark: builds what can be built here, and says why the rest cannot.
//!
//! Each rival is a package of the workspace in `rivals/`, built on its own, so that one that cannot be built
//! takes nobody with it.

use crate::cargo::{at_most, cargo, root, target};
use crate::child::{self, Line};
use crate::packages;
use crate::report::{Report, Step};
use anyhow::{Context, Result};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest build of one rival: Aeron takes half an hour where others build as well.
const LIMIT: Duration = Duration::from_secs(3600);

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
/// Rivals that need a newer CMake than distributions have, and which.
const CMAKE: &[(&str, (u32, u32))] = &[("aeron", (3, 30))];
/// What is installed for them, into a folder of its own.
const CMAKE_PACKAGE: &str = "cmake<4";
/// Lines of a reason.
const REASONS_MAX: usize = 3;
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

/// Builds every rival. One that cannot be built here is counted as skipped, with the reason; one whose own few lines do
/// not compile has failed.
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

/// Major and minor number in what `cmake --version` says.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.lines().next()?.split(' ').next_back()?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The CMake to build a rival with, where that of the system is too old and Python can fetch one.
fn cmake(name: &str) -> Option<PathBuf> {
    let (_, needed) = CMAKE.iter().find(|(rival, _)| *rival == name)?;
    let is_new = |program: &Path| {
        let told = Command::new(program).arg("--version").output();
        told.is_ok_and(|told| version(&String::from_utf8_lossy(&told.stdout)) >= Some(*needed))
    };
    if is_new(Path::new("cmake")) {
        return None;
    }
    let folder = target().join("cmake");
    let own = folder.join("bin/cmake");
    if !is_new(&own) {
        println!("fetching a newer CMake");
        let fetched = [
            (
                "python3".into(),
                vec!["-m".into(), "venv".into(), folder.clone().into_os_string()],
            ),
            (
                folder.join("bin/pip"),
                vec!["-q".into(), "install".into(), OsString::from(CMAKE_PACKAGE)],
            ),
        ]
        .into_iter()
        .all(|(program, words): (PathBuf, Vec<OsString>)| {
            let mut command = Command::new(program);
            child::capture(command.args(words), at_most(LIMIT))
                .is_ok_and(|(outcome, _)| outcome.success())
        });
        if !fetched {
            println!("no newer CMake than that of the system");
            return None;
        }
    }
    Some(own)
}

fn build(name: &str) -> Result<Step> {
    let missing = missing(name);
    let mut reasons: Vec<String> = Vec::new();
    let mut explained = false;
    let mut is_ours = false;
    let mut command = cargo();
    command
        .args(["build", "--release", "--locked", "--package"])
        .arg(format!("rival-{name}"))
        .current_dir(folder())
        .env("CARGO_TARGET_DIR", folder().join("target"));
    if let Some(cmake) = cmake(name) {
        command.env("CMAKE", cmake);
    }
    let outcome = child::stream(&mut command, at_most(LIMIT), |line| {
        let line = line.trim();
        is_ours |= line.starts_with(&format!("error: could not compile `rival-{name}`"));
        // What a build script ran says more than that the script failed.
        let is_cause = line.starts_with("CMake Error");
        if (reasons.is_empty() && is_reason(line)) || (explained && !line.is_empty()) || is_cause {
            reasons.push(line.to_owned());
        }
        explained = is_cause || (explained && line.is_empty());
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
    reasons.truncate(REASONS_MAX);
    let mut reason = reasons.join(" ");
    if reason.is_empty() {
        reason = outcome.words();
    }
    if !missing.is_empty() {
        reason.push_str(&format!(" (apt-get install {})", missing.join(" ")));
    }
    if reason.contains("--locked") {
        reason.push_str(&format!(" ({RELOCK})"));
    }
    let reason = format!("cannot be built: {reason}");
    Ok(if is_ours {
        Step::single(name, false, reason)
    } else {
        Step::skipped(name, reason)
    })
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

    /// What a package always needs, by its manifest: names in `[dependencies]` that are not optional.
    fn needs(package: &str) -> Vec<String> {
        let path = root().join("crates").join(package).join("Cargo.toml");
        let manifest = std::fs::read_to_string(path).unwrap();
        let (_, list) = manifest.split_once("\n[dependencies]\n").unwrap();
        let list = list.split("\n[").next().unwrap_or_default();
        let always = list
            .lines()
            .filter(|line| line.contains('=') && !line.contains("optional"));
        let name = |line: &str| {
            line.split(['.', ' ', '='])
                .next()
                .unwrap_or_default()
                .to_owned()
        };
        always.map(name).collect()
    }

    #[test]
    fn the_lock_file_fits_what_the_harness_needs() {
        let theirs = std::fs::read_to_string(folder().join("Cargo.lock")).unwrap();
        let mut checked = 0;
        for package in ["olivine", "olivine-net", "olivine-bench"] {
            let locked = depends(&theirs, package);
            for name in needs(package) {
                assert!(
                    locked.contains(&name),
                    "{package} needs {name}, which is not locked: {RELOCK}"
                );
                checked += 1;
            }
        }
        assert!(checked > 15, "{checked}");
    }

    #[test]
    fn versions_are_compared_by_number() {
        assert_eq!(
            version("cmake version 3.25.1\n\nCMake suite"),
            Some((3, 25))
        );
        assert!(version("cmake version 3.30.0") > version("cmake version 3.9.6"));
        assert_eq!(version(""), None);
        for (rival, _) in CMAKE {
            assert!(NEEDS.iter().any(|(name, _)| name == rival), "{rival}");
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
