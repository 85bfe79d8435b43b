//! Each language publishes to each: Rust, C, C++ and Python, over shared memory, a connection and a
//! journal, by URI only.
//!
//! Numbered messages, small and large, arrive once and in order up to the end of the stream. The
//! subscriber has a name, fails half way, and its successor goes on with the message it failed at.
//! Over inproc:// the languages' own tests run.

use crate::stage::{self, Link, Running, TestFolder, WATCHDOG, libraries, numbered, source};
use olivine::{Outgoing, Publisher, ReceiveError, Subscriber};
use std::io::Write as _;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

const MESSAGES: u64 = 1_000;
/// What the first subscriber fails at.
const FAILED_AT: u64 = 499;

/// Two programs of a language, with the words that come first.
struct Language {
    name: &'static str,
    publish: (PathBuf, Vec<String>),
    receive: (PathBuf, Vec<String>),
}

/// The languages that this machine has; those that are missing are named in a line.
fn languages(place: &TestFolder) -> Vec<Language> {
    let compiled = |name, compiler, standard, roles| {
        let program = stage::compile(compiler, standard, roles, Link::Shared)?;
        Some(Language {
            name,
            publish: (program.clone(), vec!["publish".to_owned()]),
            receive: (program, vec!["receive".to_owned()]),
        })
    };
    let c = compiled("C", "cc", "c11", "roles.c");
    let cpp = compiled("C++", "c++", "c++17", "roles.cpp");
    [c, cpp, python(place)].into_iter().flatten().collect()
}

fn python(place: &TestFolder) -> Option<Language> {
    let native = libraries().join("libolivine_native.so");
    if !native.is_file() {
        // Past the capture of output: `cargo xtask test` counts the line.
        let _ = writeln!(
            std::io::stderr(),
            "skipped: the Python package was not built, so no pair with Python was tested"
        );
        return None;
    }
    let package = place.0.path().join("olivine");
    std::fs::create_dir(&package).unwrap();
    for name in ["__init__.py", "aio.py"] {
        let from = source("../olivine-python/python/olivine").join(name);
        std::fs::copy(from, package.join(name)).unwrap();
    }
    std::os::unix::fs::symlink(native, package.join("_native.abi3.so")).unwrap();
    // `python3` may be a script that takes longer than the whole test.
    let asked = Command::new("python3")
        .args(["-c", "import sys; print(sys.executable)"])
        .output();
    let asked = asked.expect("Python is needed to test the package for it");
    let python = String::from_utf8(asked.stdout).unwrap();
    let words = |role: &str| {
        let program = source("tests/programs/numbered.py");
        let path = format!("PYTHONPATH={}", place.0.path().display());
        let program = program.to_str().unwrap();
        // Without the packages of the machine.
        let words = [&*path, python.trim(), "-S", "-B", program, role];
        (PathBuf::from("/usr/bin/env"), words.map(Into::into).into())
    };
    Some(Language {
        name: "Python",
        publish: words("publish"),
        receive: words("receive"),
    })
}

fn start((program, words): &(PathBuf, Vec<String>), more: &[&str]) -> Running {
    let words: Vec<_> = words
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    Running::start(program, &words)
}

fn publish(uri: &str) {
    let uri = format!("{uri}&subscribers=1&linger=1m");
    let mut publisher = Publisher::open(&uri).unwrap();
    for number in 0..MESSAGES {
        let tag = u32::try_from(number).unwrap();
        publisher
            .publish(Outgoing::new(&numbered(number)).tag(tag))
            .unwrap();
    }
    publisher.close().unwrap();
}

fn receive(uri: &str, first: u64, stop: Option<u64>) {
    let mut subscriber = Subscriber::open(uri).unwrap();
    for number in first..MESSAGES {
        let message = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
        assert_eq!(*message, *numbered(number), "message {number}");
        assert_eq!(u64::from(message.tag()), number);
        if Some(number) == stop {
            return;
        }
    }
    let end = subscriber.receive_timeout(WATCHDOG);
    assert!(matches!(end, Err(ReceiveError::Closed)));
    subscriber.close();
}

/// Rust where there is no language.
fn pair(publisher: Option<&Language>, subscriber: Option<&Language>, uris: &(String, String)) {
    let (to, from) = uris;
    let (count, failed_at) = (MESSAGES.to_string(), FAILED_AT.to_string());
    let publishing = publisher.map(|language| start(&language.publish, &[to, &count]));
    let (done, own) = mpsc::channel();
    if publisher.is_none() {
        let to = to.clone();
        // Not to be waited for where the subscriber fails: it would wait for room behind that one's
        // name.
        thread::spawn(move || {
            publish(&to);
            let _ = done.send(());
        });
    }
    match subscriber {
        None => {
            receive(from, 0, Some(FAILED_AT));
            receive(from, FAILED_AT, None);
        }
        Some(language) => {
            let failing = start(&language.receive, &[from, "0", &failed_at]);
            assert_eq!(failing.finish(), "failed");
            let successor = start(&language.receive, &[from, &failed_at]);
            assert_eq!(successor.finish(), format!("received to {count}"));
        }
    }
    match publishing {
        Some(publishing) => assert_eq!(publishing.finish(), format!("published {count}")),
        None => own.recv_timeout(WATCHDOG).unwrap(),
    }
}

/// URIs of a publisher and of a subscriber with a name.
fn places(folder: &str, number: usize) -> [(String, String); 3] {
    // Free a moment ago; no other process is likely to take it soon.
    let port = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let ring = format!("dir={folder}&capacity=16KiB");
    let shm = format!("shm://pair-{number}?{ring}");
    let tcp = format!("tcp://127.0.0.1:{port}/pair-{number}?{ring}");
    let file = format!("file://{folder}/pair-{number}.journal?capacity=16KiB");
    [
        (shm.clone(), format!("{shm}&name=archive")),
        (tcp.clone(), format!("{tcp}&name=archive")),
        (
            file.clone(),
            format!("{file}&dir={folder}&name=archive&follow=yes"),
        ),
    ]
}

#[test]
fn each_language_is_read_by_each_in_every_place() {
    let place = TestFolder::new();
    let languages = languages(&place);
    let mut ends: Vec<_> = languages.iter().map(Some).collect();
    ends.push(None);
    let called = |end: Option<&Language>| end.map_or("Rust", |language| language.name);
    let mut pairs = 0;
    for publisher in &ends {
        for subscriber in &ends {
            for uris in places(&place.0.path().display().to_string(), pairs) {
                let (from, to) = (called(*publisher), called(*subscriber));
                eprintln!("{from} to {to}: {} {}", uris.0, uris.1);
                pair(*publisher, *subscriber, &uris);
                pairs += 1;
            }
        }
    }
    assert_eq!(pairs, ends.len().pow(2) * 3);
    eprintln!("{pairs} pairs, {} messages", pairs as u64 * MESSAGES);
}
