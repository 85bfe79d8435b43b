//! Tools that cargo does not include, installed if necessary: cargo subcommands and toolchains in
//! pinned versions, programs from the distribution's packages, Python packages.

use crate::cargo::{cargo, root, target};
use crate::child;
use crate::report::{Step, missing};
use anyhow::{Context as _, Result, ensure};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `found` finds, if need be after `install`.
///
/// # Errors
///
/// [`crate::report::Missing`], with the reason.
fn provide<T>(
    what: &str,
    found: impl Fn() -> Option<T>,
    install: impl FnOnce() -> Result<String>,
) -> Result<T> {
    if let Some(found) = found() {
        return Ok(found);
    }
    println!("installing {what}");
    let done = install();
    found().ok_or_else(|| {
        let failed = "what was installed does not run".to_owned();
        let why = done.err().map_or(failed, |error| {
            let text = format!("{error:#}");
            let first = text.lines().next().unwrap_or_default();
            reason(&text).unwrap_or_else(|| first.to_owned())
        });
        missing(format!("no {what}: {why}"))
    })
}

/// Most lines of a reason.
const REASONS_MAX: usize = 3;

/// The reason of a failure in the output of a program: what CMake says, or the first error.
pub(crate) fn reason(said: &str) -> Option<String> {
    let lines = || said.lines().map(str::trim).filter(|line| !line.is_empty());
    let causes = lines().skip_while(|line| !line.starts_with("CMake Error"));
    let causes: Vec<_> = causes.take(REASONS_MAX).collect();
    let is_error =
        |line: &&str| line.starts_with("error") && !line.starts_with("error: could not compile");
    let causes = Some(causes.join(" ")).filter(|causes| !causes.is_empty());
    causes.or_else(|| lines().find(is_error).map(str::to_owned))
}

/// A program of `cargo install` in this version, installed below the target folder with `arguments`
/// if it is not on the path.
///
/// # Errors
///
/// [`crate::report::Missing`] if it cannot be installed.
pub(crate) fn installed(name: &str, version: &str, arguments: &[&str]) -> Result<PathBuf> {
    let tools = target().join("tools");
    let own = tools.join("bin").join(name);
    let wanted = format!("{name} {version}");
    let is_pinned = |program: &Path| {
        let said = child::output(Command::new(program).arg("--version"));
        said.is_ok_and(|said| said.trim() == wanted)
    };
    let found = || {
        let candidates = [PathBuf::from(name), own.clone()];
        candidates.into_iter().find(|program| is_pinned(program))
    };
    provide(&wanted, found, || {
        let build = tools.join("build");
        let mut install = cargo();
        // It runs for a second: an optimised build would take minutes longer.
        let words = format!("install {name} --locked --version {version} --profile dev");
        install.args(words.split(' ')).args(arguments);
        install.arg("--root").arg(&tools);
        install
            .env("CARGO_TARGET_DIR", &build)
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        let done = child::said(&mut install, 8);
        // Half a gigabyte that is no longer needed.
        let _ = fs::remove_dir_all(&build);
        done
    })
}

/// Another toolchain than the pinned one: a nightly, which Miri, sanitizers and libFuzzer need, or
/// the oldest.
pub(crate) struct Toolchain {
    name: String,
}

impl Toolchain {
    /// The toolchain of `OLIVINE_NIGHTLY`, or `nightly`, once it can run `cargo PROBE`; installs it
    /// with `components` if necessary.
    ///
    /// # Errors
    ///
    /// [`crate::report::Missing`].
    pub(crate) fn nightly(components: &[&str], probe: &[&str]) -> Result<Self> {
        let name = env::var("OLIVINE_NIGHTLY").unwrap_or_else(|_| "nightly".to_owned());
        let components = format!(" --component {}", components.join(","));
        Self { name }.installed(&components, probe)
    }

    /// The oldest Rust that the manifest allows; installs it if necessary.
    ///
    /// # Errors
    ///
    /// [`crate::report::Missing`].
    pub(crate) fn oldest() -> Result<Self> {
        let name = env!("CARGO_PKG_RUST_VERSION").to_owned();
        Self { name }.installed("", &["--version"])
    }

