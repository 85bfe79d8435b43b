//! One suite for all transports: the same programs, only the URI differs.

/// The example program: `cargo run --example anywhere -- URI`.
#[allow(
    dead_code,
    unreachable_pub,
    reason = "it is a program: its main function is for the shell"
)]
#[path = "../../examples/anywhere.rs"]
mod program;

use crate::common::{Random, until};
use crate::transports::{Ability, Transport, each, each_pair};
use olivine::{
    Config, LinkStage, MessageType, NotSent, Outgoing, Publisher, ReceiveError, Subscriber,
};
use std::collections::HashMap;
use std::time::Duration;

/// A message with its publisher and number, and a body derived from both.
fn message(publisher: u32, number: u32, longest: u64) -> Vec<u8> {
    let mut random = Random(u64::from(publisher) << 32 | u64::from(number));
    let length = match random.below(16) {
        0 => random.below(longest),
        _ => random.below(64),
    };
    let mut bytes = [publisher.to_le_bytes(), number.to_le_bytes()].concat();
    bytes.extend((0..length).map(|_| random.next().to_le_bytes()[0]));
    bytes
}

fn numbers(bytes: &[u8]) -> (u32, u32) {
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    (word(0), word(4))
}

/// Reads to the end of the stream, and checks that nothing is lost, repeated, reordered or damaged.
fn check_all(subscriber: &mut Subscriber, publishers: u32, count: u32, longest: u64) {
    let mut next: HashMap<u32, u32> = HashMap::new();
    let mut seen = 0;
    while seen < publishers * count {
        let received = subscriber.receive_timeout(crate::common::WATCHDOG);
        let received = received.expect("no error").expect("a message in time");
        let (publisher, number) = numbers(&received);
        let expected = next.entry(publisher).or_insert(0);
        assert_eq!(number, *expected, "publisher {publisher}");
        assert_eq!(*received, message(publisher, number, longest)[..]);
        *expected += 1;
        seen += 1;
    }
}

#[test]
fn same_program_runs_on_every_transport() {
    each_pair(|transport| {
        let (publish, subscribe) = transport.pair("subscribers=1");
        let publishing = std::thread::spawn(move || program::publish(&publish));
        let found = program::subscribe(&subscribe);
        assert_eq!(found.unwrap(), program::COUNT, "{transport:?}");
        publishing.join().unwrap().unwrap();
    });
}

#[test]
fn tags_empty_and_longest_messages_arrive() {
    each_pair(|transport| {
        let (publish, subscribe) = transport.pair("subscribers=1&capacity=64KiB");
        let receiving = std::thread::spawn(move || {
            let mut subscriber = Subscriber::open(&subscribe).unwrap();
            let mut found = Vec::new();
            while let Ok(received) = subscriber.receive() {
                found.push((received.tag(), received.to_vec()));
            }
            found
        });
        let mut publisher = Publisher::open(&publish).unwrap();
        let longest = vec![0xa5; publisher.message_max()];
        let sent = [
            (0, Vec::new()),
            (u32::MAX, b"tag".to_vec()),
            (1, longest.clone()),
            (2, Vec::new()),
            (3, longest),
        ];
        for (tag, bytes) in &sent {
            publisher.publish(Outgoing::new(bytes).tag(*tag)).unwrap();
        }
        assert!(matches!(
            publisher.publish(&vec![0; publisher.message_max() + 1]),
            Err(NotSent::TooLong { .. })
        ));
        publisher.close().unwrap();
        assert_eq!(receiving.join().unwrap(), sent, "{transport:?}");
    });
}

/// Acknowledgements of a few messages come with each strategy, and also if no thread ever sleeps.
#[test]
fn a_few_messages_and_their_end_arrive_with_each_wait_strategy() {
    for wait in ["spin", "yield", "park", "adaptive"] {
        each_pair(|transport| {
            let (publish, subscribe) =
                transport.pair(&format!("wait={wait}&subscribers=1&linger=60s"));
            let receiving = std::thread::spawn(move || {
                let mut subscriber = Subscriber::open(&subscribe).unwrap();
                let mut found = Vec::new();
                let end = loop {
                    match subscriber.receive_timeout(crate::common::WATCHDOG) {
                        Ok(received) => found.push(received.expect("in time").tag()),
                        Err(end) => break end,
                    }
                };
                assert!(matches!(end, ReceiveError::Closed), "{end}");
                found
            });
            let mut publisher = Publisher::open(&publish).unwrap();
            for tag in 0..3 {
                publisher.publish(Outgoing::new(b"").tag(tag)).unwrap();
            }
            let drained = publisher.wait_drained(Some(crate::common::WATCHDOG));
            assert!(
                matches!(drained, Ok(true)),
                "{transport:?}, wait={wait}: {drained:?}"
            );
            let closed = publisher.close();
            assert!(closed.is_ok(), "{transport:?}, wait={wait}: {closed:?}");
            assert_eq!(receiving.join().unwrap(), [0, 1, 2], "{transport:?}");
        });
    }
}

