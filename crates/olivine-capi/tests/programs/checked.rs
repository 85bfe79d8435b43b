//! Programs in C under a tool that checks each access to memory.

use crate::stage::{self, Link, Running, TestFolder, WATCHDOG, numbered};
use crate::{IMPATIENT, WITH_LINES, WITH_LINES_CPP};
use olivine::{Outgoing, Publisher, ReceiveError, Subscriber};
use std::path::Path;
use std::process::Command;

/// Runs a program, which fails if it touches memory of others or leaks.
pub(crate) const VALGRIND: [&str; 4] = [
    "valgrind",
    "--quiet",
    "--error-exitcode=9",
    "--leak-check=full",
];

/// Whether there is valgrind; if not, a line says so.
pub(crate) fn has_valgrind() -> bool {
    let mut probe = Command::new(VALGRIND[0]);
    let found = probe.arg("--version").output().is_ok();
    if !found {
        stage::skip("no valgrind, so programs in C were not run under it");
    }
    found
}

/// The programs read and write only their own memory, and leak none.
#[test]
fn valgrind_finds_nothing_in_programs_in_c() {
    if !has_valgrind() {
        return;
    }
    let impatient = format!("{IMPATIENT}&name=archive");
    for (file, role, queries, said) in [
        ("arrays.c", None, &[][..], "arrays"),
        ("places.c", Some("inproc"), &[], "inside"),
        ("places.c", Some("durable"), &["", "&name=archive"], "kept"),
        ("places.c", Some("place"), &[IMPATIENT, &impatient], "found"),
    ] {
        let place = TestFolder::new();
        let Some(program) = stage::compile("cc", WITH_LINES, file, Link::Static) else {
            return;
        };
        let uris: Vec<String> = queries.iter().map(|query| place.uri(query)).collect();
        let words = role.into_iter().chain(uris.iter().map(String::as_str));
        assert_eq!(under_valgrind(&program, words).finish(), said);
    }
    for (compiler, flags, file) in [
        ("cc", WITH_LINES, "roles.c"),
        ("c++", WITH_LINES_CPP, "layer.cpp"),
    ] {
        // The library as it is installed.
        let Some(program) = stage::compile(compiler, flags, file, Link::Shared) else {
            return;
        };
        match compiler {
            "cc" => roles(&program),
            _ => {
                let place = TestFolder::new();
                let running = under_valgrind(&program, [&*place.uri("")]);
                assert_eq!(running.finish(), "layered");
            }
        }
    }
}

/// Starts a program of C, which fails with its first error and its first leak.
fn under_valgrind<'a>(program: &'a Path, words: impl IntoIterator<Item = &'a str>) -> Running {
    let own = VALGRIND[1..].iter().copied();
    let own = own.chain(["--errors-for-leak-kinds=definite,possible"]);
    let words = own.chain(program.to_str()).chain(words);
    Running::launch("valgrind".as_ref(), &words.collect::<Vec<_>>())
}

/// Messages of a run, small and large.
const MESSAGES: u64 = 250;

/// Both ends of shared memory and of a connection, with the other end here, and of a journal.
fn roles(program: &Path) {
    let count = MESSAGES.to_string();
    let publish = |uri: &str| under_valgrind(program, ["publish", uri, &count]);
    let subscribe = |uri: &str| under_valgrind(program, ["subscribe", uri]);
    let published = format!("open\npublished {MESSAGES}");
    let received = format!("open\nreceived {MESSAGES}");
    let connected =
        |address: String| format!("tcp://{address}/checked?role=connect&capacity=16KiB");
    let place = TestFolder::new();
    let uri = place.uri("&capacity=16KiB");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let running = publish(&uri);
    receive_all(&mut subscriber);
    assert_eq!(running.finish(), published);
    drop(subscriber);
    let running = subscribe(&uri);
    send_all(Publisher::open(&format!("{uri}&subscribers=1")).unwrap());
    assert_eq!(running.finish(), received);

    let listening = "tcp://127.0.0.1:0/checked?role=listen&capacity=16KiB&linger=1m";

    let mut subscriber = Subscriber::open(listening).unwrap();
    let running = publish(&connected(subscriber.link_status().unwrap().address));
    receive_all(&mut subscriber);
    assert_eq!(running.finish(), published);

    let publisher = Publisher::open(&format!("{listening}&subscribers=1")).unwrap();
    let running = subscribe(&connected(publisher.link_status().unwrap().address));
    send_all(publisher);
    assert_eq!(running.finish(), received);

    let folder = TestFolder::new();
    let journal = format!("file://{}/checked.journal", folder.0.path().display());
    assert_eq!(publish(&journal).finish(), published);
    assert_eq!(subscribe(&journal).finish(), received);
}

/// Receives the messages of a program, and the end.
fn receive_all(subscriber: &mut Subscriber) {
    for number in 0..MESSAGES {
        let message = subscriber.receive_timeout(WATCHDOG).unwrap().unwrap();
        assert_eq!(*message, *numbered(number));
    }
    let end = subscriber.receive_timeout(WATCHDOG);
    assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
}

/// Sends the messages to a program, and the end.
fn send_all(mut publisher: Publisher) {
    for number in 0..MESSAGES {
        let tag = u32::try_from(number).unwrap();
        let message = numbered(number);
        publisher.publish(Outgoing::new(&message).tag(tag)).unwrap();
    }
    publisher.close().unwrap();
}

/// What `olivine.h` says that a file of suppressions has.
fn suppression() -> String {
    let header = std::fs::read_to_string(stage::source("include/olivine.h")).unwrap();
    let line = header
        .lines()
        .find_map(|line| line.split_once("line: called_from_lib:"));
    format!("called_from_lib:{}\n", line.unwrap().1)
}

/// Whether a program runs under ThreadSanitizer here; if not, a line says so.
fn has_thread_sanitizer(place: &TestFolder) -> bool {
    let file = place.0.path().join("probe.c");
    let probe = file.with_extension("");
    std::fs::write(&file, "int main(void) { return 0; }\n").unwrap();
    let mut compile = Command::new("cc");
    compile
        .arg("-fsanitize=thread")
        .arg(&file)
        .arg("-o")
        .arg(&probe);
    let succeeds = |command: &mut Command| {
        let output = command.output();
        output.is_ok_and(|output| output.status.success())
    };
    let found = succeeds(&mut compile) && succeeds(&mut Command::new(probe));
    if !found {
        stage::skip("no ThreadSanitizer, so its suppressions were not tested");
    }
    found
}

/// Reports inside the library end with the line that the header has, and only with it.
#[test]
fn thread_sanitizer_finds_nothing_with_the_suppression_of_the_header() {
    let place = TestFolder::new();
    if !has_thread_sanitizer(&place) {
        return;
    }
    let flags = "c11 -g -fsanitize=thread";
    let Some(program) = stage::compile("cc", flags, "links.c", Link::Shared) else {
        return;
    };
    let file = place.0.path().join("suppressions");
    std::fs::write(&file, suppression()).unwrap();
    let run = |options: &str| {
        let mut command = Command::new(&program);
        let output = command.env("TSAN_OPTIONS", options).output().unwrap();
        let reported = String::from_utf8_lossy(&output.stderr).contains("ThreadSanitizer");
        (output.status.success(), reported)
    };
    assert_eq!(run(""), (false, true));
    let options = format!("suppressions={}", file.display());
    assert_eq!(run(&options), (true, false));
}
