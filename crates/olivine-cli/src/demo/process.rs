//! A process of this tool that a demonstration runs. Dropping it ends it.
//!
//! It holds a pipe from here as standard input and ends when that ends, so it does not outlive this
//! process. It has a separate process group: Ctrl-C reaches it through its pipe only, after it has
//! done its work.

use crate::failure::{Failure, Outcome};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

/// A running or ended process.
pub(super) struct Process {
    role: String,
    child: Child,
    status: Option<ExitStatus>,
}

impl Process {
    /// Starts the tool with these arguments; `errors` is its standard error.
    pub(super) fn start(
        role: impl Into<String>,
        arguments: &[String],
        errors: Stdio,
    ) -> Outcome<Self> {
        let role = role.into();
        let failed = |error: std::io::Error| {
            Failure::Failed(anyhow::Error::new(error).context(format!("cannot start the {role}")))
        };
        let program = std::env::current_exe().map_err(failed)?;
        let child = Command::new(program)
            .args(arguments)
            .args(["--tied", "--log-level", "warn"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        Ok(Self {
            role,
            child,
            status: None,
        })
    }

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Its standard output; the caller reads it.
    pub(super) fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    pub(super) fn has_ended(&mut self) -> Outcome<bool> {
        if self.status.is_none() {
            self.status = self
                .child
                .try_wait()
                .map_err(|error| Failure::Failed(error.into()))?;
        }
        Ok(self.status.is_some())
    }

    /// Whether it ended without its result. Exit code 1 also means a bad result, which it reports.
    pub(super) fn has_failed(&self) -> bool {
        self.status.is_some_and(|status| !status.success())
    }

    /// Asks it to end.
    pub(super) fn close_stdin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Sends a signal. A process that has ended gets none.
    pub(super) fn signal(&self, signal: Signal) -> Outcome {
        if self.status.is_some() {
            return Ok(());
        }
        kill_process(Pid::from_child(&self.child), signal).map_err(|errno| {
            let context = format!("cannot signal the {}", self.role);
            Failure::Failed(anyhow::Error::new(errno).context(context))
        })
    }

    /// Its report: the last line of its output.
    pub(super) fn summary(&mut self) -> Outcome<Value> {
        let mut output = String::new();
        if let Some(mut stdout) = self.child.stdout.take() {
            // An incomplete report is detected below.
            let _ = stdout.read_to_string(&mut output);
        }
        let account = output
            .lines()
            .last()
            .and_then(|line| serde_json::from_str(line).ok());
        account.ok_or_else(|| self.ended("without a result"))
    }

    /// The failure of a process that ended, with its last words if they were kept.
    pub(super) fn ended(&mut self, how: &str) -> Failure {
        let status = self.status.map(|status| status.to_string());
        let mut words = String::new();
        if let Some(stderr) = self.child.stderr.take() {
            // What cannot be read is left out.
            let _ = stderr.take(4096).read_to_string(&mut words);
        }
        let words = words.lines().last().map(|line| format!(": {line}"));
        Failure::failed(format!(
            "the {} ended {how} ({}){}",
            self.role,
            status.unwrap_or_default(),
            words.unwrap_or_default()
        ))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.close_stdin();
        if self.status.is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}
