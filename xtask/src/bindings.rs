//! The library for C and C++ where a compiler finds it, the Python that tests the package, and the README's programs in
//! these languages.

use crate::cargo::{TestOutput, at_most, cargo, root, target};
use crate::child;
use crate::packages::{self, Missing};
use crate::report::Step;
use crate::tidy::fenced_blocks;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const BUILD_LIMIT: Duration = Duration::from_secs(900);
const RUN_LIMIT: Duration = Duration::from_secs(480);
/// Long enough for a virtual environment and one package from the registry.
const PYTHON_LIMIT: Duration = Duration::from_secs(480);
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Builds the C library and installs it below `prefix`: `include`, `lib`, `lib/pkgconfig`, `lib/cmake`.
pub(crate) fn install(prefix: &Path) -> Result<Step> {
    let mut output = TestOutput::default();
    let mut command = cargo();
    command.args(["build", "--release", "--package", "olivine-capi"]);
    let outcome = child::stream(&mut command, at_most(BUILD_LIMIT), |line| output.line(line))?;
    anyhow::ensure!(
        outcome.success(),
        "the library does not build: {}",
        outcome.words()
    );
    let mut step = Step::new("capi", "files");
    step.passed = place(&target().join("release"), prefix)?;
    step.note = prefix.display().to_string();
    Ok(step)
}

/// Puts the library of a build in place; how many files that are.
pub(crate) fn place(built: &Path, prefix: &Path) -> Result<usize> {
    let source = root().join("crates/olivine-capi");
    for folder in ["include", "lib/pkgconfig", "lib/cmake/olivine"] {
        let folder = prefix.join(folder);
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    }
    let lib = prefix.join("lib");
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
    // What is linked against, and what is asked for at run time: the build script gives that name.
    let minor = VERSION.rsplit_once('.').map_or(VERSION, |(minor, _)| minor);
    let links = ["libolivine.so".to_owned(), format!("libolivine.so.{minor}")];
    for link in &links {
        let link = lib.join(link);
        if link.symlink_metadata().is_ok() {
            fs::remove_file(&link)?;
        }
        std::os::unix::fs::symlink(&shared, &link)?;
    }
    // What it is found by.
    let descriptions = [
        ("olivine.pc.in", "pkgconfig/olivine.pc"),
        (
            "cmake/olivine-config.cmake.in",
            "cmake/olivine/olivine-config.cmake",
        ),
        (
            "cmake/olivine-config-version.cmake.in",
            "cmake/olivine/olivine-config-version.cmake",
        ),
    ];
    for (from, to) in descriptions {
        let from = source.join(from);
        let text = fs::read_to_string(&from).with_context(|| from.display().to_string())?;
        let description = text.replace("@version@", VERSION).replace("@minor@", minor);
        fs::write(lib.join(to), description).with_context(|| to.to_owned())?;
    }
    Ok(files.len() + links.len() + descriptions.len())
}

/// The interpreter that the package's tests run by: one with numpy and mypy, where they can be had.
pub(crate) fn python() -> Result<Step> {
    let folder = target().join("tools/python");
    let own = folder.join("bin/python3");
    let has_numpy = |python: &Path| {
        let said = Command::new(python)
            .args(["-c", "import mypy, numpy; print(numpy.__version__)"])
            .output();
        let said = said.ok().filter(|said| said.status.success())?;
        Some(String::from_utf8_lossy(&said.stdout).trim().to_owned())
    };
    let found = |python: &Path| has_numpy(python).map(|version| format!("numpy {version}"));
    if let Some(note) = found(&own).or_else(|| found(Path::new("python3"))) {
        return Ok(Step::single("python", true, note));
    }
    let missing = |why: &str| {
        // Half an environment would be taken for a whole one.
        let _ = fs::remove_dir_all(&folder);
        println!("skipped: {why}");
        Ok(Step::skipped("python", why))
    };
    let Some(python) = packages::program(&["python3"], "python3", Missing::Install) else {
        return missing("no python3, and none can be had");
    };
    println!("installing numpy and mypy into {}", folder.display());
    let mut venv = Command::new(&python);
    venv.args(["-m", "venv", "--clear"]).arg(&folder);
    let mut pip = Command::new(&own);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]);
    pip.args(["--only-binary", ":all:", "numpy", "mypy"]);
    for command in [&mut venv, &mut pip] {
        let ran = child::capture(command, at_most(PYTHON_LIMIT));
        if !ran.is_ok_and(|(outcome, _)| outcome.success()) {
            return missing(
                "numpy or mypy is not there and cannot be had: the package is tested without",
            );
        }
    }
    match found(&own) {
        Some(note) => Ok(Step::single("python", true, note)),
        None => {
            missing("numpy or mypy was installed and does not load: the package is tested without")
        }
    }
}

