//! Tools that cargo does not include: cargo subcommands and the nightly compiler in pinned
//! versions, installed if necessary.

use crate::cargo::{cargo, root, target};
use crate::child;
use crate::report::missing;
use anyhow::{Context as _, Result};
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
        let why = done.err().map_or(failed, |error| reason(&error));
        missing(format!("no {what}: {why}"))
    })
}

/// The first line of an error with its cause.
fn reason(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    let mut lines = text.lines().map(str::trim);
    let line = lines.find(|line| line.starts_with("error"));
    line.or_else(|| text.lines().next())
        .unwrap_or_default()
        .to_owned()
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

/// A nightly toolchain: needed for Miri, sanitizers and libFuzzer.
pub(crate) struct Nightly {
    toolchain: String,
}

impl Nightly {
    /// The toolchain of `OLIVINE_NIGHTLY`, or `nightly`, once it can run `cargo PROBE`; installs it
    /// with `components` if necessary.
    ///
    /// # Errors
    ///
    /// [`crate::report::Missing`].
    pub(crate) fn with(components: &[&str], probe: &[&str]) -> Result<Self> {
        let toolchain = std::env::var("OLIVINE_NIGHTLY").unwrap_or_else(|_| "nightly".to_owned());
        let this = Self { toolchain };
        let words = format!(
            "toolchain install {} --profile minimal --component {}",
            this.toolchain,
            components.join(",")
        );
        provide(
            &format!("{} (rustup {words})", this.toolchain),
            || child::said(this.cargo().args(probe), 2).ok(),
            || child::said(Command::new("rustup").args(words.split(' ')), 10),
        )?;
        Ok(this)
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
        command.args(["run", &self.toolchain, name]);
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
        if built.is_err() && crate::packages::install(&["nats-server"]) {
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
    let said = provide(
        "numpy and mypy, used by the tests of the package",
        found,
        || {
            let python = crate::packages::program(&["python3"], "python3")?;
            let mut venv = Command::new(&python);
            let pip =
                "-m pip install --quiet --disable-pip-version-check --only-binary :all: numpy mypy";
            let mut install = Command::new(&own);
            install.args(pip.split(' '));
            let made = child::said(venv.args(["-m", "venv", "--clear"]).arg(&folder), 8);
            let done = made.and_then(|_| child::said(&mut install, 8));
            if done.is_err() || import(&own).is_none() {
                // A partial environment would be taken for a complete one.
                let _ = fs::remove_dir_all(&folder);
            }
            done
        },
    )?;
    Ok(said.trim().to_owned())
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
    fn the_reason_is_the_line_of_the_error() {
        let error = anyhow::anyhow!("install: exit 101\n  error: no such crate\nmore");
        assert_eq!(reason(&error), "error: no such crate");
        assert_eq!(reason(&anyhow::anyhow!("no program")), "no program");
    }
}
