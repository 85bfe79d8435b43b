//! The ring over heap memory, for Miri. Other tests cover mirrors and processes.

use super::consume::{Consumer, Row, Stop, committed_up_to};
use super::heap::{channel, send};
use super::layout::{header_word, lane, with_topic};
use super::publish::Producer;
use super::publish::pace::Pace;
use crate::region::{Copied, Memory, PrivateWord, Words};
use crate::sync::Ordering;

/// Message `n`: lengths up to 99 bytes, filled with its number.
pub(super) fn message(n: u32) -> Vec<u8> {
    vec![n.to_le_bytes()[0]; (n * 7 % 100) as usize]
}

pub(super) fn receive(consumer: &mut Consumer, expected: u32) -> bool {
    let Some(frame) = consumer.next().unwrap() else {
        consumer.at_tail();
        return false;
    };
    assert_eq!(frame.tag, expected);
    assert_eq!(consumer.view(&frame), message(expected));
    consumer.advance(&frame);
    true
}

#[test]
fn two_threads_pass_messages_of_every_length_for_several_laps() {
    let channel = channel(8, 0);
    let mut producer = channel.producer();
    let mut consumer = channel.consumer(0);
    let count = if cfg!(miri) { 300 } else { 100_000 };
    let publishing = std::thread::spawn(move || {
        for n in 0..count {
            while !send(&mut producer, n, &message(n)) {
                std::thread::yield_now();
            }
        }
    });
    for n in 0..count {
        while !receive(&mut consumer, n) {
            std::thread::yield_now();
        }
    }
    publishing.join().unwrap();
}

#[test]
fn slow_consumer_blocks_producer_without_loss_at_position_limits() {
    for (align, origin) in [(8, 0), (64, (1 << 32) - 4096), (8, (1 << 62) - 4096)] {
        let channel = channel(align, origin);
        let mut producer = channel.producer();
        let (mut fast, mut slow) = (channel.consumer(0), channel.consumer(1));
        let (mut sent, mut fast_next, mut slow_next) = (0, 0, 0);
        for _ in 0..20 {
            while send(&mut producer, sent, &message(sent)) {
                sent += 1;
            }
            while receive(&mut fast, fast_next) {
                fast_next += 1;
            }
            assert_eq!(fast_next, sent, "the fast one has everything that was sent");
            for _ in 0..5 {
                slow_next += u32::from(receive(&mut slow, slow_next));
            }
            slow.release();
        }
        while receive(&mut slow, slow_next) {
            slow_next += 1;
        }
        assert_eq!(
            slow_next, sent,
            "so has the slow one, align {align} origin {origin}"
        );
    }
}

#[test]
fn a_successor_continues_after_a_death_at_any_step() {
    // Each closure leaves the lane as a publisher killed at that step would.
    type Step = fn(&mut Producer);
    let steps: [(&str, Step, u32); 4] = [
        ("before writing", |_| {}, 1),
        (
            "after the payload",
            |p| {
                p.begin_batch();
                p.write(p.position(), b"torn torn torn");
            },
            1,
        ),
        (
            "inside a batch",
            |p| {
                let at = p.position();
                let second = p.fits(at, 14).unwrap();
                p.begin_batch();
                p.write(at, b"torn torn torn");
                p.write(second, b"torn");
                p.prepare(second, 9, 4);
            },
            1,
        ),
        ("after the commit", |p| assert!(send(p, 1, &message(1))), 2),
    ];
    for (name, step, next) in steps {
        let channel = channel(8, 0);
        let mut consumer = channel.consumer(0);
        let mut first = channel.producer();
        assert!(send(&mut first, 0, &message(0)));
        let before = channel.lane.word(lane::CURSOR).load(Ordering::Relaxed);
        step(&mut first);
        // The cursor may be as far behind as a death allows.
        channel
            .lane
            .word(lane::CURSOR)
            .store(before, Ordering::Relaxed);
        drop(first);
        let mut second = channel.producer();
        for n in next..next + 100 {
            while !send(&mut second, n, &message(n)) {
                consumer.release();
            }
            if n == next {
                for expected in 0..n {
                    assert!(
                        receive(&mut consumer, expected),
                        "{name}: message {expected}"
                    );
                }
            }
            assert!(receive(&mut consumer, n), "{name}: message {n}");
        }
        assert!(!receive(&mut consumer, 0), "{name}: nothing invented");
    }
}