#[test]
fn silent_subscriber_holds_the_publisher_back() {
    each_pair(|transport| {
        let query = format!("capacity=64KiB&wait=park{}", transport.bounded());
        let (publish, subscribe) = transport.pair(&query);
        let mut publisher = Publisher::open(&publish).unwrap();
        let mut subscriber = Subscriber::open(&subscribe).unwrap();
        transport.wait_joined(&publisher, &subscriber);
        if !transport.has(Ability::BackPressure) {
            return sends_without_reader(&mut publisher, &mut subscriber);
        }
        // At most two rings and the kernel's socket buffers, on every transport.
        let mut sent = 0_u64;
        let mut refused = 0;
        while refused < 50 {
            match publisher.try_publish(&sent.to_le_bytes()) {
                Ok(_) => {
                    sent += 1;
                    refused = 0;
                }
                Err(NotSent::BackPressured) => {
                    refused += 1;
                    let waited = publisher.wait_for_room(8, Some(Duration::from_millis(10)));
                    assert!(matches!(waited, Ok(()) | Err(NotSent::BackPressured)));
                }
                Err(error) => panic!("{transport:?}: {error}"),
            }
            assert!(sent < 10_000_000, "{transport:?}: nothing holds it back");
        }
        for number in 0..sent {
            let received = subscriber.receive_timeout(crate::common::WATCHDOG).unwrap();
            assert_eq!(*received.expect("a message"), number.to_le_bytes());
        }
        publisher.publish(b"room again").unwrap();
        assert_eq!(&*subscriber.receive().unwrap(), b"room again");
    });
}

/// A type of 16 bytes with these fields.
fn trade(fields: &str) -> MessageType {
    let stated = MessageType::new("trade v1", 16, 8).unwrap();
    stated.with_fields(fields).unwrap()
}

#[test]
fn fields_of_a_type_are_known_to_subscribers_of_bytes() {
    each_pair(|transport| {
        let (publish, subscribe) = transport.pair("");
        let stated = trade("price i64, size u32 @12");
        let publish = Config::parse(&publish).unwrap();
        let mut publisher = Publisher::open_for(&publish, &stated).unwrap();
        let mut subscriber = Subscriber::open(&subscribe).unwrap();
        transport.wait_joined(&publisher, &subscriber);
        publisher.publish(&[7; 16]).unwrap();
        let received = subscriber.receive_timeout(crate::common::WATCHDOG).unwrap();
        assert_eq!(&*received.unwrap(), &[7; 16]);
        assert_eq!(&subscriber.fields(), stated.fields(), "{transport:?}");
    });
}

#[test]
fn a_type_with_another_field_is_refused_by_the_name_of_the_field() {
    let chain = |error: &dyn std::error::Error| {
        let causes = std::iter::successors(Some(error), |error| error.source());
        causes.map(|cause| format!("{cause}: ")).collect::<String>()
    };
    each(|transport| {
        let (publish, subscribe) = transport.pair("");
        let config = |uri: &str| Config::parse(uri).unwrap();
        let stated = trade("price i64, size u64");
        let mut publisher = Publisher::open_for(&config(&publish), &stated).unwrap();
        publisher.publish(&[7; 16]).unwrap();
        transport.wait_kept(&publisher);
        let other = trade("price i64, size u32");
        let error = match Subscriber::open_for(&config(&subscribe), &other) {
            Err(error) => chain(&error),
            Ok(mut subscriber) => {
                let received = subscriber.receive_timeout(crate::common::WATCHDOG);
                chain(&received.map(|_| ()).unwrap_err())
            }
        };
        for named in ["(size u64 at byte 8)", "(size u32 at byte 8)"] {
            assert!(error.contains(named), "{transport:?}: {error}");
        }
    });
}

/// The publisher connects, so it is refused.
#[test]
fn a_publisher_of_another_field_is_refused_by_a_subscriber_that_listens() {
    let port = crate::common::free_port();
    let uri = |role| format!("tcp://127.0.0.1:{port}/fields?role={role}");
    let config = |role| Config::parse(&uri(role)).unwrap();
    let ours = trade("price i64, size u64");
    let _subscriber = Subscriber::open_for(&config("listen"), &ours).unwrap();
    let error = Publisher::open_for(&config("connect"), &trade("price f64")).unwrap_err();
    let error = error.to_string();
    for named in ["(price i64 at byte 0)", "(price f64 at byte 0)"] {
        assert!(error.contains(named), "{error}");
    }
}

