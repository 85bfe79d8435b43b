//! Installing the library for C and C++, for compilers, CMake's `find_package` and `pkg-config`.

use crate::cargo::{cargo, root, target};
use crate::child;
use crate::packages;
use crate::report::Step;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::Command;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// What `tests/cmake` compiles and runs.
const PROGRAMS: usize = 3;

/// Builds the C library and installs it below `prefix`: `include`, `lib`, `lib/pkgconfig`,
/// `lib/cmake`.
pub(crate) fn install(prefix: &Path) -> Result<Step> {
    child::said(
        cargo().args(["build", "--release", "--package", "olivine-capi"]),
        15,
    )?;
    let mut step = Step::new("files");
    step.passed = place(&target().join("release"), prefix)?;
    step.note = prefix.display().to_string();
    Ok(step)
}

/// Copies the library of a build; returns the number of files.
fn place(built: &Path, prefix: &Path) -> Result<usize> {
    let (source, lib) = (root().join("crates/olivine-capi"), prefix.join("lib"));
    for folder in ["include", "lib/pkgconfig", "lib/cmake/olivine"] {
        let folder = prefix.join(folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    let shared = format!("libolivine.so.{VERSION}");
    let files = [
        (
            source.join("include/olivine.h"),
            prefix.join("include/olivine.h"),
        ),
        (
            source.join("include/olivine.hpp"),
            prefix.join("include/olivine.hpp"),
        ),
        (built.join("libolivine_capi.so"), lib.join(&shared)),
        (built.join("libolivine_capi.a"), lib.join("libolivine.a")),
    ];
    for (from, to) in &files {
        fs::copy(from, to).with_context(|| format!("{} to {}", from.display(), to.display()))?;
    }
    // The names for linking and for the loader: the build script sets the soname.
    let minor = VERSION.rsplit_once('.').map_or(VERSION, |(minor, _)| minor);
    let links = ["libolivine.so".to_owned(), format!("libolivine.so.{minor}")];
    for link in links.iter().map(|link| lib.join(link)) {
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        std::os::unix::fs::symlink(&shared, &link)?;
    }
    // Descriptions for pkg-config and CMake.
    let descriptions = [
        ("olivine.pc.in", "pkgconfig"),
        ("cmake/olivine-config.cmake.in", "cmake/olivine"),
        ("cmake/olivine-config-version.cmake.in", "cmake/olivine"),
    ];
    for (from, to) in descriptions {
        let text = fs::read_to_string(source.join(from)).with_context(|| from.to_owned())?;
        let description = text.replace("@version@", VERSION).replace("@minor@", minor);
        let name = from
            .rsplit('/')
            .next()
            .unwrap_or(from)
            .trim_end_matches(".in");
        fs::write(lib.join(to).join(name), description).with_context(|| to.to_owned())?;
    }
    Ok(files.len() + links.len() + descriptions.len())
}

/// Installs this build's library into a folder, moves it, and looks for it there.
pub(crate) fn found() -> Result<Step> {
    let folder = tempfile::tempdir()?;
    let (first, prefix) = (folder.path().join("first"), folder.path().join("prefix"));
    place(&target().join("debug"), &first)?;
    fs::rename(first, &prefix)?;
    let mut step = by_cmake(&prefix)?;
    step.count(by_pkg_config(&prefix).map(|()| true)?);
    Ok(step)
}

/// Builds a program with the flags of `pkg-config` for the library below `prefix`, and runs it.
fn by_pkg_config(prefix: &Path) -> Result<()> {
    let mut ask = Command::new(packages::program(&["pkg-config", "pkgconf"], "pkg-config")?);
    ask.args(["--cflags", "--libs", "olivine"]);
    let words = child::said(ask.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig")), 2)?;
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("refuse");
    let mut compile = Command::new("cc");
    compile.arg(root().join("crates/olivine-capi/tests/programs/refuse.c"));
    compile
        .args(words.split_whitespace())
        .arg("-o")
        .arg(&program);
    child::said(&mut compile, 8)?;
    child::said(
        Command::new(&program).env("LD_LIBRARY_PATH", prefix.join("lib")),
        8,
    )?;
    Ok(())
}

/// Builds a project with CMake that finds the library below `prefix`, and runs its programs.
///
/// # Errors
///
/// What was not found, built or run, with its output.
pub(crate) fn by_cmake(prefix: &Path) -> Result<Step> {
    let cmake = packages::program(&["cmake"], "cmake")?;
    packages::program(&["cc"], "gcc").and_then(|_| packages::program(&["c++"], "g++"))?;
    // CMake resolves relative paths from the project's folder.
    let prefix = fs::canonicalize(prefix)?;
    let folder = tempfile::tempdir()?;
    let mut configure = Command::new(&cmake);
    configure
        .arg("-S")
        .arg(root().join("crates/olivine-capi/tests/cmake"));
    configure.arg("-B").arg(folder.path());
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    child::said(&mut configure, 8)?;
    child::said(Command::new(&cmake).arg("--build").arg(folder.path()), 8)?;
    let mut run = Command::new(cmake.with_file_name("ctest"));
    let ran = child::said(run.arg("--output-on-failure").current_dir(folder.path()), 8)?;
    let all = format!("100% tests passed, 0 tests failed out of {PROGRAMS}");
    ensure!(ran.contains(&all), "not all programs ran: {ran}");
    let mut step = Step::new("programs");
    step.passed = PROGRAMS;
    Ok(step)
}
