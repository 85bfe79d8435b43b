//! A thread of a handle that panics, planted at a named point: the next call of the handle gets the
//! panic, and waits for nothing.

#![cfg(all(feature = "points", not(loom)))]

mod common;

use common::WATCHDOG;
use common::numbers::{self, expect};
use common::planted::panic_of;
use common::tasks::once;
use olivine::{AsyncPublisher, AsyncSubscriber, Publisher, ReceiveError, Subscriber};
use std::task::Poll;

/// A subscriber, and a publisher without room whose thread waits for some.
fn waiting() -> (Subscriber, AsyncPublisher, u32) {
    let uri = "inproc://panics?capacity=4KiB";
    let subscriber = Subscriber::open(uri).unwrap();
    let mut publisher = AsyncPublisher::new(Publisher::open(uri).unwrap()).unwrap();
    let Poll::Ready(filled) = once(publisher.get_mut()) else {
        panic!("no wait was dropped");
    };
    let sent = numbers::fill(filled.unwrap());
    assert!(once(publisher.publish(b"no room")).is_pending());
    (subscriber, publisher, sent)
}

#[test]
fn role() {
    match common::my_role().as_deref() {
        Some("task-receives") => {
            let subscriber = Subscriber::open("inproc://panics").unwrap();
            let mut subscriber = AsyncSubscriber::new(subscriber).unwrap();
            let text = panic_of(|| smol::block_on(subscriber.receive()).map(|_| ()));
            assert!(text.contains("waits for a subscriber panicked"), "{text}");
        }
        Some("loop-receives") => {
            use rustix::event::{PollFd, PollFlags, Timespec, poll};
            let mut subscriber = Subscriber::open("inproc://panics").unwrap();
            let event = subscriber.event_fd().unwrap();
            let longest = Timespec::try_from(WATCHDOG).unwrap();
            let mut events = [PollFd::from_borrowed_fd(event, PollFlags::IN)];
            assert_eq!(poll(&mut events, Some(&longest)), Ok(1));
            let text = panic_of(|| subscriber.try_receive().map(|_| ()));
            assert!(text.contains("waits for a subscriber panicked"), "{text}");
        }
        Some("task-sends") => {
            let (mut subscriber, mut publisher, sent) = waiting();
            let text = panic_of(|| smol::block_on(publisher.get_mut()).map(|_| ()));
            assert!(text.contains("planted"), "{text}");
            // The publisher is whole, and so is its thread.
            expect(&mut subscriber, 0..sent);
            smol::block_on(async {
                publisher.publish(&sent.to_le_bytes()).await.unwrap();
                publisher.close().await.unwrap();
            });
            expect(&mut subscriber, sent..sent + 1);
            let end = subscriber.receive().map(|_| ());
            assert!(matches!(end, Err(ReceiveError::Closed)), "{end:?}");
        }
        Some("task-is-dropped") => {
            let (mut subscriber, publisher, sent) = waiting();
            drop(publisher);
            expect(&mut subscriber, 0..sent);
            match subscriber.receive().map(|_| ()) {
                Err(ReceiveError::Failed(error)) => {
                    assert!(error.to_string().contains("panicked"), "{error}");
                }
                other => panic!("{other:?}"),
            }
        }
        Some(other) => panic!("no role {other}"),
        None => {}
    }
}

/// Runs `role` in a program whose thread panics when it passes `point` first.
fn with_panic_at(point: &str, role: &str) {
    let variables = [("OLIVINE_PANIC_AT", format!("{point}:1"))];
    common::finished(common::spawn(role, &variables));
}

#[test]
fn panic_of_a_subscribers_thread_at_a_named_point_is_reported() {
    with_panic_at("watch.wait", "task-receives");
    with_panic_at("watch.wait", "loop-receives");
}

#[test]
fn panic_of_a_publishers_thread_at_a_named_point_is_reported() {
    with_panic_at("room.wait", "task-sends");
    with_panic_at("room.wait", "task-is-dropped");
}
