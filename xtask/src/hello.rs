//! The example `hello_http` as a server that other people's programs are pointed at.

use crate::cargo::{EVERYTHING, at_most, cargo, target};
use crate::child;
use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

const BUILD_LIMIT: Duration = Duration::from_secs(900);
/// Ends a server whose client hangs, in seconds.
const LIFE_SECONDS: &str = "600";

/// Builds the example; where it lies.
pub(crate) fn build(release: bool) -> Result<PathBuf> {
    let mut build = cargo();
    if release {
        let example = ["--package", "olivine-net", "--example", "hello_http"];
        build.args(["build", "--release"]).args(example);
    } else {
        build.args(EVERYTHING);
    }
    let (outcome, text) = child::capture(&mut build, at_most(BUILD_LIMIT))?;
    ensure!(outcome.success(), "hello_http does not build:\n{text}");
    let profile = if release { "release" } else { "debug" };
    Ok(target().join(profile).join("examples").join("hello_http"))
}

/// A running server; dropping it ends the process.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    output: BufReader<ChildStdout>,
    /// Its root page.
    pub(crate) url: String,
}

impl Server {
    /// Starts it on a free port, with more arguments and a library loaded before all others.
    pub(crate) fn start(
        program: &Path,
        arguments: &[&str],
        preload: Option<&Path>,
    ) -> Result<Self> {
        let mut command = Command::new(program);
        command
            .args(["--listen", "127.0.0.1:0", "--duration", LIFE_SECONDS])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        if let Some(library) = preload {
            command.env("LD_PRELOAD", library);
        }
        let mut child = command.spawn().context("cannot start hello_http")?;
        let output = child.stdout.take().context("hello_http has no output")?;
        let mut server = Self {
            child,
            output: BufReader::new(output),
            url: String::new(),
        };
        let mut line = String::new();
        server.output.read_line(&mut line)?;
        let address = line
            .strip_prefix("listening on ")
            .and_then(|rest| rest.split(',').next());
        let address = address.with_context(|| format!("hello_http does not listen: {line}"))?;
        server.url = format!("http://{address}/");
        Ok(server)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop, and returns what it says then.
    pub(crate) fn stop(mut self) -> Result<String> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process number")?, Signal::TERM)?;
        let mut text = String::new();
        self.output.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "hello_http ended with {status}: {text}");
        Ok(text)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
