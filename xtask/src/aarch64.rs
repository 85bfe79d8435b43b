//! The core as an aarch64 program: the workspace is compiled for it, and its suites run under
//! `qemu-user`.
//!
//! qemu runs the stores of one thread in the order of this machine. So a run tests layout, atomics
//! and system calls, but not weak memory order. `crates/olivine/model/axiomatic` checks that.

use crate::cargo::{cargo, tests};
use crate::child;
use crate::packages;
use crate::report::{Step, missing};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

const TARGET: &str = "--target aarch64-unknown-linux-gnu";
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";
/// What runs: unit tests of the core, and the suites that need no network and no namespaces.
const SUITES: &str = "--lib --test basics --test channel --test fork --test topics --test waiting";

/// Checks the whole workspace for the target, then runs the suites.
///
/// # Errors
///
/// Compile errors, or a missing tool.
pub(crate) fn run() -> Result<Step> {
    packages::program(&["aarch64-linux-gnu-gcc"], "gcc-aarch64-linux-gnu")?;
    packages::program(&["qemu-aarch64"], "qemu-user")?;
    let library = "libc6-dev-arm64-cross";
    let there =
        Path::new(LIBRARIES).join("lib/libc.so.6").exists() || packages::install(&[library]);
    ensure!(
        there,
        missing(format!(
            "no C library for it; run `apt-get install {library}`"
        ))
    );
    let add = TARGET.replace("--target", "target add");
    let added = child::said(Command::new("rustup").args(add.split(' ')), 10);
    ensure!(
        added.is_ok(),
        missing(format!("no standard library for it; run `rustup {add}`"))
    );
    let cross = |words: String| {
        let mut command = cargo();
        let linker = "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER";
        command
            .env(linker, "aarch64-linux-gnu-gcc")
            .args(words.split(' '));
        command
    };
    let features = "--features olivine/nats,olivine/zstd,olivine/points";
    child::said(
        &mut cross(format!("check --workspace {TARGET} {features}")),
        60,
    )?;
    let mut command = cross(format!(
        "test --package olivine {TARGET} {SUITES} --no-fail-fast"
    ));
    let runner = format!("qemu-aarch64 -L {LIBRARIES}");
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    // Programs that a test starts need the runner, too: the kernel cannot run them.
    command.env("OLIVINE_TEST_RUNNER", "qemu-aarch64");
    let mut step = tests(command.env("QEMU_LD_PREFIX", LIBRARIES), 30)?;
    step.note = format!("workspace compiles; under qemu-user: {}", step.note);
    Ok(step)
}