/// Compiles and runs a document's blocks of C, C++ and Python, with what was built in `built`.
pub(crate) fn blocks(document: &str, text: &str, built: &Path, step: &mut Step) -> Result<()> {
    let languages = ["c", "cpp", "python"];
    if !fenced_blocks(text)
        .iter()
        .any(|block| languages.contains(&block.language.as_str()))
    {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let prefix = folder.path().join("prefix");
    place(built, &prefix)?;
    let package = stage(built, folder.path())?;
    for block in fenced_blocks(text) {
        let run = match block.language.as_str() {
            "c" => compiled(&["cc", "-std=c11", "-x", "c"], &block.text, &prefix),
            "cpp" => compiled(&["c++", "-std=c++17", "-x", "c++"], &block.text, &prefix),
            "python" => Some(Command::new("python3")).map(|mut python| {
                python
                    .arg("-c")
                    .arg(&block.text)
                    .env("PYTHONPATH", &package);
                Ok(python)
            }),
            _ => continue,
        };
        let place = format!("{document}:{}: {}", block.line, block.language);
        let Some(command) = run else {
            println!("skipped: {place}: no compiler for it");
            step.skipped += 1;
            continue;
        };
        let ended = command.and_then(|mut command| {
            command.env("OLIVINE_DIR", folder.path());
            child::capture(&mut command, at_most(RUN_LIMIT))
        });
        let (holds, said) = match ended {
            Ok((outcome, said)) => (outcome.success(), said),
            Err(error) => (false, format!("{error:#}")),
        };
        let verdict = if holds { "ok   " } else { "FAIL " };
        println!("{verdict} {place}: {}", said.trim());
        step.count(holds);
    }
    Ok(())
}

/// A program of C or C++, compiled; `None` where there is no compiler.
fn compiled(compiler: &[&str], text: &str, prefix: &Path) -> Option<Result<Command>> {
    packages::program(&compiler[..1], "none", Missing::LeaveOut)?;
    let source = prefix.join("block.txt");
    let program = prefix.join("block");
    let build = || {
        fs::write(&source, text)?;
        let mut command = Command::new(compiler[0]);
        command
            .args(&compiler[1..])
            .arg(&source)
            .args(["-x", "none", "-Wall", "-Wextra", "-Werror"]);
        command
            .arg("-I")
            .arg(prefix.join("include"))
            .arg("-L")
            .arg(prefix.join("lib"));
        command.arg("-lolivine").arg("-o").arg(&program);
        let (outcome, said) = child::capture(&mut command, at_most(RUN_LIMIT))?;
        anyhow::ensure!(outcome.success(), "does not compile: {said}");
        let mut run = Command::new(&program);
        run.env("LD_LIBRARY_PATH", prefix.join("lib"));
        Ok(run)
    };
    Some(build())
}

/// The Python package as it was built, in a folder that Python can be pointed to.
fn stage(built: &Path, folder: &Path) -> Result<PathBuf> {
    let path = folder.join("python");
    let package = path.join("olivine");
    fs::create_dir_all(&package)?;
    let source = root().join("crates/olivine-python/python/olivine");
    for name in ["__init__.py", "_aio.py"] {
        fs::copy(source.join(name), package.join(name))?;
    }
    fs::copy(
        built.join("libolivine_native.so"),
        package.join("_native.abi3.so"),
    )?;
    Ok(path)
}
