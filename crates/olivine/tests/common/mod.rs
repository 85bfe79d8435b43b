//! Shared parts of tests: private folders, seeds, other processes, a watchdog.

#![allow(dead_code, reason = "no test needs all of it")]

pub(crate) mod blocks;
pub(crate) mod bridges;
#[cfg(feature = "tls")]
pub(crate) mod certificates;
pub(crate) mod idle;
pub(crate) mod mapped;
pub(crate) mod planted;
pub(crate) mod proxy;
pub(crate) mod tasks;

use olivine::{Message, NotSent, Publisher, ReceiveError, Subscriber};
use std::io::Write as _;
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longer than any machine needs for one step.
pub(crate) const WATCHDOG: Duration = Duration::from_secs(60);

#[allow(unused_imports, reason = "no program of tests needs all of it")]
pub(crate) use olivine::error_chain as chain;

/// A private folder in shared memory, with the folder of the channels inside.
pub(crate) struct TestFolder {
    root: tempfile::TempDir,
}

impl TestFolder {
    pub(crate) fn new() -> Self {
        let shm = std::path::Path::new("/dev/shm");
        let parent = if shm.is_dir() {
            shm.to_owned()
        } else {
            std::env::temp_dir()
        };
        let root = tempfile::Builder::new()
            .prefix("olivine-test-")
            .tempdir_in(parent);
        Self {
            root: root.expect("a folder in shared memory"),
        }
    }

    /// Folder of the channels.
    pub(crate) fn dir(&self) -> PathBuf {
        self.root.path().join("channels")
    }

    /// A file beside it.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// Folder of one channel.
    pub(crate) fn channel(&self, name: &str) -> PathBuf {
        self.dir().join(name)
    }

    /// A URI of a channel here; `query` is `key=value&…`, or empty.
    pub(crate) fn uri(&self, name: &str, query: &str) -> String {
        let and = if query.is_empty() { "" } else { "&" };
        format!("shm://{name}?dir={}{and}{query}", self.dir().display())
    }
}

/// SplitMix64 (Steele, Lea, Flood 2014): every seed is good.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// A number from the environment.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// `cases` cases of a property, the same ones in each run: `OLIVINE_SEED` selects others.
pub(crate) fn seeded_cases(cases: u32) -> proptest::test_runner::Config {
    proptest::test_runner::Config {
        cases,
        failure_persistence: None,
        rng_seed: proptest::test_runner::RngSeed::Fixed(setting("OLIVINE_SEED", 1)),
        ..proptest::test_runner::Config::default()
    }
}

/// Prints that a test is skipped, and why.
pub(crate) fn skip(why: &str) {
    // Not captured: `cargo xtask test` counts the line.
    let _ = writeln!(std::io::stderr(), "skipped: {why}");
}

/// The emulator of test programs for another processor: `OLIVINE_TEST_RUNNER`.
pub(crate) fn runner() -> Option<std::ffi::OsString> {
    std::env::var_os("OLIVINE_TEST_RUNNER")
}

/// `#[test] fn role` of this test binary, or of its module for `MODULE::ROLE`, as another program;
/// in a network namespace if one is named.
fn role(namespace: Option<&str>, role: &str, variables: &[(&str, String)]) -> Command {
    let (test, role) = match role.rsplit_once("::") {
        Some((module, role)) => (format!("{module}::role"), role),
        None => ("role".to_owned(), role),
    };
    let me = std::env::current_exe().expect("own path");
    let mut command = match (namespace, runner()) {
        (Some(namespace), _) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace]).arg(me);
            command
        }
        (None, Some(runner)) => {
            let mut command = Command::new(runner);
            command.arg(me);
            command
        }
        (None, None) => Command::new(me),
    };
    command
        .args(["--exact", &test, "--nocapture", "--test-threads=1"])
        .env("OLIVINE_DEATH_ROLE", role)
        .envs(variables.iter().map(|(name, value)| (*name, value)));
    command
}

/// The role of this process, if it is another program of a test and not the test.
///
/// It ends with the thread that started it, also after a kill, unless `OLIVINE_DEATH_OUTLIVES` is
/// set.
pub(crate) fn my_role() -> Option<String> {
    let role = std::env::var("OLIVINE_DEATH_ROLE").ok()?;
    if std::env::var_os("OLIVINE_DEATH_OUTLIVES").is_some() {
        return Some(role);
    }
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))
        .expect("a pipe that ends with the test");
    Some(role)
}

/// A process that runs [`my_role`]; killed, unless it has ended, when it is dropped.
pub(crate) struct Other(Child);

