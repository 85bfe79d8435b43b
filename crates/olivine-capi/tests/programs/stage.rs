//! What tests with programs of other languages need: a folder, compilers, children with a watchdog,
//! numbered messages.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
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

/// Where compiled programs are kept until the next run: beside this build's libraries.
fn compiled() -> PathBuf {
    libraries().join("c-programs")
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
}

/// Makes the file `name` once in this process: several tests run the same program. Another run may
/// use the file that is there, so the new file replaces it by a rename.
fn once(name: String, make: impl FnOnce(&Path)) -> PathBuf {
    static MADE: Mutex<BTreeMap<String, Arc<OnceLock<PathBuf>>>> = Mutex::new(BTreeMap::new());
    let made = MADE
        .lock()
        .unwrap()
        .entry(name.clone())
        .or_default()
        .clone();
    let make = || {
        let folder = compiled();
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(&name);
        let unfinished = folder.join(format!("{name}-{}", std::process::id()));
        make(&unfinished);
        std::fs::rename(unfinished, &path).unwrap();
        path
    };
    made.get_or_init(make).clone()
}

/// Compiles a program of `tests/programs`, or one with an absolute path, beside it. `None` where
/// there is no such compiler, which is said in a line.
pub(crate) fn compile(compiler: &str, standard: &str, name: &str, link: Link) -> Option<PathBuf> {
    if !has(compiler, &[name]) {
        return None;
    }
    let object = object(compiler, standard, name);
    let make = |program: &Path| {
        let mut command = Command::new(compiler);
        command.arg("-o").arg(program).arg(&object);
        // A sanitizer is also linked.
        let sanitizers = standard.split(' ').filter(|word| word.starts_with("-fsan"));
        command.args(sanitizers);
        if link == Link::Shared {
            // By its path and not by its name: a static one is beside it.
            command.arg(libraries().join("libolivine_capi.so"));
            command.arg("-Wl,--disable-new-dtags");
            command.arg(format!("-Wl,-rpath,{}", compiled().display()));
            once("libolivine.so.0.1".to_owned(), |soname| {
                let library = libraries().join("libolivine_capi.so");
                // Of a killed run with this process number.
                let _ = std::fs::remove_file(soname);
                std::os::unix::fs::symlink(library, soname).unwrap();
            });
        } else {
            command
                .arg(libraries().join("libolivine_capi.a"))
                .args(NATIVE);
        }
        succeed(command.arg("-pthread"));
    };
    if Path::new(name).is_absolute() {
        let program = PathBuf::from(format!("{name}-{compiler}"));
        make(&program);
        return Some(program);
    }
    let key = format!("{name}-{compiler}-{standard}-{link:?}");
    Some(once(key.replace(' ', ""), make))
}

/// Compiles these programs of `tests/programs`.
pub(crate) fn check(compiler: &str, standard: &str, names: &[&str]) {
    if has(compiler, names) {
        for name in names {
            object(compiler, standard, name);
        }
    }
}

/// Whether there is this compiler for these programs; if not, a line says so.
fn has(compiler: &str, names: &[&str]) -> bool {
    let found = Command::new(compiler).arg("--version").output().is_ok();
    if !found {
        let names = names.join(", ");
        skip(&format!("no {compiler}, so {names} was not compiled by it"));
    }
    found
}

/// The compiled source of a program, not linked.
fn object(compiler: &str, standard: &str, name: &str) -> PathBuf {
    let make = |object: &Path| {
        let mut command = Command::new(compiler);
        command.args(STRICT);
        // The standard, and flags behind it.
        let mut words = standard.split(' ');
        command.args(words.next().map(|standard| format!("-std={standard}")));
        command.args(words);
        command.arg("-I").arg(source("include"));
        command.arg("-c").arg(source("tests/programs").join(name));
        succeed(command.arg("-pthread").arg("-o").arg(object));
    };
    if Path::new(name).is_absolute() {
        let object = PathBuf::from(format!("{name}-{compiler}.o"));
        make(&object);
        return object;
    }
    let key = format!("{name}-{compiler}-{standard}.o");
    once(key.replace(' ', ""), make)
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
