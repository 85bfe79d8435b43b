//! Topics: set by publishers, selected by subscribers, on every transport.

#![cfg(not(loom))]

mod common;
#[cfg(feature = "nats")]
mod nats_server;
mod transports;

use common::{TestFolder, WATCHDOG, until};
use olivine::{NotSent, OpenError, Outgoing, Plain, Publisher, ReceiveError, Subscriber};
use transports::{Transport, each};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

const TOPICS: [&str; 5] = ["a", "a.b", "a.b.c", "a.x.c", "orders.eu-1.created"];

fn with(transport: &Transport, uri: &str, topic: &str) -> String {
    format!("{uri}{}topic={topic}", transport.and(uri))
}

/// Topic and payload of every message up to the end of the stream.
fn read_all(subscriber: &mut Subscriber) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    loop {
        match subscriber.receive_timeout(WATCHDOG) {
            Ok(Some(message)) => found.push((message.topic().to_owned(), message.to_vec())),
            Ok(None) => panic!("no message in time after {}", found.len()),
            Err(ReceiveError::Closed) => return found,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn every_filter_selects_its_topics_on_every_transport() {
    let filters = [
        (">", vec![0, 1, 2, 3, 4]),
        ("a.*", vec![1]),
        ("a.>", vec![1, 2, 3]),
        ("a.*.c", vec![2, 3]),
        ("orders.eu-1.created,a", vec![0, 4]),
        ("unused", vec![]),
    ];
    each(|transport| {
        let (publish, subscribe) = transport.pair("capacity=64KiB&subscribers=6");
        let readers: Vec<_> = filters
            .iter()
            .map(|(filter, _)| {
                let uri = with(transport, &subscribe, filter);
                std::thread::spawn(move || read_all(&mut Subscriber::open(&uri).unwrap()))
            })
            .collect();
        let mut publisher = Publisher::open(&with(transport, &publish, "a")).unwrap();
        for number in 0..500_u32 {
            let topic = TOPICS[number as usize % TOPICS.len()];
            let bytes = number.to_le_bytes();
            publisher
                .publish(Outgoing::new(&bytes).topic(topic))
                .unwrap();
        }
        publisher.close().unwrap();
        for (reader, (filter, wanted)) in readers.into_iter().zip(&filters) {
            let expected: Vec<_> = (0..500_u32)
                .map(|number| (number as usize % TOPICS.len(), number))
                .filter(|(topic, _)| wanted.contains(topic))
                .map(|(topic, number)| (TOPICS[topic].to_owned(), number.to_le_bytes().to_vec()))
                .collect();
            let found = reader.join().unwrap();
            assert_eq!(found, expected, "{transport:?} {filter}");
        }
    });
}

#[test]
fn every_send_call_carries_the_topic() {
    let place = TestFolder::new();
    let uri = place.uri("ways", "topic=way.of");
    let mut subscriber = Subscriber::open(&place.uri("ways", "topic=way.*")).unwrap();
    let mut publisher = Publisher::open(&uri).unwrap();
    assert_eq!(publisher.topic(), Some("way.of"));
    publisher.try_publish(b"try_publish").unwrap();
    publisher.publish(Outgoing::new(b"tagged").tag(7)).unwrap();
    publisher.publish_timeout(b"timeout", WATCHDOG).unwrap();
    let mut claim = publisher.try_claim(Outgoing::sized(5).tag(8)).unwrap();
    claim.copy_from_slice(b"claim");
    claim.commit();
    let _ = publisher.try_claim(9).unwrap();
    publisher.claim(0).unwrap().commit();
    let mut batch = publisher.batch();
    batch.push(b"first of two").unwrap();
    batch.push(Outgoing::new(b"second").tag(9)).unwrap();
    batch.commit();
    publisher
        .publish(Outgoing::new(b"last").topic("way.out"))
        .unwrap();
    publisher.close().unwrap();
    let mut found = Vec::new();
    let mut keep = |message: &olivine::Message<'_>| {
        found.push((message.tag(), message.topic().to_owned(), message.to_vec()));
    };
    // Half of them by each receive call.
    subscriber.poll(|message| keep(&message), 4).unwrap();
    while let Ok(message) = subscriber.receive() {
        keep(&message);
    }
    let of = |tag, text: &str| (tag, "way.of".to_owned(), text.as_bytes().to_vec());
    let mut expected = vec![
        of(0, "try_publish"),
        of(7, "tagged"),
        of(0, "timeout"),
        of(8, "claim"),
        of(0, ""),
        of(0, "first of two"),
        of(9, "second"),
    ];
    expected.push((0, "way.out".into(), b"last".to_vec()));
    assert_eq!(found, expected);
}

#[test]
fn subscriber_without_filter_gets_every_message() {
    each(|transport| {
        let (publish, subscribe) = transport.pair("capacity=64KiB&subscribers=1");
        let reader = std::thread::spawn(move || {
            let mut subscriber = Subscriber::open(&subscribe).unwrap();
            read_all(&mut subscriber)
        });
        let mut publisher = Publisher::open(&with(transport, &publish, "a")).unwrap();
        let mut expected = Vec::new();
        for (number, topic) in TOPICS.iter().cycle().take(100).enumerate() {
            let bytes = number.to_le_bytes();
            publisher
                .publish(Outgoing::new(&bytes).topic(topic))
                .unwrap();
            expected.push(((*topic).to_owned(), number.to_le_bytes().to_vec()));
        }
        publisher.close().unwrap();
        assert_eq!(reader.join().unwrap(), expected, "{transport:?}");
    });
}

#[test]
fn messages_with_and_without_a_topic_go_over_one_channel() {
    let place = TestFolder::new();
    for query in ["", "&slow=evict:1h", "&wait=park"] {
        let uri = |more: &str| place.uri("mixed", &format!("{more}{query}"));
        let mut all = Subscriber::open(&uri("from=now")).unwrap();
        let mut some = Subscriber::open(&uri("topic=a.*")).unwrap();
        let mut with = Publisher::open(&uri("topic=a.b")).unwrap();
        let mut without = Publisher::open(&uri("from=now")).unwrap();
        assert_eq!(without.topic(), None);
        with.publish(b"one").unwrap();
        without.publish(b"two").unwrap();
        let mut claim = without.try_claim(5).unwrap();
        claim.copy_from_slice(b"three");
        claim.commit();
        without
            .publish(Outgoing::new(b"four").topic("a.c"))
            .unwrap();
        drop((with, without));
        let found = |subscriber: &mut Subscriber| {
            let mut found = read_all(subscriber);
            found.sort();
            found
        };
        let of = |topic: &str, text: &str| (topic.to_owned(), text.as_bytes().to_vec());
        let chosen = [of("a.b", "one"), of("a.c", "four")];
        assert_eq!(found(&mut some), chosen, "{query}");
        let every = [
            of("", "three"),
            of("", "two"),
            chosen[0].clone(),
            chosen[1].clone(),
        ];
        assert_eq!(found(&mut all), every, "{query}");
    }
}

#[test]
fn subscriber_with_filter_opens_a_channel_without_topics() {
    let place = TestFolder::new();
    for from in ["now", "oldest"] {
        let query = format!("topic=a.*&from={from}");
        let mut early = Subscriber::open(&place.uri("plain", &query)).unwrap();
        let mut publisher = Publisher::open(&place.uri("plain", "")).unwrap();
        let mut late = Subscriber::open(&place.uri("plain", &query)).unwrap();
        for _ in 0..3 {
            publisher.publish(b"of no topic").unwrap();
        }
        publisher.close().unwrap();
        for subscriber in [&mut early, &mut late] {
            assert_eq!(read_all(subscriber), [], "{from}");
        }
    }
}

/// Earlier publishers of the channel gave no topic: on each transport, with short messages and a
/// long one, which a connection carries in parts.
#[test]
fn topics_may_start_in_the_middle_of_a_channel() {
    each(|transport| {
        let (publish, subscribe) = transport.pair("capacity=1MiB&subscribers=2");
        let readers = [subscribe.clone(), with(transport, &subscribe, "a.*")];
        let readers = readers
            .map(|uri| std::thread::spawn(move || read_all(&mut Subscriber::open(&uri).unwrap())));
        let mut publisher = Publisher::open(&publish).unwrap();
        let messages = |first: u8| [vec![first; 3], vec![first + 1; 150_000], Vec::new()];
        let mut expected = Vec::new();
        for message in messages(1) {
            publisher.publish(&message).unwrap();
            expected.push((String::new(), message));
        }
        for (topic, first) in [("a.b", 11), ("b", 21), ("a.c", 31)] {
            for message in messages(first) {
                let labelled = Outgoing::new(&message).topic(topic);
                publisher.publish(labelled).unwrap();
                expected.push((topic.to_owned(), message));
            }
        }
        publisher.close().unwrap();
        let [all, chosen] = readers.map(|reader| reader.join().unwrap());
        assert!(all == expected, "{transport:?}: {}", all.len());
        expected.retain(|(topic, _)| topic.starts_with("a."));
        assert!(chosen == expected, "{transport:?}: {}", chosen.len());
    });
}

#[test]
fn publisher_with_topic_joins_a_channel_without_topics() {
    let place = TestFolder::new();
    for (name, query) in [("a", ""), ("b", "&slow=evict:1h"), ("c", "&wait=park")] {
        let uri = |more: &str| place.uri(name, &format!("{more}{query}"));
        let mut plain = Publisher::open(&uri("from=now")).unwrap();
        // Half of them by each receive call, and a batch that is returned in two calls.
        let mut polls = Subscriber::open(&uri("from=now")).unwrap();
        let mut receives = Subscriber::open(&uri("from=now")).unwrap();
        let mut chooses = Subscriber::open(&uri("topic=a")).unwrap();
        plain.publish(b"one").unwrap();
        plain.publish(b"two").unwrap();
        let mut with = Publisher::open(&uri("topic=a")).unwrap();
        with.publish(b"three").unwrap();
        plain.publish(b"four").unwrap();
        let mut batch = plain.batch();
        batch.push(Outgoing::new(b"five").topic("a")).unwrap();
        batch.push(Outgoing::new(b"six").topic("a")).unwrap();
        batch.commit();
        drop((plain, with));
        let mut polled = Vec::new();
        for limit in [1, 2, 9, 9] {
            let found = polls.poll(
                |message| polled.push((message.topic().to_owned(), message.to_vec())),
                limit,
            );
            found.unwrap_or_else(|error| panic!("{error} after {polled:?}"));
            if polled.len() == 6 {
                break;
            }
        }
        let of = |topic: &str, text: &str| (topic.to_owned(), text.as_bytes().to_vec());
        let mut expected = vec![of("", "four"), of("", "one"), of("", "two")];
        let chosen = [of("a", "five"), of("a", "six"), of("a", "three")];
        let sorted = |mut found: Vec<_>| {
            found.sort();
            found
        };
        assert_eq!(sorted(read_all(&mut chooses)), chosen, "{query}");
        expected.extend(chosen);
        assert_eq!(sorted(polled), expected, "{query}");
        assert_eq!(sorted(read_all(&mut receives)), expected, "{query}");
    }
    // A subscriber of a type, too.
    let mut first = Subscriber::<Quote>::typed(&place.uri("typed", "")).unwrap();
    let mut plain = Publisher::<Quote>::typed(&place.uri("typed", "")).unwrap();
    let mut with = Publisher::<Quote>::typed(&place.uri("typed", "topic=fx")).unwrap();
    let quote = Quote { bid: 3, ask: 4 };
    for (has_topic, topic) in [(false, ""), (true, "fx"), (false, "")] {
        let publisher = if has_topic { &mut with } else { &mut plain };
        publisher.publish(&quote).unwrap();
        let received = first.receive().unwrap();
        assert_eq!((*received, received.message().topic()), (quote, topic));
    }
}

/// A journal returns the topic apart from the message.
#[cfg(feature = "journal")]
#[test]
fn journal_returns_topic_and_message_apart() {
    let place = TestFolder::new();
    let file = place.file("topics.olv");
    let to = format!("file://{}?channel=x", file.display());
    let mut publisher = Publisher::open(&to).unwrap();
    publisher.publish(b"plain").unwrap();
    let labelled = Outgoing::new(b"about").topic("a.b");
    publisher.publish(labelled).unwrap();
    publisher.close().unwrap();
    let mut replay = olivine::journal::Replay::open(&file).unwrap();
    let mut found = Vec::new();
    while let Some(run) = replay.next_run().unwrap() {
        for message in run.messages() {
            found.push((message.topic.to_owned(), message.payload.to_vec()));
        }
    }
    let of = |topic: &str, text: &str| (topic.to_owned(), text.as_bytes().to_vec());
    assert_eq!(found, [of("", "plain"), of("a.b", "about")]);
}

#[test]
fn publisher_refuses_invalid_topics() {
    let place = TestFolder::new();
    for topic in ["a.*", ">", "a,b"] {
        let error = Publisher::open(&place.uri("x", &format!("topic={topic}"))).unwrap_err();
        assert!(
            error.to_string().contains("filters are for subscribers"),
            "{error}"
        );
        assert!(!place.dir().exists(), "nothing was made");
    }
    let mut publisher = Publisher::open(&place.uri("x", "topic=a")).unwrap();
    for topic in ["a..b", "a.*", "a b", "."] {
        let refused = publisher.publish(Outgoing::new(b"x").topic(topic));
        assert_eq!(refused, Err(NotSent::Topic), "{topic}");
    }
    assert_eq!(publisher.cursor().0, 0, "nothing was sent");
}

#[test]
fn the_longest_message_leaves_room_for_its_topic() {
    let place = TestFolder::new();
    let mut publisher = Publisher::open(&place.uri("x", "topic=abc&capacity=4KiB")).unwrap();
    let mut subscriber = Subscriber::open(&place.uri("x", "topic=>")).unwrap();
    let longest = publisher.message_max();
    assert!(matches!(
        publisher.publish(&vec![1; longest + 1]),
        Err(NotSent::TooLong { max }) if max == longest
    ));
    assert!(matches!(
        publisher.try_claim(longest + 1),
        Err(NotSent::TooLong { .. })
    ));
    // Each fills the ring: the second must wait, and reports it.
    publisher.publish(&vec![2; longest]).unwrap();
    assert_eq!(
        publisher.try_publish(&vec![3; longest]),
        Err(NotSent::BackPressured)
    );
    assert_eq!(*subscriber.receive().unwrap(), vec![2; longest][..]);
    let mut sent = false;
    until("there is room again", || {
        sent |= publisher.try_publish(&vec![3; longest]).is_ok();
        sent || subscriber.try_receive().unwrap().is_some()
    });
}

#[test]
fn unselected_messages_hold_no_room() {
    let place = TestFolder::new();
    let mut publisher = Publisher::open(&place.uri("x", "topic=noise&capacity=4KiB")).unwrap();
    let mut subscriber = Subscriber::open(&place.uri("x", "topic=signal&wait=park")).unwrap();
    let publishing = std::thread::spawn(move || {
        // More than one call skips, and many rings.
        for number in 0..20_000_u32 {
            publisher.publish(&number.to_le_bytes()).unwrap();
        }
        publisher
            .publish(Outgoing::new(b"heard").topic("signal"))
            .unwrap();
        publisher
    });
    let heard = subscriber.receive_timeout(WATCHDOG).unwrap();
    assert_eq!(&*heard.expect("the signal"), b"heard");
    publishing.join().unwrap();
}

#[test]
fn latest_subscribers_filter_by_topic() {
    let place = TestFolder::new();
    let uri = place.uri("x", "topic=b.c&capacity=64KiB");
    let mut publisher = Publisher::open(&uri).unwrap();
    let query = "topic=b.*&delivery=latest&from=oldest";
    let mut subscriber = Subscriber::open(&place.uri("x", query)).unwrap();
    for number in 0..10_u8 {
        let topic = if number % 2 == 0 { "b.c" } else { "c.b" };
        publisher
            .publish(Outgoing::new(&[number]).topic(topic))
            .unwrap();
    }
    publisher.close().unwrap();
    let found = read_all(&mut subscriber);
    let expected: Vec<_> = (0..10_u8)
        .step_by(2)
        .map(|number| ("b.c".to_owned(), vec![number]))
        .collect();
    assert_eq!(found, expected);
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Clone, Copy, PartialEq, Debug)]
#[repr(C)]
struct Quote {
    bid: i64,
    ask: i64,
}