/// On transports without back pressure: more than both rings hold is published without a reader,
/// and then received.
fn sends_without_reader(publisher: &mut Publisher, subscriber: &mut Subscriber) {
    const COUNT: u64 = 40_000;
    for number in 0..COUNT {
        publisher.publish(&number.to_le_bytes()).unwrap();
    }
    for number in 0..COUNT {
        let received = subscriber.receive_timeout(crate::common::WATCHDOG).unwrap();
        assert_eq!(*received.expect("a message"), number.to_le_bytes());
    }
}

#[test]
fn late_subscriber_starts_with_the_next_message() {
    each(|transport| {
        let (publish, subscribe) = transport.pair("");
        let mut publisher = Publisher::open(&publish).unwrap();
        publisher.publish(b"early").unwrap();
        transport.wait_kept(&publisher);
        // The default, except for a journal.
        let now = format!("{subscribe}{}from=now", transport.and(&subscribe));
        let mut subscriber = Subscriber::open(&now).unwrap();
        transport.wait_joined(&publisher, &subscriber);
        publisher.publish(b"late").unwrap();
        assert_eq!(&*subscriber.receive().unwrap(), b"late", "{transport:?}");
        let oldest = format!("{subscribe}{}from=oldest", transport.and(&subscribe));
        let mut other = Subscriber::open(&oldest).unwrap();
        assert_eq!(&*other.receive().unwrap(), b"early", "{transport:?}");
        assert_eq!(&*other.receive().unwrap(), b"late", "{transport:?}");
    });
}

#[test]
fn every_subscriber_gets_everything() {
    each(|transport: &Transport| {
        let (publish, subscribe) = transport.pair("capacity=64KiB&subscribers=3");
        let readers: Vec<_> = (0..3)
            .map(|_| {
                let subscribe = subscribe.clone();
                std::thread::spawn(move || {
                    let mut subscriber = Subscriber::open(&subscribe).unwrap();
                    check_all(&mut subscriber, 1, 5000, 500);
                    assert!(matches!(subscriber.receive(), Err(ReceiveError::Closed)));
                })
            })
            .collect();
        let mut publisher = Publisher::open(&publish).unwrap();
        for number in 0..5000 {
            publisher.publish(&message(0, number, 500)).unwrap();
        }
        publisher.close().unwrap();
        for reader in readers {
            reader.join().unwrap();
        }
    });
}

#[test]
fn returning_publisher_is_received_again() {
    each_pair(|transport| {
        let (publish, subscribe) = transport.pair("subscribers=1");
        let mut subscriber = None;
        for round in 0..3_u8 {
            let uri = publish.clone();
            let publishing = std::thread::spawn(move || {
                let mut publisher = Publisher::open(&uri).unwrap();
                publisher.publish(&[round]).unwrap();
                publisher.close().unwrap();
            });
            let subscriber =
                subscriber.get_or_insert_with(|| Subscriber::open(&subscribe).unwrap());
            let mut found = None;
            until("the message of this round", || {
                match subscriber.receive_timeout(Duration::from_millis(20)) {
                    Ok(Some(received)) => found = Some(received[0]),
                    Err(ReceiveError::Closed) if transport.is_opened_again() => {
                        *subscriber = Subscriber::open(&subscribe).unwrap();
                    }
                    // The end of the previous round.
                    Ok(None) | Err(ReceiveError::Closed) => {}
                    Err(error) => panic!("{transport:?}: {error}"),
                }
                found.is_some()
            });
            assert_eq!(found, Some(round), "{transport:?}");
            publishing.join().unwrap();
        }
    });
}

#[test]
fn close_without_subscriber_does_not_wait() {
    each(|transport| {
        let (publish, _) = transport.pair("");
        let mut publisher = Publisher::open(&publish).unwrap();
        publisher.publish(b"unread").unwrap();
        publisher.close().unwrap();
    });
}

#[test]
fn link_status_shows_the_connection() {
    each_pair(|transport: &Transport| {
        let (publish, subscribe) = transport.pair("");
        let publisher = Publisher::open(&publish).unwrap();
        let subscriber = Subscriber::open(&subscribe).unwrap();
        let Some(status) = subscriber.link_status() else {
            assert!(!transport.has_link() && publisher.link_status().is_none());
            return;
        };
        assert!(transport.has_link(), "{status:?}");
        until("both are connected", || {
            let stages = [publisher.link_status(), subscriber.link_status()];
            stages
                .iter()
                .all(|status| status.as_ref().unwrap().stage == LinkStage::Connected)
        });
        assert_eq!(publisher.link_status().unwrap().peers, 1);
        assert_eq!(subscriber.uri(), subscribe);
    });
}
