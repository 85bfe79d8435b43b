//! A failure between messages: it comes after the messages before it and before those of the next
//! publisher, whichever call a subscriber uses.

use crate::common::{TestFolder, WATCHDOG, until};
use olivine::{Outgoing, Publisher, ReceiveError, Subscriber};

/// `wait` has reported something: the next call finds it.
#[test]
fn poll_after_wait_reports_the_end() {
    let place = TestFolder::new();
    let uri = place.uri("announced", "");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    for round in 0..3_u32 {
        let mut publisher = Publisher::open(&uri).unwrap();
        publisher.publish(Outgoing::new(b"one").tag(round)).unwrap();
        publisher.close().unwrap();
        let seen = subscriber.poll(|message| assert_eq!(message.tag(), round), 10);
        assert_eq!(seen.unwrap(), 1);
        assert!(subscriber.wait(WATCHDOG).unwrap());
        let told = subscriber.poll(|_| panic!("nothing was sent"), 10);
        assert!(matches!(told, Err(ReceiveError::Closed)), "{told:?}");
    }
}

/// What a subscriber gets by single calls or by polls: tags, and `None` for a failure. Up to the
/// message with the tag `last`.
fn events(subscriber: &mut Subscriber, limit: Option<usize>, last: u32) -> Vec<Option<u32>> {
    let mut events = Vec::new();
    until("the last message comes", || {
        let found = match limit {
            None => subscriber.try_receive().map(|found| {
                events.extend(found.map(|message| Some(message.tag())));
            }),
            Some(limit) => {
                let found = subscriber.poll(|message| events.push(Some(message.tag())), limit);
                found.map(|_| ())
            }
        };
        match found {
            Ok(()) => {}
            Err(ReceiveError::Failed(_)) => events.push(None),
            Err(error) => panic!("{error}"),
        }
        events.contains(&Some(last))
    });
    events
}

/// What single calls return: messages with their topics, and `None` for a failure.
fn messages(subscriber: &mut Subscriber, count: usize) -> Vec<Option<(Vec<u8>, String)>> {
    let mut found = Vec::new();
    until("everything is received", || {
        match subscriber.try_receive() {
            Ok(Some(message)) => {
                let topic = message.topic().to_owned();
                found.push(Some((message.to_vec(), topic)));
            }
            Ok(None) => {}
            Err(ReceiveError::Failed(_)) => found.push(None),
            Err(error) => panic!("{error}"),
        }
        found.len() >= count
    });
    found
}

/// A call that found a message on the fast path, and then another publisher, returned an empty
/// message and its bytes as the topic.
#[test]
fn message_before_a_failure_is_whole_when_the_next_publisher_comes() {
    let place = TestFolder::new();
    let uri = place.uri("whole", "capacity=64KiB");
    let mut failing = Publisher::open(&uri).unwrap();
    let mut subscriber = Subscriber::open(&uri).unwrap();
    // The first after an empty ring begins no row, the second does.
    for _ in 0..2 {
        failing.publish(b"before").unwrap();
    }
    for _ in 0..2 {
        assert_eq!(&*subscriber.receive().unwrap(), b"before");
    }
    failing.publish(b"unread").unwrap();
    failing.close_failed("torn").unwrap();
    let mut next = Publisher::open(&uri).unwrap();
    next.publish(b"after").unwrap();
    let plain = |text: &[u8]| Some((text.to_vec(), String::new()));
    let found = messages(&mut subscriber, 3);
    assert_eq!(found, [plain(b"unread"), None, plain(b"after")]);
}

/// A failure ends a row of messages of one length, although the next publisher's are as long.
#[test]
fn failure_ends_a_row_of_one_length() {
    let place = TestFolder::new();
    let uri = place.uri("row", "capacity=64KiB");
    let mut failing = Publisher::open(&uri).unwrap();
    let mut subscriber = Subscriber::open(&uri).unwrap();
    for tag in 1..=4 {
        failing.publish(Outgoing::new(b"one").tag(tag)).unwrap();
    }
    // The second begins a row, the third is of it, the fourth would be.
    for tag in 1..=3 {
        assert_eq!(subscriber.receive().unwrap().tag(), tag);
    }
    failing.close_failed("torn").unwrap();
    let mut next = Publisher::open(&uri).unwrap();
    for tag in 5..=6 {
        next.publish(Outgoing::new(b"one").tag(tag)).unwrap();
    }
    let found = events(&mut subscriber, None, 6);
    assert_eq!(found, [Some(4), None, Some(5), Some(6)]);
}

