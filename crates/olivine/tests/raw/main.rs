//! A bridge outside the crate, over a Unix socket: killed, it loses and repeats nothing.

#![cfg(not(loom))]

#[path = "../common/mod.rs"]
mod common;
mod unix;

use common::{Deadline, Other, Random, TestFolder, finished, kill, setting, spawn, until};
use olivine::{Bridge, Config, LinkStage, Outgoing, Publisher, ReceiveError, Subscriber, raw};
use std::path::PathBuf;
use unix::{In, Out};

/// A bridge as another program: from the ring `RAW_RING` to the socket `RAW_SOCKET`, or back.
#[test]
fn role() {
    let Some(role) = common::my_role() else {
        return;
    };
    let variable = |name: &str| std::env::var(name).unwrap();
    let ring = Config::parse(&variable("RAW_RING")).unwrap();
    let socket = PathBuf::from(variable("RAW_SOCKET"));
    let bridge: Bridge = match &*role {
        "out" => raw::bridge_out(&ring, "a socket", Out(socket), true).unwrap(),
        _ => raw::bridge_in("a socket", In(socket), &ring, true).unwrap(),
    };
    // Until it is killed, or the stream has ended.
    let end = loop {
        if bridge.has_ended() {
            break bridge.status();
        }
        std::thread::park_timeout(Deadline::STEP_MAX);
    };
    assert_eq!(end.stage, LinkStage::Ended, "{}", end.note);
}

fn program(role: &str, ring: &str, place: &TestFolder) -> Other {
    let variables = [
        ("RAW_RING", ring.to_owned()),
        ("RAW_SOCKET", place.file("socket").display().to_string()),
    ];
    spawn(role, &variables)
}

/// The next message: its number, checked against its length. `None` if there is none for a moment.
fn next(subscriber: &mut Subscriber) -> Result<Option<u64>, ReceiveError> {
    let message = subscriber.receive_timeout(Deadline::STEP_MAX)?;
    Ok(message.map(|message| {
        let number = u64::from(message.tag());
        assert_eq!(message.len(), length_of(number));
        assert!(message.iter().all(|byte| *byte == number.to_le_bytes()[0]));
        assert_eq!(message.topic(), topic_of(number));
        number
    }))
}

fn length_of(number: u64) -> usize {
    usize::try_from(number * 37 % 1500).unwrap()
}

fn topic_of(number: u64) -> &'static str {
    if number.is_multiple_of(3) {
        "every.third"
    } else {
        ""
    }
}

#[test]
fn killed_bridge_of_another_crate_loses_and_repeats_nothing() {
    const ROUNDS: u64 = 12;
    const BURST: u64 = 300;
    let place = TestFolder::new();
    let seed = setting("OLIVINE_SEED", 1);
    println!("seed {seed}: OLIVINE_SEED repeats it");
    let mut random = Random(seed);
    let (near, far) = (
        place.uri("near", "capacity=8MiB"),
        place.uri("far", "capacity=64KiB"),
    );
    let mut subscriber = Subscriber::open(&far).unwrap();
    let mut sender = program("out", &near, &place);
    let mut receiver = program("in", &far, &place);
    // The first message waits for the sending bridge.
    let mut publisher = Publisher::open(&format!("{near}&subscribers=1")).unwrap();
    let (mut published, mut expected) = (0, 0);
    let mut read_to = |wanted: u64, subscriber: &mut Subscriber| {
        let mut deadline = Deadline::new();
        while expected < wanted {
            match next(subscriber).unwrap() {
                Some(number) => {
                    assert_eq!(number, expected);
                    expected += 1;
                    deadline = Deadline::new();
                }
                None => assert!(deadline.lasts(), "nothing comes after {expected}"),
            }
        }
    };
    for round in 0..ROUNDS {
        for number in published..published + BURST {
            let bytes = vec![number.to_le_bytes()[0]; length_of(number)];
            let tag = u32::try_from(number).unwrap();
            let message = Outgoing::new(&bytes).tag(tag).topic(topic_of(number));
            publisher.publish(message).unwrap();
        }
        // Kills one or both of them somewhere in the burst.
        let wanted = published + random.below(BURST);
        published += BURST;
        read_to(wanted, &mut subscriber);
        let victims = 1 + round % 3;
        if victims & 1 != 0 {
            kill(sender);
            sender = program("out", &near, &place);
        }
        if victims & 2 != 0 {
            kill(receiver);
            receiver = program("in", &far, &place);
        }
    }
    publisher.close().unwrap();
    read_to(published, &mut subscriber);
    finished(sender);
    finished(receiver);
    let mut end = None;
    until("the stream ends", || {
        end = Some(next(&mut subscriber));
        !matches!(end, Some(Ok(None)))
    });
    assert!(matches!(end, Some(Err(ReceiveError::Closed))), "{end:?}");
}

/// The same bridge behind the rings of two handles.
#[test]
fn handles_with_a_bridge_of_another_crate_report_its_state_and_end() {
    let place = TestFolder::new();
    let socket = place.file("socket");
    let config = |name: &str| Config::parse(&format!("inproc://{name}")).unwrap();
    let mut subscriber =
        raw::subscriber(&config("raw-in"), "a socket", In(socket.clone())).unwrap();
    let mut publisher = raw::publisher(&config("raw-out"), "a socket", Out(socket)).unwrap();
    until("both are connected", || {
        [publisher.link_status(), subscriber.link_status()]
            .iter()
            .all(|status| {
                status
                    .as_ref()
                    .is_some_and(|status| status.stage == LinkStage::Connected)
            })
    });
    for number in 0..1000 {
        let bytes = vec![u64::to_le_bytes(number)[0]; length_of(number)];
        let tag = u32::try_from(number).unwrap();
        publisher
            .publish(Outgoing::new(&bytes).tag(tag).topic(topic_of(number)))
            .unwrap();
        let mut found = None;
        until("it comes", || {
            found = next(&mut subscriber).unwrap();
            found.is_some()
        });
        assert_eq!(found, Some(number));
    }
    publisher.close().unwrap();
    let mut end = Ok(None);
    until("the stream ends", || {
        end = next(&mut subscriber);
        end.is_err()
    });
    assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
}
