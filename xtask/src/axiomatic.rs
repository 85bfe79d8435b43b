//! The edges under weak memory: `crates/olivine/model/axiomatic`, built by rustc alone and run.

use crate::cargo::{root, target, tests};
use crate::child;
use crate::report::Step;
use anyhow::Result;
use std::process::Command;

/// Enumerates every execution of every program.
///
/// # Errors
///
/// A program that does not build, or cannot be started.
pub(crate) fn run() -> Result<Step> {
    let (program, core) = (target().join("axiomatic"), root().join("crates/olivine"));
    std::fs::create_dir_all(target())?;
    // Built by rustc alone: the program has no dependencies, and needs no lock of cargo.
    let mut build = Command::new("rustc");
    build.args(["--edition", "2024", "-O", "-o"]).arg(&program);
    build.arg(core.join("model/axiomatic/main.rs"));
    build.env("CARGO_MANIFEST_DIR", core).current_dir(root());
    child::said(&mut build, 2)?;
    tests(&mut Command::new(&program), 10)
}
