//! Other libraries for the benchmark: builds those that can be built here, and reports why the rest
//! cannot.
//!
//! Each rival is a feature and a program of the package in `rivals/`, built separately.

use crate::cargo::{cargo, root, target};
use crate::child;
use crate::report::{Report, Step};
use crate::tools;
use anyhow::{Context as _, Result, ensure};
use std::env;
use std::fs;
use std::path::PathBuf;

/// Debian packages that a rival needs besides its crates. They are installed if permitted.
const NEEDS: &[(&str, &str)] = &[
    ("aeron", "cmake g++ libbsd-dev libclang-dev uuid-dev"),
    ("iceoryx2", "libclang-dev"),
    ("nng", "cmake"),
    ("readerwriterqueue", "clang-19 libreaderwriterqueue-dev"),
    ("tachyon", "clang-19"),
    ("zeromq", "g++"),
];
/// Rivals in C++ that an older default compiler does not build, or that are inlined into Rust.
const CLANG: &[&str] = &["readerwriterqueue", "tachyon"];
/// A queue of headers only, which programs in C++ inline: without, a message costs three calls.
const INLINED: &str = "readerwriterqueue";
/// The rival that needs a newer CMake than distributions have, and its Python package.
const CMAKE: (&str, &str) = ("aeron", "cmake>=3.30,<4");
/// Updates the lock file.
const RELOCK: &str = "cargo update --workspace --manifest-path rivals/Cargo.toml";

fn folder() -> PathBuf {
    root().join("rivals")
}

/// The rivals' names: the features of their package.
fn names() -> Result<Vec<String>> {
    let manifest: toml::Table = fs::read_to_string(folder().join("Cargo.toml"))?.parse()?;
    let features = manifest["features"]
        .as_table()
        .context("rivals/Cargo.toml has no features")?;
    Ok(features.keys().cloned().collect())
}

/// Builds every rival. An unbuildable one is skipped with the reason; an error in our
/// code is a failure.
pub(crate) fn run(report: &mut Report) {
    each(report, build);
}

/// Checks that every rival, and the HTTP servers to compare with, compile; skips as [`run`].
pub(crate) fn check(report: &mut Report) {
    each(report, |name| {
        compile(name, &["check"])?;
        Ok(Step::single(true, "compiles"))
    });
    report.run("http servers", || {
        let mut command = cargo();
        command
            .args(["check", "--locked", "--manifest-path"])
            .arg(folder().join("http/Cargo.toml"))
            .env("CARGO_TARGET_DIR", folder().join("target"));
        child::said(&mut command, 60)?;
        Ok(Step::single(true, "compiles"))
    });
}

fn each(report: &mut Report, body: impl Fn(&str) -> Result<Step>) {
    match names() {
        Ok(names) => names
            .iter()
            .for_each(|name| report.run(name, || body(name))),
        Err(error) => report.add(Step::broken(&error).called("rivals")),
    }
}

/// The missing packages of a rival, after an attempt to install them.
fn missing(name: &str) -> Vec<&'static str> {
    let needs = NEEDS.iter().find(|(rival, _)| *rival == name);
    let mut missing: Vec<_> = needs
        .map_or("", |(_, packages)| packages)
        .split_whitespace()
        .collect();
    missing.retain(|package| !tools::has(package));
    if !missing.is_empty() && tools::install(&missing) {
        missing.clear();
    }
    missing
}

/// The CMake for a rival that the system's does not build, if Python can fetch it.
fn cmake(name: &str) -> Option<PathBuf> {
    let (rival, package) = CMAKE;
    let folder = target().join("cmake");
    let own = folder.join("bin/cmake");
    if name == rival && !own.is_file() {
        println!("fetching {package}");
        if let Err(error) = tools::venv(&folder, &[package]) {
            println!("no newer CMake than that of the system: {error:#}");
        }
    }
    (name == rival && own.is_file()).then_some(own)
}

fn build(name: &str) -> Result<Step> {
    compile(name, &["build", "--release"])?;
    let program = folder().join(format!("target/release/rival-{name}"));
    Ok(Step::single(
        program.is_file(),
        program.display().to_string(),
    ))
}

/// Runs `cargo` with `words` for one rival.
fn compile(name: &str, words: &[&str]) -> Result<()> {
    let missing = missing(name);
    let mut command = cargo();
    command
        .args(words)
        .args([
            "--locked",
            "--features",
            name,
            "--bin",
            &format!("rival-{name}"),
        ])
        .current_dir(folder())
        .env("CARGO_TARGET_DIR", folder().join("target"));
    if let Some(cmake) = cmake(name) {
        command.env("CMAKE", cmake);
    }
    if CLANG.contains(&name) {
        command.env("CC", "clang-19").env("CXX", "clang++-19");
    }
    // Elsewhere the linker of Rust does not read what this compiler writes.
    if name == INLINED && cfg!(target_arch = "x86_64") {
        let flags = env::var("RUSTFLAGS").unwrap_or_default();
        command
            .env("CXXFLAGS", "-flto=thin")
            .env("RUSTFLAGS", format!("{flags} -Clinker-plugin-lto"));
    }
    let (outcome, said) = child::capture(&mut command, 60)?;
    if outcome.success() {
        return Ok(());
    }
    let mut reason = tools::reason(&said).unwrap_or_else(|| outcome.words());
    if !missing.is_empty() {
        reason.push_str(&format!(" (apt-get install {})", missing.join(" ")));
    }
    if reason.contains("--locked") {
        reason.push_str(&format!(" ({RELOCK})"));
    }
    let reason = format!("cannot be built: {reason}");
    let is_ours = said.contains("error: could not compile `rivals`");
    ensure!(!is_ours, reason);
    Err(crate::report::missing(reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> toml::Table {
        let text = fs::read_to_string(root().join(path)).unwrap();
        text.parse().unwrap()
    }

    #[test]
    fn every_rival_has_a_program_and_every_need_is_one_of_a_rival() {
        let (names, manifest) = (names().unwrap(), read("rivals/Cargo.toml"));
        assert!(names.len() >= 10, "{names:?}");
        let bins = manifest["bin"].as_array().unwrap();
        let programs: Vec<_> = bins.iter().filter_map(|bin| bin["name"].as_str()).collect();
        assert_eq!(programs.len(), names.len());
        for name in &names {
            assert!(programs.contains(&&*format!("rival-{name}")), "{name}");
        }
        let needs = NEEDS.iter().map(|(rival, _)| *rival);
        for rival in needs.chain(CLANG.iter().copied()).chain([CMAKE.0, INLINED]) {
            assert!(names.iter().any(|name| name == rival), "{rival}");
        }
    }

    /// The permanent dependencies of the harness are also locked for the rivals.
    #[test]
    fn the_lock_file_fits_what_the_harness_needs() {
        let lock = read("rivals/Cargo.lock");
        let mut packages = lock["package"].as_array().unwrap().iter();
        let locked = packages.find(|package| package["name"].as_str() == Some("olivine-arena"));
        let locked = locked.unwrap()["dependencies"].as_array().unwrap().iter();
        let locked = locked.filter_map(|name| name.as_str()?.split(' ').next());
        let locked: Vec<_> = locked.collect();
        let manifest = read("crates/olivine-arena/Cargo.toml");
        let mut needs = manifest["dependencies"].as_table().unwrap().clone();
        needs.retain(|_, need| need.get("optional").is_none());
        assert!(needs.len() > 4, "{needs:?}");
        for name in needs.keys() {
            assert!(locked.contains(&name.as_str()), "it needs {name}: {RELOCK}");
        }
    }
}
