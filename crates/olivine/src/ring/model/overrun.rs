//! A lossy subscriber: OVERRUN, and CURSOR where it continues.

use super::*;
use crate::error::ReceiveError;
use crate::region::Copied;
use loom::thread;

/// Reads the next message, which must be whole and newer than `last`; the newest read.
pub(super) fn look(consumer: &mut Consumer, last: u32) -> u32 {
    let mut copied = Copied::default();
    match consumer.next_checked(&mut copied) {
        Ok(None) | Err(ReceiveError::Overrun { .. }) => last,
        Ok(Some(frame)) => {
            assert!(frame.tag > last && frame.tag < 10, "{frame:?} after {last}");
            assert_eq!(copied.bytes(), message(frame.tag));
            consumer.advance(&frame);
            frame.tag
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn overwritten_copy_is_detected() {
    check(4, || {
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        let mut consumer = channel.consumer(0, 0, 0, false);
        for tag in 1..=2 {
            assert!(send(&mut producer, tag));
        }
        let publisher = thread::spawn(move || {
            assert!(send(&mut producer, 3));
            assert!(send(&mut producer, 4));
        });
        let mut last = 0;
        for _ in 0..2 {
            last = look(&mut consumer, last);
        }
        publisher.join().unwrap();
        // Once for an overrun, then for the rest.
        for _ in 0..6 {
            last = look(&mut consumer, last);
        }
        assert_eq!(consumer.position(), consumer.cursor());
    });
}

/// The successor of a dead publisher writes below the limit that the dead one stored.
#[test]
fn copy_overwritten_by_successor_is_detected() {
    check(4, || {
        let channel = Channel::new(1, 1);
        let mut producer = channel.producer(0);
        let mut consumer = channel.consumer(0, 0, 0, false);
        for tag in 1..=2 {
            assert!(send(&mut producer, tag));
        }
        let reader = thread::spawn(move || {
            look(&mut consumer, 0);
        });
        // Makes room for message 3 over message 1; then it dies.
        let need = producer.need(producer.position(), message(3).len());
        assert!(producer.make_room(need));
        drop(producer);
        let successor = thread::spawn(move || {
            let mut successor = channel.producer(0);
            assert!(send(&mut successor, 3));
        });
        reader.join().unwrap();
        successor.join().unwrap();
    });
}
