//! A subscriber that a publisher lapped by a whole number of rings. The header at its position is
//! zero, as at the tail. It gets `Overrun` or `Evicted`, never `Closed`, and is woken.

use crate::error::ReceiveError;
use crate::points::hook;
use crate::ring::layout::{control, lane, lane_entry};
use crate::sync::Ordering;
use crate::{Outgoing, Publisher, Subscriber};
use std::os::fd::AsFd;
use std::time::Duration;

const CAPACITY: u64 = 4096;
/// With its header this is a 128th of the ring.
const MESSAGE: [u8; 24] = [7; 24];
const PER_RING: u64 = CAPACITY / 32;
const LATEST: &str = "capacity=4KiB&delivery=latest";
const EVICTING: &str = "capacity=4KiB&slow=evict:1ns";

fn pair(name: &str, query: &str) -> (Publisher, Subscriber) {
    let publisher = Publisher::open(&format!("inproc://{name}?{query}")).unwrap();
    let mut subscriber = Subscriber::open(&format!("inproc://{name}?{query}")).unwrap();
    // Maps the lane.
    assert!(subscriber.try_receive().unwrap().is_none());
    (publisher, subscriber)
}

/// Publishes exactly `rings` rings.
fn lap(publisher: &mut Publisher, rings: u64) {
    for _ in 0..rings * PER_RING {
        publisher.publish(&MESSAGE).unwrap();
    }
    assert_eq!(publisher.cursor().0, rings * CAPACITY);
}

/// The error of the next calls that find no message.
fn next_error(subscriber: &mut Subscriber) -> ReceiveError {
    for _ in 0..100 {
        match subscriber.try_receive() {
            Ok(None) => {}
            Ok(Some(_)) => panic!("a message that was overwritten"),
            Err(error) => return error,
        }
    }
    panic!("nothing is said");
}

fn is_readable(descriptor: impl AsFd) -> bool {
    is_readable_within(descriptor, 60)
}

fn is_readable_now(descriptor: impl AsFd) -> bool {
    is_readable_within(descriptor, 0)
}

fn is_readable_within(descriptor: impl AsFd, tv_sec: i64) -> bool {
    let mut one = [rustix::event::PollFd::new(
        &descriptor,
        rustix::event::PollFlags::IN,
    )];
    let timeout = rustix::event::Timespec { tv_sec, tv_nsec: 0 };
    rustix::event::poll(&mut one, Some(&timeout)).unwrap() == 1
}