/// The error came after the message was found. The next call continued behind it.
#[test]
fn lane_that_cannot_be_mapped_takes_no_message_of_another_lane() {
    let place = TestFolder::new();
    let uri = place.uri("unmapped", "capacity=64KiB");
    let mut publisher = Publisher::open(&uri).unwrap();
    let mut subscriber = Subscriber::open(&uri).unwrap();
    for tag in 0..1000 {
        publisher.publish(Outgoing::new(b"one").tag(tag)).unwrap();
    }
    let other = Publisher::open(&uri).unwrap();
    std::fs::remove_file(place.channel("unmapped").join("lane-1")).unwrap();
    let (mut tags, mut refused) = (Vec::new(), 0);
    while tags.len() < 1000 && refused < 1000 {
        match subscriber.try_receive() {
            Ok(message) => tags.extend(message.map(|message| message.tag())),
            Err(ReceiveError::Lane { lane: 1, .. }) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(tags.iter().copied().eq(0..1000), "{tags:?}");
    assert!(refused > 0);
    drop(other);
}

/// The next publisher's messages came first: only a call that found nothing looked for failures.
#[test]
fn subscriber_that_lags_gets_the_failure_before_the_messages_of_the_next_publisher() {
    let ways = [None, Some(1), Some(7), Some(usize::MAX)];
    for shape in ["slow=wait", "slow=evict:1h"] {
        for query in ["delivery=reliable", "delivery=latest", "topic=a.*"] {
            for (way, count) in ways.iter().flat_map(|way| [(way, 2_u32), (way, 1000)]) {
                let place = TestFolder::new();
                let uri = place.uri("lagging", "capacity=1MiB");
                let near = Subscriber::open(&format!("{uri}&{shape}")).unwrap();
                let mut subscriber = Subscriber::open(&format!("{uri}&{query}")).unwrap();
                let topic = if query.starts_with("topic") {
                    "a.b"
                } else {
                    ""
                };
                let mut tag = 0;
                for _ in 0..2 {
                    let uri = format!("{uri}&{shape}");
                    let mut publisher = Publisher::open(&uri).unwrap();
                    for _ in 0..count {
                        tag += 1;
                        let message = Outgoing::new(b"one").tag(tag);
                        let message = if topic.is_empty() {
                            message
                        } else {
                            message.topic(topic)
                        };
                        publisher.publish(message).unwrap();
                    }
                    if tag == count {
                        publisher.close_failed("torn").unwrap();
                    }
                }
                let found = events(&mut subscriber, *way, tag);
                let failed = found.iter().position(Option::is_none);
                let scene = format!("{shape} {query} {way:?} {count}");
                assert_eq!(failed, Some(count as usize), "{scene}");
                let tags = found.iter().flatten().copied();
                assert!(tags.eq(1..=tag), "{scene}: {found:?}");
                drop(near);
            }
        }
    }
}

/// A call that skips messages of other topics skipped the failure too.
#[test]
fn subscriber_of_a_topic_gets_the_failure_between_skipped_messages() {
    for way in [None, Some(usize::MAX)] {
        let place = TestFolder::new();
        let uri = place.uri("skipped", "");
        let mut subscriber = Subscriber::open(&format!("{uri}&topic=wanted")).unwrap();
        for last in [false, true] {
            let mut publisher = Publisher::open(&uri).unwrap();
            for _ in 0..3 {
                publisher
                    .publish(Outgoing::new(b"one").topic("other"))
                    .unwrap();
            }
            if last {
                let message = Outgoing::new(b"two").topic("wanted").tag(9);
                publisher.publish(message).unwrap();
            } else {
                publisher.close_failed("torn").unwrap();
            }
        }
        assert_eq!(events(&mut subscriber, way, 9), [None, Some(9)], "{way:?}");
    }
}

/// It went on with the other lane and the next publisher for as long as either had messages.
#[test]
fn failure_is_reported_while_another_lane_always_has_messages() {
    let place = TestFolder::new();
    let uri = place.uri("busy", "capacity=1MiB");
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let mut busy = Publisher::open(&uri).unwrap();
    let mut failing = Publisher::open(&uri).unwrap();
    failing.publish(Outgoing::new(b"one").tag(1)).unwrap();
    failing.close_failed("torn").unwrap();
    let mut next = Publisher::open(&uri).unwrap();
    next.publish(Outgoing::new(b"one").tag(2)).unwrap();
    for _ in 0..1000 {
        busy.publish(Outgoing::new(b"busy").tag(7)).unwrap();
    }
    busy.publish(Outgoing::new(b"busy").tag(8)).unwrap();
    let found = events(&mut subscriber, None, 8);
    let at = |event| found.iter().position(|found| *found == event).unwrap();
    assert!(
        at(Some(1)) < at(None) && at(None) < at(Some(2)),
        "{found:?}"
    );
}
