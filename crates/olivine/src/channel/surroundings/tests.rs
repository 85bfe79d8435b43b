//! A subscriber that a publisher lapped by a whole number of rings: the header at its position reads zero, as at the
//! tail. It hears `Overrun` or `Evicted`, never `Closed`, and is woken.

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

/// Sends as much as goes `rings` times round the ring, to the byte.
fn lap(publisher: &mut Publisher, rings: u64) {
    for _ in 0..rings * PER_RING {
        publisher.publish(&MESSAGE).unwrap();
    }
    assert_eq!(publisher.cursor().0, rings * CAPACITY);
}

/// What the next calls say that do not find anything.
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

/// Another participant wrote what is not true, or removed the file.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn a_lane_that_is_announced_without_its_file_is_told_so() {
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
fn a_subscriber_lapped_by_whole_rings_is_woken_and_told_of_the_overrun() {
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
fn the_descriptor_of_a_subscriber_lapped_by_whole_rings_becomes_readable() {
    let (mut publisher, mut subscriber) = pair("lapped-polls", LATEST);
    // What waits for the loop begins to look only after the publisher is a ring ahead.
    hook::at("look.around", move || lap(&mut publisher, 1));
    subscriber.event_fd().unwrap();
    assert!(subscriber.try_receive().unwrap().is_none());
    assert!(is_readable(subscriber.event_fd().unwrap()), "no wake-up");
    let error = next_error(&mut subscriber);
    assert!(matches!(error, ReceiveError::Overrun { .. }), "{error}");
}

#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn a_subscriber_lapped_by_whole_rings_is_told_of_the_overrun_and_not_of_the_end() {
    for query in [LATEST, EVICTING] {
        for rings in [1, 2] {
            let (mut publisher, mut subscriber) = pair("lapped-ends", query);
            // Between its look at the header, which found nothing, and its look for the end of the stream.
            hook::at("look.ends", move || {
                lap(&mut publisher, rings);
                publisher.close().unwrap();
            });
            let error = next_error(&mut subscriber);
            let expected = if query == LATEST {
                matches!(error, ReceiveError::Overrun { lost_bytes } if lost_bytes == rings * CAPACITY)
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

/// A publisher that joins nobody yet stores its limit, finds the newcomer, and stays behind it.
#[test]
#[cfg_attr(miri, ignore = "Miri maps no ring twice")]
fn a_limit_that_was_stored_before_a_subscriber_was_found_overruns_nobody_that_is_held_back_for() {
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