/// Another participant wrote a false word, or removed the file.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn announced_lane_without_file_gives_lane_error() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let uri = format!("shm://announced?dir={}", folder.path().display());
    let mut subscriber = Subscriber::open(&uri).unwrap();
    let _publisher = Publisher::open(&uri).unwrap();
    assert!(subscriber.try_receive().unwrap().is_none());
    let attached = subscriber.attached();
    let (control, geometry) = (&attached.control, &attached.geometry);
    let present = geometry.lane_entry(3) + lane_entry::PRESENT;
    control.word(present).store(1, Ordering::Relaxed);
    let epoch = control.word(control::LANES_EPOCH);
    epoch.store(epoch.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    let error = next_error(&mut subscriber);
    let ReceiveError::Lane { lane: 3, source } = &error else {
        panic!("{error}");
    };
    let text = source.to_string();
    let expected = "lane-3 is not a usable channel file: the channel announces this lane, and its \
                    file is missing";
    assert!(text.contains(expected), "{text}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn subscriber_lapped_by_whole_rings_wakes_and_gets_overrun() {
    for rings in [1, 2, 3] {
        let (mut publisher, mut subscriber) = pair("lapped-waits", LATEST);
        lap(&mut publisher, rings);
        assert!(subscriber.wait(Duration::ZERO).unwrap(), "{rings} rings");
        let error = next_error(&mut subscriber);
        let lost = rings * CAPACITY;
        assert!(
            matches!(error, ReceiveError::Overrun { lost_bytes } if lost_bytes == lost),
            "{error}"
        );
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn descriptor_of_subscriber_lapped_by_whole_rings_becomes_readable() {
    let (mut publisher, mut subscriber) = pair("lapped-polls", LATEST);
    // The thread that watches for the event loop starts after the publisher is one ring ahead.
    hook::at("look.around", move || lap(&mut publisher, 1));
    subscriber.event_fd().unwrap();
    assert!(subscriber.try_receive().unwrap().is_none());
    assert!(is_readable(subscriber.event_fd().unwrap()), "no wake-up");
    let error = next_error(&mut subscriber);
    assert!(matches!(error, ReceiveError::Overrun { .. }), "{error}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn subscriber_lapped_by_whole_rings_gets_overrun_before_end() {
    for query in [LATEST, EVICTING] {
        for rings in [1, 2] {
            let (mut publisher, mut subscriber) = pair("lapped-ends", query);
            // Between the check of the header, which found nothing, and the check for the end of
            // the stream.
            hook::at("look.ends", move || {
                lap(&mut publisher, rings);
                publisher.close().unwrap();
            });
            let error = next_error(&mut subscriber);
            let expected = if query == LATEST {
                let lost = rings * CAPACITY;
                matches!(error, ReceiveError::Overrun { lost_bytes } if lost_bytes == lost)
            } else {
                matches!(error, ReceiveError::Evicted)
            };
            assert!(expected, "{query}, {rings} rings: {error}");
            assert!(matches!(
                next_error(&mut subscriber),
                ReceiveError::Closed | ReceiveError::Evicted
            ));
        }
    }
}

/// A publisher stores its limit before it finds the new subscriber, and then stays behind it.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn limit_stored_before_subscriber_was_found_causes_no_overrun() {
    let (mut publisher, mut subscriber) = pair("held", "capacity=4KiB&slow=evict:1h");
    for _ in 0..3 {
        publisher.publish(&MESSAGE).unwrap();
    }
    let limit = publisher.producer.lane().word(lane::LIMIT);
    limit.store(CAPACITY * 2, Ordering::Relaxed);
    for _ in 0..3 {
        let found = subscriber.try_receive().unwrap();
        assert_eq!(found.as_deref(), Some(&MESSAGE[..]));
    }
    assert!(subscriber.try_receive().unwrap().is_none());
    assert!(!subscriber.wait(Duration::ZERO).unwrap());
    assert_eq!(subscriber.lost_bytes(), 0);
}

/// The next publisher opens in another lane before the first one closes. At no time are all lanes
/// closed.
#[test]
fn handover_to_another_lane_does_not_end_the_stream() {
    let uri = "inproc://handover";
    let mut publisher = Publisher::open(uri).unwrap();
    let mut subscriber = Subscriber::open(uri).unwrap();
    publisher.publish(b"one").unwrap();
    assert_eq!(&*subscriber.receive().unwrap(), b"one");
    let (give, take) = std::sync::mpsc::channel();
    hook::at("look.ends", move || {
        let mut next = Publisher::open(uri).unwrap();
        next.publish(b"two").unwrap();
        publisher.close().unwrap();
        give.send(next).unwrap();
    });
    let mut found = Vec::new();
    for _ in 0..100 {
        let message = subscriber.try_receive().expect("a publisher is open");
        found.extend(message.map(|message| message.to_vec()));
    }
    let _next = take.recv().unwrap();
    assert_eq!(found, [b"two"]);
}

/// The publisher has found no subscriber and not yet stored its limit when one joins.
#[test]
fn sealed_subscriber_that_joins_during_a_scan_gets_every_message() {
    let folder = tempfile::tempdir().unwrap();
    let uri = format!("shm+fd://{}", folder.path().join("s").display());
    let mut publisher = Publisher::open(&format!("{uri}?capacity=4KiB")).unwrap();
    for _ in 0..PER_RING - 1 {
        publisher.publish(&MESSAGE).unwrap();
    }
    let (give, take) = std::sync::mpsc::channel();
    hook::at("gate.scanned", move || {
        let subscriber = Subscriber::open(&format!("{uri}?from=oldest")).unwrap();
        give.send(subscriber).unwrap();
    });
    // The subscriber holds the publisher back.
    assert!(publisher.try_publish(&MESSAGE).is_err());
    let mut subscriber = take.recv().unwrap();
    publisher.try_publish(Outgoing::new(b"").tag(77)).unwrap();
    let mut tags = Vec::new();
    for _ in 0..2 * PER_RING {
        let found = subscriber.try_receive().unwrap();
        tags.extend(found.map(|message| message.tag()));
    }
    assert_eq!(tags.last(), Some(&77), "{} messages", tags.len());
}

/// The publisher is always one message ahead.
fn messages_of_one_call(uri: &str, topic: &str) -> usize {
    const PUBLISHED: usize = 20_000;
    let mut subscriber = Subscriber::open(uri).unwrap();
    let mut publisher = Publisher::open(uri).unwrap();
    let mut published = 0;
    let mut publish = || {
        if published < PUBLISHED {
            let message = Outgoing::new(b"x").topic(topic);
            publisher.try_publish(message).unwrap();
            published += 1;
        }
    };
    publish();
    subscriber.poll(|_| publish(), usize::MAX).unwrap()
}

#[test]
fn one_call_of_poll_ends_although_a_publisher_stays_ahead() {
    for (uri, topic) in [
        ("inproc://ahead-topics", "a.b"),
        ("inproc://ahead-copied?slow=evict:1h", ""),
        ("inproc://ahead-copied-topics?slow=evict:1h", "a.b"),
    ] {
        let count = messages_of_one_call(uri, topic);
        assert!(count <= 512, "{uri}: {count}");
    }
}

/// A failure is due. Before it is reported, the next publisher sends and fails, and a third sends.
#[test]
fn second_failure_comes_after_the_message_before_it() {
    let uri = "inproc://second-failure";
    let mut publisher = Publisher::open(uri).unwrap();
    let mut subscriber = Subscriber::open(uri).unwrap();
    publisher.publish(Outgoing::new(b"x").tag(1)).unwrap();
    publisher.close_failed("first").unwrap();
    let (give, take) = std::sync::mpsc::channel();
    hook::at("failure.due", move || {
        let mut second = Publisher::open(uri).unwrap();
        second.publish(Outgoing::new(b"x").tag(2)).unwrap();
        second.close_failed("second").unwrap();
        let mut third = Publisher::open(uri).unwrap();
        third.publish(Outgoing::new(b"x").tag(3)).unwrap();
        give.send(third).unwrap();
    });
    let mut events = Vec::new();
    for _ in 0..100 {
        match subscriber.try_receive() {
            Ok(found) => events.extend(found.map(|message| message.tag())),
            Err(ReceiveError::Failed(_)) => events.push(0),
            Err(error) => panic!("{error}"),
        }
    }
    let _third = take.recv().unwrap();
    assert_eq!(events, [1, 0, 2, 0, 3]);
}

/// A subscriber that has read everything of a publisher that failed, and got the failure. The next
/// publisher opens after the next check has counted the publishers.
fn failed_stream(uri: &'static str) -> (Subscriber, std::sync::mpsc::Receiver<Publisher>) {
    let publisher = Publisher::open(uri).unwrap();
    let mut subscriber = Subscriber::open(uri).unwrap();
    publisher.close_failed("the disk is gone").unwrap();
    let error = next_error(&mut subscriber);
    assert!(matches!(error, ReceiveError::Failed(_)), "{error}");
    let (give, take) = std::sync::mpsc::channel();
    hook::at("end.counted", move || {
        give.send(Publisher::open(uri).unwrap()).unwrap();
    });
    (subscriber, take)
}

#[test]
fn failed_stream_is_not_closed_while_the_next_publisher_opens() {
    let (mut subscriber, next) = failed_stream("inproc://failed-handle");
    let error = next_error(&mut subscriber);
    assert!(matches!(error, ReceiveError::Failed(_)), "{error}");
    drop(next.recv().unwrap());
    let (subscriber, next) = failed_stream("inproc://failed-bridge");
    assert!(!subscriber.is_at_end(), "a bridge would report the end");
    drop(next.recv().unwrap());
}

/// An event loop polls at each readiness. A publisher comes and goes after the reported end.
#[test]
fn descriptor_is_not_readable_for_ever_after_the_end() {
    let uri = "inproc://rests";
    let publisher = Publisher::open(uri).unwrap();
    let mut subscriber = Subscriber::open(uri).unwrap();
    assert!(subscriber.try_receive().unwrap().is_none());
    subscriber.event_fd().unwrap();
    publisher.close().unwrap();
    for round in 0..3 {
        assert!(is_readable(subscriber.event_fd().unwrap()));
        let mut polls = 0;
        while is_readable_now(subscriber.event_fd().unwrap()) {
            polls += 1;
            assert!(polls < 1000, "round {round}");
            let polled = subscriber.poll(|_| {}, 10);
            assert!(
                matches!(polled, Ok(0) | Err(ReceiveError::Closed)),
                "{polled:?}"
            );
        }
        Publisher::open(uri).unwrap().close().unwrap();
    }
}