impl Plain for Quote {
    const TYPE_NAME: &'static str = "quote v1";
}

#[test]
fn typed_messages_have_topics() {
    let place = TestFolder::new();
    let mut publisher = Publisher::<Quote>::typed(&place.uri("q", "topic=fx.eur")).unwrap();
    let mut subscriber = Subscriber::<Quote>::typed(&place.uri("q", "topic=fx.*")).unwrap();
    let quote = Quote { bid: 1, ask: 2 };
    publisher.publish(&quote).unwrap();
    for topic in ["equity.x", "fx.usd"] {
        publisher
            .publish(Outgoing::typed(&quote).topic(topic))
            .unwrap();
    }
    for expected in ["fx.eur", "fx.usd"] {
        let received = subscriber.receive().unwrap();
        assert_eq!(*received, quote);
        assert_eq!(received.message().topic(), expected);
    }
    let error = Publisher::open(&place.uri("q", "topic=fx.eur")).unwrap_err();
    assert!(matches!(error, OpenError::Type { .. }), "{error}");
    assert!(error.to_string().contains("quote v1"), "{error}");
}

/// Subscribers that join in the middle of a stream, or of a journal, get the topics.
#[test]
fn late_subscribers_get_topics() {
    let place = TestFolder::new();
    let mut publisher = Publisher::open(&place.uri("x", "topic=a.b&capacity=4KiB")).unwrap();
    for number in 0..10_000_u32 {
        publisher.publish(&number.to_le_bytes()).unwrap();
    }
    let mut late = Subscriber::open(&place.uri("x", "topic=a.*")).unwrap();
    publisher.publish(b"now").unwrap();
    let received = late.receive().unwrap();
    assert_eq!((received.topic(), &*received), ("a.b", &b"now"[..]));
}