impl Deref for Other {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Other {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        // After a wait both do nothing.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs `#[test] fn role` in another process, for `MODULE::ROLE` that of the module.
pub(crate) fn spawn(name: &str, variables: &[(&str, String)]) -> Other {
    spawn_in(None, name, variables)
}

/// As [`spawn`], in a network namespace if one is named.
pub(crate) fn spawn_in(namespace: Option<&str>, name: &str, variables: &[(&str, String)]) -> Other {
    let child = role(namespace, name, variables)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn();
    Other(child.expect("a process"))
}

/// As [`spawn`], with piped standard input and output.
pub(crate) fn spawn_piped(name: &str, variables: &[(&str, String)]) -> Other {
    let child = role(None, name, variables)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    Other(child.expect("a process"))
}

/// Sends a signal to a child that has not been waited for.
pub(crate) fn signal(child: &Child, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(pid, signal).expect("a signal");
}

/// Kills and reaps.
pub(crate) fn kill(mut child: Other) {
    signal(&child, rustix::process::Signal::KILL);
    child.wait().expect("its end");
}

/// Waits until a child exits with success.
pub(crate) fn finished(mut child: Other) {
    let mut done = None;
    until("a child ends", || {
        done = child.try_wait().expect("its state");
        done.is_some()
    });
    let done = done.expect("just found");
    assert!(done.success(), "{done}");
}

/// Waits for a condition; a hang is a failure.
pub(crate) fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let mut deadline = Deadline::new();
    while !reached() {
        assert!(deadline.lasts(), "not within {WATCHDOG:?}: {what}");
    }
}

/// Waits for a message and passes it to `read`; as long as [`until`] does.
pub(crate) fn receive<T>(subscriber: &mut Subscriber, read: impl Fn(&Message<'_>) -> T) -> T {
    let mut deadline = Deadline::new();
    loop {
        let message = subscriber.receive_timeout(Deadline::STEP_MAX);
        if let Some(message) = message.expect("no error") {
            return read(&message);
        }
        assert!(deadline.lasts(), "no message within {WATCHDOG:?}");
    }
}

/// Tags of the messages up to the first error, and the error.
pub(crate) fn received(subscriber: &mut Subscriber) -> (Vec<u32>, ReceiveError) {
    let mut tags = Vec::new();
    loop {
        match subscriber.receive_timeout(WATCHDOG) {
            Ok(Some(message)) => tags.push(message.tag()),
            Ok(None) => panic!("no report after {} messages", tags.len()),
            Err(error) => return (tags, error),
        }
    }
}

/// The remaining time to wait, by a clock that stops while this process does not run.
///
/// After a stop, or without a processor, a test does not know what happened in between. The other
/// processes probably stopped, too, and do not hang.
pub(crate) struct Deadline {
    began: Instant,
    left: Duration,
    looked: Instant,
    looks: u32,
    longest: Duration,
}

impl Deadline {
    /// Longest time between two checks while this process runs.
    pub(crate) const STEP_MAX: Duration = Duration::from_millis(20);
    /// Checks before the first sleep.
    const EAGER: u32 = 50;

    pub(crate) fn new() -> Self {
        Self::of(WATCHDOG)
    }

    /// Starts with this time left.
    pub(crate) fn of(left: Duration) -> Self {
        let began = Instant::now();
        Self {
            began,
            left,
            looked: began,
            looks: 0,
            longest: Duration::ZERO,
        }
    }

    /// Yields the processor before the next check.
    pub(crate) fn rest(&mut self) {
        if self.looks < Self::EAGER {
            self.looks += 1;
            std::thread::yield_now();
        } else {
            std::thread::park_timeout(Duration::from_micros(100));
        }
    }

    /// As [`Deadline::rest`]. `false` once it is used up.
    pub(crate) fn lasts(&mut self) -> bool {
        self.rest();
        let between = self.looked.elapsed();
        self.looked += between;
        self.longest = self.longest.max(between);
        self.left = self.left.saturating_sub(between.min(Self::STEP_MAX));
        !self.left.is_zero()
    }

    /// Whether this process did not run for a while, so that times measured meanwhile are useless.
    pub(crate) fn was_absent(&self) -> bool {
        self.longest > Self::STEP_MAX
    }

    /// Time since the start, by the monotonic clock.
    pub(crate) fn waited(&self) -> Duration {
        self.began.elapsed()
    }
}

/// A publisher of numbers on a separate thread, which runs until it is stopped.
pub(crate) struct Busy {
    stop: std::sync::Arc<std::sync::atomic::AtomicBool>,
    thread: std::thread::JoinHandle<u64>,
}

impl Busy {
    /// Publishes numbers into `uri`, in messages of `length` bytes; waits for room.
    pub(crate) fn start(uri: &str, length: usize) -> Self {
        let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let stops = std::sync::Arc::clone(&stop);
        let mut publisher = Publisher::open(uri).expect("a publisher");
        let thread = std::thread::spawn(move || {
            let (mut number, mut message) = (0_u64, vec![0; length]);
            while !stops.load(Ordering::Relaxed) {
                message[..8].copy_from_slice(&number.to_le_bytes());
                match publisher.publish_timeout(&message, Deadline::STEP_MAX) {
                    Ok(_) => number += 1,
                    Err(NotSent::BackPressured) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            publisher.close().expect("a good end");
            number
        });
        Self { stop, thread }
    }

    pub(crate) fn is_running(&self) -> bool {
        !self.thread.is_finished()
    }

    /// Ends it; returns how many numbers it published.
    pub(crate) fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("no panic")
    }
}

/// Descriptors and mappings of this process with files in `folder`, and those files.
pub(crate) fn held_inside(folder: &std::path::Path) -> Vec<String> {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("/proc");
    let mut held: Vec<String> = descriptors
        .flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .map(|target| target.display().to_string())
        .collect();
    let maps = std::fs::read_to_string("/proc/self/maps").expect("/proc");
    held.extend(maps.lines().map(str::to_owned));
    held.retain(|target| target.contains(&folder.display().to_string()));
    held
}

/// A port without a listener, below those that the system assigns. This process gets it once, and
/// no other test of this machine gets it as long as this process lives.
pub(crate) fn free_port() -> u16 {
    use std::os::linux::net::SocketAddrExt as _;
    use std::os::unix::net::{SocketAddr, UnixListener};
    const FIRST: u32 = 10_000;
    const COUNT: u32 = 22_000;
    static TRIED: AtomicU32 = AtomicU32::new(0);
    static RESERVED: Mutex<Vec<UnixListener>> = Mutex::new(Vec::new());
    loop {
        let tried = TRIED.fetch_add(1, Ordering::Relaxed);
        assert!(tried < COUNT, "a free port");
        let start = std::process::id().wrapping_mul(7919);
        let port = FIRST + start.wrapping_add(tried) % COUNT;
        let name = SocketAddr::from_abstract_name(format!("olivine test port {port}")).unwrap();
        let Ok(reserved) = UnixListener::bind_addr(&name) else {
            continue;
        };
        let port = u16::try_from(port).expect("a port");
        // An example listens on the first.
        if port != 18733 && std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            RESERVED.lock().unwrap().push(reserved);
            return port;
        }
    }
}

/// Memory of this process that is in use, in KiB.
pub(crate) fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("/proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.split_whitespace().next());
    number
        .and_then(|number| number.parse().ok())
        .expect("a size")
}

/// Self-describing messages: session, sequence, a pattern whose length depends on both, checksum.
pub(crate) mod message {
    use super::Random;

    /// Fills `into` with message `sequence` of `session`: mostly small, one in eight of 0.5 to 4
    /// KiB (whose lines a publisher prefetches), sometimes nearly a whole ring of 64 KiB.
    pub(crate) fn fill(session: u64, sequence: u64, into: &mut Vec<u8>) {
        let mut random = Random(session << 32 ^ sequence);
        let words = match random.below(64) {
            0 => random.below(8100),
            1..4 => 0,
            4..12 => 62 + random.below(460),
            _ => random.below(40),
        };
        into.clear();
        into.extend(session.to_le_bytes());
        into.extend(sequence.to_le_bytes());
        let mut sum = session ^ sequence.rotate_left(32);
        for _ in 0..words {
            let word = random.next();
            sum = sum.rotate_left(5) ^ word;
            into.extend(word.to_le_bytes());
        }
        into.extend(sum.to_le_bytes());
    }

    /// Session and sequence of a valid message; `None` for a torn or invented one.
    pub(crate) fn check(message: &[u8], scratch: &mut Vec<u8>) -> Option<(u64, u64)> {
        let word = |at: usize| {
            Some(u64::from_le_bytes(
                message.get(at..at + 8)?.try_into().ok()?,
            ))
        };
        let (session, sequence) = (word(0)?, word(8)?);
        fill(session, sequence, scratch);
        (message == scratch.as_slice()).then_some((session, sequence))
    }
}

/// Messages that are numbers, sent and expected in order.
pub(crate) mod numbers {
    use olivine::{Publisher, Subscriber};
    use std::time::Duration;

    pub(crate) const LONG: Duration = Duration::from_secs(60);
    pub(crate) const SHORT: Duration = Duration::from_millis(20);

    pub(crate) fn number(message: &[u8]) -> u32 {
        u32::from_le_bytes(message.try_into().unwrap())
    }

    pub(crate) fn send(publisher: &mut Publisher, numbers: std::ops::Range<u32>) {
        for n in numbers {
            publisher.publish(&n.to_le_bytes()).unwrap();
        }
    }

    pub(crate) fn expect(subscriber: &mut Subscriber, numbers: std::ops::Range<u32>) {
        for n in numbers {
            let received = super::receive(subscriber, |message| number(message));
            assert_eq!(received, n);
        }
    }

    /// Sends until there is no room; returns how many fitted.
    pub(crate) fn fill(publisher: &mut Publisher) -> u32 {
        let mut sent = 0_u32;
        while publisher.try_publish(&sent.to_le_bytes()).is_ok() {
            sent += 1;
        }
        sent
    }
}
