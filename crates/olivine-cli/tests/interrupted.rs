//! Ending on request: the exit code tells whether the work is complete.

mod common;

use common::{Running, TestFolder, hear, json, said, until};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Stdio;

/// Ends it with these signals, all pending at once; returns its exit code.
fn end(mut running: Running, signals: &[Signal]) -> Option<i32> {
    // Signals sent while it is stopped are pending when it continues.
    running.signal(Signal::STOP);
    for signal in signals {
        running.signal(*signal);
    }
    running.signal(Signal::CONT);
    running = running.reading();
    running.wait().code()
}

#[test]
fn interrupted_count_exits_with_the_signals_code() {
    let place = TestFolder::new();
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let subscriber = place.start(&["sub", "shm://few", "--count", "3"]);
        place.await_subscribers("few", 1);
        assert_eq!(end(subscriber, &[signal]), Some(code));
    }
    let subscriber = place.start(&["sub", "shm://few", "--duration", "1h"]);
    place.await_subscribers("few", 1);
    assert_eq!(end(subscriber, &[Signal::INT]), Some(130));
    assert_eq!(place.left(), Vec::<String>::new(), "ended in order");
}

/// Two signals at once are one request, whichever thread sees them first; the code is always the
/// same.
#[test]
fn two_signals_at_once_end_with_one_code() {
    let place = TestFolder::new();
    for round in 0..20 {
        let endless = place.start(&["sub", "shm://twice"]);
        let limited = place.start(&["sub", "shm://twice", "--count", "1"]);
        place.await_subscribers("twice", 2);
        let both = [Signal::INT, Signal::INT];
        assert_eq!(end(endless, &both), Some(0), "round {round}");
        assert_eq!(
            end(limited, &[Signal::TERM, Signal::INT]),
            Some(130),
            "round {round}"
        );
        assert_eq!(place.left(), Vec::<String>::new(), "round {round}");
    }
}

#[test]
fn endless_command_is_complete_when_stopped() {
    let place = TestFolder::new();
    let file = place.path().join("kept.olv").display().to_string();
    let recorder = place.start(&["record", "live", &file]);
    place.await_subscribers("live", 1);
    let subscriber = place.start(&["sub", "shm://live", "--out", "none"]);
    let publisher = place.start(&["pub", "shm://live", "--rate", "1000"]);
    place.await_publishing("live");
    for running in [publisher, subscriber, recorder] {
        assert_eq!(end(running, &[Signal::INT]), Some(0));
    }
}

#[test]
fn stopped_replay_is_incomplete() {
    let place = TestFolder::new();
    let file = place.path().join("some.olv").display().to_string();
    let journal = format!("file://{file}");
    assert!(place.run(&["pub", &journal, "one", "two"]).status.success());
    let replay = place.start(&["replay", &file, "again", "--subscribers", "1"]);
    until("the replay has come", || place.look("again").is_some());
    assert_eq!(end(replay, &[Signal::INT]), Some(130));
}

#[test]
fn stopped_measurement_prints_partial_results() {
    if !common::has_two_cpus() {
        return;
    }
    let place = TestFolder::new();
    let bench = place.start(&[
        "bench",
        "floor",
        "--seconds",
        "600",
        "--runs",
        "1",
        "--json",
    ]);
    let pid = bench.child.id();
    let children = format!("/proc/{pid}/task/{pid}/children");
    until("its second process", || {
        std::fs::read_to_string(&children).is_ok_and(|children| !children.is_empty())
    });
    bench.signal(Signal::INT);
    let output = bench.output();
    assert_eq!(output.status.code(), Some(130), "{}", said(&output));
    if !output.stdout.is_empty() {
        assert_eq!(json(&output)["interrupted"], true);
    }
}

/// No far side takes the message: Ctrl-C ends the command at once, and it reports the loss.
#[test]
fn publisher_without_far_side_ends_at_once_and_counts_undelivered() {
    let place = TestFolder::new();
    let mut publisher = place.start(&["pub", "tcp://127.0.0.1:1/away?role=connect", "hello"]);
    let (line, mut rest) = hear(&mut publisher, "waiting for");
    assert!(
        line.contains("127.0.0.1:1") && line.contains("refused"),
        "{line}"
    );
    assert!(line.contains("trying again"), "{line}");
    publisher.signal(Signal::INT);
    let mut said = String::new();
    rest.read_to_string(&mut said).unwrap();
    assert_eq!(publisher.wait().code(), Some(130), "{said}");
    assert!(said.contains("has not acknowledged everything"), "{said}");
}

/// One far side is connected; another is absent with an unread message and may come back any time.
#[test]
fn publisher_waiting_for_one_of_two_far_sides_ends_on_request() {
    let place = TestFolder::new();
    // A free port, and one of many.
    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .unwrap()
        .port();
    let uri = format!("tcp://127.0.0.1:{port}/two");
    let mut command = place.olivine(&["pub", &uri, "--subscribers", "2", "--stdin", "lines"]);
    let mut publisher = Running::new(command.stdin(Stdio::piped()).spawn().unwrap());
    let mut lines = publisher.child.stdin.take().unwrap();
    lines.write_all(b"one\n").unwrap();
    let mut connected = place.start(&["sub", &uri]);
    let mut away = place.start(&["sub", &uri, "--name", "audit"]);
    for subscriber in [&mut connected, &mut away] {
        let mut line = [0; 4];
        let stdout = subscriber.child.stdout.as_mut().unwrap();
        stdout.read_exact(&mut line).unwrap();
        assert_eq!(&line, b"one\n");
    }
    drop(away);
    lines.write_all(b"two\n").unwrap();
    drop(lines);
    let (line, mut rest) = hear(&mut publisher, "waiting until");
    assert!(line.contains(&uri), "{line}");
    publisher.signal(Signal::INT);
    let mut said = String::new();
    rest.read_to_string(&mut said).unwrap();
    assert_eq!(publisher.wait().code(), Some(130), "{said}");
    assert!(said.contains("has not acknowledged everything"), "{said}");
    drop(connected);
}

/// At the request everything is read.
#[test]
fn stopped_publisher_with_everything_read_is_complete() {
    let place = TestFolder::new();
    let subscriber = place.start(&["sub", "shm://all", "--once", "--out", "none"]);
    place.await_subscribers("all", 1);
    subscriber.signal(Signal::STOP);
    let mut publisher = place.start(&["pub", "shm://all", "hello", "--linger", "1h"]);
    let (_, _rest) = hear(&mut publisher, "waits for its subscriber");
    publisher.signal(Signal::STOP);
    publisher.signal(Signal::INT);
    subscriber.signal(Signal::CONT);
    until("the message is read", || {
        let info = place.look("all");
        info.is_some_and(|info| info.subscribers.iter().all(|one| one.lag_bytes == 0))
    });
    publisher.signal(Signal::CONT);
    assert_eq!(publisher.wait().code(), Some(0));
    assert!(subscriber.output().status.success());
}
