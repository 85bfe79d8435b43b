//! Programs in C and C++, compiled by the machine's compilers against the headers and the built library, and run: among
//! themselves, and with publishers and subscribers of Rust in this process.

use olivine::{Publisher, ReceiveError, Subscriber};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Longer than anything here takes on a busy machine; only a hang reaches it.
const WATCHDOG: Duration = Duration::from_secs(120);
const MESSAGES: u64 = 50_000;

const STRICT: [&str; 5] = ["-O1", "-Wall", "-Wextra", "-Wpedantic", "-Werror"];
/// What the static library needs besides.
const NATIVE: [&str; 3] = ["-lpthread", "-ldl", "-lm"];

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Where this build's libraries are: beside this test program.
fn libraries() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().unwrap().to_owned()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Shared,
    Static,
}

/// A folder for programs and channels, removed at the end of the test.
struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
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
    fn uri(&self, query: &str) -> String {
        format!("shm://capi?dir={}{query}", self.0.path().display())
    }

    /// Compiles a program of `tests/programs`. `None` where there is no such compiler, which is said in a line.
    fn compile(&self, compiler: &str, standard: &str, name: &str, link: Link) -> Option<PathBuf> {
        if Command::new(compiler).arg("--version").output().is_err() {
            // Past the capture of output: `cargo xtask test` counts the line.
            let _ = writeln!(
                std::io::stderr(),
                "skipped: no {compiler}, so {name} was not compiled by it"
            );
            return None;
        }
        let program = self.0.path().join(format!("{name}-{compiler}"));
        let mut command = Command::new(compiler);
        command.args(STRICT).arg(format!("-std={standard}"));
        command.arg("-I").arg(source("include"));
        command
            .arg(source("tests/programs").join(name))
            .arg("-o")
            .arg(&program);
        if link == Link::Shared {
            // By its path and not by its name: a static one lies beside it.
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
        let output = command.arg("-pthread").output().unwrap();
        assert!(
            output.status.success(),
            "{command:?}:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
        Some(program)
    }
}

/// A program that runs, killed at the end of the test if need be.
struct Running {
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Starts a program and waits until it says that it is open.
    fn start(program: &Path, words: &[&str]) -> Self {
        let mut running = Self::launch(program, words);
        let mut line = String::new();
        running.output.read_line(&mut line).unwrap();
        assert_eq!(line, "open\n", "{}", program.display());
        running
    }

    fn launch(program: &Path, words: &[&str]) -> Self {
        let mut child = Command::new(program)
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, output }
    }

    /// What it says until it ends, with success.
    fn finish(mut self) -> String {
        let watchdog = Instant::now() + WATCHDOG;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < watchdog, "the program hangs");
            std::thread::yield_now();
        };
        let mut text = String::new();
        self.output.read_to_string(&mut text).unwrap();
        assert!(status.success(), "{status}: {text}");
        text.trim().to_owned()
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
fn numbered(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(
        8 + usize::try_from(number % 100).unwrap(),
        number.to_le_bytes()[0],
    );
    bytes
}

#[test]
fn what_is_wrong_is_refused_in_words() {
    let place = Place::new();
    for (compiler, link) in [
        ("cc", Link::Shared),
        ("cc", Link::Static),
        ("clang", Link::Shared),
    ] {
        if let Some(program) = place.compile(compiler, "c11", "refuse.c", link) {
            assert_eq!(Running::launch(&program, &[]).finish(), "refused");
        }
    }
}

#[test]
fn a_dropped_durable_subscriber_in_c_gets_its_last_message_again() {
    let place = Place::new();
    if let Some(program) = place.compile("cc", "c11", "durable.c", Link::Static) {
        let words = [&*place.uri(""), &*place.uri("&name=archive")];
        assert_eq!(Running::launch(&program, &words).finish(), "kept");
    }
}

#[test]
fn the_layer_in_cpp_holds_values_exceptions_and_streams() {
    let place = Place::new();
    for (compiler, standard) in [("c++", "c++17"), ("c++", "c++20"), ("clang++", "c++17")] {
        if let Some(program) = place.compile(compiler, standard, "layer.cpp", Link::Shared) {
            assert_eq!(
                Running::launch(&program, &[&place.uri("")]).finish(),
                "layered"
            );
        }
    }
}

/// Copied in, claimed, in batches, and what was given up: all of it arrives once and in order.
#[test]
fn a_publisher_in_c_is_read_in_rust() {
    let place = Place::new();
    let Some(program) = place.compile("cc", "c11", "publish.c", Link::Shared) else {
        return;
    };
    let uri = place.uri("");
    let mut subscriber = Subscriber::open(&place.uri("&capacity=16KiB")).unwrap();
    let publisher = Running::start(&program, &[&uri, &MESSAGES.to_string()]);
    for number in 0..MESSAGES {
        let message = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
        assert_eq!(*message, *numbered(number), "message {number}");
        assert_eq!(u64::from(message.tag()), number);
    }
    // The last one is held until here, and its publisher waits for it.
    subscriber
        .poll(|_| panic!("more than was published"), 1)
        .map_or_else(
            |error| assert!(matches!(error, ReceiveError::Closed)),
            |count| assert_eq!(count, 0),
        );
    subscriber.release();
    assert_eq!(publisher.finish(), format!("published {MESSAGES}"));
}

#[test]
fn a_subscriber_in_c_reads_rust() {
    let place = Place::new();
    let Some(program) = place.compile("cc", "c11", "subscribe.c", Link::Static) else {
        return;
    };
    let uri = place.uri("&capacity=16KiB");
    let subscriber = Running::start(&program, &[&uri]);
    let mut publisher = Publisher::open(&uri).unwrap();
    for number in 0..MESSAGES {
        let tag = u32::try_from(number).unwrap();
        publisher.publish_tagged(tag, &numbered(number)).unwrap();
    }
    publisher.close().unwrap();
    assert_eq!(subscriber.finish(), format!("received {MESSAGES}"));
}

/// Killed anywhere in the middle, a publisher in C leaves whole messages, and its lane to the next.
#[test]
fn a_publisher_in_c_that_is_killed_harms_nobody() {
    let place = Place::new();
    let Some(program) = place.compile("cc", "c11", "publish.c", Link::Shared) else {
        return;
    };
    let uri = place.uri("");
    let mut subscriber = Subscriber::open(&place.uri("&capacity=16KiB&publishers_max=1")).unwrap();
    for round in 1..=5_u64 {
        let mut publisher = Running::start(&program, &[&uri, &u64::MAX.to_string()]);
        let mut next = 0;
        while next < round * 997 {
            let message = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
            assert_eq!(*message, *numbered(next), "round {round}");
            next += 1;
        }
        publisher.child.kill().unwrap();
        publisher.child.wait().unwrap();
        while let Some(message) = subscriber.try_receive().unwrap() {
            assert_eq!(*message, *numbered(next), "round {round}, after the death");
            next += 1;
        }
    }
    let publisher = Running::start(&program, &[&uri, "4"]);
    for number in 0..4 {
        let message = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
        assert_eq!(*message, *numbered(number));
    }
    assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
    assert_eq!(publisher.finish(), "published 4");
}
