//! Tools of cargo that a step needs: what is on the path in the pinned version, or our own copy, built from its source.

use crate::cargo::{at_most, cargo, target};
use crate::child::{self, Line};
use anyhow::Result;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const INSTALL_LIMIT: Duration = Duration::from_secs(480);

/// A program that `cargo install` makes.
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// Arguments of `cargo install` besides.
    pub(crate) arguments: &'static [&'static str],
}

impl Tool {
    /// Where it is, after installing it below the target folder if need be.
    ///
    /// # Errors
    ///
    /// Why it could not be installed.
    pub(crate) fn path(&self) -> Result<PathBuf> {
        let tools = target().join("tools");
        let own = tools.join("bin").join(self.name);
        for candidate in [Path::new(self.name), &own] {
            if self.is_pinned(candidate) {
                return Ok(candidate.to_owned());
            }
        }
        let Self { name, version, .. } = self;
        println!("installing {name} {version} into {}", tools.display());
        let build = tools.join("build");
        let mut install = cargo();
        install
            .args(["install", name, "--locked", "--version", version])
            .args(self.arguments)
            // It runs for a second: an optimised build would take minutes longer.
            .args(["--profile", "dev", "--root"])
            .arg(&tools)
            .env("CARGO_TARGET_DIR", &build)
            .env("CARGO_PROFILE_DEV_DEBUG", "0");
        let mut last_error = String::new();
        let outcome = child::stream(&mut install, at_most(INSTALL_LIMIT), |line| {
            if line.trim_start().starts_with("error") {
                line.trim().clone_into(&mut last_error);
            }
            Line::Hide
        })?;
        // Half a gigabyte that nobody needs again.
        let _ = fs::remove_dir_all(&build);
        anyhow::ensure!(
            outcome.success() && self.is_pinned(&own),
            "{} {last_error}",
            outcome.words()
        );
        Ok(own)
    }

    fn is_pinned(&self, program: &Path) -> bool {
        let output = Command::new(program).arg("--version").output();
        output.is_ok_and(|output| {
            let text = String::from_utf8_lossy(&output.stdout);
            text.trim() == format!("{} {}", self.name, self.version)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_is_not_pinned() {
        let tool = Tool {
            name: "no-such-program",
            version: "1.0.0",
            arguments: &[],
        };
        assert!(!tool.is_pinned(Path::new("no-such-program")));
    }
}