    fn installed(self, components: &str, probe: &[&str]) -> Result<Self> {
        let name = &self.name;
        let words = format!("toolchain install {name} --profile minimal{components}");
        provide(
            &format!("{name} (rustup {words})"),
            || child::said(self.cargo().args(probe), 2).ok(),
            || child::said(Command::new("rustup").args(words.split(' ')), 10),
        )?;
        Ok(self)
    }

    /// Its cargo, started in the repository.
    pub(crate) fn cargo(&self) -> Command {
        self.program("cargo")
    }

    /// Its compiler, started in the repository.
    pub(crate) fn rustc(&self) -> Command {
        self.program("rustc")
    }

    fn program(&self, name: &str) -> Command {
        let mut command = Command::new("rustup");
        command.args(["run", &self.name, name]);
        command.current_dir(root()).env("CARGO_TERM_COLOR", "never");
        // The pinned toolchain of the repository must not override the requested one.
        for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS", "RUSTUP_TOOLCHAIN"] {
            command.env_remove(name);
        }
        command
    }

    /// Fails if it has no sources of the standard library.
    pub(crate) fn needs_sources(&self) -> Result<()> {
        let sysroot = child::output(self.rustc().args(["--print", "sysroot"]))?;
        let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library/Cargo.lock");
        let why = "no sources of the standard library: rustup component add rust-src";
        library.is_file().then_some(()).ok_or_else(|| missing(why))
    }
}

/// Ensures that the toolchain has the standard library for `target`.
///
/// # Errors
///
/// [`crate::report::Missing`].
pub(crate) fn standard_library(target: &str) -> Result<()> {
    let add = ["target", "add", target];
    let added = child::said(Command::new("rustup").args(add), 10);
    let words = add.join(" ");
    ensure!(
        added.is_ok(),
        missing(format!("no standard library for it; run `rustup {words}`"))
    );
    Ok(())
}

/// Path of the NATS server for the tests.
fn own_nats() -> PathBuf {
    target().join("tools/bin/nats-server")
}

/// The version of a NATS server, if it runs.
fn version_of(program: &Path) -> Option<String> {
    let said = child::output(Command::new(program).arg("--version")).ok()?;
    said.starts_with("nats-server")
        .then(|| said.trim().to_owned())
}

/// Ensures that there is a NATS server: ours, built from the Go module proxy into the target
/// folder, or the system's. Returns which one.
///
/// # Errors
///
/// [`crate::report::Missing`].
pub(crate) fn nats_server() -> Result<String> {
    let found = || version_of(&own_nats()).or_else(|| version_of("nats-server".as_ref()));
    provide("nats-server", found, || {
        let folder = own_nats();
        let folder = folder.parent().context("a folder for tools")?;
        let mut go = Command::new("go");
        go.args(["install", "github.com/nats-io/nats-server/v2@v2.15.2"]);
        // Runs anywhere, without C.
        let built = child::said(go.env("CGO_ENABLED", "0").env("GOBIN", folder), 10);
        // The package is older, but better than none.
        if built.is_err() && install(&["nats-server"]) {
            return Ok(String::new());
        }
        built
    })
}

/// The interpreter for the tests of the Python package, with numpy and mypy. Returns the numpy
/// version.
///
/// # Errors
///
/// [`crate::report::Missing`].
pub(crate) fn python() -> Result<String> {
    let folder = target().join("tools/python");
    let own = folder.join("bin/python3");
    let look = "import mypy, numpy; print('numpy', numpy.__version__)";
    let import = |python: &Path| child::output(Command::new(python).args(["-c", look])).ok();
    let found = || import(&own).or_else(|| import("python3".as_ref()));
    let what = "numpy and mypy, used by the tests of the package";
    let said = provide(what, found, || {
        let done = venv(&folder, &["numpy", "mypy"]);
        if done.is_err() || import(&own).is_none() {
            // A partial environment would be taken for a complete one.
            let _ = fs::remove_dir_all(&folder);
        }
        done
    })?;
    Ok(said.trim().to_owned())
}

