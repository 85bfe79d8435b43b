//! The nightly compiler: Miri, sanitizers and libFuzzer come with it alone.

use crate::cargo::{at_most, root};
use crate::child;
use anyhow::Result;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const INSTALL_LIMIT: Duration = Duration::from_secs(600);
const LOOK_LIMIT: Duration = Duration::from_secs(120);

/// A nightly toolchain.
pub(crate) struct Nightly {
    toolchain: String,
}

impl Nightly {
    /// The one that `OLIVINE_NIGHTLY` names, or `nightly`, once it can run `cargo PROBE`; installs it with `components`
    /// if need be. Else what is missing.
    ///
    /// # Errors
    ///
    /// A child that cannot be started.
    pub(crate) fn with(components: &[&str], probe: &[&str]) -> Result<Result<Self, String>> {
        let toolchain = std::env::var("OLIVINE_NIGHTLY").unwrap_or_else(|_| "nightly".to_owned());
        let this = Self { toolchain };
        if this.runs(probe) {
            return Ok(Ok(this));
        }
        let Self { toolchain } = &this;
        println!("installing {toolchain} {}", components.join(" "));
        let mut install = Command::new("rustup");
        install.args(["toolchain", "install", toolchain, "--profile", "minimal"]);
        for component in components {
            install.args(["--component", component]);
        }
        let Ok((outcome, text)) = child::capture(&mut install, at_most(INSTALL_LIMIT)) else {
            return Ok(Err("rustup is not installed".to_owned()));
        };
        if outcome.success() && this.runs(probe) {
            return Ok(Ok(this));
        }
        let why = text
            .lines()
            .find(|line| line.starts_with("error"))
            .unwrap_or("no reason given");
        Ok(Err(format!(
            "{toolchain} is not installed ({why}); run `rustup toolchain install {toolchain} --component {}`",
            components.join(",")
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
        // The pinned toolchain of the repository must not win over the one asked for.
        command
            .args(["run", &self.toolchain, name])
            .current_dir(root())
            .env("CARGO_TERM_COLOR", "never")
            .env_remove("RUSTUP_TOOLCHAIN");
        for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTFLAGS"] {
            command.env_remove(name);
        }
        command
    }

    /// Whether it comes with the sources of the standard library.
    pub(crate) fn has_sources(&self) -> bool {
        let found = child::output(self.rustc().args(["--print", "sysroot"]));
        found.is_ok_and(|sysroot| {
            let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
            library.join("Cargo.lock").is_file()
        })
    }

    fn runs(&self, probe: &[&str]) -> bool {
        let found = child::capture(self.cargo().args(probe), LOOK_LIMIT);
        found.is_ok_and(|(outcome, _)| outcome.success())
    }
}