#[test]
fn impossible_headers_are_refused_by_name() {
    let channel = channel(8, 0);
    let mut consumer = channel.consumer(0);
    for wrong in [1, 7, 4097, u64::from(u32::MAX), 4096] {
        channel.ring.header(0).store(wrong, Ordering::Release);
        let error = consumer.next().unwrap_err().to_string();
        assert!(
            error.contains("lane 0 is corrupt at position 0"),
            "{wrong}: {error}"
        );
    }
}

/// Typed values are read in place.
#[test]
fn a_copy_starts_on_a_word_boundary_as_the_message_does() {
    let channel = channel(8, 0);
    let mut producer = channel.producer();
    let mut consumer = channel.consumer(0);
    for n in 0..50 {
        assert!(send(&mut producer, n, &message(n)));
        let mut copied = Copied::default();
        let found = consumer.next_checked(&mut copied).unwrap().unwrap();
        assert_eq!(copied.bytes(), message(n));
        assert!(copied.bytes().as_ptr().cast::<u64>().is_aligned(), "{n}");
        consumer.advance(&found);
        consumer.release();
    }
}

#[test]
fn damaged_frame_error_has_position_of_header() {
    let channel = channel(8, 0);
    let mut producer = channel.producer();
    let mut consumer = channel.consumer(0);
    let ends: Vec<u64> = (0..4)
        .map(|n| {
            assert!(send(&mut producer, n, &[7; 24]));
            producer.position()
        })
        .collect();
    channel.ring.header(ends[2]).store(7, Ordering::Release);
    let place = format!("lane 0 is corrupt at position {}", ends[2]);
    let refused = |error: crate::error::ReceiveError| {
        let error = error.to_string();
        assert!(error.contains(&place), "{error}");
        assert!(error.contains("7 bytes"), "{error}");
    };
    // A bridge looks for the last frame end in its window.
    refused(consumer.boundary(0, ends[3], ends[3]).unwrap_err());
    let mut seen = 0;
    refused(consumer.walk(9, |_, _| seen += 1).unwrap_err());
    assert_eq!((seen, consumer.position()), (3, ends[2]));
}

#[test]
fn durable_subscriber_resumes_past_cursor_of_dead_publisher() {
    for origin in [0, (1 << 32) - 4096] {
        let channel = channel(8, origin);
        let mut producer = channel.producer();
        let mut ends = vec![origin];
        for length in [3_usize, 24, 0, 100] {
            assert!(send(&mut producer, 0, &vec![1; length]));
            ends.push(producer.position());
        }
        let cursor = channel.lane.resolve(lane::CURSOR);
        let resume = |wanted| committed_up_to(&channel.ring, &cursor, &channel.geometry, wanted);
        let last = ends[4];
        for died_at in &ends {
            // It committed up to `last` and died before the store of the cursor.
            cursor.store(*died_at, Ordering::Release);
            for wanted in &ends {
                assert_eq!(resume(*wanted), *wanted);
            }
            // No frame ends there: the position is invalid and not trusted.
            assert_eq!(resume(last + 8), *died_at);
            assert_eq!(resume(u64::MAX), *died_at);
        }
        cursor.store(ends[1], Ordering::Release);
        assert_eq!(resume(ends[3] + 8), ends[1], "within a frame");
    }
}

