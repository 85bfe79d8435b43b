//! Sessions of far sides of `tcp://`: what is kept when a side leaves in order, and which settings
//! fit.

#![cfg(not(loom))]

use crate::common;
use crate::common::proxy::{Proxy, Way};
use crate::common::{TestFolder, free_port, until};
use olivine::{Bridge, Config, Plain, Publisher, ReceiveError, Subscriber};
use std::time::Duration;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct Old(u64);

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
struct New(u32);

impl Plain for Old {
    const TYPE_NAME: &'static str = "test.old";
}

impl Plain for New {
    const TYPE_NAME: &'static str = "test.new";
}

fn uri(port: u16, query: &str) -> String {
    format!("tcp://127.0.0.1:{port}/test?{query}")
}

fn bridge(from: &str, to: &str) -> Bridge {
    let config = |uri: &str| Config::parse(uri).unwrap();
    Bridge::start(&config(from), &config(to), false).unwrap()
}

/// The next number, in time; an end in between is ignored, because publishers come back.
fn next(subscriber: &mut Subscriber) -> u64 {
    let mut number = None;
    until("a message comes", || {
        let received = match subscriber.receive_timeout(Duration::from_millis(100)) {
            Ok(received) => received,
            Err(ReceiveError::Closed) => None,
            Err(error) => panic!("{error}"),
        };
        number = received.map(|bytes| u64::from_le_bytes((*bytes).try_into().unwrap()));
        number.is_some()
    });
    number.unwrap()
}

/// Acknowledgements lag behind commits: a source that continues from the last acknowledgement must
/// get the exact position.
#[test]
fn leaving_source_resumes_at_the_destinations_position() {
    const ROUNDS: u64 = 8;
    const EACH: u64 = 5_000;
    let place = TestFolder::new();
    let (from, to) = (
        place.uri("from", "capacity=64KiB"),
        place.uri("to", "capacity=64KiB"),
    );
    let port = free_port();
    let mut subscriber = Subscriber::open(&to).unwrap();
    let _receiving = bridge(&uri(port, "role=listen&capacity=64KiB"), &to);
    let connects = uri(port, "role=connect");
    let mut publisher = Publisher::open(&from).unwrap();
    let mut expected = 0;
    // Before the first message, which it would miss otherwise.
    let mut sending = Some(bridge(&from, &connects));
    // Not joined: if messages are missing, it waits for room forever.
    std::thread::spawn(move || {
        for number in 0..ROUNDS * EACH {
            publisher.publish(&number.to_le_bytes()).unwrap();
        }
        publisher.close().unwrap();
    });
    while expected < ROUNDS * EACH {
        assert_eq!(next(&mut subscriber), expected);
        expected += 1;
        if expected % EACH == EACH / 2 {
            // It leaves in order, in the middle of the stream.
            drop(sending.take());
            sending = Some(bridge(&from, &connects));
        }
    }
}

/// The ring of a source still exists, and holds delivered messages.
#[test]
fn delivered_messages_are_not_repeated_after_the_end() {
    let place = TestFolder::new();
    let (from, to) = (place.uri("from", ""), place.uri("to", ""));
    let port = free_port();
    let _keeper = Subscriber::open(&from).unwrap();
    let mut subscriber = Subscriber::open(&to).unwrap();
    let config = |uri: &str| Config::parse(uri).unwrap();
    let (source, there) = (config(&from), config(&uri(port, "role=listen")));
    let _receiving = bridge(&uri(port, "role=connect"), &to);
    for round in 0..3_u64 {
        let mut publisher = Publisher::open(&from).unwrap();
        let sending = Bridge::start(&source, &there, true).unwrap();
        until("the destination is there", || sending.status().peers == 1);
        for number in round * 10..round * 10 + 10 {
            publisher.publish(&number.to_le_bytes()).unwrap();
            assert_eq!(next(&mut subscriber), number);
        }
        publisher.close().unwrap();
        until("the end is reported", || sending.has_ended());
    }
}

/// Lanes that were reserved for a source are free once it has ended.
#[test]
fn sources_come_and_end_one_after_the_other() {
    let place = TestFolder::new();
    let to = place.uri("to", "publishers_max=2");
    let port = free_port();
    let mut subscriber = Subscriber::open(&to).unwrap();
    let _receiving = bridge(&uri(port, "role=listen"), &to);
    for number in 0..6_u64 {
        let mut publisher = Publisher::open(&uri(port, "role=connect")).unwrap();
        publisher.publish(&number.to_le_bytes()).unwrap();
        assert_eq!(next(&mut subscriber), number);
        publisher.close().unwrap();
    }
}

