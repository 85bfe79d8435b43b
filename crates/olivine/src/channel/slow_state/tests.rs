//! A subscriber that a publisher lapped by a whole number of rings. The header at its position is
//! zero, as at the tail. It gets `Overrun` or `Evicted`, never `Closed`, and is woken.

use crate::error::ReceiveError;
use crate::points::hook;
use crate::ring::layout::{control, lane, lane_entry};
use crate::sync::Ordering;
use crate::{Publisher, Subscriber};
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
    let mut one = [rustix::event::PollFd::new(
        &descriptor,
        rustix::event::PollFlags::IN,
    )];
    let timeout = rustix::event::Timespec {
        tv_sec: 60,
        tv_nsec: 0,
    };
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
    let expected = "lane-3 is no usable channel file: the channel announces this lane, and its \
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