/// Only the readers of messages without a topic stop at one with a topic, in front of it.
#[test]
fn every_walk_takes_frames_that_carry_topics() {
    for origin in [0, (1 << 32) - 4096] {
        let channel = channel(8, origin);
        let mut producer = channel.producer();
        let mut readers: [Consumer; 2] = [0, 1].map(|slot| channel.consumer(slot));
        let has_topic = |n: u32| n % 3 == 2;
        let mut ends = vec![origin];
        for n in 0..6 {
            let length = 5 + n as usize;
            let end = producer.room(producer.position(), length).unwrap();
            producer.begin_batch();
            producer.write(producer.position(), &vec![7; length]);
            let marked = if has_topic(n) {
                with_topic(length)
            } else {
                length
            };
            ends.push(producer.commit(end, n, marked));
        }
        let last = ends[6];
        // A publisher that takes over goes on behind all of them, wherever the cursor was left.
        let cursor = channel.lane.resolve(lane::CURSOR);
        for died_at in &ends {
            cursor.store(*died_at, Ordering::Release);
            for wanted in &ends {
                let resumed = committed_up_to(&channel.ring, &cursor, &channel.geometry, *wanted);
                assert_eq!(resumed, *wanted);
            }
            assert_eq!(channel.producer().position(), last, "from {died_at}");
        }
        let [first, second] = &mut readers;
        assert_eq!(first.boundary(origin, last, ends[4]).unwrap(), ends[4]);
        let mut seen = Vec::new();
        let walked = first.walk(9, |frame, bytes| {
            seen.push((frame.tag, frame.length, frame.topic, bytes.len()));
        });
        assert_eq!(walked.unwrap(), 6);
        let expected = (0..6).map(|n| (n, 5 + n as usize, has_topic(n), 5 + n as usize));
        assert_eq!(seen, expected.collect::<Vec<_>>());
        // Without topics: two messages, and then a stop, however often it is asked.
        for count in [2, 0] {
            let stop = second.walk_plain(9, |frame, _| assert!(!frame.topic));
            let Err(Stop { count: found }) = stop else {
                panic!("{stop:?}");
            };
            assert_eq!((found, second.position()), (count, ends[2]));
        }
        let stop = second.next_plain();
        assert!(matches!(stop, Err(Stop { count: 0 })), "{stop:?}");
        let mut copied = Copied::default();
        let frame = second.next_checked(&mut copied).unwrap().unwrap();
        assert_eq!((frame.tag, frame.topic, frame.end), (2, true, ends[3]));
        assert_eq!(copied.bytes(), [7; 7]);
        second.advance(&frame);
        let frame = second.next_plain().unwrap().unwrap();
        assert_eq!((frame.tag, frame.topic), (3, false));
    }
}

/// Without the bound this walks 2^48 frames.
#[test]
fn a_successor_does_not_walk_from_a_limit_far_below_the_cursor() {
    let channel = channel(8, 0);
    let cursor = (1 << 60) + 8;
    channel
        .lane
        .word(lane::CURSOR)
        .store(cursor, Ordering::Relaxed);
    // One frame as long as the ring: it points to itself, one lap later.
    channel
        .ring
        .header(0)
        .store(header_word(0, 4096 - 8), Ordering::Relaxed);
    let mut producer = channel.producer();
    for n in 0..100 {
        assert!(send(&mut producer, n, &message(n)), "message {n}");
    }
    assert!(producer.position() > cursor);
}

/// An aborted claim may leave any bytes where the next message of the old length would end.
#[test]
fn aborted_claim_never_becomes_visible() {
    let channel = channel(8, 0);
    let mut producer = channel.producer();
    let mut consumer = channel.consumer(0);
    let read = |consumer: &mut Consumer| {
        let mut count = 0;
        while let Some(found) = consumer.next().unwrap() {
            assert_eq!((found.length, consumer.view(&found)), (8, &[7; 8][..]));
            consumer.advance(&found);
            count += 1;
        }
        consumer.at_tail();
        count
    };
    for round in 0..200_u32 {
        assert!(send(&mut producer, round, &[7; 8]));
        let at = producer.position();
        let end = producer.room(at, 40).unwrap();
        // Claims and a batch, all aborted after they were filled with words like headers.
        if round % 3 == 0 {
            producer.begin(end);
            producer.payload_mut(40).fill(0x11);
        } else if round % 3 == 1 {
            assert_eq!(producer.reserve(40), Ok(end));
            producer.payload_mut(40).fill(0x11);
        } else {
            producer.begin_batch();
            producer.write(at, &[0x11; 8]);
            producer.write(at + 16, &[0x11; 8]);
            producer.prepare(at + 16, 1, 8);
        }
        assert_eq!(read(&mut consumer), 1, "round {round}");
    }
    assert_eq!(producer.position(), 200 * 16);
}