#[test]
fn bridge_stops_after_delivery_while_its_publisher_lives() {
    for (ours, theirs) in [
        ("role=listen", "role=connect"),
        ("role=connect", "role=listen"),
    ] {
        let place = TestFolder::new();
        let from = place.uri("from", "");
        let port = free_port();
        let mut publisher = Publisher::open(&from).unwrap();
        let sending = bridge(&from, &uri(port, ours));
        let mut subscriber = Subscriber::open(&uri(port, theirs)).unwrap();
        for number in 0..100 {
            publisher.publish(&u64::to_le_bytes(number)).unwrap();
            assert_eq!(next(&mut subscriber), number);
        }
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(sending.stop(Duration::ZERO)));
        let outcome = is_done.recv_timeout(common::WATCHDOG);
        assert!(outcome.expect("an end in time").unwrap(), "{ours}");
        drop(publisher);
    }
}

/// The ring existed before the bridge, whose URI has no settings.
#[test]
fn existing_ring_refuses_unfit_frames() {
    let cases = [
        ("align=64", "", "align", ["8", "64"]),
        ("", "align=64", "align", ["64", "8"]),
        (
            "capacity=64KiB",
            "capacity=1MiB",
            "capacity",
            ["1048576", "65536"],
        ),
    ];
    for (there, source, key, values) in cases {
        for role in ["listen", "connect"] {
            let place = TestFolder::new();
            let other = if role == "listen" {
                "connect"
            } else {
                "listen"
            };
            let port = free_port();
            let (from, to) = (place.uri("from", source), place.uri("to", there));
            let mut subscriber = Subscriber::open(&to).unwrap();
            let mut publisher = Publisher::open(&from).unwrap();
            publisher.publish(&[0; 200]).unwrap();
            let start = |from: &str, to: &str| {
                let config = |uri: &str| Config::parse(uri).unwrap();
                Bridge::start(&config(from), &config(to), false)
            };
            let bare = place.uri("to", "");
            let receiving = || start(&uri(port, &format!("role={role}")), &bare);
            let sending = || start(&from, &uri(port, &format!("role={other}")));
            // The listener refuses the client; either side may fail to start.
            let first = if role == "listen" {
                receiving()
            } else {
                sending()
            };
            let second = if role == "listen" {
                sending()
            } else {
                receiving()
            };
            let told = |bridge: &Result<Bridge, olivine::OpenError>| match bridge {
                Ok(bridge) => bridge.status().note,
                Err(error) => error.to_string(),
            };
            until("both values are reported", || {
                [&first, &second].into_iter().any(|bridge| {
                    let told = told(bridge);
                    told.contains(key) && values.iter().all(|value| told.contains(value))
                })
            });
            let received = subscriber.receive_timeout(Duration::ZERO).unwrap();
            assert!(received.is_none(), "{there} {source} {role}");
        }
    }
}

/// Bridges do not read messages; both channels must still have the same type.
#[test]
fn a_ring_of_another_type_is_not_written() {
    let place = TestFolder::new();
    let port = free_port();
    let _subscriber = Subscriber::<Old>::typed(&place.uri("to", "")).unwrap();
    let mut publisher = Publisher::<New>::typed(&place.uri("from", "")).unwrap();
    publisher.publish(&New(7)).unwrap();
    let config = |uri: &str| Config::parse(uri).unwrap();
    let (from, to) = (place.uri("from", ""), place.uri("to", ""));
    let near = Bridge::start(&config(&from), &config(&to), false);
    let told = match near {
        Ok(bridge) => {
            until("it gave up", || bridge.has_ended());
            bridge.status().note
        }
        Err(error) => error.to_string(),
    };
    assert!(
        told.contains("test.new") && told.contains("test.old"),
        "{told}"
    );
    let _sending = bridge(&from, &uri(port, "role=listen"));
    let error = Bridge::start(&config(&uri(port, "role=connect")), &config(&to), false);
    let told = error.unwrap_err().to_string();
    assert!(
        told.contains("test.new") && told.contains("test.old"),
        "{told}"
    );
}

#[test]
fn listener_survives_a_failed_ring_opening() {
    let (here, there) = (TestFolder::new(), TestFolder::new());
    let port = free_port();
    // A file is in place of the channel folder.
    std::fs::write(there.dir(), "in the way").unwrap();
    let to = there.uri("to", "");
    let receiving = bridge(&uri(port, "role=listen"), &to);
    let mut publisher = Publisher::open(&here.uri("from", "")).unwrap();
    let _sending = bridge(&here.uri("from", ""), &uri(port, "role=connect"));
    until("a connection was in vain", || {
        receiving.status().refusals > 0
    });
    assert!(!receiving.has_ended());
    std::fs::remove_file(there.dir()).unwrap();
    let mut subscriber = Subscriber::open(&to).unwrap();
    publisher.publish(&7_u64.to_le_bytes()).unwrap();
    assert_eq!(next(&mut subscriber), 7);
}

