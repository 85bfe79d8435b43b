//! Waiting: every mix of strategies, and the descriptor form for event loops.

#![cfg(not(loom))]

mod common;

use common::numbers::{LONG, SHORT, expect, number, send};
use common::{Place, until};
use olivine::{Publisher, ReceiveError, Subscriber};
use std::time::Duration;

#[test]
fn every_mix_of_waiting_delivers() {
    let place = Place::new();
    let strategies = ["park", "yield", "adaptive", "spin"];
    for sends in strategies {
        let uri = |wait| place.uri("mix", &format!("capacity=4KiB&wait={wait}"));
        let readers: Vec<_> = strategies[..3]
            .iter()
            .map(|wait| {
                let mut subscriber = Subscriber::open(&uri(*wait)).unwrap();
                std::thread::spawn(move || {
                    expect(&mut subscriber, 0..2_000);
                    assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
                })
            })
            .collect();
        let mut publisher = Publisher::open(&uri(sends)).unwrap();
        send(&mut publisher, 0..2_000);
        publisher.close().unwrap();
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
    }
}

/// Whether a descriptor becomes readable within `timeout`.
fn readable(subscriber: &mut Subscriber, timeout: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let descriptor = subscriber.event_fd().unwrap();
    let mut set = [PollFd::new(&descriptor, PollFlags::IN)];
    let timeout = Timespec::try_from(timeout).unwrap();
    poll(&mut set, Some(&timeout)).unwrap() == 1
}

/// Polls until nothing is left, which arms the descriptor again.
fn drain(subscriber: &mut Subscriber) -> Vec<u32> {
    let mut got = Vec::new();
    while subscriber
        .poll(|message| got.push(number(&message)), 100)
        .unwrap()
        > 0
    {}
    got
}

#[test]
fn an_event_loop_is_told_of_messages() {
    let place = Place::new();
    let uri = place.uri("events", "capacity=4KiB");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut got = Vec::new();
    for round in 0..50 {
        send(&mut publisher, round * 3..round * 3 + 3);
        while got.len() < (round as usize + 1) * 3 {
            assert!(readable(&mut subscriber, LONG));
            got.extend(drain(&mut subscriber));
        }
    }
    assert_eq!(got, (0..150).collect::<Vec<_>>());
    assert!(!readable(&mut subscriber, SHORT), "nothing to read");
    // The end is news, too.
    publisher.close().unwrap();
    assert!(readable(&mut subscriber, LONG));
    until("the end is found", || {
        matches!(subscriber.poll(|_| (), 1), Err(ReceiveError::Closed))
    });
}

#[test]
fn an_event_loop_that_also_looks_by_itself_is_told_of_what_comes_next() {
    let place = Place::new();
    let uri = place.uri("both", "capacity=4KiB");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    // Zeros, so that a place of the lap before looks empty.
    let zeros = [0; 256];
    for round in 0..300 {
        assert!(!readable(&mut subscriber, Duration::ZERO), "all was read");
        // More than a lap, read without the descriptor.
        for message in 0..20 {
            publisher
                .publish(&zeros[..24 + (round + message) % 232])
                .unwrap();
            let mut count = 0;
            while subscriber.poll(|_| count += 1, 100).unwrap() > 0 {}
            assert_eq!(count, 1);
        }
        publisher.publish(&zeros).unwrap();
        assert!(readable(&mut subscriber, LONG), "round {round}");
        while subscriber.poll(|_| {}, 100).unwrap() > 0 {}
    }
}

#[test]
fn an_event_loop_rests_when_one_of_two_publishers_has_closed() {
    let uri = "inproc://half-closed?capacity=4KiB";
    let mut subscriber = Subscriber::open(uri).unwrap();
    let mut stays = Publisher::open(uri).unwrap();
    let mut goes = Publisher::open(uri).unwrap();
    send(&mut stays, 0..1);
    send(&mut goes, 0..1);
    assert!(readable(&mut subscriber, LONG));
    goes.close().unwrap();
    let mut looks = 0;
    until("it rests", || {
        drain(&mut subscriber);
        looks += 1;
        assert!(looks < 100, "the descriptor is always readable");
        !readable(&mut subscriber, SHORT)
    });
    send(&mut stays, 1..2);
    assert!(readable(&mut subscriber, LONG));
    stays.close().unwrap();
    assert!(readable(&mut subscriber, LONG));
}
