//! Frames through a ring that wraps: COMMIT, REUSE, and the state that a dead publisher leaves.

use super::*;
use loom::thread;

/// Sends and reads messages 1 to 3, so that the next ones overwrite old frames and payloads.
fn old_lap(producer: &mut Producer, consumer: &mut Consumer) {
    for tag in 1..=3 {
        assert!(send(producer, tag));
        assert_eq!(receive(consumer), Some(tag));
    }
}

/// Messages 4 and 5 are sent while `look` reads; it returns the number of the newest, from 3 on.
fn next_lap(look: impl Fn(&mut Consumer) -> u32 + Sync + Send + 'static) {
    check(4, move || {
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        let mut consumer = channel.gating(0, 0);
        old_lap(&mut producer, &mut consumer);
        let publisher = thread::spawn(move || {
            assert!(send(&mut producer, 4));
            assert!(send(&mut producer, 5));
        });
        let last = look(&mut consumer);
        publisher.join().unwrap();
        assert_eq!(drain(&mut consumer, last), 5);
    });
}

#[test]
fn frames_arrive_whole_and_in_order_through_a_ring_that_wraps() {
    next_lap(|consumer| {
        let mut last = 3;
        for _ in 0..2 {
            // The second look uses the streaming gear and the cursor.
            last = receive(consumer)
                .inspect(|tag| assert_eq!(*tag, last + 1))
                .unwrap_or(last);
        }
        last
    });
}

#[test]
fn a_walk_takes_whole_frames_in_order_through_a_ring_that_wraps() {
    next_lap(|consumer| {
        // The second walk begins in the streaming gear if the first found anything.
        let last = walk(consumer, 3, 1);
        walk(consumer, last, 1)
    });
}

/// Messages of one length, as [`Row::next`] reads them, over payloads of the last lap.
#[test]
fn frame_as_long_as_the_last_one_arrives_whole() {
    check(4, || {
        let text = |tag: u32| [u8::try_from(tag).expect("few messages"); 12];
        let send = move |producer: &mut Producer, tag: u32| {
            let text = text(tag);
            producer.room(producer.position(), text.len()).is_some()
                && producer.send(tag, &text).is_ok()
        };
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        let mut consumer = channel.gating(0, 0);
        consumer.release_each(CAPACITY / 2);
        for tag in 1..=4 {
            assert!(send(&mut producer, tag));
            let frame = consumer.next().unwrap().unwrap();
            consumer.advance(&frame);
        }
        let publisher = thread::spawn(move || {
            assert!(send(&mut producer, 5));
            assert!(send(&mut producer, 6));
        });
        let mut last = 4;
        if let Some(first) = consumer.next().unwrap() {
            assert_eq!(consumer.view(&first), text(5));
            last = 5;
            let mut row = channel.row();
            row.hold(&first);
            row.go_on(&consumer, 0);
            if let Some(second) = row.next() {
                let tag = second.frame.tag;
                let view = second.view(core::slice::from_ref(&consumer));
                assert_eq!((tag, view), (6, text(6).to_vec()));
                last = 6;
            }
            consumer.advance_to(row.end());
        }
        publisher.join().unwrap();
        while let Some(frame) = consumer.next().unwrap() {
            last += 1;
            assert_eq!(
                (frame.tag, consumer.view(&frame)),
                (last, text(last).to_vec())
            );
            consumer.advance(&frame);
        }
        assert_eq!(last, 6);
    });
}

/// The publisher overwrites a frame only after its subscriber has released it.
pub(super) fn room_is_reused_once_read(
    ends: impl Fn() -> (Producer, Consumer) + Sync + Send + 'static,
) {
    check(4, move || {
        let (mut producer, mut consumer) = ends();
        // Message 9 overwrites the payload of 7: there is no room until 7 is read.
        assert!(send(&mut producer, 7) && send(&mut producer, 8) && !send(&mut producer, 9));
        let publisher = thread::spawn(move || {
            let sent = send(&mut producer, 9);
            (producer, 8 + u32::from(sent))
        });
        assert_eq!(receive(&mut consumer), Some(7));
        let (_producer, sent) = publisher.join().unwrap();
        assert_eq!(drain(&mut consumer, 7), sent);
    });
}

#[test]
fn room_is_reused_only_after_it_was_read() {
    room_is_reused_once_read(|| {
        let channel = Channel::new(1, 1);
        (channel.producer(0), channel.gating(0, 0))
    });
}