/// Makes a Python environment with these packages in `folder`.
///
/// # Errors
///
/// [`crate::report::Missing`] without Python, or what a step of it said.
pub(crate) fn venv(folder: &Path, packages: &[&str]) -> Result<String> {
    let mut make = Command::new(program(&["python3"], "python3")?);
    child::said(make.args(["-m", "venv", "--clear"]).arg(folder), 8)?;
    let pip = "-m pip install --quiet --disable-pip-version-check --only-binary :all:";
    let mut install = Command::new(folder.join("bin/python3"));
    child::said(install.args(pip.split(' ')).args(packages), 8)
}

/// Folders of programs that are not on every user's path.
const MORE_PATH: [&str; 2] = ["/usr/sbin", "/usr/local/sbin"];

/// The first of `names` that is on the path, or after an attempt to install `package`.
///
/// # Errors
///
/// [`crate::report::Missing`].
pub(crate) fn program(names: &[&str], package: &str) -> Result<PathBuf> {
    let found = || names.iter().find_map(|name| find(name));
    let installed = || install(&[package]).then(found).flatten();
    let why = || missing(format!("no {}; run `apt-get install {package}`", names[0]));
    found().or_else(installed).ok_or_else(why)
}

/// Counts the programs that are there or could be installed, each with its package. What needs a
/// missing one says so later.
pub(crate) fn each(programs: &[(&str, &str)]) -> Step {
    let mut step = Step::new("programs");
    for (name, package) in programs {
        match program(&[name], package) {
            Ok(_) => step.passed += 1,
            Err(_) => step.skipped += 1,
        }
    }
    step
}

/// A program on the path.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = env::split_paths(&path).chain(MORE_PATH.map(PathBuf::from));
    let mut programs = folders.map(|folder| folder.join(name));
    programs.find(|program| program.is_file())
}

/// Whether `package` is installed; without `dpkg` it is assumed to be: a later step reports the
/// error.
pub(crate) fn has(package: &str) -> bool {
    let words = ["--show", "--showformat=${db:Status-Status}", package];
    let asked = Command::new("dpkg-query").args(words).output();
    asked.map_or(true, |told| told.stdout == b"installed")
}

/// Installs packages of the distribution; `false` if that is impossible here.
pub(crate) fn install(packages: &[&str]) -> bool {
    println!("installing {}", packages.join(" "));
    let runs = |words: &str, packages: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(words.split(' ')).args(packages);
        child::said(command.env("DEBIAN_FRONTEND", "noninteractive"), 10).is_ok()
    };
    runs("update -qq", &[]) && runs("install -y -qq --no-install-recommends", packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_runs_counts() {
        assert_eq!(version_of(Path::new("no-such-program")), None);
        assert_eq!(version_of(Path::new("true")), None);
    }

    #[test]
    fn what_cannot_be_installed_is_missing_with_the_reason() {
        let error = |done: Result<String>| provide("it", || None::<()>, || done).unwrap_err();
        let refused = error(Err(anyhow::anyhow!("log\nerror: no network")));
        assert_eq!(refused.to_string(), "no it: error: no network");
        assert!(refused.is::<crate::report::Missing>());
        let installed = error(Ok(String::new())).to_string();
        assert!(installed.contains("does not run"), "{installed}");
        let found = provide("it", || Some(1), || unreachable!());
        assert_eq!(found.unwrap(), 1);
    }

    #[test]
    fn the_reason_is_the_first_error_that_says_something() {
        let build = "error: failed to run custom build command for `zmq-sys`";
        let said =
            format!("   Compiling error-code v1.0.0\nerror: could not compile `x`\n  {build}\n");
        assert_eq!(reason(&said).as_deref(), Some(build));
        let said = format!("{said}  CMake Error at a:1:\n\n  no compiler\n");
        let cause = "CMake Error at a:1: no compiler";
        assert_eq!(reason(&said).as_deref(), Some(cause));
        assert_eq!(reason("   Compiling error-code v1.0.0"), None);
    }

    #[test]
    fn what_is_there_is_found_and_what_is_not_is_not() {
        assert!(find("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find("no-such-program"), None);
        if find("dpkg-query").is_some() {
            assert!(has("dpkg") && !has("no-such-package-of-olivine"));
        }
    }
}
