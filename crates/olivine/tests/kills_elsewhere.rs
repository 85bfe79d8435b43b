//! A killed program that publishes into a channel elsewhere. With `name=` nothing is lost. Without
//! it subscribers get an error or wait, and never get the end of the stream.

#![cfg(all(feature = "tcp", feature = "journal", not(loom)))]

mod common;

use common::{Deadline, Other, TestFolder, free_port, kill, spawn, until};
use olivine::{LinkError, Publisher, ReceiveError, Subscriber};
use std::io::Write as _;
use std::path::Path;

/// The program: publishes numbers from `KILLED_FIRST` on, and notes each that it has published.
fn publish_until_killed() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let mut noted = std::fs::File::options()
        .append(true)
        .create(true)
        .open(variable("KILLED_NOTED"))
        .unwrap();
    let mut publisher = Publisher::open(&variable("KILLED_URI")).unwrap();
    for number in variable("KILLED_FIRST").parse::<u64>().unwrap().. {
        publisher.publish(&number.to_le_bytes()).unwrap();
        noted.write_all(&number.to_le_bytes()).unwrap();
    }
}

/// The program whose bridge panics: it gets some messages and then the failure, not an end.
fn receive_until_panic() {
    let mut subscriber = Subscriber::open(&std::env::var("KILLED_URI").unwrap()).unwrap();
    let (received, error) = until_failed(&mut subscriber, 0);
    assert!(received >= 2, "{received}");
    assert!(matches!(error, LinkError::Panicked), "{error}");
}

#[test]
fn role() {
    match common::my_role().as_deref() {
        Some("publisher") => publish_until_killed(),
        Some(_) => receive_until_panic(),
        None => {}
    }
}

fn program(uri: &str, noted: &Path, first: u64) -> Other {
    let variables = [
        ("KILLED_URI", uri.to_owned()),
        ("KILLED_NOTED", noted.display().to_string()),
        ("KILLED_FIRST", first.to_string()),
    ];
    spawn("publisher", &variables)
}

/// Numbers that the program has noted.
fn count(noted: &Path) -> u64 {
    std::fs::metadata(noted).map_or(0, |found| found.len() / 8)
}

/// The next number or error; `None` if there is none for a moment.
fn next(subscriber: &mut Subscriber) -> Result<Option<u64>, ReceiveError> {
    let message = subscriber.receive_timeout(Deadline::STEP_MAX)?;
    Ok(message.map(|message| u64::from_le_bytes(message[..].try_into().unwrap())))
}

/// Kills the program of `publish` several times, each time after it has published some numbers. The
/// next one continues after the noted numbers, and the last one closes. The subscriber gets every
/// noted number.
fn nothing_is_lost(
    place: &TestFolder,
    publish: &str,
    is_live: bool,
    open: impl Fn() -> Subscriber,
) {
    let noted = place.file("noted");
    for round in 1..=3 {
        let killed = program(publish, &noted, count(&noted));
        until("it has published more", || count(&noted) >= round * 500);
        kill(killed);
    }
    let published = count(&noted);
    let early = is_live.then(&open);
    let last = Publisher::open(publish).unwrap();
    let closing = std::thread::spawn(move || last.close());
    let mut subscriber = early.unwrap_or_else(|| {
        // Until then the recording is not finished.
        until("the last one has closed", || closing.is_finished());
        open()
    });
    let mut expected = 0;
    let mut deadline = Deadline::new();
    loop {
        match next(&mut subscriber) {
            // A kill between a message and its note: the next program publishes it again.
            Ok(Some(number)) if number == expected || number + 1 == expected => {
                expected = number + 1;
                deadline = Deadline::new();
            }
            Ok(None) => assert!(deadline.lasts(), "nothing comes after {expected}"),
            Err(ReceiveError::Closed) => break,
            other => panic!("{other:?} in place of {expected}"),
        }
    }
    closing.join().unwrap().unwrap();
    assert!(expected >= published, "{expected} of {published}");
}

#[test]
fn killed_named_tcp_publisher_loses_nothing() {
    let place = TestFolder::new();
    let port = free_port();
    let address = format!("tcp://127.0.0.1:{port}/killed");
    let dir = place.dir();
    let publish = format!(
        "{address}?role=connect&name=ticks&capacity=1MiB&dir={}",
        dir.display()
    );
    let listen = format!("{address}?role=listen&capacity=1MiB");
    nothing_is_lost(&place, &publish, true, || {
        Subscriber::open(&listen).unwrap()
    });
}

#[test]
fn killed_named_recording_publisher_loses_nothing() {
    let place = TestFolder::new();
    let journal = format!("file://{}", place.file("killed.olv").display());
    let publish = format!("{journal}?name=ticks&dir={}", place.dir().display());
    nothing_is_lost(&place, &publish, false, || {
        Subscriber::open(&format!("{journal}?follow=no")).unwrap()
    });
}