/// An aborted claim leaves its bytes where the header after the next message was zeroed ahead.
#[test]
fn aborted_claim_never_becomes_visible() {
    check(1, || {
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        let mut consumer = channel.gating(0, 0);
        for round in 0..6 {
            producer.room(producer.position(), 5).unwrap();
            producer.send(1, b"short").unwrap();
            let at = producer.position();
            // As a message with a topic is claimed, and as one without.
            let end = producer.room(at, 20).unwrap();
            if round % 2 == 0 {
                producer.begin(end);
            } else {
                assert_eq!(producer.reserve(20), Ok(end));
            }
            // SAFETY: claimed just now; loom checks that no thread reads it.
            unsafe { channel.lanes[0].1.write(at, &[0x11; 20]) };
            let frame = consumer.next().unwrap().unwrap();
            assert_eq!(consumer.view(&frame), b"short");
            consumer.advance(&frame);
            let walked = consumer.walk(9, |frame, _| panic!("no publisher sent {frame:?}"));
            walked.unwrap();
        }
    });
}

/// A lane counts as drained only after its subscriber's accesses to the messages are visible.
pub(super) fn drained_means_read(ends: impl Fn() -> (Producer, Consumer) + Sync + Send + 'static) {
    check(4, move || {
        let (mut producer, mut consumer) = ends();
        assert!(send(&mut producer, 1));
        // A separate place, whose cells find a race.
        let kept = Ring::model(CAPACITY);
        let subscriber = thread::spawn({
            let kept = kept.clone();
            move || {
                let frame = consumer.next().unwrap().unwrap();
                // SAFETY: loom checks that no thread reads it meanwhile.
                unsafe { kept.write(0, &consumer.view(&frame)) };
                consumer.advance(&frame);
            }
        });
        if producer.is_drained() {
            // SAFETY: loom checks that no thread writes it meanwhile.
            let kept = unsafe { kept.view(0, message(1).len()) };
            assert_eq!(kept, message(1));
        }
        subscriber.join().unwrap();
    });
}

#[test]
fn drained_lane_was_read() {
    drained_means_read(|| {
        let channel = Channel::new(1, 1);
        (channel.producer(0), channel.gating(0, 0))
    });
}

#[test]
fn a_batch_arrives_as_a_whole() {
    check(4, || {
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        let mut consumer = channel.gating(0, 0);
        old_lap(&mut producer, &mut consumer);
        let publisher = thread::spawn(move || {
            let first = producer.position();
            let second = write(&mut producer, first, 4).unwrap();
            let end = write(&mut producer, second, 5).unwrap();
            producer.prepare(second, 5, message(5).len());
            producer.commit(end, 4, message(4).len());
        });
        let mut last = 3;
        if receive(&mut consumer) == Some(4) {
            last = drain(&mut consumer, 4);
            assert_eq!(last, 5);
        }
        publisher.join().unwrap();
        assert_eq!(drain(&mut consumer, last), 5);
    });
}

/// How far a publisher gets with messages 4 and 5 before it dies.
#[derive(Clone, Copy, Debug)]
enum Death {
    PayloadWritten,
    BatchPrepared,
    Shown,
    BatchShown,
}

fn die(mut producer: Producer, death: Death) -> u32 {
    let first = producer.position();
    let second = write(&mut producer, first, 4).unwrap();
    if matches!(death, Death::PayloadWritten) {
        return 3;
    }
    if matches!(death, Death::Shown) {
        producer.commit_only(second, 4, message(4).len());
        return 4;
    }
    let end = write(&mut producer, second, 5).unwrap();
    producer.prepare(second, 5, message(5).len());
    if matches!(death, Death::BatchPrepared) {
        return 3;
    }
    producer.commit_only(end, 4, message(4).len());
    5
}

#[test]
fn lane_of_dead_publisher_continues_without_gap() {
    for death in [
        Death::PayloadWritten,
        Death::BatchPrepared,
        Death::Shown,
        Death::BatchShown,
    ] {
        check(4, move || {
            let channel = Channel::new(1, 1);
            let mut producer = channel.producer(0);
            let mut consumer = channel.gating(0, 0);
            old_lap(&mut producer, &mut consumer);
            let publishers = thread::spawn(move || {
                let shown = die(producer, death);
                let mut successor = channel.producer(0);
                let sent = send(&mut successor, shown + 1);
                (successor, shown + u32::from(sent))
            });
            let mut last = 3;
            for _ in 0..2 {
                let next = receive(&mut consumer);
                last = next
                    .inspect(|tag| assert_eq!(*tag, last + 1))
                    .unwrap_or(last);
            }
            let (_successor, sent) = publishers.join().unwrap();
            assert_eq!(drain(&mut consumer, last), sent);
        });
    }
}
