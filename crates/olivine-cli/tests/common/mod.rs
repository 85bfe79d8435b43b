//! A separate folder of channels and the tool in it, under a watchdog.
#![allow(dead_code, reason = "each test file uses its part")]

use olivine::admin::{self, ChannelInfo};
use olivine::{Config, LaneState};
use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Output, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Longer than any step needs on a busy machine; only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(120);

/// Both ends of a pseudo terminal: that of a person, and that of a program.
pub(crate) fn terminal() -> (File, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY;
    // Not inherited: a program that holds the other end would keep it open.
    let ours = openpt(flags | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let theirs = ioctl_tiocgptpeer(&ours, flags | OpenptFlags::CLOEXEC).unwrap();
    (File::from(ours), theirs)
}

/// A folder of channels, removed at the end of the test.
#[derive(Debug)]
pub(crate) struct TestFolder {
    dir: TempDir,
}

impl TestFolder {
    pub(crate) fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let parent = if memory.is_dir() {
            memory.to_path_buf()
        } else {
            std::env::temp_dir()
        };
        let dir = tempfile::Builder::new()
            .prefix("olivine-test-")
            .tempdir_in(parent)
            .unwrap();
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// A folder with the files of the run in `recorded/run.json`, which has one a line.
    pub(crate) fn recorded_run(&self) -> PathBuf {
        let folder = self.path().join("run");
        std::fs::create_dir_all(&folder).unwrap();
        for line in include_str!("../recorded/run.json").lines() {
            if let Some((name, file)) = line.split_once(": ") {
                let path = folder.join(format!("{}.json", name.trim_matches('"')));
                std::fs::write(path, file.trim_end_matches(',')).unwrap();
            }
        }
        folder
    }

    /// The tool with these arguments, not started.
    pub(crate) fn olivine(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_olivine"));
        command
            .args(words)
            .env("OLIVINE_DIR", self.path())
            // Not the file of the person who runs the tests.
            .env("OLIVINE_CONFIG", "")
            .env("NO_COLOR", "1");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts the tool.
    pub(crate) fn start(&self, words: &[&str]) -> Running {
        Running::new(self.olivine(words).spawn().unwrap())
    }

    /// Starts the tool with `input` on its standard input.
    pub(crate) fn start_with(&self, words: &[&str], input: Vec<u8>) -> Running {
        let mut child = self.olivine(words).stdin(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A reader that ends early closes the pipe: the test decides.
        std::thread::spawn(move || stdin.write_all(&input).ok());
        Running::new(child)
    }

    /// Runs the tool to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Output {
        self.start(words).output()
    }

    /// The current channel; `None` if there is none.
    pub(crate) fn look(&self, channel: &str) -> Option<ChannelInfo> {
        let config = Config::parse(&format!("shm://{channel}"))
            .unwrap()
            .dir(self.path());
        admin::inspect(&config).ok()
    }

    /// Waits until `count` live subscribers are attached to `channel`.
    pub(crate) fn await_subscribers(&self, channel: &str, count: usize) {
        until("subscribers", || {
            let info = self.look(channel);
            info.is_some_and(|info| info.subscribers.iter().filter(|s| s.alive).count() == count)
        });
    }

    /// Waits until a live publisher of `channel` has published something.
    pub(crate) fn await_publishing(&self, channel: &str) {
        until("a publisher", || {
            let info = self.look(channel);
            info.is_some_and(|info| {
                info.publishers
                    .iter()
                    .any(|p| p.state == LaneState::Open && p.cursor > 0)
            })
        });
    }

    /// Makes channels that cannot be read: `short`, `zeros` and `empty`, `other`, which is `good`
    /// with another layout, and `half-made`, a folder without files.
    pub(crate) fn plant_broken_channels(&self, good: &str) {
        let mut other = std::fs::read(self.path().join(good).join("control")).unwrap();
        // The second word is the version of the layout.
        other[8] += 1;
        for (channel, bytes) in [
            ("short", &b"x"[..]),
            ("zeros", &[0; 8192]),
            ("empty", b""),
            ("other", &other),
        ] {
            let folder = self.path().join(channel);
            std::fs::create_dir(&folder).unwrap();
            std::fs::write(folder.join("control"), bytes).unwrap();
        }
        std::fs::create_dir(self.path().join("half-made")).unwrap();
    }

    /// Names of the leftover files.
    pub(crate) fn left(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.path()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
    }
}

/// Prints that a test was skipped, and why.
pub(crate) fn skip(why: &str) {
    // Past the capture of output: `cargo xtask test` counts the line.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// Whether two CPUs are allowed; otherwise prints that the test was skipped.
pub(crate) fn has_two_cpus() -> bool {
    let has_two = olivine_bench::cpus::allowed().len() > 1;
    if !has_two {
        skip("it needs two CPUs, and one is allowed");
    }
    has_two
}

/// Waits for a condition; a condition that never comes fails the test.
pub(crate) fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !reached() {
        assert!(begun.elapsed() < WATCHDOG, "waited in vain for {what}");
        // Between two checks, to yield to the other processes.
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// A running tool. Killed if the test ends before it.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    stdout: Option<JoinHandle<Vec<u8>>>,
    stderr: Option<JoinHandle<Vec<u8>>>,
    /// It was started as the first of its process group.
    leads_group: bool,
}

impl Running {
    /// Takes over a tool that a test has started.
    pub(crate) fn new(child: Child) -> Self {
        Self {
            child,
            stdout: None,
            stderr: None,
            leads_group: false,
        }
    }

    /// Starts `command` in a process group: what it leaves there is killed when it ends.
    pub(crate) fn group(command: &mut Command) -> Self {
        let mut running = Self::new(command.process_group(0).spawn().unwrap());
        running.leads_group = true;
        running
    }

    /// Kills the rest of its group, if it is the first and was not waited for.
    fn kill_group(&self) {
        if self.leads_group {
            let group = rustix::process::Pid::from_child(&self.child);
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
    }

    /// Whether it has ended; its number stays in use.
    fn has_ended(&self) -> bool {
        use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let ended = waitid(WaitId::Pid(Pid::from_child(&self.child)), options);
        ended.unwrap().is_some()
    }

    /// Reads its output from now on; otherwise it would block on a full pipe.
    pub(crate) fn reading(mut self) -> Self {
        fn read(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                pipe.read_to_end(&mut bytes).unwrap();
                bytes
            })
        }
        self.stdout = self
            .stdout
            .take()
            .or_else(|| self.child.stdout.take().map(read));
        self.stderr = self
            .stderr
            .take()
            .or_else(|| self.child.stderr.take().map(read));
        self
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits for the end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        if self.leads_group {
            until("the end of a process", || self.has_ended());
            self.kill_group();
            self.leads_group = false;
        }
        until("the end of a process", || {
            self.child.try_wait().unwrap().is_some()
        });
        self.child.wait().unwrap()
    }

    /// Waits for the end; everything it wrote.
    pub(crate) fn output(self) -> Output {
        let mut running = self.reading();
        let status = running.wait();
        let mut written = |pipe: fn(&mut Self) -> Option<JoinHandle<Vec<u8>>>| {
            pipe(&mut running)
                .map(|thread| thread.join().unwrap())
                .unwrap_or_default()
        };
        let stdout = written(|running| running.stdout.take());
        let stderr = written(|running| running.stderr.take());
        Output {
            status,
            stdout,
            stderr,
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill_group();
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The only line of JSON that a run printed.
pub(crate) fn json(output: &Output) -> serde_json::Value {
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text
        .lines()
        .last()
        .unwrap_or_else(|| panic!("no output; {}", said(output)));
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {last}"))
}

/// The standard error of a run.
pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Bytes with every value, empty lines, long lines and no newline at the end.
pub(crate) fn awkward_text(bytes: usize) -> Vec<u8> {
    let mut text = b"\n\nfirst\n".to_vec();
    let mut state = 1_u64;
    while text.len() < bytes {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let length =
            usize::try_from(state >> 33).unwrap() % 300 * usize::from(state >> 40 & 3 != 0);
        text.extend((0..length).map(|at| (state >> (at % 56)).to_le_bytes()[0]));
        text.push(b'\n');
    }
    text.extend_from_slice(b"the last line has no newline");
    text
}

/// Reads the standard error of a run up to the line with `words`; returns that line, and the unread
/// rest.
pub(crate) fn hear(running: &mut Running, words: &str) -> (String, BufReader<ChildStderr>) {
    let stderr = running.child.stderr.take().expect("its words, unread");
    let mut lines = BufReader::new(stderr);
    let mut before = String::new();
    loop {
        let mut line = String::new();
        let read = lines.read_line(&mut line).expect("text");
        assert!(read > 0, "'{words}' was never said, only: {before}");
        if line.contains(words) {
            return (line, lines);
        }
        before.push_str(&line);
    }
}
