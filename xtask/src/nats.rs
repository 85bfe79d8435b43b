//! The NATS server that tests start: a pinned one, built from the Go module proxy into the target folder, else the
//! one of the system.

use crate::cargo::{at_most, target};
use crate::child::{self, Line};
use crate::packages;
use crate::report::Step;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const VERSION: &str = "2.15.2";
const MODULE: &str = "github.com/nats-io/nats-server/v2";
const INSTALL_LIMIT: Duration = Duration::from_secs(600);

/// Where the tests look for it.
fn own() -> PathBuf {
    target().join("tools/bin/nats-server")
}

/// Makes sure that there is a server, and says which.
pub(crate) fn install() -> Result<Step> {
    let system = Path::new("nats-server");
    let is_there = || version_of(&own()).is_some() || version_of(system).is_some();
    let mut why = String::new();
    if !is_there() {
        why = by_go()
            .err()
            .map_or_else(String::new, |error| format!("{error:#}"));
        // The package is older, and better than none.
        if !is_there() && !packages::install(&["nats-server"]) {
            why.push_str("; nor is there a package");
        }
    }
    let found = version_of(&own()).or_else(|| version_of(system));
    let Some(version) = found else {
        let why = format!("no nats-server, and none can be had: {why}");
        println!("skipped: {why}");
        return Ok(Step::skipped("nats-server", why));
    };
    Ok(Step::single("nats-server", true, version))
}

/// Builds the pinned one.
fn by_go() -> Result<()> {
    println!("installing nats-server by go install");
    let mut go = Command::new("go");
    go.arg("install")
        .arg(format!("{MODULE}@v{VERSION}"))
        // It must run anywhere, and needs no C.
        .env("CGO_ENABLED", "0");
    if let Some(folder) = own().parent() {
        go.env("GOBIN", folder);
    }
    let mut last = String::new();
    let outcome = child::stream(&mut go, at_most(INSTALL_LIMIT), |line| {
        line.trim().clone_into(&mut last);
        Line::Hide
    })?;
    ensure!(outcome.success(), "go install: {} {last}", outcome.words());
    Ok(())
}

/// What the program says of itself, if it runs.
fn version_of(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && text.starts_with("nats-server")).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_server_that_runs_counts() {
        assert_eq!(version_of(Path::new("no-such-program")), None);
        assert_eq!(version_of(Path::new("true")), None);
    }
}
