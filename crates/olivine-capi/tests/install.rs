//! CMake and `pkg-config` find the installed library, also after it was moved.
//!
//! `OLIVINE_PREFIX` is the folder of an installation to test instead: `cargo xtask capi` sets it.

#[path = "../install.rs"]
mod install;
mod stage;

use stage::{TestFolder, libraries, skip, source};
use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

/// What `tests/cmake` compiles and runs.
const PROGRAMS: usize = 3;

/// The folder of an installation: the library of the tests, moved after it was installed.
fn prefix(folder: &TestFolder) -> PathBuf {
    if let Some(prefix) = env::var_os("OLIVINE_PREFIX") {
        return fs::canonicalize(prefix).unwrap();
    }
    let first = folder.0.path().join("first");
    assert!(install::place(&source("."), &libraries(), &first).unwrap() > 0);
    let prefix = folder.0.path().join("prefix");
    fs::rename(first, &prefix).unwrap();
    prefix
}

/// Whether these programs are there; if not, a line says so.
fn has(programs: &[&str]) -> bool {
    let missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    let missing = programs.iter().find(missing);
    if let Some(missing) = missing {
        skip(&format!(
            "no {missing}, so the installation was not tested with it"
        ));
    }
    missing.is_none()
}

/// Runs a command with success; returns its output.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    said
}

#[test]
fn cmake_finds_the_installed_library() {
    if !has(&["cmake", "cc", "c++"]) {
        return;
    }
    let folder = TestFolder::new();
    let build = folder.0.path().join("build");
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", prefix(&folder).display());
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source("tests/cmake"));
    said(configure.arg("-B").arg(&build).arg(prefix));
    said(Command::new("cmake").arg("--build").arg(&build));
    let ran = said(
        Command::new("ctest")
            .arg("--output-on-failure")
            .current_dir(&build),
    );
    let all = format!("100% tests passed, 0 tests failed out of {PROGRAMS}");
    assert!(ran.contains(&all), "{ran}");
}

#[test]
fn pkg_config_finds_the_installed_library() {
    if !has(&["pkg-config", "cc"]) {
        return;
    }
    let folder = TestFolder::new();
    let lib = prefix(&folder).join("lib");
    let mut ask = Command::new("pkg-config");
    ask.args(["--cflags", "--libs", "olivine"]);
    let words = said(ask.env("PKG_CONFIG_PATH", lib.join("pkgconfig")));
    let program = folder.0.path().join("refuse");
    let mut compile = Command::new("cc");
    compile
        .arg(source("tests/programs/refuse.c"))
        .args(words.split_whitespace());
    said(compile.arg("-o").arg(&program));
    said(Command::new(&program).env("LD_LIBRARY_PATH", lib));
}
