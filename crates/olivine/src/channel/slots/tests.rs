//! A participant that checks a slot holds the slot's lock alone, also among threads of one handle.

use super::*;
use crate::channel::publisher::Publisher;
use crate::channel::subscriber::Subscriber;
use crate::error::NotSent;
use crate::points::hook;
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
