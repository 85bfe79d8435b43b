//! Tools that cargo does not include: cargo subcommands and the nightly compiler in pinned
//! versions, installed if necessary.

use crate::cargo::{cargo, root, target};
use crate::child;
use crate::report::missing;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of `cargo install` in this version, installed below the target folder with `arguments`
/// if it is not on the path.
///
/// # Errors
///
/// [`crate::report::Missing`] if it cannot be installed.
pub(crate) fn installed(name: &str, version: &str, arguments: &[&str]) -> Result<PathBuf> {
    let tools = target().join("tools");
    let own = tools.join("bin").join(name);
    let is_pinned = |program: &Path| {
        let output = Command::new(program).arg("--version").output();
        let said = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        said.is_ok_and(|said| said.trim() == format!("{name} {version}"))
    };
    for candidate in [Path::new(name), &own] {
        if is_pinned(candidate) {
            return Ok(candidate.to_owned());
        }
    }
    println!("installing {name} {version} into {}", tools.display());
    let build = tools.join("build");
    let mut install = cargo();
    // It runs for a second: an optimised build would take minutes longer.
    install.args([
        "install",
        name,
        "--locked",
        "--version",
        version,
        "--profile",
        "dev",
    ]);
    install.args(arguments).arg("--root").arg(&tools);
    install
        .env("CARGO_TARGET_DIR", &build)
        .env("CARGO_PROFILE_DEV_DEBUG", "0");
    let done = child::said(&mut install, 8);
    // Half a gigabyte that is no longer needed.
    let _ = fs::remove_dir_all(&build);
    match done {
        Ok(_) if is_pinned(&own) => Ok(own),
        Ok(_) => Err(missing(format!("{name} {version} does not run"))),
        Err(error) => Err(missing(format!("no {name} {version}: {}", reason(&error)))),
    }
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
        let runs = || child::said(this.cargo().args(probe), 2).is_ok();
        if runs() {
            return Ok(this);
        }
        let Self { toolchain } = &this;
        let list = components.join(",");
        println!("installing {toolchain} with {list}");
        let mut install = Command::new("rustup");
        install.args(["toolchain", "install", toolchain, "--profile", "minimal"]);
        let done = child::said(install.args(["--component", &list]), 10);
        if done.is_ok() && runs() {
            return Ok(this);
        }
        let why = done
            .err()
            .map_or_else(|| "it does not run".to_owned(), |error| reason(&error));
        let how = format!("run `rustup toolchain install {toolchain} --component {list}`");
        Err(missing(format!(
            "{toolchain} is not installed ({why}); {how}"
        )))
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
    if let Some(version) = found() {
        return Ok(version);
    }
    println!("installing nats-server by go install");
    let folder = own_nats();
    let folder = folder.parent().context("a folder for tools")?;
    let mut go = Command::new("go");
    go.args(["install", "github.com/nats-io/nats-server/v2@v2.15.2"]);
    // Runs anywhere, without C.
    let built = child::said(go.env("CGO_ENABLED", "0").env("GOBIN", folder), 10);
    // The package is older, but better than none.
    if found().is_none() && !crate::packages::install(&["nats-server"]) {
        let why = built.err().map_or_else(String::new, |error| reason(&error));
        return Err(missing(format!(
            "no nats-server, and none can be had: {why}"
        )));
    }
    found().ok_or_else(|| missing("nats-server was installed and does not run"))
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
    let found = |python: &Path| child::output(Command::new(python).args(["-c", look])).ok();
    if let Some(said) = found(&own).or_else(|| found("python3".as_ref())) {
        return Ok(said.trim().to_owned());
    }
    let python = crate::packages::program(&["python3"], "python3")?;
    println!("installing numpy and mypy into {}", folder.display());
    let mut venv = Command::new(&python);
    let pip = "-m pip install --quiet --disable-pip-version-check --only-binary :all: numpy mypy";
    let mut install = Command::new(&own);
    install.args(pip.split(' '));
    let made = child::said(venv.args(["-m", "venv", "--clear"]).arg(&folder), 8);
    let said = made
        .and_then(|_| child::said(&mut install, 8))
        .and_then(|_| {
            let said = found(&own);
            ensure!(said.is_some(), "what was installed does not load");
            Ok(said.unwrap_or_default().trim().to_owned())
        });
    said.map_err(|error| {
        // A partial environment would be taken for a complete one.
        let _ = fs::remove_dir_all(&folder);
        missing(format!(
            "the package is tested without numpy and mypy: {}",
            reason(&error)
        ))
    })
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
    fn the_reason_is_the_line_of_the_error() {
        let error = anyhow::anyhow!("install: exit 101\n  error: no such crate\nmore");
        assert_eq!(reason(&error), "error: no such crate");
        assert_eq!(reason(&anyhow::anyhow!("no program")), "no program");
    }
}
