//! Other people's libraries for the benchmark: builds what can be built here, and says why the rest cannot.
//!
//! Each rival is a package of the workspace in `rivals/`, built on its own, so that one that cannot be built
//! takes nobody with it.

use crate::cargo::{at_most, cargo, root};
use crate::child::{self, Line};
use crate::report::{Report, Step};
use anyhow::{Context, Result};
use std::path::PathBuf;
use std::time::Duration;

/// Longest build of one rival.
const LIMIT: Duration = Duration::from_secs(1800);

/// What a rival needs beside its crates, and how it is had on Debian.
const NEEDS: &[(&str, &str, &str)] = &[
    ("zeromq", "libzmq", "apt-get install libzmq3-dev"),
    ("nng", "cmake", "apt-get install cmake"),
];

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

fn build(name: &str) -> Result<Step> {
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
    let reason = reason.unwrap_or_else(|| outcome.words());
    let need = NEEDS.iter().find(|(rival, ..)| *rival == name);
    let need = need.map_or_else(String::new, |(_, what, how)| {
        format!(" (it needs {what}: {how})")
    });
    Ok(Step::skipped(
        name,
        format!("cannot be built: {reason}{need}"),
    ))
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