/// A publisher takes the lines of the next messages, but none that a subscriber still reads.
#[test]
fn lines_are_prefetched_only_within_room() {
    // A length, how many fit a ring of 4096 bytes, and how many lines are prefetched at once.
    for (length, fit, lines) in [(600, 6, 10), (104, 36, 17), (32, 102, 17)] {
        let message = vec![0x11; length];
        let channel = channel(8, 0);
        let mut producer = channel.producer();
        let mut consumer = channel.consumer(0);
        let mut sent = 0;
        while send(&mut producer, sent, &message) {
            sent += 1;
        }
        assert_eq!(sent, fit, "{length}");
        while let Some(found) = consumer.next().unwrap() {
            assert_eq!(consumer.view(&found), message, "message {}", found.tag);
            consumer.advance(&found);
            sent -= 1;
        }
        assert_eq!(sent, 0, "none was overwritten");
        consumer.at_tail();
        assert!(send(&mut producer, fit, &message));
        let from = producer.position();
        let taken: Vec<u64> = (0..lines)
            .map(|line| {
                channel
                    .ring
                    .header(from + 64 * line)
                    .load(Ordering::Relaxed)
            })
            .collect();
        assert!(
            taken.iter().all(|word| *word == 0),
            "{length}: the next lines, where others lay: {taken:x?}"
        );
    }
}

/// A publisher at full speed prefetches no lines but that of the header ahead.
#[test]
fn nothing_is_prefetched_at_full_speed() {
    for (length, lines) in [(600, 10), (32, 17)] {
        for full in [false, true] {
            let message = vec![0x11; length];
            let channel = channel(8, 0);
            let mut producer = channel.producer();
            let mut consumer = channel.consumer(0);
            while send(&mut producer, 1, &message) {}
            while let Some(found) = consumer.next().unwrap() {
                consumer.advance(&found);
            }
            consumer.at_tail();
            if full {
                producer.pace = Pace::full();
            }
            assert!(send(&mut producer, 2, &message));
            let from = producer.position();
            let places = (1..lines).map(|line| channel.ring.header(from + 64 * line));
            let zeros = places.filter(|word| word.load(Ordering::Relaxed) == 0);
            assert_eq!(zeros.count() > 2, !full, "{length} B, full speed: {full}");
        }
    }
}

/// A batch longer than the ring would let the message after it be as long, unchecked.
#[test]
fn damaged_limit_lets_no_batch_exceed_the_ring() {
    let channel = channel(8, 0);
    let mut earlier = channel.producer();
    assert!(send(&mut earlier, 1, b"before"));
    drop(earlier);
    channel
        .lane
        .word(lane::LIMIT)
        .store(u64::MAX, Ordering::Relaxed);
    let mut producer = channel.producer();
    assert!(producer.room(producer.position(), 8).is_some());
    assert!(producer.room_left() < 4096, "{}", producer.room_left());
}

/// As a subscriber receives one by one, over laps and changes of length.
#[test]
fn rows_of_one_length_arrive_whole_for_several_laps() {
    let channel = channel(8, (1 << 32) - 4096);
    let (mut producer, mut consumer) = (channel.producer(), channel.consumer(0));
    let words = Words::new(&Memory::heap(16), 0, 2);
    // SAFETY: only this row uses the word.
    let due = unsafe { PrivateWord::new(words.resolve(0)) };
    let mut row = Row::new(due, words.resolve(1));
    let text = |n: u32| vec![n.to_le_bytes()[0]; if n % 50 == 49 { 5 } else { 20 }];
    let (mut sent, mut in_rows) = (0, 0);
    for n in 0..600 {
        while sent < n + 30 {
            assert!(send(&mut producer, sent, &text(sent)));
            sent += 1;
        }
        if let Some(alike) = row.next() {
            let tag = alike.frame.tag;
            let view = alike.view(core::slice::from_ref(&consumer));
            assert_eq!((tag, view), (n, &text(n)[..]));
            in_rows += 1;
            continue;
        }
        if n > 0 {
            row.stop();
            consumer.advance_to(row.end());
        }
        let frame = consumer.next().unwrap().unwrap();
        assert_eq!((frame.tag, consumer.view(&frame)), (n, &text(n)[..]));
        row.hold(&frame);
        row.go_on(&consumer, 0);
    }
    assert!(in_rows > 300, "{in_rows}");
}
