//! Frames that end at a cache line, while a publisher is slow and its subscribers are close.

use super::consume::{Consumer, committed_up_to};
use super::heap::{Channel, channel, send};
use super::heap_tests::{message, receive};
use super::layout::{gapped, lane};
use super::publish::Producer;
use super::publish::pace::Pace;
use crate::bridge::frame::Frames;
use crate::sync::Ordering;

/// A publisher whose short frames have gaps.
pub(super) fn slow(channel: &Channel) -> Producer {
    let mut producer = channel.producer();
    producer.pace = Pace::slow();
    producer
}

fn header(channel: &Channel, at: u64) -> u64 {
    channel.ring.header(at).load(Ordering::Acquire)
}

#[test]
fn short_frames_begin_at_a_line_each_after_the_first() {
    for (align, length) in [(8, 0), (8, 16), (8, 32), (16, 32), (32, 24), (8, 55)] {
        // The lane of a publisher before ends anywhere.
        for origin in [
            0,
            8 * align,
            (1 << 32) - 4096 + 40_u64.next_multiple_of(align),
        ] {
            let channel = channel(align, origin);
            let mut consumer = channel.consumer(0);
            let mut producer = slow(&channel);
            for n in 0..300 {
                let at = producer.position();
                assert!(send(&mut producer, n, &vec![7; length]));
                assert!(n == 0 || at.is_multiple_of(64), "{length} bytes at {at}");
                assert!(
                    gapped(header(&channel, at)).is_some()
                        || producer.position().is_multiple_of(64)
                );
                let frame = consumer.next().unwrap().unwrap();
                assert_eq!((frame.tag, frame.length), (n, length));
                assert_eq!(frame.end, producer.position());
                assert!(consumer.view(&frame).iter().all(|byte| *byte == 7));
                consumer.advance(&frame);
                assert!(consumer.next().unwrap().is_none());
                consumer.at_tail();
            }
        }
    }
}

#[test]
fn longer_frames_and_those_of_wide_channels_have_no_gap() {
    for (align, length) in [(8, 57), (8, 100), (64, 32), (128, 32)] {
        let channel = channel(align, 0);
        let mut consumer = channel.consumer(0);
        let mut producer = slow(&channel);
        for n in 0..100 {
            let at = producer.position();
            assert!(send(&mut producer, n, &vec![7; length]));
            let bytes = (length as u64 + 8).next_multiple_of(align);
            assert_eq!(producer.position(), at + bytes);
            let frame = consumer.next().unwrap().unwrap();
            consumer.advance(&frame);
            consumer.release();
        }
    }
}

/// A full ring holds at most a quarter and an eighth of it in frames with a gap.
#[test]
fn ring_that_fills_up_is_packed() {
    let channel = channel(8, 0);
    let _held = channel.consumer(0);
    let mut producer = slow(&channel);
    let (mut sent, mut gaps) = (0, 0);
    loop {
        let at = producer.position();
        if !send(&mut producer, sent, &[7; 32]) {
            break;
        }
        sent += 1;
        gaps += u32::from(gapped(header(&channel, at)).is_some());
    }
    assert!((16..=24).contains(&gaps), "{gaps} of {sent}");
    assert!(sent >= gaps + (4096 - 64 * 25) / 40, "{gaps} of {sent}");
}

/// The mark of a gap in the word of the fast path is out of reach of a length.
#[test]
fn claim_of_any_length_beyond_the_ring_is_refused() {
    let channel = channel(8, 0);
    let mut consumer = channel.consumer(0);
    let mut producer = slow(&channel);
    for n in 0..20 {
        for length in [
            4089,
            1 << 31,
            1 << 63,
            (1 << 63) + 32,
            usize::MAX - 8,
            usize::MAX,
        ] {
            assert!(producer.reserve(length).is_err(), "{length} after {n}");
        }
        assert!(send(&mut producer, n, &[7; 32]));
        assert!(producer.reserve((1 << 63) + 32).is_err());
        let frame = consumer.next().unwrap().unwrap();
        consumer.advance(&frame);
        consumer.release();
    }
}

