//! Bridges that are asked to end deliver what is published so far, and end.

#![cfg(all(feature = "journal", not(loom)))]

mod common;

use common::{Busy, TestFolder, WATCHDOG, until};
use olivine::{Bridge, Config, Publisher, ReceiveError, Subscriber};
use std::path::Path;
use std::time::Duration;

fn bridge(from: &str, to: &str) -> Bridge {
    let (from, to) = (Config::parse(from).unwrap(), Config::parse(to).unwrap());
    Bridge::start(&from, &to, true).unwrap()
}

fn file(path: &Path) -> String {
    format!("file://{}", path.display())
}

/// The number at the start of a message.
fn number(message: &[u8]) -> u64 {
    u64::from_le_bytes(*message.first_chunk().unwrap())
}

/// Numbers that are received up to the end of the stream.
fn numbers(subscriber: &mut Subscriber) -> Vec<u64> {
    let mut numbers = Vec::new();
    loop {
        match subscriber.receive_timeout(WATCHDOG) {
            Ok(Some(message)) => numbers.push(number(&message)),
            Ok(None) => panic!("no report after {} messages", numbers.len()),
            Err(ReceiveError::Closed) => return numbers,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn recorder_ends_on_request_while_its_publisher_continues() {
    let place = TestFolder::new();
    // Larger than one recording turn, so that the publisher never waits for room.
    let (ring, path) = (place.uri("busy", "capacity=16MiB"), place.file("busy.olv"));
    let to = format!("{}?sync=never&rotate=1MiB", file(&path));
    let mut publisher = None;
    let before = |recorder: &Bridge| recorder.status().acknowledged_bytes;
    for _ in 0..3 {
        let recorder = bridge(&ring, &to);
        let busy = publisher.get_or_insert_with(|| Busy::start(&ring, 4000));
        until("it records", || before(&recorder) > 8 << 20);
        recorder.ask_to_finish();
        until("it has ended", || recorder.has_ended());
        assert!(recorder.stop(WATCHDOG).unwrap());
        assert!(busy.is_running());
    }
    let recorder = bridge(&ring, &to);
    let published = publisher.unwrap().stop();
    until("it has ended", || recorder.has_ended());
    assert!(recorder.stop(WATCHDOG).unwrap());
    let mut subscriber = Subscriber::open(&file(&path)).unwrap();
    assert!(numbers(&mut subscriber).into_iter().eq(0..published));
}

#[test]
fn replay_ends_on_request_while_its_recorder_continues() {
    let place = TestFolder::new();
    let path = place.file("busy.olv");
    let from = format!("{}?follow=yes", file(&path));
    let to = place.uri("again", "capacity=64KiB");
    let busy = Busy::start(&format!("{}?sync=never", file(&path)), 8);
    let mut subscriber = Subscriber::open(&to).unwrap();
    let replay = bridge(&from, &to);
    let mut expected = 0;
    let mut take = |most: u64| {
        for _ in 0..most {
            let Some(message) = subscriber.try_receive().unwrap() else {
                return;
            };
            assert_eq!(number(&message), expected);
            expected += 1;
        }
    };
    until("it replays", || {
        take(100);
        replay.status().messages > 0
    });
    replay.ask_to_finish();
    // Slower than the recording: the replay never reaches the end of the journal.
    until("it has ended", || {
        take(500);
        replay.has_ended()
    });
    let length = || std::fs::metadata(&path).unwrap().len();
    let before = length();
    until("more is recorded", || length() > before);
    assert!(busy.stop() > expected);
}

#[test]
fn recorder_without_time_counts_undelivered_messages() {
    const COUNT: u64 = 5000;
    let place = TestFolder::new();
    let (ring, path) = (place.uri("cut", "capacity=1MiB"), place.file("cut.olv"));
    let to = format!("{}?sync=never", file(&path));
    // The durable position that holds the publisher back from here on.
    assert!(bridge(&ring, &to).stop(WATCHDOG).unwrap());
    let mut publisher = Publisher::open(&ring).unwrap();
    for number in 0..COUNT {
        publisher.publish(&number.to_le_bytes()).unwrap();
    }
    let mut recorder = bridge(&ring, &to);
    let delivered = recorder.finish(Duration::from_nanos(1)).unwrap();
    let status = recorder.status();
    assert_eq!(status.messages + status.undelivered, COUNT);
    assert_eq!(delivered, status.undelivered == 0);
    drop(recorder);
    let recorder = bridge(&ring, &to);
    publisher.close().unwrap();
    until("it has ended", || recorder.has_ended());
    let mut subscriber = Subscriber::open(&file(&path)).unwrap();
    assert!(numbers(&mut subscriber).into_iter().eq(0..COUNT));
}
