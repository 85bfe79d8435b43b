//! The core as an aarch64 program: the workspace is compiled for it, and its suites run under `qemu-user`.
//!
//! qemu runs one thread's stores in the order of this machine: a run shows layout, atomics and system calls, no weak
//! order. That part is shown by `crates/olivine/model/axiomatic`.

use crate::cargo::{TestOutput, at_most, cargo};
use crate::child;
use crate::packages::{self, Missing};
use crate::report::Step;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
const BUILD_LIMIT: Duration = Duration::from_secs(3600);
const RUN_LIMIT: Duration = Duration::from_secs(1800);
const LOOK_LIMIT: Duration = Duration::from_secs(600);
const FEATURES: &str = "olivine/zstd,olivine/points";
/// What runs: unit tests of the core, and the suites that need no network and no namespaces.
const SUITES: [&str; 5] = ["basics", "channel", "fork", "topics", "waiting"];

/// Checks the whole workspace for the target, then runs the suites.
///
/// # Errors
///
/// A child that cannot be started.
pub(crate) fn run() -> Result<Step> {
    if let Some(missing) = missing() {
        println!("skipped: {missing}");
        return Ok(Step::skipped("aarch64", missing));
    }
    let mut check = cross();
    check.args([
        "check",
        "--workspace",
        "--target",
        TARGET,
        "--features",
        FEATURES,
    ]);
    let (outcome, text) = child::capture(&mut check, at_most(BUILD_LIMIT))?;
    if !outcome.success() {
        println!("{text}");
        return Ok(Step::single(
            "aarch64",
            false,
            "the workspace does not compile for it",
        ));
    }
    let mut tests = cross();
    let runner = format!("qemu-aarch64 -L {LIBRARIES}");
    tests
        .args([
            "test",
            "--package",
            "olivine",
            "--target",
            TARGET,
            "--lib",
            "--no-fail-fast",
        ])
        .args(SUITES.iter().flat_map(|suite| ["--test", *suite]))
        .env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner)
        // Other programs that a test starts need the runner as well: the kernel knows no such program.
        .env("OLIVINE_TEST_RUNNER", "qemu-aarch64")
        .env("QEMU_LD_PREFIX", LIBRARIES);
    let mut output = TestOutput::default();
    let outcome = child::stream(&mut tests, at_most(RUN_LIMIT), |line| output.line(line))?;
    let mut step = output.step("aarch64", outcome.success(), &outcome.words());
    step.note = format!("workspace compiles; under qemu-user: {}", step.note);
    Ok(step)
}

/// Cargo with the distribution's cross compiler.
fn cross() -> Command {
    let mut command = cargo();
    let linker = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER";
    command.env(linker, "aarch64-linux-gnu-gcc");
    command
}

/// What is missing, after trying to install it.
fn missing() -> Option<String> {
    for (program, package) in [
        ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
        ("qemu-aarch64", "qemu-user"),
    ] {
        if packages::program(&[program], package, Missing::Install).is_none() {
            return Some(format!(
                "{program} is missing; run `apt-get install {package}`"
            ));
        }
    }
    let library = "libc6-dev-arm64-cross";
    if !Path::new(LIBRARIES).join("lib/libc.so.6").exists() && !packages::install(&[library]) {
        return Some(format!(
            "the C library for it is missing; run `apt-get install {library}`"
        ));
    }
    let mut add = Command::new("rustup");
    let added = child::capture(add.args(["target", "add", TARGET]), at_most(LOOK_LIMIT));
    (!added.is_ok_and(|(outcome, _)| outcome.success())).then(|| {
        format!("the standard library for it is missing; run `rustup target add {TARGET}`")
    })
}