#[test]
fn long_batch_does_not_ask_for_room_for_each_message() {
    let channel = channel(8, 0);
    let _held = channel.consumer(0);
    let mut producer = slow(&channel);
    let (mut at, mut asked) = (0, 0);
    for _ in 0..40 {
        at = match producer.fits(at, 80) {
            Ok(end) => end,
            Err(_) => {
                asked += 1;
                producer.room(at, 80).unwrap()
            }
        };
    }
    assert!(asked <= 8, "{asked}");
}

/// By message, in walks, in rows and as a bridge; sent alone, as a claim and in batches.
#[test]
fn every_reader_takes_frames_with_a_gap() {
    let channel = channel(8, (1 << 32) - 4096);
    let mut producer = slow(&channel);
    let mut readers: [Consumer; 2] = [0, 1].map(|slot| channel.consumer(slot));
    let (mut next, mut walked, mut gaps) = (0, 0, 0);
    for round in 0..2000 {
        let start = producer.position();
        let first = next;
        for _ in 0..=round % 3 {
            let text = message(next);
            match next % 5 {
                0..3 => assert!(send(&mut producer, next, &text)),
                3 => {
                    let room = producer.room(producer.position(), text.len());
                    assert!(room.is_some());
                    // One is given up before.
                    producer.reserve(text.len()).unwrap();
                    producer.payload_mut(text.len()).fill(0x11);
                    let end = producer.reserve(text.len()).unwrap();
                    producer.payload_mut(text.len()).copy_from_slice(&text);
                    let word = super::layout::header_word(next, text.len());
                    assert_eq!(producer.commit_claim(end, word), end);
                }
                _ => {
                    let second = message(next + 1);
                    let at = producer.position();
                    let end = producer.room(at, text.len()).unwrap();
                    let last = producer.room(end, second.len()).unwrap();
                    producer.begin_batch();
                    producer.write(at, &text);
                    producer.write(end, &second);
                    producer.prepare(end, next + 1, second.len());
                    assert_eq!(producer.commit(last, next, text.len()), last);
                    next += 1;
                }
            }
            next += 1;
        }
        let [one, many] = &mut readers;
        let end = one.committed().unwrap();
        assert_eq!(end, producer.position());
        // Cut at any place, a run ends with a whole frame.
        let cut = one.boundary(start, end, end - 1).unwrap();
        assert!((start..end).contains(&cut));
        // This ring has no mirror.
        if start / 4096 == (end - 1) / 4096 {
            let bytes = one.frames(start, end).to_vec();
            let mut tags = first..;
            for frame in Frames::new(start, 8, &bytes).map(Result::unwrap) {
                let n = tags.next().unwrap();
                assert_eq!((frame.tag(), frame.payload()), (n, &message(n)[..]));
                gaps += u32::from(gapped(header(&channel, frame.position())).is_some());
            }
            assert_eq!(tags.start, next);
        }
        for n in first..next {
            assert!(receive(one, n));
        }
        assert!(!receive(one, next));
        if round % 2 == 0 {
            let seen = many.walk(64, |frame, bytes| {
                assert_eq!((frame.tag, bytes), (walked, &message(walked)[..]));
                walked += 1;
            });
            seen.unwrap();
            assert_eq!(walked, next);
            many.release();
        }
    }
    assert!(gaps > next / 4, "{gaps} of {next}");
}

#[test]
fn successor_and_durable_subscriber_continue_behind_gaps() {
    for origin in [0, (1 << 32) - 4096] {
        let channel = channel(8, origin);
        let mut producer = slow(&channel);
        let _reader = channel.consumer(0);
        let mut ends = vec![origin];
        for n in 0..6 {
            assert!(send(&mut producer, n, &[7; 32]));
            ends.push(producer.position());
        }
        assert_eq!(ends[6], origin + 6 * 64);
        let cursor = channel.lane.resolve(lane::CURSOR);
        for died_at in &ends {
            cursor.store(*died_at, Ordering::Release);
            for wanted in &ends {
                let resumed = committed_up_to(&channel.ring, &cursor, &channel.geometry, *wanted);
                assert_eq!(resumed, *wanted);
            }
            assert_eq!(channel.producer().position(), ends[6], "from {died_at}");
        }
    }
}
