//! What tests with programs of other languages need: a folder, compilers, children with a watchdog,
//! numbered messages.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use std::{iter, thread};

/// Longer than anything here takes on a busy machine; only a hang reaches it.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(120);

const STRICT: [&str; 7] = [
    "-O1",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Wconversion",
    "-Wshadow",
    "-Werror",
];
/// What the static library needs besides.
const NATIVE: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

/// Says that something was left out, and why.
pub(crate) fn skip(why: &str) {
    // Past the capture of output: `cargo xtask test` counts the line.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

pub(crate) fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where this build's libraries are: beside this test program.
pub(crate) fn libraries() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().to_owned()
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    Shared,
    Static,
}

/// A folder for programs and channels, removed at the end of the test.
pub(crate) struct TestFolder(pub(crate) tempfile::TempDir);

impl TestFolder {
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_owned()
        } else {
            std::env::temp_dir()
        };
        let named = tempfile::Builder::new()
            .prefix("olivine-capi-")
            .tempdir_in(parent);
        Self(named.unwrap())
    }

    /// A channel of this test.
    pub(crate) fn uri(&self, query: &str) -> String {
        format!("shm://capi?dir={}{query}", self.0.path().display())
    }

    /// Compiles a program of `tests/programs`. `None` where there is no such compiler, which is
    /// said in a line.
    pub(crate) fn compile(
        &self,
        compiler: &str,
        standard: &str,
        name: &str,
        link: Link,
    ) -> Option<PathBuf> {
        let mut command = compiling(compiler, standard, &[name])?;
        let program = self.0.path().join(format!("{name}-{compiler}"));
        command.arg("-o").arg(&program);
        if link == Link::Shared {
            // By its path and not by its name: a static one is beside it.
            command.arg(libraries().join("libolivine_capi.so"));
            command.arg("-Wl,--disable-new-dtags");
            command.arg(format!("-Wl,-rpath,{}", self.0.path().display()));
            let soname = self.0.path().join("libolivine.so.0.1");
            if !soname.exists() {
                std::os::unix::fs::symlink(libraries().join("libolivine_capi.so"), soname).unwrap();
            }
        } else {
            command
                .arg(libraries().join("libolivine_capi.a"))
                .args(NATIVE);
        }
        succeed(command.arg("-pthread"));
        Some(program)
    }
}

/// Compiles these programs of `tests/programs` without making a file.
pub(crate) fn check(compiler: &str, standard: &str, names: &[&str]) {
    if let Some(mut command) = compiling(compiler, standard, names) {
        succeed(command.arg("-fsyntax-only"));
    }
}

/// The call of a compiler for programs of `tests/programs`. `None` where there is no such compiler,
/// which is said in a line.
fn compiling(compiler: &str, standard: &str, names: &[&str]) -> Option<Command> {
    if Command::new(compiler).arg("--version").output().is_err() {
        let names = names.join(", ");
        skip(&format!("no {compiler}, so {names} was not compiled by it"));
        return None;
    }
    let mut command = Command::new(compiler);
    command.args(STRICT);
    // The standard, and flags behind it.
    let mut words = standard.split(' ');
    command.args(words.next().map(|standard| format!("-std={standard}")));
    command.args(words);
    command.arg("-I").arg(source("include"));
    command.args(names.iter().map(|name| source("tests/programs").join(name)));
    Some(command)
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A program that runs, killed at the end of the test if need be.
pub(crate) struct Running {
    pub(crate) child: Child,
    /// What it says, line by line.
    lines: Receiver<String>,
}

impl Running {
    /// Starts a program and waits until it says that it is open.
    pub(crate) fn start(program: &Path, words: &[&str]) -> Self {
        let running = Self::launch(program, words);
        assert_eq!(running.line().as_deref(), Some("open"), "{program:?}");
        running
    }

    pub(crate) fn launch(program: &Path, words: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (said, lines) = mpsc::channel();
        thread::spawn(move || {
            // Until it ends, or the receiver is dropped.
            let _ = output.lines().try_for_each(|line| said.send(line.unwrap()));
        });
        Self { child, lines }
    }

    /// The next line that it says; `None` at the end of its output.
    fn line(&self) -> Option<String> {
        match self.lines.recv_timeout(WATCHDOG) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("the program hangs"),
        }
    }

    /// What it says until it ends, with success.
    pub(crate) fn finish(mut self) -> String {
        let lines: Vec<_> = iter::from_fn(|| self.line()).collect();
        let text = lines.join("\n");
        let watchdog = Instant::now() + WATCHDOG;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < watchdog, "the program hangs");
            thread::yield_now();
        };
        assert!(status.success(), "{status}: {text}");
        text
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Fine where it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The message `number` as the programs in C make it.
pub(crate) fn numbered(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    let large = if number % 250 == 249 { 3000 } else { 0 };
    bytes.resize(
        8 + usize::try_from(number % 100).unwrap() + large,
        number.to_le_bytes()[0],
    );
    bytes
}
