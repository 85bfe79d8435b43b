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
    by_cmake(&prefix, Missing::Install)
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
    let said = |command: &mut Command| {
        let (outcome, said) = child::capture(command, at_most(LIMIT))?;
        ensure!(
            outcome.success(),
            "{command:?}: {}: {said}",
            outcome.words()
        );
        Ok(said)
    };
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