/// Everything from `expected` on up to the first error, without a gap, and the error.
fn until_failed(subscriber: &mut Subscriber, mut expected: u64) -> (u64, LinkError) {
    let mut deadline = Deadline::new();
    loop {
        match next(subscriber) {
            Ok(Some(number)) => {
                assert_eq!(number, expected);
                expected += 1;
                deadline = Deadline::new();
            }
            Ok(None) => assert!(deadline.lasts(), "no error after {expected}"),
            Err(ReceiveError::Failed(error)) => return (expected, error),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Runs the program of `publish`, and kills it when `subscriber` has received some numbers. Returns
/// how many it has received.
fn killed_while_received(place: &TestFolder, publish: &str, subscriber: &mut Subscriber) -> u64 {
    let killed = program(publish, &place.file("noted"), 0);
    let mut expected = 0;
    until("numbers arrive", || {
        if let Some(number) = next(subscriber).unwrap() {
            assert_eq!(number, expected);
            expected += 1;
        }
        expected >= 500
    });
    kill(killed);
    expected
}

/// Kills a publisher that connects, and waits until its `expire=` is over.
fn is_reported_as_failed_after_expire(more: &str) {
    let place = TestFolder::new();
    let address = format!("tcp://127.0.0.1:{}/killed", free_port());
    let mut subscriber = Subscriber::open(&format!("{address}?role=listen")).unwrap();
    let dir = place.dir();
    let publish = format!(
        "{address}?role=connect&expire=200ms&subscribers=1&capacity=64KiB&dir={}{more}",
        dir.display()
    );
    let received = killed_while_received(&place, &publish, &mut subscriber);
    let (received, error) = until_failed(&mut subscriber, received);
    assert!(received <= count(&place.file("noted")) + 1);
    let text = error.to_string();
    assert!(text.contains("was away for longer"), "{text}");
}

#[test]
fn killed_unnamed_connecting_publisher_is_reported_as_failed() {
    is_reported_as_failed_after_expire("");
}

#[test]
fn killed_named_connecting_publisher_is_reported_as_failed_after_expire() {
    is_reported_as_failed_after_expire("&name=ticks");
}

/// With the feature `points`, which plants the panic.
#[cfg(feature = "points")]
#[test]
fn panic_of_a_bridge_at_a_named_point_does_not_end_the_stream() {
    for (publishes, subscribes) in [("listen", "connect"), ("connect", "listen")] {
        let address = format!("tcp://127.0.0.1:{}/panics", free_port());
        let variables = [
            ("KILLED_URI", format!("{address}?role={subscribes}")),
            ("OLIVINE_PANIC_AT", "bridge.take:3".to_owned()),
        ];
        let mut child = spawn("subscriber", &variables);
        let publish = format!("{address}?role={publishes}&subscribers=1&expire=100ms");
        let mut publisher = Publisher::open(&publish).unwrap();
        let mut number = 0_u64;
        until("the subscriber ends", || {
            number += u64::from(publisher.try_publish(&number.to_le_bytes()).is_ok());
            child.try_wait().unwrap().is_some()
        });
        common::finished(child);
    }
}

#[test]
fn killed_unnamed_listening_publisher_is_reported_by_its_successor() {
    let place = TestFolder::new();
    let address = format!("tcp://127.0.0.1:{}/killed", free_port());
    let mut subscriber = Subscriber::open(&format!("{address}?role=connect")).unwrap();
    let publish = format!("{address}?role=listen&subscribers=1&capacity=64KiB");
    let mut received = killed_while_received(&place, &publish, &mut subscriber);
    until("the connection is seen to be broken", || {
        while let Some(number) = next(&mut subscriber).unwrap() {
            assert_eq!(number, received);
            received += 1;
        }
        subscriber.link_status().unwrap().failures > 0
    });
    // Without a successor it waits. The successor is another stream.
    let _successor = Publisher::open(&publish).unwrap();
    let (received, error) = until_failed(&mut subscriber, received);
    assert!(received <= count(&place.file("noted")) + 1);
    let text = error.to_string();
    assert!(text.contains("messages are missing"), "{text}");
}

#[test]
fn killed_unnamed_recording_publisher_is_reported_as_failed() {
    let place = TestFolder::new();
    let journal = format!("file://{}", place.file("killed.olv").display());
    let noted = place.file("noted");
    let killed = program(&journal, &noted, 0);
    until("it has published", || count(&noted) >= 500);
    kill(killed);
    let mut subscriber = Subscriber::open(&journal).unwrap();
    let (received, error) = until_failed(&mut subscriber, 0);
    assert!(received <= count(&noted) + 1);
    let text = error.to_string();
    assert!(text.contains("not finished"), "{text}");
}
