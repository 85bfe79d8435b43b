//! Joining a lane while its publisher moves the limit: JOIN.

use super::*;
use crate::ring::gate::join_lane;
use loom::thread;

/// Where a joiner starts.
#[derive(Clone, Copy, Debug)]
enum From {
    Now,
    Oldest,
}

/// Joins like `Subscriber::open`.
fn join(channel: &Channel, from: From) -> Consumer {
    let words = &channel.lanes[0].0;
    let (cursor, limit) = (words.resolve(lane::CURSOR), words.resolve(lane::LIMIT));
    let word = channel.position(0, 0);
    word.store(0, Ordering::Release);
    let start = || match from {
        From::Now => cursor.load(Ordering::Acquire),
        From::Oldest => limit.load(Ordering::Acquire) - CAPACITY,
    };
    let store = |position| {
        word.store(position, Ordering::Release);
        set_bit(&channel.control, control::GATING, 0, true);
    };
    let start = join_lane(CAPACITY, &limit, start, store);
    channel.consumer(0, 0, start, true)
}

/// Sends `before` messages, then up to `during` more while a subscriber joins and reads. Checks
/// that the joiner reads an unbroken sequence up to the newest message.
fn scene(from: From, before: u32, during: u32, switches: usize) {
    check(switches, move || {
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        for tag in 1..=before {
            assert!(send(&mut producer, tag));
        }
        let publisher = thread::spawn(move || {
            let tags = before + 1..=before + during;
            let sent = tags.take_while(|tag| send(&mut producer, *tag)).count();
            (producer, before + u32::try_from(sent).unwrap())
        });
        let mut consumer = join(&channel, from);
        let first = receive(&mut consumer);
        let (producer, sent) = publisher.join().unwrap();
        match first.or_else(|| receive(&mut consumer)) {
            Some(tag) => assert_eq!(drain(&mut consumer, tag), sent),
            None => assert_eq!(consumer.position(), producer.position()),
        }
    });
}

#[test]
fn joiner_from_now_reads_new_frames_without_gap() {
    scene(From::Now, 3, 2, 4);
}

#[test]
fn joiner_from_oldest_reads_stored_frames_without_gap() {
    scene(From::Oldest, 3, 1, 4);
}

#[test]
fn joiner_from_oldest_reads_frames_of_current_lap() {
    scene(From::Oldest, 2, 4, 4);
}

/// A publisher dies after its limit is visible; its successor must see a subscriber that joined
/// meanwhile.
#[test]
fn successor_sees_joiner_after_predecessor_moved_limit() {
    check(4, || {
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        for tag in 1..=3 {
            assert!(send(&mut producer, tag));
        }
        let successor = thread::spawn({
            let channel = channel.clone();
            move || {
                // Half of `make_room`, up to its fence: drops message 2, whose frame ends at 48.
                let limit = channel.lanes[0].0.resolve(lane::LIMIT);
                limit.store(CAPACITY + 48, Ordering::Release);
                drop(producer);
                let mut successor = channel.producer(0);
                let sent = send(&mut successor, 4);
                (successor, 3 + u32::from(sent))
            }
        });
        let mut consumer = join(&channel, From::Oldest);
        let first = receive(&mut consumer);
        let (_successor, sent) = successor.join().unwrap();
        let first = first
            .or_else(|| receive(&mut consumer))
            .expect("something is left");
        assert_eq!(drain(&mut consumer, first), sent);
    });
}
