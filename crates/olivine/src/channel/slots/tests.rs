//! A participant that checks a slot holds the slot's lock alone, also among threads of one handle.

use super::*;
use crate::channel::publisher::Publisher;
use crate::channel::subscriber::Subscriber;
use crate::error::NotSent;
use crate::points::hook;
use crate::ring::layout::lane_entry;
use std::sync::mpsc;
use std::time::Duration;

/// URIs of this test's channels, each with the folder that must outlive it.
fn channels(name: &str, query: &str) -> Vec<(String, Option<tempfile::TempDir>)> {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("channels");
    vec![
        (
            format!("shm://{name}?dir={}&{query}", dir.display()),
            Some(folder),
        ),
        (format!("inproc://{name}?{query}"), None),
    ]
}

/// Leaves the slot as a death does: its words stay, its lock is released.
fn die(subscriber: Subscriber) {
    let slot = subscriber.slot();
    let mut subscriber = core::mem::ManuallyDrop::new(subscriber);
    let attached = subscriber.attached();
    attached.locks.unlock(lock_byte::SLOT + slot as u64);
    // Stops the bridge's thread and everything else that would outlive the handle.
    subscriber.forget_name();
}

/// Publishes until there is no room; returns the number of messages.
fn fill(publisher: &mut Publisher) -> u64 {
    let mut sent = 0_u64;
    loop {
        match publisher.try_publish(&sent.to_le_bytes()) {
            Ok(_) => sent += 1,
            Err(NotSent::BackPressured) => return sent,
            Err(error) => panic!("{error}"),
        }
        assert!(sent < 4096, "no subscriber holds the publisher back");
    }
}

#[test]
#[cfg_attr(miri, ignore = "Miri knows no locks of files")]
fn second_thread_of_publisher_keeps_slot_of_living_subscriber() {
    for (uri, _folder) in channels("two-judges", "capacity=4KiB&subscribers_max=2") {
        let mut publisher = Publisher::open(&uri).unwrap();
        die(Subscriber::open(&uri).unwrap());
        let (at_act, wait_for_act) = mpsc::channel();
        let (go_on, wait_to_go_on) = mpsc::channel::<()>();
        let subscriber = std::thread::scope(|scope| {
            let publisher = &publisher;
            let slow = scope.spawn(move || {
                // Between its test and its action.
                hook::at("lock.taken", move || {
                    at_act.send(()).unwrap();
                    wait_to_go_on.recv_timeout(Duration::from_secs(60)).unwrap();
                });
                publisher.count_subscribers()
            });
            wait_for_act.recv_timeout(Duration::from_secs(60)).unwrap();
            // Another thread checks the same subscriber, and a new one joins.
            let _ = publisher.count_subscribers();
            let subscriber = Subscriber::open(&uri).unwrap();
            go_on.send(()).unwrap();
            slow.join().unwrap();
            subscriber
        });
        let mut subscriber = subscriber;
        let sent = fill(&mut publisher);
        for expected in 0..sent {
            let message = subscriber.try_receive().unwrap().unwrap();
            assert_eq!(*message, expected.to_le_bytes());
        }
    }
}

/// A regression: the number of another namespace named a process here, and a cleared slot
/// "process 0".
#[test]
#[cfg_attr(miri, ignore = "Miri knows no locks of files")]
fn full_channel_names_no_process_that_is_none_here() {
    const NOT_HERE: &str = "a process that is not visible here";
    for (uri, _folder) in channels("strangers", "subscribers_max=2&publishers_max=1") {
        let publisher = Publisher::open(&uri).unwrap();
        let one = Subscriber::open(&uri).unwrap();
        let other = Subscriber::open(&uri).unwrap();
        let (slots, attached) = ([one.slot(), other.slot()], one.attached());
        let (words, geometry) = (&attached.control, &attached.geometry);
        let word = |index: usize, at: usize| words.word(geometry.slot(slots[index]) + at);
        let lane = words.word(geometry.lane_entry(0) + lane_entry::PID_SPACE);
        for space in [word(0, slot::PID_SPACE), lane] {
            space.fetch_add(1, Ordering::Relaxed);
        }
        let state = word(1, slot::STATE).swap(slot::FREE, Ordering::Relaxed);
        match Subscriber::open(&uri).unwrap_err() {
            OpenError::SubscribersFull { holders, .. } => {
                assert_eq!(holders, format!("{NOT_HERE}, a slot that is free by now"));
            }
            error => panic!("{error}"),
        }
        match Publisher::open(&uri).unwrap_err() {
            OpenError::PublishersFull { holders, .. } => assert_eq!(holders, NOT_HERE),
            error => panic!("{error}"),
        }
        word(1, slot::STATE).store(state, Ordering::Relaxed);
        drop((publisher, other));
    }
}
