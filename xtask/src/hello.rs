//! The example `hello_http` as a server that other people's programs are pointed at, and the tool that measures it.

use crate::cargo::{EVERYTHING, at_most, cargo, target};
use crate::child;
use anyhow::{Context as _, Result, bail, ensure};
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

/// Builds the tool as it ships; its path.
pub(crate) fn tool() -> Result<PathBuf> {
    child::output(cargo().args(["build", "--quiet", "--release", "--package", "olivine-cli"]))?;
    Ok(target().join("release/olivine"))
}

/// Rows of `olivine bench http URL` with more words.
pub(crate) fn load<'a>(
    tool: &Path,
    url: &str,
    words: impl Iterator<Item = &'a str>,
) -> Result<Vec<serde_json::Value>> {
    let mut command = Command::new(tool);
    command.args(["--json", "bench", "http", url]).args(words);
    let text = child::output(&mut command)?;
    let mut value: serde_json::Value = serde_json::from_str(&text)?;
    match value["results"].take() {
        serde_json::Value::Array(rows) => Ok(rows),
        _ => bail!("no results in {text}"),
    }
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

    /// Where it listens: address and port.
    pub(crate) fn address(&self) -> &str {
        self.url.trim_start_matches("http://").trim_end_matches('/')
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