/// The end of a lane is delivered to a destination that has it open, even much later.
#[test]
fn close_during_a_broken_link_is_delivered() {
    for listens in [true, false] {
        let place = TestFolder::new();
        let port = free_port();
        let proxy = Proxy::start(port);
        let end = |listens: bool| match listens {
            true => uri(port, "role=listen"),
            false => uri(proxy.port, "role=connect"),
        };
        let (from, to) = (place.uri("from", ""), place.uri("to", ""));
        let mut subscriber = Subscriber::open(&to).unwrap();
        let mut publisher = Publisher::open(&format!("{from}&subscribers=1")).unwrap();
        let sending = bridge(&from, &end(listens));
        let _receiving = bridge(&end(!listens), &to);
        publisher.publish(&7_u64.to_le_bytes()).unwrap();
        assert_eq!(next(&mut subscriber), 7);
        until("it is acknowledged", || {
            let status = sending.status();
            status.bytes == status.acknowledged_bytes
        });
        proxy.set_down(true);
        publisher.close().unwrap();
        proxy.set_down(false);
        until("the end is reported", || {
            let received = subscriber.receive_timeout(Duration::ZERO);
            matches!(received, Err(ReceiveError::Closed))
        });
    }
}

/// Both ends are the same ring: each message would create the next one.
#[test]
fn bridge_from_a_channel_to_itself_is_refused() {
    let place = TestFolder::new();
    let channel = place.uri("loop", "");
    let mut publisher = Publisher::open(&channel).unwrap();
    let alias = place.dir().join("../channels");
    let config = |uri: &str| Config::parse(uri).unwrap();
    for other in [
        channel.clone(),
        format!("shm://loop?dir={}", alias.display()),
    ] {
        let refused = Bridge::start(&config(&channel), &config(&other), false);
        let told = format!("{:?}", refused.expect_err("a loop"));
        assert!(told.contains("Loop"), "{told}");
        assert_eq!(publisher.count_subscribers(), 0, "no durable name is left");
    }
    let port = free_port();
    let _sending = bridge(&channel, &uri(port, "role=listen"));
    let refused = Bridge::start(
        &config(&uri(port, "role=connect")),
        &config(&channel),
        false,
    );
    let told = refused.expect_err("a loop").to_string();
    assert!(told.contains("round for ever"), "{told}");
    publisher.publish(b"once").unwrap();
}

/// Its acknowledgements were withheld, it stayed away for longer than `expire=`, and the lanes of
/// its session failed: the new session repeated what had come.
#[test]
fn publisher_that_comes_back_after_it_expired_repeats_nothing() {
    const BATCH: u64 = 20;
    let port = free_port();
    let mut subscriber = Subscriber::open(&uri(port, "role=listen")).unwrap();
    let proxy = Proxy::start(port);
    let connects = uri(proxy.port, "role=connect&expire=300ms");
    let mut publisher: Publisher = Publisher::open(&connects).unwrap();
    publisher.publish(&0_u64.to_le_bytes()).unwrap();
    assert_eq!(next(&mut subscriber), 0);
    for round in 0..2 {
        proxy.hold(Way::FromListener, true);
        let first = 1 + round * (BATCH + 1);
        for number in first..first + BATCH {
            publisher.publish(&number.to_le_bytes()).unwrap();
        }
        for number in first..first + BATCH {
            assert_eq!(next(&mut subscriber), number, "round {round}");
        }
        proxy.set_down(true);
        let mut reason = String::new();
        until("its session has expired", || {
            match subscriber.receive_timeout(Duration::from_millis(50)) {
                Ok(None) => {}
                Err(ReceiveError::Failed(error)) => reason = error.to_string(),
                other => panic!("{other:?}"),
            }
            !reason.is_empty()
        });
        assert!(reason.contains("was away for longer"), "{reason}");
        proxy.hold(Way::FromListener, false);
        proxy.set_down(false);
        // Not a number of the batch again.
        let after = first + BATCH;
        publisher.publish(&after.to_le_bytes()).unwrap();
        // The stream counts as failed until the publisher is back.
        let mut came = None;
        until("the publisher is back", || {
            let received = subscriber.receive_timeout(Duration::from_millis(50));
            came = received.ok().flatten().map(|bytes| bytes.to_vec());
            came.is_some()
        });
        assert_eq!(came.unwrap(), after.to_le_bytes(), "round {round}");
    }
    publisher.close().unwrap();
}
