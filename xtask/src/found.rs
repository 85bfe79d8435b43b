//! Whether the installed library is found by those who look for it: CMake's `find_package`, and `pkg-config`.

use crate::bindings;
use crate::cargo::{at_most, root, target};
use crate::child;
use crate::packages::{self, Missing};
use crate::report::Step;
use anyhow::{Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(480);
/// What `tests/cmake` compiles and runs.
const PROGRAMS: usize = 3;

/// The library of this build, installed into a folder, moved to another, and looked for there.
pub(crate) fn built() -> Result<Step> {
    let folder = tempfile::tempdir()?;
    let (first, prefix) = (folder.path().join("first"), folder.path().join("prefix"));
    bindings::place(&target().join("debug"), &first)?;
    fs::rename(first, &prefix)?;
    let mut step = by_cmake(&prefix, Missing::Install)?;
    step.passed += by_pkg_config(&prefix)?;
    Ok(step)
}

/// Builds a program with what `pkg-config` says of the library below `prefix`, and runs it; how many programs that were.
fn by_pkg_config(prefix: &Path) -> Result<usize> {
    let tool = packages::program(&["pkg-config", "pkgconf"], "pkg-config", Missing::Install);
    let compiler = packages::program(&["cc"], "none", Missing::LeaveOut);
    let (Some(tool), Some(compiler)) = (tool, compiler) else {
        println!("skipped: no pkg-config or no cc, so nobody looked whether olivine.pc is right");
        return Ok(0);
    };
    let mut ask = Command::new(tool);
    ask.args(["--cflags", "--libs", "olivine"])
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let words = said(&mut ask)?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("refuse");
    let mut compile = Command::new(compiler);
    compile
        .arg(root().join("crates/olivine-capi/tests/programs/refuse.c"))
        .args(words.split_whitespace())
        .arg("-o")
        .arg(&program);
    said(&mut compile)?;
    said(Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")))?;
    Ok(1)
}

/// What `command` printed.
///
/// # Errors
///
/// If it failed, with that.
fn said(command: &mut Command) -> Result<String> {
    let (outcome, said) = child::capture(command, at_most(LIMIT))?;
    ensure!(
        outcome.success(),
        "{command:?}: {}: {said}",
        outcome.words()
    );
    Ok(said)
}

/// Builds a project with CMake that finds the library below `prefix`, and runs its programs.
///
/// # Errors
///
/// What could not be found, built or run, with what was said about it.
pub(crate) fn by_cmake(prefix: &Path, missing: Missing) -> Result<Step> {
    let Some(cmake) = packages::program(&["cmake"], "cmake", missing) else {
        let why = "no cmake, so nobody looked whether it finds the library";
        println!("skipped: {why}");
        return Ok(Step::skipped("cmake", why));
    };
    for compiler in ["cc", "c++"] {
        if packages::program(&[compiler], "none", Missing::LeaveOut).is_none() {
            let why = format!("no {compiler}, so no project of CMake was built");
            println!("skipped: {why}");
            return Ok(Step::skipped("cmake", why));
        }
    }
    // CMake takes what is relative to be so from the project's folder.
    let prefix = fs::canonicalize(prefix)?;
    let folder = tempfile::tempdir()?;
    let mut configure = Command::new(&cmake);
    configure
        .arg("-S")
        .arg(root().join("crates/olivine-capi/tests/cmake"))
        .arg("-B")
        .arg(folder.path())
        .arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    said(&mut configure)?;
    said(Command::new(&cmake).arg("--build").arg(folder.path()))?;
    let mut run = Command::new(cmake.with_file_name("ctest"));
    run.arg("--output-on-failure").current_dir(folder.path());
    let ran = said(&mut run)?;
    let all = format!("100% tests passed, 0 tests failed out of {PROGRAMS}");
    ensure!(ran.contains(&all), "not all programs ran: {ran}");
    let mut step = Step::new("cmake", "programs");
    step.passed = PROGRAMS;
    Ok(step)
}
